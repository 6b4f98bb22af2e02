"""
Datasets and functions that end the process which calls them, in a module that a spawned worker can import.
"""

import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

import datasets

WAYS_TO_DIE: dict[str, Callable[[], object]] = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exit-3": lambda: os._exit(3),
    "exit-0": lambda: os._exit(0),
    "sys-exit": lambda: sys.exit(0),
}

TOLD = {
    "SIGKILL": "was killed by SIGKILL (signal 9)",
    "SIGSEGV": "was killed by SIGSEGV (signal 11)",
    "exit-3": "ended with exit code 3",
    "exit-0": "ended with exit code 0",
    "sys-exit": "ended with exit code 0",
}
"""
What is said of each way to die.
"""

PATIENCE_SECONDS = 60


class Bomb:
    """
    Ends the process that calls it, as often as there are fuses in a folder.
    """

    def __init__(self, folder: Path, how: str = "SIGKILL", fuses: int = 1) -> None:
        self.folder = folder
        self.how = how
        for number in range(fuses):
            (folder / f"fuse-{number}").touch()

    def __call__(self) -> None:
        for fuse in sorted(self.folder.glob("fuse-*")):
            try:
                fuse.unlink()
            except FileNotFoundError:  # another worker was faster
                continue
            WAYS_TO_DIE[self.how]()


class Deadly(datasets.Draws):
    """
    Samples with random numbers; fetching one of *at* sets off the bomb.
    """

    def __init__(self, length: int, bomb: Bomb | None = None, at: tuple[int, ...] = ()) -> None:
        super().__init__(length)
        self.bomb = bomb
        self.at = at

    def __getitem__(self, index: int) -> torch.Tensor:
        if index in self.at and self.bomb is not None:
            self.bomb()
        return super().__getitem__(index)


class DeadlyCollate:
    """
    Stacks samples, after it has set off the bomb if the first one is among *at*.
    """

    def __init__(self, bomb: Bomb, at: tuple[int, ...]) -> None:
        self.bomb = bomb
        self.at = at

    def __call__(self, samples: list[torch.Tensor]) -> torch.Tensor:
        if int(samples[0][0]) in self.at:
            self.bomb()
        return torch.stack(samples)


class DeadlyInit:
    """
    A worker_init_fn that sets off the bomb, in each worker or in one.
    """

    def __init__(self, bomb: Bomb, only: int | None = None) -> None:
        self.bomb = bomb
        self.only = only

    def __call__(self, worker: int) -> None:
        if self.only in (None, worker):
            self.bomb()


class DeadlyStream(IterableDataset):
    """
    Numbers; the worker that is at *at* sets off the bomb.
    """

    def __init__(self, bomb: Bomb, at: int) -> None:
        self.bomb = bomb
        self.at = at

    def __iter__(self) -> Iterator[int]:
        for number in range(12):
            if number == self.at:
                self.bomb()
            yield number


class Heavy(datasets.Numbers):
    """
    Sample *i* is a mebibyte of bytes *i*: too much for a pipe, so that its worker waits until somebody reads.
    """

    def __getitem__(self, index: int) -> bytes:
        return bytes([index]) * (1 << 20)


def as_they_are(samples: Any) -> Any:
    """
    Be a collate function that makes no tensors.
    """
    return samples


def workers() -> list[BaseProcess]:
    """
    Return the workers that are alive, oldest first.
    """
    return sorted(multiprocessing.active_children(), key=lambda process: process.pid or 0)


def pids() -> list[int]:
    """
    Return the process numbers of the workers that are alive.
    """
    return [process.pid or 0 for process in workers()]


def kill(victims: list[BaseProcess]) -> None:
    """
    Kill workers, and come back when they are gone and a signal handler of this process has had its time.
    """
    for victim in victims:
        os.kill(victim.pid or 0, signal.SIGKILL)
    for victim in victims:
        assert wait([victim.sentinel], PATIENCE_SECONDS)
    assert wait_until(lambda: all(not is_running(victim) for victim in victims))


def is_running(process: BaseProcess) -> bool:
    """
    Return whether a process has not ended; who waits for its exit code may still do so.
    """
    try:
        ended = os.waitid(os.P_PID, process.pid or 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # the fork server's, or somebody has waited for it
        return False
    return ended is None


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """
    Return whether *condition* became true before the deadline.
    """
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """
    Return what our logger has warned of.
    """
    return [each.message for each in caplog.records if each.name == "autoloader" and each.levelno == logging.WARNING]
