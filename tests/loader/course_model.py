"""
What must come out of a loader, by a model that knows nothing of how it works, and a dataset whose samples tell it.
"""

import os
import random
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from loader.chosen import chosen, global_states, plain, seed_all
from loader.resuming import ByEpoch, Drawn

LENGTH = 13
KINDS = ("in-order", "by-epoch", "distributed", "shuffle", "seed", "drawn")
"""
What the order comes from: nothing, the sampler's epoch (a user's or torch's), global generators, or ``seed=``.
"""

SHAPES = ((2, False), (3, True), (None, False))
"""
Samples a batch, and whether the rest is dropped.
"""


class Marked(Dataset):
    """
    A sample is its index, the dataset's epoch and difficulty, and draws: from a generator of the dataset's, and global.

    Args:
        draws: Whether from global generators, too.
        fuses: A folder; the first one who fetches sample *i* while there is a file *i* raises an error.
        pause_seconds: How long a sample takes.
    """

    def __init__(self, *, draws: bool, fuses: Path | None = None, pause_seconds: float = 0.0) -> None:
        self.draws = draws
        self.fuses = None if fuses is None else str(fuses)
        self.pause_seconds = pause_seconds
        self.epoch = -1
        self.difficulty = 0
        self.own = random.Random(5)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.fuses is not None and burn(f"{self.fuses}/{index}"):
            raise KeyError(index)
        if self.pause_seconds:
            time.sleep(self.pause_seconds)
        drawn = [self.own.random()]
        if self.draws:
            drawn += [random.random(), float(np.random.rand()), torch.rand(1).item()]
        return torch.tensor([index, self.epoch, self.difficulty, *drawn], dtype=torch.float64)


def burn(fuse: str) -> bool:
    """
    Return whether there was such a file, which is gone now.
    """
    try:
        os.unlink(fuse)
    except FileNotFoundError:
        return False
    return True


def arguments_of(kind: str, shape: tuple[int | None, bool]) -> dict[str, Any]:
    """
    Return the arguments of torch's that make an order, with a sampler of their own.
    """
    samplers: dict[str, dict[str, Any]] = {
        "by-epoch": {"sampler": ByEpoch(LENGTH)},
        "drawn": {"sampler": Drawn(LENGTH)},
        "distributed": {"sampler": DistributedSampler(range(LENGTH), num_replicas=1, rank=0)},  # type: ignore[arg-type]
        "in-order": {},
    }
    batch_size, drop_last = shape
    return {"batch_size": batch_size, "drop_last": drop_last, **samplers.get(kind, {"shuffle": True})}


@cache
def reference(kind: str, shape: tuple[int | None, bool], draws: bool, number: int, key: int) -> tuple[Any, list[Any]]:
    """
    Return the global generators' states after an epoch has begun, and its batches, as a new loader gives them inline.
    """
    seed = {"seed": 3} if kind == "seed" else {}
    with chosen(Marked(draws=draws), 0, **arguments_of(kind, shape), **seed) as loader:
        loader.set_epoch(number)
        seed_all(key)
        iterator = iter(loader)
        return global_states(), [rows_of(batch) for batch in iterator]


def rows_of(batch: torch.Tensor) -> list[list[float]]:
    """
    Return the samples of a batch, also of one that is but a sample.
    """
    return plain(batch if batch.dim() == 2 else batch.unsqueeze(0))


@cache
def order_of(kind: str, shape: tuple[int | None, bool], draws: bool, number: int, sampler: int, key: int) -> list[Any]:
    """
    Return the indices of each batch of an epoch, as torch's own loader draws them where it can.
    """
    if kind == "seed":
        return [[int(row[0]) for row in rows] for rows in reference(kind, shape, draws, number, key)[1]]
    arguments = arguments_of(kind, shape)
    if hasattr(arguments.get("sampler"), "set_epoch"):
        arguments["sampler"].set_epoch(sampler)
    seed_all(key)
    return [[each] if isinstance(each, int) else plain(each) for each in DataLoader(range(LENGTH), **arguments)]  # type: ignore[arg-type]


@dataclass
class Saved:
    """
    Where a training stands.
    """

    number: int
    served: int
    order: list[list[int]]
    random: list[Any]
    sampler: tuple[int, int]
    is_users: bool
    told: dict[str, int]


@dataclass
class Pass:
    """
    One epoch of a loader, or the rest of one.
    """

    model: "Model"
    number: int
    order: list[list[int]]
    random: list[Any]
    sampler: tuple[int, int]
    at: int
    """Batches that were served, or raised an error."""
    states: list[tuple[int, int]]
    """The states of the dataset that its batches may have been made with."""
    iterator: Iterator[Any] | None = None
    is_complete: bool = False
    is_exhausted: bool = False
    batches: int = 0
    samples: int = 0

    @property
    def due(self) -> list[int] | None:
        """
        Return the indices of the next batch; ``None`` if there is none.
        """
        return self.order[self.at] if self.at < len(self.order) else None

    def check(self, rows: list[list[float]]) -> None:
        """
        Compare the batch that was served with the one that was due.
        """
        due = self.due
        assert due is not None, f"a batch after the last one: {rows}"
        assert [int(row[0]) for row in rows] == due
        made_with = {(int(row[1]), int(row[2])) for row in rows}
        assert made_with <= set(self.states), f"made with {made_with}, and not with {self.states}"
        assert [row[3:] for row in rows] == [row[3:] for row in self.random[self.at]], "other random numbers"
        self.at += 1
        self.batches += 1
        self.samples += len(rows)
        if self.due is None:
            self.complete()

    def complete(self) -> None:
        """
        Note that all was served: samplers that nobody tells their epoch go on to the next one.
        """
        if not self.is_complete:
            self.is_complete = True
            self.model.advance()


@dataclass
class Model:
    """
    A loader: which epoch comes next, and what the dataset and the sampler will be told before it.
    """

    kind: str
    shape: tuple[int | None, bool]
    draws: bool
    way: str
    next_number: int = 0
    is_users: bool = False
    has_new_epoch: bool = False
    news: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    dataset: dict[str, int] = field(default_factory=lambda: {"epoch": -1, "difficulty": 0})
    sampler: tuple[int, int] = (0, 0)
    """Its epoch, and the one to which it has advanced."""
    resumed: Saved | None = None
    loaded: Saved | None = None
    passes: list[Pass] = field(default_factory=list)
    latest: Pass | None = None

    @property
    def state(self) -> tuple[int, int]:
        """
        Return what samples tell of the dataset.
        """
        return self.dataset["epoch"], self.dataset["difficulty"]

    @property
    def is_process(self) -> bool:
        """
        Return whether batches load in workers.
        """
        return self.way not in {"inline", "thread"}

    @property
    def has_told_sampler(self) -> bool:
        """
        Return whether there is a sampler with an epoch.
        """
        return self.kind in {"by-epoch", "distributed"}

    def set_epoch(self, epoch: int) -> None:
        self.next_number, self.is_users, self.has_new_epoch = epoch, True, True

    def broadcast(self, difficulty: int) -> None:
        self.news["difficulty"] = difficulty
        self.names.add("difficulty")

    def advance(self) -> None:
        epoch, advanced = self.sampler
        if self.has_told_sampler and not self.is_users and epoch == advanced:
            self.sampler = epoch + 1, advanced + 1

    @property
    def continues(self) -> Saved | None:
        """
        Return what the next epoch is the rest of, if it is one's.
        """
        return self.resumed if self.resumed is not None and self.resumed.number == self.next_number else None

    def prepare(self, key: int) -> None:
        """
        Compute what the next epoch would be like, which may move the global generators.
        """
        number, sampler = self.next_number, self.next_number if self.has_new_epoch else self.sampler[0]
        self.states_after, self._random = reference(self.kind, self.shape, self.draws, number, key)
        self._order = order_of(self.kind, self.shape, self.draws, number, sampler, key)

    def begin(self) -> Pass:
        """
        Begin the epoch that was prepared for.
        """
        number, rest = self.next_number, self.continues
        self.next_number, self.resumed, self.loaded = number + 1, None, None
        if self.has_new_epoch:
            self.dataset["epoch"] = number
            self.sampler = number, self.sampler[1]
        self.dataset.update(self.news)
        self.has_new_epoch, self.news = False, {}
        order, numbers, at = self._order, self._random, 0
        if rest is not None:
            order, numbers, at, self.sampler = rest.order, rest.random, rest.served, rest.sampler
        self.latest = Pass(self, number, order, numbers, self.sampler, at, [self.state])
        self.passes.append(self.latest)
        return self.latest

    def save(self) -> Saved:
        """
        Return where the latest epoch stands.
        """
        if self.loaded is not None:
            return self.loaded
        latest, told = self.latest, {name: self.news.get(name, self.dataset[name]) for name in self.names}
        rest = (self.is_users, told)
        if latest is None or latest.is_exhausted or not latest.at:
            number = self.next_number if latest is None else latest.number + latest.is_exhausted
            return Saved(number, 0, [], [], self.sampler, *rest)
        return Saved(latest.number, latest.at, latest.order, latest.random, latest.sampler, *rest)

    def load(self, saved: Saved) -> None:
        """
        Let the next epoch be the one that was saved.
        """
        self.next_number, self.is_users, self.has_new_epoch = saved.number, saved.is_users, saved.is_users
        self.news.update(saved.told)
        self.names |= set(saved.told)
        self.sampler, self.loaded, self.latest = saved.sampler, saved, None
        self.resumed = saved if saved.served else None

    def copied(self) -> "Model":
        """
        Return the model of a copy of the loader, which begins with the next epoch.
        """
        rest = {"passes": [], "latest": None, "resumed": None, "loaded": None}
        mine = {name: deepcopy(value) for name, value in vars(self).items() if name not in rest}
        made = Model(self.kind, self.shape, self.draws, self.way)
        made.__dict__.update(mine)
        return made
