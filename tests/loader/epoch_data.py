"""
Datasets that want to know the epoch, in a module that a spawned worker can import.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from datasets import Numbers
from loader.random_data import die_once


class Tells(Numbers):
    """
    Sample *i* is *i*, the process, the epoch that this copy was told last, and its difficulty and table.
    """

    def __init__(self, length: int = 12) -> None:
        super().__init__(length)
        self.epoch = -1
        self.difficulty: Any = 0
        self.table = torch.zeros(2)
        self.asked = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict[str, Any]:
        level = self.difficulty["level"] if isinstance(self.difficulty, dict) else self.difficulty
        return {
            "index": index,
            "pid": os.getpid(),
            "epoch": self.epoch,
            "level": level,
            "table": float(self.table.sum()),
        }


class Wrapper(Dataset):
    """
    A wrapper of the user's, with a name of the user's for what it wraps, and a set_epoch of its own.
    """

    def __init__(self, inner: Any) -> None:
        self.what_it_wraps = inner
        self.epoch = -1

    def __len__(self) -> int:
        return len(self.what_it_wraps)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.what_it_wraps[index], "wrapper": self.epoch}


class TellsAndDies(Tells):
    """
    Kills its worker at one index, the first time that a worker is there.
    """

    def __init__(self, length: int, at: int, flag: Path) -> None:
        super().__init__(length)
        self.at = at
        self.flag = str(flag)

    def __getitem__(self, index: int) -> dict[str, Any]:
        die_once(index == self.at, self.flag)
        return super().__getitem__(index)


class Refuses(Tells):
    """
    A dataset whose set_epoch raises an error for odd epochs: everywhere, or in workers only.
    """

    def __init__(self, length: int = 16, *, is_everywhere: bool = True) -> None:
        super().__init__(length)
        self.is_everywhere = is_everywhere

    def set_epoch(self, epoch: int) -> None:
        if epoch % 2 and (self.is_everywhere or get_worker_info() is not None):
            raise KeyError(f"no epoch {epoch}")
        super().set_epoch(epoch)


class TellsStream(IterableDataset):
    """
    A stream of four samples, each the epoch and the difficulty.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self.difficulty = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for _ in range(4):
            yield {"epoch": self.epoch, "level": self.difficulty}


class Lengthy:
    """
    A sampler of so many indices as its length says at the moment.
    """

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))

    def __len__(self) -> int:
        return self.length
