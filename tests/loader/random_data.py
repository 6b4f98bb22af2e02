"""
Datasets that draw random numbers, in a module that a spawned worker can import.
"""

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from autoloader.engine.sample_rng import sample_rng
from datasets import Draws, Numbers


def three_draws() -> list[float]:
    """
    Return one draw from each global generator, each of a kind that its generator prepares two of.
    """
    return [random.gauss(0, 1), float(np.random.randn()), torch.randn(1, dtype=torch.float64).item()]


def collate_drawing(samples: list[torch.Tensor]) -> tuple[torch.Tensor, list[float]]:
    """
    Be a collate function that draws from each global generator.
    """
    return torch.stack(samples), three_draws()


class Held:
    """
    A transform with a generator of its own, in a slot.
    """

    __slots__ = ("generator",)

    def __init__(self, seed: int) -> None:
        self.generator = random.Random(seed)

    def __call__(self) -> float:
        return self.generator.gauss(0, 1)


class Holding(Numbers):
    """
    Sample *i* is *i* and one draw from each generator that the dataset holds.

    Torch cannot send a torch.Generator to a worker that starts by spawn or forkserver: *has_torchs* leaves it out.
    """

    def __init__(self, length: int = 12, *, has_torchs: bool = True) -> None:
        super().__init__(length)
        self.transforms = [Held(1), Held(2)]
        self.legacy = np.random.RandomState(3)
        self.by_name: dict[str, Any] = {"numpy": np.random.default_rng(4)}
        if has_torchs:
            self.by_name["torch"] = torch.Generator().manual_seed(5)

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = [each() for each in self.transforms]
        drawn += [self.legacy.randn(), self.by_name["numpy"].standard_normal()]
        if "torch" in self.by_name:
            drawn.append(torch.randn(1, generator=self.by_name["torch"], dtype=torch.float64).item())
        return torch.tensor([float(index), *drawn], dtype=torch.float64)


class HoldingOne(Numbers):
    """
    Sample *i* is a draw from one generator, which ``set_epoch`` replaces.
    """

    def __init__(self, generator: Any, length: int = 8) -> None:
        super().__init__(length)
        self.generator = generator

    def set_epoch(self, epoch: int) -> None:
        self.generator = random.Random(epoch)

    def __getitem__(self, index: int) -> float:
        return float(self.generator.random())


class LeavesBehind(HoldingOne):
    """
    A dataset that holds another generator before that one, which a copy for a worker does not get.
    """

    def __init__(self, length: int = 8) -> None:
        self.of_cache = random.Random(1)
        super().__init__(random.Random(2), length)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "of_cache"}


class DrawsAndHolds(Holding):
    """
    Sample *i* is *i* and one draw from each generator, global or held.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.cat([super().__getitem__(index), torch.tensor(three_draws(), dtype=torch.float64)])


class FailsToDraw(Draws):
    """
    Draws, and then raises at one index.
    """

    def __init__(self, length: int, at: int) -> None:
        super().__init__(length)
        self.at = at

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = super().__getitem__(index)
        if index == self.at:
            raise KeyError(f"no sample {index}")
        return sample


class Noted(Numbers):
    """
    Sample *i* is what the worker's ``worker_init_fn`` has drawn.
    """

    noted: tuple[float, ...] = ()

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.noted, dtype=torch.float64)


class NotedAndDies(Noted):
    """
    Kills its worker at one index, the first time that a worker is there.
    """

    def __init__(self, length: int, at: int, flag: Path) -> None:
        super().__init__(length)
        self.at = at
        self.flag = str(flag)

    def __getitem__(self, index: int) -> torch.Tensor:
        die_once(index == self.at, self.flag)
        return super().__getitem__(index)


def die_once(is_here: bool, flag: str) -> None:
    """
    Kill this worker, if it is one and there is no file of that name yet.
    """
    if is_here and get_worker_info() is not None and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def note_draws(worker: int) -> None:
    """
    Be a worker_init_fn that draws from each global generator, and notes it with the copy of the dataset.
    """
    info: Any = get_worker_info()
    info.dataset.noted = (float(worker), *three_draws())


def draw_one(generator: torch.Generator) -> float:
    """
    Return one number between 0 and 1.
    """
    return torch.rand(1, generator=generator, dtype=torch.float64).item()


class OwnDraws(Numbers):
    """
    Sample *i* is *i* and two draws from its own generator, asked for twice; odd samples draw *extra* more in between.
    """

    def __init__(self, length: int = 12, extra: int = 0) -> None:
        super().__init__(length)
        self.extra = extra

    def __getitem__(self, index: int) -> tuple[float, float, float]:
        first = draw_one(sample_rng())
        second = draw_one(sample_rng())
        for _ in range(self.extra if index % 2 else 0):
            draw_one(sample_rng())
        return float(index), first, second


class NotInAThread(OwnDraws):
    """
    The same, and an error in any thread but the main one.
    """

    def __getitem__(self, index: int) -> tuple[float, float, float]:
        sample = super().__getitem__(index)
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("not in this thread")
        return sample


class Transformed(Dataset):
    """
    The samples of another dataset, each with a draw from its own generator in a nested function.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[float, ...]:
        return (*self.dataset[index], *self._transforms()[0]())

    def _transforms(self) -> list[Callable[[], list[float]]]:
        return [lambda: [draw_one(sample_rng()) for _ in range(1)]]


class OwnDrawsAtOnce(Numbers):
    """
    Fetches a batch in one call, with one generator for all of it.
    """

    def __getitems__(self, indices: list[int]) -> list[tuple[float, float]]:
        return [(float(index), draw_one(sample_rng())) for index in indices]


class DiesOnce(Draws):
    """
    Kills its worker at one index, the first time that a worker is there.
    """

    def __init__(self, length: int, at: int, flag: Path) -> None:
        super().__init__(length)
        self.at = at
        self.flag = str(flag)

    def __getitem__(self, index: int) -> torch.Tensor:
        die_once(index == self.at, self.flag)
        return super().__getitem__(index)
