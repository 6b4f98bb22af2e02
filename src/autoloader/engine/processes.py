"""
Start methods that remember the processes they start, and end all of them by one deadline.
"""

import functools
import multiprocessing
import signal
import sys
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import context
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from os import getpid
from time import monotonic
from typing import Any

from ..start.interrupts import held, ignore
from ..start.method import prepare
from .queues import WorkerQueue, wait_for_threads

CLOSE_SECONDS = 5.0
"""
What all workers together get to end by themselves; torch gives as much to each one after the other.
"""

KILL_SECONDS = 1.0

MOST_HANDLES = 63
"""
How many processes Windows waits for at a time, beside Ctrl-C. Source: CPython, Modules/_winapi.c,
``WaitForMultipleObjects``.
"""


class WorkerStartError(Exception):
    """
    Say that a worker process could not be started.
    """


class WorkerGroup:
    """
    The processes that one DataLoader started, as long as something else holds them: torch does while they run.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._members: weakref.WeakSet[BaseProcess] = weakref.WeakSet()
        self._clock = clock
        self._deadline: float | None = None
        self._owner = getpid()

    @property
    def is_inherited(self) -> bool:
        """
        Return whether these are the children of another process, from which this one was forked.
        """
        return getpid() != self._owner

    @property
    def processes(self) -> list[BaseProcess]:
        """
        Return the processes.
        """
        return list(self._members)

    def add(self, process: BaseProcess) -> None:
        """
        Take a process into the group.
        """
        process.group = self  # type: ignore[attr-defined]
        self._members.add(process)

    def patience(self, timeout: float | None) -> float | None:
        """
        Return how long a join may still wait; the deadline of all begins with the first join that has a time-out.
        """
        if timeout is None:
            return None
        if self._deadline is None:
            self._deadline = self._clock() + CLOSE_SECONDS
        return max(0.0, min(timeout, self._deadline - self._clock()))

    def end(self, *, at_once: bool = False) -> None:
        """
        End whatever still runs: wait until the deadline, then terminate, then kill.

        Args:
            at_once: Whether to terminate them without a wait, as nothing was asked of them yet.
        """
        for process in [] if at_once else self._alive():
            process.join(CLOSE_SECONDS)
        alive = self._alive()
        for process in alive:
            process.terminate()
        for process in alive:
            BaseProcess.join(process, KILL_SECONDS)
        kill(alive)

    def _alive(self) -> list[BaseProcess]:
        return [process for process in self._members if process.is_alive()]


def wait_for_an_end(processes: Sequence[BaseProcess], seconds: float) -> bool:
    """
    Wait until a process has ended, and return whether one was seen to, after so many seconds at the latest.

    More of them than Windows waits for at a time have their turns, a part of the time each.
    """
    sentinels = [process.sentinel for process in processes]
    turns = [sentinels[begin : begin + MOST_HANDLES] for begin in range(0, len(sentinels), MOST_HANDLES)]
    return any(wait(turn, seconds / len(turns)) for turn in turns)


def kill(processes: Sequence[BaseProcess]) -> None:
    """
    End what was told to end and still runs: it is stopped, or has a handler of its own for the signal.
    """
    alive = [process for process in processes if process.is_alive()]
    for process in alive:
        process.kill()
    for process in alive:
        BaseProcess.join(process, KILL_SECONDS)


class _Member:
    """
    A process of a group: its joins end by the group's deadline. The group stays behind when it is pickled.

    In a process that was forked from the one that started it, it counts as gone: only its parent may wait for it, and
    nobody else should end it.
    """

    group: WorkerGroup | None = None

    def start(self) -> None:
        try:
            with held(self._start_method):  # type: ignore[attr-defined]
                super().start()  # type: ignore[misc]
        except Exception as error:
            raise WorkerStartError(f"{type(error).__name__}: {error}") from error

    def run(self) -> None:
        """
        Work; a second Ctrl-C then finds a worker that ends by itself.
        """
        signal.set_wakeup_fd(-1)  # a forked worker would wake the event loop of its parent
        try:
            super().run()  # type: ignore[misc]
        finally:
            ignore()

    def join(self, timeout: float | None = None) -> None:
        if self.group is not None and self.group.is_inherited:
            return
        if timeout is None:  # Python is ending, and has terminated it
            super().join(CLOSE_SECONDS)  # type: ignore[misc]
            kill([self])  # type: ignore[list-item]
        super().join(timeout if self.group is None else self.group.patience(timeout))  # type: ignore[misc]

    def is_alive(self) -> bool:
        if self.group is not None and self.group.is_inherited:
            return False
        # Where SIGCHLD is ignored the system keeps no exit code, and only the sentinel tells of the end.
        return bool(super().is_alive()) and not wait([self.sentinel], 0)  # type: ignore[misc, attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "group"}


class SpawnMember(_Member, context.SpawnProcess):
    """
    A worker started by spawn. Its Python ends as a script's does, where the others' processes end at once.
    """

    def run(self) -> None:
        """
        Work, and let what is on its way back be sent.
        """
        super().run()
        wait_for_threads(each for each in self._args if isinstance(each, WorkerQueue))  # type: ignore[attr-defined]


MEMBERS: dict[str, Any] = {"spawn": SpawnMember}

if sys.platform != "win32":

    class ForkMember(_Member, context.ForkProcess):
        """
        A worker started by fork.
        """

    class ForkServerMember(_Member, context.ForkServerProcess):
        """
        A worker started by the fork server.
        """

    MEMBERS.update(fork=ForkMember, forkserver=ForkServerMember)


def disown() -> None:
    """
    In a process that was just forked: forget whose children were its parent's, which Python would end at its exit.
    """
    children: set[Any] = multiprocessing.process._children  # type: ignore[attr-defined]
    children.difference_update([each for each in children if isinstance(each, _Member)])


@functools.cache
def _recording_class(method: str) -> Any:
    """
    Return the class of contexts for a start method whose processes join a group, and whose queues tell what they lose.
    """
    base, member = type(multiprocessing.get_context(method)), MEMBERS[method]

    class RecordingContext(base):  # type: ignore[valid-type, misc]
        def __init__(self, group: WorkerGroup) -> None:
            self._group = group
            self._results: weakref.ref[WorkerQueue] | None = None

        def Event(self) -> Any:  # noqa: N802 (multiprocessing's name)
            event = super().Event()
            from .events import PatientEvent  # whose module cannot be imported where a system has no semaphores

            event.__class__ = PatientEvent
            return event

        def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:  # noqa: N802 (multiprocessing's name)
            process: BaseProcess = member(*args, **kwargs)
            self._group.add(process)
            return process

        def Queue(self, maxsize: int = 0) -> WorkerQueue:  # noqa: N802 (multiprocessing's name)
            queue = WorkerQueue(maxsize, ctx=self.get_context())
            if self._results is None:
                self._results = weakref.ref(queue)  # torch makes the one for the batches first
            else:
                queue.results = self._results
            return queue

    return RecordingContext


def recording_context(wanted: Any, group: WorkerGroup) -> Any:
    """
    Return a context like the one that is wanted, whose processes join *group*.

    A context of the user's own making is returned as it is.
    """
    base = wanted if isinstance(wanted, BaseContext) else multiprocessing.get_context(wanted)
    method = base.get_start_method()
    if method not in MEMBERS or type(base) is not type(multiprocessing.get_context(method)):
        return wanted
    prepare(method)
    return _recording_class(method)(group)
