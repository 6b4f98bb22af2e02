"""
What a worker does before its first batch: signals, CPUs, and a look at its parent for as long as it lives.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from autoloader.engine import worker
from autoloader.engine.worker import WorkerInit
from autoloader.start.interrupts import held
from live.running import SOURCE

PATIENCE_SECONDS = 120


@pytest.fixture
def _without_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let nothing watch the parent of this process.
    """
    monkeypatch.setattr(worker, "_end_with_parent", lambda parent: None)


@pytest.mark.usefixtures("_without_watch")
def test_users_function_gets_the_number_of_the_worker_when_ours_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It runs last, so that what it sets stays.
    """
    done: list[Any] = []
    monkeypatch.setattr(worker, "let_through", lambda: done.append("signals"))
    monkeypatch.setattr(worker, "restore", done.append)
    WorkerInit(done.append, frozenset({1, 2}))(3)
    assert done == ["signals", {1, 2}, 3]


@pytest.mark.usefixtures("_without_watch")
def test_cpus_stay_as_they_are_where_none_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Without a user's function and without CPUs there is nothing more to do.
    """
    done: list[Any] = []
    monkeypatch.setattr(worker, "restore", done.append)
    WorkerInit(None)(0)
    assert done == []


@pytest.mark.usefixtures("_without_watch")
def test_error_of_the_users_function_is_the_users() -> None:
    """
    Torch sends it to the training process, as it is.
    """

    def fail(number: int) -> None:
        raise KeyError(number)

    with pytest.raises(KeyError, match="^5$"):
        WorkerInit(fail)(5)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal masks")
@pytest.mark.usefixtures("_without_watch")
def test_interrupt_that_was_held_while_the_worker_started_is_let_through() -> None:
    """
    A worker inherits the mask of the thread that started it.
    """
    with held("spawn"):
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        WorkerInit(None)(0)
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.fixture
def bound() -> Iterator[frozenset[int]]:
    """
    Bind this thread to one CPU, and return those that it had.
    """
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system binds no thread to CPUs")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield frozenset(before)
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("_without_watch")
def test_cpus_are_restored(bound: frozenset[int]) -> None:
    """
    The worker may run where the user's process could before OpenMP bound it.
    """
    WorkerInit(None, bound)(0)
    assert os.sched_getaffinity(0) == bound


@pytest.mark.usefixtures("_without_watch")
def test_cpus_that_the_system_does_not_allow_are_left_alone(bound: frozenset[int]) -> None:
    """
    No machine has CPU 1,000,000: the worker goes on where it is.
    """
    WorkerInit(None, frozenset({1_000_000}))(0)
    assert os.sched_getaffinity(0) == {min(bound)}


def test_watch_is_a_daemon_that_knows_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A worker that is done need not wait for it.
    """
    seen: list[Any] = []
    called = threading.Event()

    def note(parent: int) -> None:
        thread = threading.current_thread()
        seen.extend((parent, thread.name, thread.daemon))
        called.set()

    monkeypatch.setattr(worker, "_end_with_parent", note)
    WorkerInit(None)(0)
    assert called.wait(PATIENCE_SECONDS)
    assert seen == [os.getppid(), "autoloader-parent", True]


class EndedError(Exception):
    """
    Stand for the end of a process.
    """


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """
    Let waiting take no time and the end be an exception; return how long each look would have waited.
    """
    waited: list[float] = []

    def end(code: int) -> None:
        raise EndedError(code)

    def wait(watched: list[Any], seconds: float) -> list[Any]:
        waited.append(seconds)
        return watched if len(waited) == 3 else []

    monkeypatch.setattr(worker, "wait", wait)
    monkeypatch.setattr(worker.os, "_exit", end)
    return waited


def test_watch_ends_the_process_when_the_parent_has_another_number(
    looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Forked siblings hold the pipe to the parent open, and the system gives orphans another parent.
    """
    parents = iter([7, 7, 1])
    monkeypatch.setattr(worker.os, "getppid", lambda: next(parents))
    with pytest.raises(EndedError, match="^1$"):
        worker._end_with_parent(7)
    assert looks == [worker.LOOK_SECONDS] * 2


def test_watch_ends_the_process_when_the_pipe_to_the_parent_ends(
    looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Windows never changes the number of a parent.
    """

    class Parent:
        sentinel = 5

    monkeypatch.setattr(worker, "parent_process", Parent)
    monkeypatch.setattr(worker.os, "getppid", lambda: 7)
    with pytest.raises(EndedError, match="^1$"):
        worker._end_with_parent(7)
    assert looks == [worker.LOOK_SECONDS] * 3


SCRIPT = """
import multiprocessing, os, sys, threading
from autoloader.engine.worker import WorkerInit

def work(ready):
    WorkerInit(None)(0)
    ready.send(os.getpid())
    threading.Event().wait()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    answers, ready = context.Pipe(duplex=False)
    children = [context.Process(target=work, args=(ready,)) for _ in range(2)]
    for child in children:
        child.start()
    print(*(answers.recv() for child in children), flush=True)
    children[0].join()
"""


def is_alive(process: psutil.Process) -> bool:
    """
    Return whether a process runs: who nobody waits for stays as a zombie.
    """
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool]) -> bool:
    """
    Return whether *condition* became true before the deadline.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


@pytest.mark.real_host
@pytest.mark.parametrize(
    "method",
    [
        pytest.param("fork", marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")),
        "spawn",
        pytest.param("forkserver", marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")),
    ],
)
def test_worker_ends_with_a_parent_that_is_killed(method: str, tmp_path: Any) -> None:
    """
    Two workers wait for ever in their main thread, and each looks for the parent that both have.
    """
    (tmp_path / "job.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "job.py"), method]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in job.stdout.readline().split()]
        try:
            assert [is_alive(each) for each in workers] == [True, True]
            job.kill()
            assert wait_until(lambda: not any(map(is_alive, workers)))
        finally:
            job.kill()
            for each in filter(is_alive, workers):
                each.kill()
