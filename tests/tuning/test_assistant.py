"""
The child that measures: its answers, its errors, its end and that of its workers, under each start method.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

import datasets
from autoloader.tuning import assistant
from autoloader.tuning.assistant import Assistant, AssistantError, CannotStartError, NoBatchError, OutOfTimeError
from autoloader.tuning.laboratory import Subject
from loader.chosen import NEEDS_FORK
from tuning.subjects import Noting, Slow, Troubled, Unsendable, hang, kill, raise_key_error, still_running, subject

METHODS = [
    pytest.param("fork", marks=NEEDS_FORK),
    pytest.param("forkserver", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
    pytest.param("spawn", marks=pytest.mark.slow_spawn),
]
PATIENCE_SECONDS = 120.0


def start(method: str, measured: Subject, seconds: float = PATIENCE_SECONDS) -> Assistant:
    """
    Return a child that is given so many seconds.
    """
    return Assistant(method, measured, monotonic() + seconds)


def settings(method: str, workers: int) -> dict[str, Any]:
    """
    Return the arguments of a DataLoader.
    """
    return {"num_workers": workers, **({"multiprocessing_context": method} if workers else {})}


@pytest.mark.parametrize("method", METHODS)
def test_child_answers_one_question_after_the_other(method: str) -> None:
    """
    A profile, a batch, and runs with workers and without.
    """
    with start(method, subject(Slow(), worker_init_fn=datasets.seed_by_numpy)) as child:
        assert child.ask("profile", 1 << 20).batches == 8
        assert child.batch().tolist() == [[index, 1] for index in range(28, 32)]
        assert child.ask("run", settings(method, 0), 3, 0.0, is_busy=False).batches == 3
        assert child.ask("run", settings(method, 2), 3, 0.0, is_busy=True).batches == 6


@pytest.mark.parametrize("method", METHODS)
def test_error_of_the_dataset_is_told_and_the_child_goes_on(method: str) -> None:
    """
    Here of a dataset that raises in workers only: its own traceback, from the worker.
    """
    with start(method, subject(Troubled(raise_key_error, only_in_workers=True))) as child:
        with pytest.raises(AssistantError) as raised:
            child.ask("run", settings(method, 1), 1, 0.0, is_busy=False)
        assert str(raised.value).splitlines()[-1] == "KeyError: 'no such sample'"
        assert child.ask("profile", 1 << 20).batches >= 8


@pytest.mark.parametrize("method", METHODS)
def test_worker_that_dies_is_an_error_and_the_child_goes_on(method: str) -> None:
    """
    Inline is still an answer.
    """
    with start(method, subject(Troubled(kill, only_in_workers=True))) as child:
        with pytest.raises(AssistantError, match="DataLoader worker"):
            child.ask("run", settings(method, 1), 1, 0.0, is_busy=False)
        assert child.ask("run", settings(method, 0), 3, 0.0, is_busy=False).batches == 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("only_in_workers", [False, True], ids=["everywhere", "in-workers"])
def test_child_that_hangs_ends_in_time_with_its_workers(method: str, only_in_workers: bool, tmp_path: Path) -> None:
    """
    Whatever the dataset waits for.
    """
    data = Noting(tmp_path, hang, only_in_workers=only_in_workers)
    deadline = monotonic() + PATIENCE_SECONDS
    with Assistant(method, subject(data), deadline) as child:
        child._connection.send(("run", (settings(method, 2 if only_in_workers else 0), 1, 0.0), {"is_busy": False}))
        while len(list(tmp_path.iterdir())) < 1 + only_in_workers and monotonic() < deadline:
            sleep(0.02)
        child._deadline = monotonic()
        with pytest.raises(OutOfTimeError, match="^no batch came$"):
            child._receive("no batch came")
    assert len(list(tmp_path.iterdir())) == 1 + only_in_workers
    assert still_running(tmp_path) == []


class HasSeenEnoughError(Exception):
    """
    Is raised while an answer is waited for.
    """


@pytest.mark.skipif(sys.platform != "linux", reason="semaphores are no files")
@pytest.mark.parametrize("method", METHODS)
def test_wait_that_is_given_up_leaves_no_process_and_no_semaphore(method: str, tmp_path: Path) -> None:
    """
    Python would warn of leaked ones at its exit.
    """

    def look() -> None:
        if len(list(tmp_path.iterdir())) == 2:
            raise HasSeenEnoughError

    before = semaphores()
    measured = subject(Noting(tmp_path, hang, only_in_workers=True))
    with (
        pytest.raises(HasSeenEnoughError),
        Assistant(method, measured, monotonic() + PATIENCE_SECONDS, look) as child,
    ):
        child.ask("run", settings(method, 2), 1, 0.0, is_busy=False)
    assert len(list(tmp_path.iterdir())) == 2
    assert still_running(tmp_path) == []
    assert semaphores() == before


@NEEDS_FORK
def test_end_of_a_forked_child_does_not_wake_the_event_loop_of_its_parent(tmp_path: Path) -> None:
    """
    Both have the descriptor to which Python tells of signals; asyncio would take it for a signal to the parent.
    """

    def look() -> None:
        if list(tmp_path.iterdir()):
            raise HasSeenEnoughError

    told, tells = socket.socketpair()
    with told, tells:
        told.setblocking(False)
        tells.setblocking(False)
        before = signal.set_wakeup_fd(tells.fileno())
        try:
            with (
                pytest.raises(HasSeenEnoughError),
                Assistant("fork", subject(Noting(tmp_path, hang)), monotonic() + PATIENCE_SECONDS, look) as child,
            ):
                child.ask("profile", 0)
        finally:
            signal.set_wakeup_fd(before)
        assert still_running(tmp_path) == []
        with contextlib.suppress(BlockingIOError):
            assert signal.SIGTERM not in told.recv(100)  # the child's end may well be told


def semaphores() -> set[str]:
    """
    Return the names of multiprocessing's semaphores.
    """
    return {name for name in os.listdir("/dev/shm") if name.startswith("sem.mp-")}


@NEEDS_FORK
def test_child_that_dies_is_an_error_for_each_question() -> None:
    """
    The exit code is that of the process: minus the number of the signal.
    """
    with start("fork", subject(Troubled(kill))) as child:
        for _ in range(2):
            with pytest.raises(AssistantError, match="^the process that measures ended with exit code -9$"):
                child.ask("profile", 1 << 20)


@NEEDS_FORK
def test_dataset_without_a_batch_is_an_error_of_its_own() -> None:
    """
    Nobody has raised anything.
    """
    with start("fork", subject(datasets.Numbers(0))) as child, pytest.raises(NoBatchError):
        child.ask("profile", 1 << 20)


@NEEDS_FORK
def test_batch_that_cannot_be_pickled_is_an_error() -> None:
    """
    The profile says so before.
    """
    with start("fork", subject(Unsendable(), collate_fn=list)) as child:
        assert child.ask("profile", 1 << 20).transfer_seconds is None
        with pytest.raises(AssistantError, match="Can't (pickle|get) local object"):
            child.batch()


@NEEDS_FORK
def test_sampler_that_raises_is_an_error_of_the_first_question() -> None:
    """
    The child itself starts.
    """
    broken = (1 // 0 for _ in range(3))
    with start("fork", subject(datasets.Numbers(), sampler=broken)) as child, pytest.raises(AssistantError) as raised:
        child.ask("profile", 1 << 20)
    assert str(raised.value).splitlines()[-1].startswith("ZeroDivisionError: ")


@pytest.mark.slow_spawn
def test_subject_that_cannot_be_pickled_starts_no_child() -> None:
    """
    A generator as sampler, where it would have to be pickled.
    """
    generator = (index for index in range(3))
    with pytest.raises(CannotStartError, match="^TypeError: cannot pickle 'generator' object$"):
        start("spawn", subject(datasets.Numbers(), sampler=generator)).__enter__()
    assert next(generator) == 0


@NEEDS_FORK
def test_interrupt_while_the_child_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Ctrl-C may come at any moment.
    """
    pids: list[int] = []

    def interrupted(child: Assistant, otherwise: str) -> None:
        pids.append(child._process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(Assistant, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start("fork", subject(datasets.Numbers())).__enter__()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@NEEDS_FORK
def test_child_reads_an_open_file_without_moving_the_position_of_its_parent(tmp_path: Path) -> None:
    """
    Also where the dataset hides it.
    """
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(40)))
    with path.open("rb") as file:
        file.read(5)
        before = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        data = datasets.FromFile(file)
        with start("fork", subject(data)) as child:
            last = (child.ask("profile", 1 << 20).batches - 1) % 3
            assert child.batch().tolist() == list(range(4 * last, 4 * last + 4))
        assert (os.lseek(file.fileno(), 0, os.SEEK_CUR), file.tell(), file.read(1)) == (before, 5, b"\x05")


ORPHAN = """
import os, sys, time
from pathlib import Path
from autoloader.tuning.assistant import Assistant
from tuning.subjects import Noting, hang, subject

if __name__ == "__main__":
    data = Noting(Path(sys.argv[1]), hang)
    with Assistant(sys.argv[2], subject(data), time.monotonic() + 1000) as child:
        child.ask("profile", 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow_spawn)])
def test_child_that_hangs_ends_with_its_parent(method: str, tmp_path: Path) -> None:
    """
    When that is killed, and can end nothing any more.
    """
    script, seen = tmp_path / "orphan.py", tmp_path / "seen"
    script.write_text(ORPHAN)
    seen.mkdir()
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, str(script), str(seen), method]
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": tests})
    deadline = monotonic() + PATIENCE_SECONDS
    while not list(seen.iterdir()) and monotonic() < deadline and parent.poll() is None:
        sleep(0.05)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert len(list(seen.iterdir())) == 1
    assert still_running(seen) == []


@NEEDS_FORK
def test_interrupt_before_the_end_of_the_child_begins_ends_it_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Signals are held back while it ends, and one may come while they begin to be.
    """

    @contextlib.contextmanager
    def interrupted(_method: str) -> Iterator[None]:
        signal.raise_signal(signal.SIGINT)
        yield

    child = start("fork", subject(datasets.Numbers())).__enter__()
    pid = child._process.pid
    monkeypatch.setattr(assistant, "held", interrupted)
    with pytest.raises(KeyboardInterrupt):
        child.__exit__()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@NEEDS_FORK
def test_what_the_user_raises_in_a_wait_is_no_death_of_the_child() -> None:
    """
    A signal's handler may raise a TimeoutError, which is an OSError.
    """

    def give_up() -> None:
        raise TimeoutError("no more time")

    measured, deadline = subject(Troubled(hang)), monotonic() + PATIENCE_SECONDS
    with pytest.raises(TimeoutError, match="no more time"), Assistant("fork", measured, deadline, give_up) as child:
        child.ask("profile", 1 << 20)


@NEEDS_FORK
@pytest.mark.parametrize("other_thread", [False, True], ids=["alone", "beside-a-thread"])
def test_second_interrupt_waits_until_the_child_has_ended(other_thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is raised then, also where another thread takes the signal, which does not hold it back.
    """
    child = start("fork", subject(datasets.Numbers())).__enter__()
    process, presses = child._process, [None]
    kills = process.kill

    def kill() -> None:
        if presses:
            presses.clear()
            os.kill(os.getpid(), signal.SIGINT)
        kills()

    monkeypatch.setattr(process, "kill", kill)
    sentinel, pid = process.sentinel, process.pid
    assert not wait([sentinel], 0)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    if other_thread:
        thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            child.__exit__()
    finally:
        done.set()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
