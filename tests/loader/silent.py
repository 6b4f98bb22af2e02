"""
Datasets that get stuck, or make what cannot be sent, in a module that a spawned worker can import.
"""

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import IterableDataset

import datasets

PATIENCE_SECONDS = 60


class Stuck(datasets.Numbers):
    """
    Fetching one sample waits for files in a folder: for ``begin`` as others do, and then, in its own way, for ``end``.
    """

    def __init__(self, length: int, folder: Path, at: int, how: str) -> None:
        super().__init__(length)
        self.folder = folder
        self.at = at
        self.how = how

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.at:
            self.deadline = time.monotonic() + PATIENCE_SECONDS
            while not self.sees("begin"):
                time.sleep(0.01)
            (self.folder / "stuck").touch()
            getattr(self, self.how)()
        return super().__getitem__(index)

    def sees(self, name: str) -> bool:
        return (self.folder / name).exists() or time.monotonic() > self.deadline

    def in_sleep(self) -> None:
        while not self.sees("end"):
            time.sleep(0.05)

    def in_a_python_loop(self) -> None:
        while not self.sees("end"):
            sum(range(10_000))

    def in_c_that_holds_the_gil(self) -> None:
        while not self.sees("end"):
            ctypes.PyDLL(None).usleep(50_000)


class TwoArgumentsError(Exception):
    """
    Cannot be made anew from its text alone, as torch does in the training process.
    """

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name} {number}")


class Unsendable(datasets.Numbers):
    """
    Sample *i* is *i*, but for one with which something is wrong.
    """

    def __init__(self, length: int, at: int, what: str) -> None:
        super().__init__(length)
        self.at = at
        self.what = what

    def __getitem__(self, index: int) -> Any:
        return make(self.what) if index == self.at else index


class UnsendableStream(IterableDataset):
    """
    The same, iterable-style.
    """

    def __init__(self, length: int, at: int, what: str) -> None:
        self.samples = Unsendable(length, at, what)

    def __iter__(self) -> Iterator[Any]:
        for index in range(self.samples.length):
            yield self.samples[index]


def make(what: str) -> Any:
    """
    Return a sample that cannot be pickled, or raise an exception that cannot be, or not be made anew.
    """

    class LocalError(Exception):
        pass

    if what == "lambda":
        return lambda: None
    raise LocalError("no sample 4") if what == "local-error" else TwoArgumentsError("no sample", 4)


class UnsendableIndices:
    """
    A batch sampler; the indices of its third batch cannot be sent.
    """

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[list[Any]]:
        for start in range(0, 10, 2):
            yield [start, start + 1] if start != 4 else [lambda: 4, 5]
