"""
Loaders that are left in the middle of an epoch and continued from a checkpoint, with every kind of sampler.
"""

import io
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import datasets
from loader.chosen import chosen, plain, seed_all

LENGTH = 12
SEED_OF_THE_FIRST_RUN, SEED_OF_THE_SECOND_RUN = 1, 99


class Drawn(Sampler[int]):
    """
    A user's sampler, whose order comes from draws of the global generators in ``__iter__``.
    """

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        drawn = random.random(), float(np.random.rand()), torch.rand(1).item()
        yield from random.Random(repr(drawn)).sample(range(self.length), self.length)


class ByEpoch(Sampler[int]):
    """
    A user's sampler, whose order comes from its epoch.
    """

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        yield from random.Random(self.epoch).sample(range(self.length), self.length)


def own_generator() -> torch.Generator:
    """
    Return a generator of the user's, as a script would make it.
    """
    return torch.Generator().manual_seed(5)


def distributed(dataset: Any, replicas: int = 1) -> DistributedSampler[Any]:
    """
    Return the sampler of one of several ranks.
    """
    return DistributedSampler(dataset, num_replicas=replicas, rank=replicas - 1, shuffle=True)


KINDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "in-order": lambda dataset: {},
    "shuffle": lambda dataset: {"shuffle": True},
    "seed": lambda dataset: {"shuffle": True, "seed": 3},
    "generator": lambda dataset: {"shuffle": True, "generator": own_generator()},
    "drop-last": lambda dataset: {"shuffle": True, "batch_size": 5, "drop_last": True},
    "no-batches": lambda dataset: {"shuffle": True, "batch_size": None},
    "weighted": lambda dataset: {"sampler": WeightedRandomSampler([1.0 + each for each in range(LENGTH)], LENGTH)},
    "subset": lambda dataset: {"sampler": SubsetRandomSampler(range(LENGTH))},
    "sampler-with-generator": lambda dataset: {"sampler": RandomSampler(dataset, generator=own_generator())},
    "two-generators": lambda dataset: {
        "sampler": RandomSampler(dataset, generator=own_generator()),
        "generator": own_generator(),
    },
    "batch-sampler": lambda dataset: {"batch_sampler": BatchSampler(RandomSampler(dataset), 2, drop_last=True)},
    "distributed": lambda dataset: {"sampler": distributed(dataset)},
    "users-drawn": lambda dataset: {"sampler": Drawn()},
    "users-by-epoch": lambda dataset: {"sampler": ByEpoch()},
    "users-batch-sampler": lambda dataset: {"batch_sampler": BatchSampler(Drawn(), 2, drop_last=False)},
}
"""
For each kind of order the arguments that a training script gives, made anew for each loader.
"""

USERS = {"users-drawn", "users-by-epoch", "users-batch-sampler"}
"""
Those with a sampler that is not torch's.
"""


def arguments_of(kind: str, dataset: Any) -> dict[str, Any]:
    """
    Return the arguments of a loader of one kind.
    """
    arguments = KINDS[kind](dataset)
    return arguments if "batch_sampler" in arguments else {"batch_size": 2, **arguments}


def loader_of(kind: str, num_workers: int = 0, **arguments: Any) -> Any:
    """
    Return a loader as the training script makes it, with so many workers that autoloader has chosen.
    """
    dataset = datasets.Draws(LENGTH)
    return chosen(dataset, num_workers, **{**arguments_of(kind, dataset), **arguments})


def through_a_checkpoint(state: dict[str, Any]) -> dict[str, Any]:
    """
    Return a state as it comes back from a file that torch reads without trusting it.
    """
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


class Run:
    """
    What a training without interruption saw, and a checkpoint of each of its moments.

    Args:
        loader: What is gone through.
        epochs: How often.
    """

    def __init__(self, loader: Any, epochs: int = 2) -> None:
        seed_all(SEED_OF_THE_FIRST_RUN)
        self.epochs: list[list[Any]] = []
        self.states: list[list[dict[str, Any]]] = []
        """For each epoch the states after 0, 1, 2, ... batches, and the one after it was exhausted."""
        with loader:
            for _ in range(epochs):
                batches, states, iterator = [], [], iter(loader)
                states.append(through_a_checkpoint(loader.state_dict()))
                for batch in iterator:
                    batches.append(plain(batch))
                    states.append(through_a_checkpoint(loader.state_dict()))
                states.append(through_a_checkpoint(loader.state_dict()))
                self.epochs.append(batches)
                self.states.append(states)

    def cuts(self, epoch: int) -> range:
        """
        Return after how many batches of an epoch it can be cut in its middle; its end is one of these.
        """
        return range(1, len(self.epochs[epoch]) + 1)


def resumed(loader: Any, state: dict[str, Any]) -> Any:
    """
    Return the loader of a second run after it was given a state.
    """
    seed_all(SEED_OF_THE_SECOND_RUN)
    loader.load_state_dict(state)
    return loader


def indices(batches: Any) -> list[int]:
    """
    Return the indices of the samples in batches that :class:`datasets.Draws` made.
    """
    found: list[int] = []
    for batch in batches:
        rows = plain(batch)
        found += [int(row[0]) for row in (rows if isinstance(rows[0], list) else [rows])]
    return found
