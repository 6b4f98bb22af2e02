"""
Datasets that go wrong, in this process or in workers only, in a module that a spawned child can import.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler, default_collate, get_worker_info

import datasets
from autoloader.tuning.laboratory import Subject

EVER_SECONDS = 1_000_000


def subject(dataset: Any, batch_size: int | None = 4, sampler: Any = None, **parts: Any) -> Subject:
    """
    Return what is measured of a dataset, in order by default, and for a stream in batches of its own.
    """
    is_stream = isinstance(dataset, IterableDataset)
    indices = sampler
    if indices is None:
        indices = range(0) if is_stream else BatchSampler(SequentialSampler(dataset), batch_size or 1, drop_last=False)
    values = {
        "dataset": dataset,
        "sampler": indices,
        "makes_batches": True,
        "collate_fn": default_collate,
        "worker_init_fn": None,
        "rest": {"batch_size": batch_size} if is_stream else {},
    }
    return Subject(**{**values, **parts})


def raise_key_error() -> None:
    """
    Raise what a dataset may.
    """
    raise KeyError("no such sample")


def raise_stop_iteration() -> None:
    """
    Raise what ``next()`` does in a dataset whose own iterator is exhausted.
    """
    raise StopIteration


def hang() -> None:
    """
    Come to no end.
    """
    time.sleep(EVER_SECONDS)


def kill() -> None:
    """
    End this process.
    """
    os.kill(os.getpid(), signal.SIGKILL)


class Slow(datasets.Numbers):
    """
    Numbers of which eight in a row take long enough for a profile.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.013)
        return super().__getitem__(index)


class Troubled(datasets.Numbers):
    """
    Numbers; what goes wrong does so when a sample is fetched, everywhere or in workers only.
    """

    def __init__(self, trouble: Callable[[], object], *, length: int = 40, only_in_workers: bool = False) -> None:
        super().__init__(length)
        self.trouble, self.only_in_workers = trouble, only_in_workers

    def __getitem__(self, index: int) -> torch.Tensor:
        if not self.only_in_workers or get_worker_info() is not None:
            self.trouble()
        return super().__getitem__(index)


class Unsendable(datasets.Numbers):
    """
    Samples that cannot be pickled.
    """

    def __getitem__(self, index: int) -> Any:  # type: ignore[override]
        return lambda: index


class OneShot(IterableDataset):
    """
    A stream that is one generator: each number comes once, whoever asks.
    """

    def __init__(self, length: int) -> None:
        self.numbers = (number for number in range(length))

    def __iter__(self) -> Iterator[int]:
        return self.numbers


class OpenedLater(datasets.Numbers):
    """
    Sample *i* is byte *i* of a file that is opened when it is needed; sharing it with another process is an error.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(40)
        self.path = path
        self.file: Any = None
        self.pid = 0

    def __getitem__(self, index: int) -> int:  # type: ignore[override]
        if self.file is None:
            self.file, self.pid = self.path.open("rb"), os.getpid()
        assert self.pid == os.getpid()
        self.file.seek(index)
        return int(self.file.read(1)[0])


class Noting(datasets.Numbers):
    """
    Leaves a file in a folder for each process that fetches a sample, named by its number, and then troubles it.
    """

    def __init__(self, folder: Path, trouble: Callable[[], object], *, only_in_workers: bool = False) -> None:
        super().__init__(40)
        self.folder, self.trouble, self.only_in_workers = folder, trouble, only_in_workers

    def __getitem__(self, index: int) -> torch.Tensor:
        (self.folder / str(os.getpid())).touch()
        if not self.only_in_workers or get_worker_info() is not None:
            self.trouble()
        return super().__getitem__(index)


def still_running(folder: Path, seconds: float = 10.0) -> list[int]:
    """
    Return the processes that a :class:`Noting` has seen and that do not end within some seconds.
    """
    seen = [int(path.name) for path in folder.iterdir()]
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in seen if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
