"""
Workers that die, epochs that are interrupted, and processes that are forked: the loader goes on.
"""

import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import datasets
from autoloader import auto_loader
from autoloader.engine import processes
from autoloader.errors import LoaderClosedError
from loader.deadly import as_they_are, wait_until

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
        iterator.source = Interrupted()
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        assert [batch[0, 0].item() for batch in loader] == list(range(0, 40, 4))


class Interrupted:
    """
    Be interrupted by the user.
    """

    def __next__(self) -> None:
        raise KeyboardInterrupt


def interrupted_once(function: Any, *, where: str) -> Any:
    """
    Return a function that is interrupted once when it ends, if it was called below torch's function *where*.
    """
    done: list[None] = []

    def call(*arguments: Any) -> Any:
        found = function(*arguments)
        if not done and where in {frame.name for frame in traceback.extract_stack()}:
            done.append(None)
            raise KeyboardInterrupt
        return found

    return call


@pytest.mark.parametrize(
    ("owner", "name", "where"),
    [
        pytest.param(torch.autograd.profiler.record_function, "__exit__", "__next__", id="batch-was-taken"),
        pytest.param(processes.WorkerQueue, "put", "_process_data", id="indices-were-sent"),
    ],
)
def test_interrupt_between_two_of_torchs_steps_says_that_a_batch_is_lost(
    owner: Any, name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Not a word less, nor an error of torch's bookkeeping; the next epoch is whole.
    """
    with auto_loader(datasets.Numbers(), 2, num_workers=2) as loader:
        iterator = iter(loader)
        found = [next(iterator)[0, 0].item() for _ in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted_once(getattr(owner, name), where=where))
            with pytest.raises(KeyboardInterrupt):
                found += [batch[0, 0].item() for batch in iterator]
        with pytest.raises(LoaderClosedError, match=r"^This iterator cannot give another batch: an interrupt came"):
            found += [batch[0, 0].item() for batch in iterator]
        assert found == [2 * position for position in range(len(found))]
        assert loader.state_dict()["served"] == len(found)
        assert len(list(loader)) == 20


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


def go_on_in_child(iterator: Any, result: Any) -> None:
    """
    In a forked process: ask the parent's iterator for batches.
    """
    errors: list[str] = []
    for _ in range(2):
        try:
            next(iterator)
        except LoaderClosedError as error:
            errors.append(str(error))
    result.send(errors)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_forked_process_takes_no_batch_of_its_parents_epoch() -> None:
    """
    Its parent would wait for that batch for ever.
    """
    with auto_loader(datasets.Numbers(), 4, num_workers=2) as loader:
        iterator = iter(loader)
        found = [next(iterator)[0, 0].item() for _ in range(2)]
        context = multiprocessing.get_context("fork")
        answers, result = context.Pipe(duplex=False)
        child = context.Process(target=go_on_in_child, args=(iterator, result), daemon=True)
        child.start()
        assert answers.poll(60)
        text = (
            "This iterator cannot give another batch: its workers belong to the process that this one is forked from. "
            "Iterate over the loader again, which starts workers of this process."
        )
        assert answers.recv() == [text, text]
        child.join(60)
        found += [batch[0, 0].item() for batch in iterator]
    assert found == list(range(0, 40, 4))


FORKS = """
import os, sys, torch
from autoloader import auto_loader

class Few(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return index

if __name__ == "__main__":
    iterator = iter(auto_loader(Few(), 2, num_workers=2, multiprocessing_context="fork"))
    next(iterator)
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(len(list(iterator)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_forked_process_that_exits_as_python_does_leaves_the_parents_workers_alone(tmp_path: Path) -> None:
    """
    Python ends at its exit all processes that it knows as its children.
    """
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("19\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_forked_process_takes_kept_workers_for_ended() -> None:
    """
    Torch ends them at the exit of any process that has them, where it pins memory.
    """
    with auto_loader(datasets.Numbers(8), 2, num_workers=1, persistent_workers=True) as loader:
        list(loader)
        assert loader._inners.kept is not None
        torchs = loader._inners.kept._loader._iterator
        child = os.fork()
        if child == 0:
            try:
                torchs._shutdown_workers()
            finally:
                os._exit(0 if torchs._shutdown else 1)
        assert os.waitpid(child, 0)[1] == 0
        first = [process.pid for process in multiprocessing.active_children()]
        assert len(list(loader)) == 4
        assert [process.pid for process in multiprocessing.active_children()] == first


class LaterError(Exception):
    """
    Say that the time of a user's own alarm is over.
    """


class Waits(datasets.Numbers):
    """
    Sample 8 waits for a file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def __getitem__(self, index: int) -> torch.Tensor:
        assert index != 8 or wait_until(self.path.exists)
        return super().__getitem__(index)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such alarm")
@pytest.mark.parametrize("kind", [LaterError, TimeoutError, KeyboardInterrupt])
def test_error_of_a_signal_handler_costs_no_batch(kind: type[BaseException], tmp_path: Path) -> None:
    """
    With a time limit of the user's own making, the wait for a batch is left, and the next one gives that batch.
    """

    def handle(*_: Any) -> None:
        raise kind("time is over")

    with auto_loader(Waits(tmp_path / "go"), 4, num_workers=1) as loader:
        iterator = iter(loader)
        found = [next(iterator)[0, 0].item() for _ in range(2)]
        before = signal.signal(signal.SIGALRM, handle)
        try:
            for _ in range(2):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with pytest.raises(kind, match="time is over"):
                    next(iterator)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        (tmp_path / "go").touch()
        found += [batch[0, 0].item() for batch in itertools.islice(iterator, 8)]
    assert found == list(range(0, 40, 4))


def interrupted() -> None:
    """
    Be unpickled while Ctrl-C is pressed.
    """
    raise KeyboardInterrupt


class Interrupting(datasets.Numbers):
    """
    Sample 8 cannot be taken in peace.
    """

    def __getitem__(self, index: int) -> Any:
        return self if index == 8 else index

    def __reduce__(self) -> Any:
        return interrupted, ()


@pytest.mark.skipif(sys.platform == "win32", reason="batches in Windows's pipes are not counted")
@pytest.mark.parametrize("keeps", [False, True])
def test_batch_that_is_lost_in_an_interrupt_is_an_error_and_no_wait_for_ever(keeps: bool) -> None:
    """
    The state counts it as not served, and another epoch begins as ever.
    """
    found: list[Any] = []

    def train() -> None:
        arguments = {"multiprocessing_context": "fork", "collate_fn": as_they_are, "persistent_workers": keeps}
        with auto_loader(Interrupting(12), None, num_workers=1, **arguments) as loader:
            iterator = iter(loader)
            for _ in range(11):
                try:
                    found.append(next(iterator))
                except (KeyboardInterrupt, LoaderClosedError) as error:
                    found.append(str(error))
            found.append(loader.state_dict()["served"])
            found.extend(itertools.islice(loader, 3))

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    lost = (
        "This iterator cannot give another batch: an interrupt came just while one was taken, which is lost. Iterate "
        "over the loader again, or resume with its state_dict(), by which that batch was not served."
    )
    assert found == [*range(8), "", lost, lost, 8, 0, 1, 2]


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
