"""
Workers that die, epochs that are interrupted, and processes that are forked: the loader goes on.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import datasets
from autoloader import auto_loader
from autoloader.engine import processes

KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
"""
What ends a process at once: on Windows any signal that it has no event for.
"""


class DiesOnce(datasets.Numbers):
    """
    Kills the worker that fetches sample 20, if the flag is there, and takes the flag away.
    """

    def __init__(self, flag: Path) -> None:
        super().__init__()
        self.flag = flag

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 20 and self.flag.exists():
            self.flag.unlink()
            os.kill(os.getpid(), KILL)
        return super().__getitem__(index)


@pytest.fixture
def _no_sigchld_handler() -> Iterator[None]:
    """
    Take away torch's SIGCHLD handler, which raises an error wherever this process happens to be; torch also polls.

    On Windows it has none.
    """
    if sys.platform == "win32":
        yield
        return
    list(DataLoader([1], num_workers=1))
    torchs = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGCHLD, torchs)


@pytest.mark.usefixtures("_no_sigchld_handler")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, id="ours", marks=pytest.mark.slow_spawn),
        pytest.param({"num_workers": 1, "persistent_workers": True}, id="users"),
    ],
)
def test_worker_that_is_killed_is_replaced_in_the_next_epoch(arguments: dict[str, Any], tmp_path: Path) -> None:
    """
    The epoch in which a worker dies ends with torch's error; the next one has new workers and every batch.
    """
    flag = tmp_path / "die"
    with auto_loader(DiesOnce(flag), 4, **arguments) as loader:
        assert len(list(loader)) == 10
        flag.touch()
        with pytest.raises((RuntimeError, OSError, EOFError)):  # which one, depends on what torch was just doing
            list(loader)
        assert [batch[0, 0].item() for batch in loader] == list(range(0, 40, 4))


@pytest.mark.slow_spawn
def test_workers_that_died_between_epochs_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Kept workers serve another epoch only as long as all of them are alive.
    """
    with auto_loader(datasets.Pids(), 4) as loader:
        before = {int(pid) for batch in loader for pid in batch}
        with monkeypatch.context() as patch:
            patch.setattr(processes._Member, "is_alive", lambda process: False)
            iterator = iter(loader)
        assert before.isdisjoint(int(pid) for batch in iterator for pid in batch)


@pytest.mark.slow_spawn
def test_epoch_that_was_interrupted_leaves_nothing_for_the_next() -> None:
    """
    After a KeyboardInterrupt in next() the loader starts over with new workers.
    """
    with auto_loader(datasets.Numbers(), 4) as loader:
        list(loader)
        iterator = iter(loader)
        next(iterator)
        iterator._source = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        assert [batch[0, 0].item() for batch in loader] == list(range(0, 40, 4))


class Interrupted:
    """
    Be interrupted by the user.
    """

    def __next__(self) -> None:
        raise KeyboardInterrupt


def use_in_child(loader: Any, uses: str, result: Any) -> None:
    """
    In a forked process: go through an epoch, close the loader, drop it, or just end.
    """
    if uses == "iterate":
        result.send(sum(len(batch) for batch in loader))
        loader.close()
    elif uses == "close":
        loader.close()
    elif uses == "drop":
        loader.__dict__.clear()
        gc.collect()
    result.send("done")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.parametrize("uses", ["iterate", "close", "drop", "nothing"])
def test_forked_process_leaves_the_parents_workers_alone(uses: str) -> None:
    """
    A child has workers of its own, and those of its parent serve the parent's next epoch.
    """
    with auto_loader(datasets.Pids(), 4) as loader:
        before = {int(pid) for batch in loader for pid in batch}
        context = multiprocessing.get_context("fork")
        answers, result = context.Pipe(duplex=False)
        child = context.Process(target=use_in_child, args=(loader, uses, result))
        child.start()
        for answer in (40, "done") if uses == "iterate" else ("done",):
            assert answers.poll(60)
            assert answers.recv() == answer
        child.join(60)
        assert child.exitcode == 0
        assert {int(pid) for batch in loader for pid in batch} == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_process_forked_while_another_thread_begins_an_epoch_can_iterate() -> None:
    """
    The loader's lock is held in the parent, and its holder does not exist in the child.
    """
    loader = auto_loader(datasets.Numbers(8), 4, num_workers=0)
    context = multiprocessing.get_context("fork")
    answers, result = context.Pipe(duplex=False)
    with loader._inners.lock:
        child = context.Process(target=lambda: result.send(threaded_epoch(loader)))
        child.start()
    assert answers.poll(60)
    assert answers.recv() == 2
    child.join(60)
    assert child.exitcode == 0


def threaded_epoch(loader: Any) -> int:
    """
    Return the batches of an epoch in a thread, which does not own the lock that this one inherited.
    """
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(len(list(loader))), daemon=True)
    thread.start()
    thread.join(30)
    return found[0] if found else -1
