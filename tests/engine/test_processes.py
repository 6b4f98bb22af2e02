"""
Contexts that remember their processes, and end them by one deadline.
"""

import multiprocessing
import signal
import socket
import sys
import threading
import time
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import SimpleNamespace
from typing import Any

import pytest

from autoloader.engine import processes
from autoloader.engine.processes import WorkerGroup, recording_context
from autoloader.start.interrupts import let_through


class Clock:
    """
    A clock that moves when told.
    """

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_patience_is_one_deadline_for_all_joins() -> None:
    """
    The first join starts the clock; later ones get what is left of five seconds.
    """
    clock = Clock()
    group = WorkerGroup(clock)
    assert group.patience(5.0) == 5.0
    clock.now += 3.5
    assert (group.patience(5.0), group.patience(1.0)) == (1.5, 1.0)
    clock.now += 10
    assert group.patience(5.0) == 0.0
    assert group.patience(None) is None


NEEDS_FORK = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")


@pytest.mark.parametrize(
    "method", [pytest.param("fork", marks=NEEDS_FORK), "spawn", pytest.param("forkserver", marks=NEEDS_FORK)]
)
def test_recording_context_has_the_method_and_notes_each_process(method: str) -> None:
    """
    Queues, events and processes are the method's own; each process is in the group, with pid and exit code.
    """
    group = WorkerGroup()
    context = recording_context(method, group)
    assert context.get_start_method() == method
    process = context.Process(target=time.sleep, args=(0,))
    process.start()
    BaseProcess.join(process, 60)  # it loads torch, which may take longer than a group's deadline
    assert [(each.pid, each.exitcode) for each in group.processes] == [(process.pid, 0)]


def interrupt_at_the_end() -> None:
    """
    Let this process get Ctrl-C while it ends.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    let_through()
    Finalize(None, signal.raise_signal, (signal.SIGINT,), exitpriority=10)


@pytest.mark.parametrize("method", [pytest.param("fork", marks=NEEDS_FORK), "spawn"])
def test_worker_that_ends_ignores_another_interrupt(method: str) -> None:
    """
    Its exit code would be 1 otherwise, and a traceback would be printed.
    """
    group = WorkerGroup()
    process = recording_context(method, group).Process(target=interrupt_at_the_end)
    process.start()
    BaseProcess.join(process, 60)
    assert process.exitcode == 0


def tell_of_signals() -> None:
    """
    End with 3 where Python tells another process of this one's signals.
    """
    sys.exit(0 if signal.set_wakeup_fd(-1) == -1 else 3)


@NEEDS_FORK
def test_forked_worker_does_not_wake_the_event_loop_of_its_parent() -> None:
    """
    Both have the descriptor to which Python tells of signals.
    """
    told, tells = socket.socketpair()
    with told, tells:
        tells.setblocking(False)
        before = signal.set_wakeup_fd(tells.fileno())
        try:
            process = recording_context("fork", WorkerGroup()).Process(target=tell_of_signals)
            process.start()
        finally:
            signal.set_wakeup_fd(before)
        BaseProcess.join(process, 60)
    assert process.exitcode == 0


def test_recording_context_of_a_context_object_has_its_method() -> None:
    """
    A context that the user made by get_context() is recorded like its name.
    """
    context = recording_context(multiprocessing.get_context("spawn"), WorkerGroup())
    assert context.get_start_method() == "spawn"
    assert hasattr(context, "Process")


def test_context_of_the_users_own_making_is_used_as_it_is() -> None:
    """
    A class that is not multiprocessing's may do anything, so nothing is put around it.
    """

    class Own(type(multiprocessing.get_context("spawn"))):
        pass

    own: Any = Own()
    assert recording_context(own, WorkerGroup()) is own


class Waited:
    """
    Waits like Windows, which refuses more than 63 handles, and for all but some processes in vain.
    """

    def __init__(self, *ended: int) -> None:
        self.ended = set(ended)
        self.seen: list[int] = []
        self.seconds = 0.0

    def __call__(self, handles: list[int], seconds: float) -> list[int]:
        if len(handles) > 63:
            raise ValueError(f"need at most 63 handles, got a sequence of length {len(handles)}")
        self.seen += handles
        found = [handle for handle in handles if handle in self.ended]
        self.seconds += 0.0 if found else seconds
        return found


@pytest.mark.parametrize("count", [1, 63, 64, 130])
def test_wait_for_an_end_asks_windows_for_no_more_than_it_takes(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each of the processes is waited for, and all of them together no longer than asked.
    """
    members: Any = [SimpleNamespace(sentinel=number) for number in range(count)]
    monkeypatch.setattr(processes, "wait", in_vain := Waited())
    assert not processes.wait_for_an_end(members, 0.5)
    assert (in_vain.seen, in_vain.seconds) == ([*range(count)], pytest.approx(0.5))
    monkeypatch.setattr(processes, "wait", Waited(count - 1))
    assert processes.wait_for_an_end(members, 0.5)


def test_wait_for_an_end_sees_that_of_a_process() -> None:
    """
    Other ones may go on.
    """
    context = recording_context(multiprocessing.get_all_start_methods()[0], WorkerGroup())
    members = [context.Process(target=time.sleep, args=(seconds,), daemon=True) for seconds in (3600, 0)]
    for member in members:
        member.start()
    assert processes.wait_for_an_end(members, 60)
    assert members[0].is_alive()
    processes.kill(members)


def ignore_terminate(ready: Any) -> None:
    """
    Be a process that SIGTERM does not end.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.set()
    time.sleep(3600)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signal: terminate is kill")
def test_end_kills_what_does_not_terminate(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After the deadline comes terminate, and after that kill.
    """
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(processes, "KILL_SECONDS", 0.05)
    group = WorkerGroup()
    context = recording_context("fork", group)
    ready = context.Event()
    process = context.Process(target=ignore_terminate, args=(ready,), daemon=True)
    process.start()
    assert ready.wait(30)
    group.end()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signal: terminate is kill")
def test_join_that_has_no_limit_kills_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    So ends Python each process that is left at its exit, and would wait for a stopped one for ever.
    """
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.05)
    context = recording_context("fork", WorkerGroup())
    ready = context.Event()
    process = context.Process(target=ignore_terminate, args=(ready,), daemon=True)
    process.start()
    assert ready.wait(30)
    process.terminate()
    thread = threading.Thread(target=process.join, daemon=True)
    thread.start()
    thread.join(60)
    is_waiting = thread.is_alive()
    process.kill()
    assert not is_waiting
    assert process.exitcode == -signal.SIGKILL
