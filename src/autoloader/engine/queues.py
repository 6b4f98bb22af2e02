"""
Queues between the training process and its workers that tell what could not be sent, where Python's would be silent.
"""

import io
import os
import select
import sys
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from typing import Any

from torch._utils import ExceptionWrapper

from ..errors import CannotSendError
from ..findings import describe
from .delivery import Delivery
from .issue import IN_WORKER

_select: Any = select
HAS_POLL = hasattr(select, "poll")


class WorkerQueue(Queue):  # type: ignore[type-arg]
    """
    A queue of torch's pairs: a batch's number, and its indices on the way out or its data on the way back.

    A thread pickles them. If it cannot, Python prints a traceback and drops the pair, and whoever waits for it waits
    for ever; here an error travels in its place.
    """

    results: "weakref.ref[WorkerQueue] | None" = None
    """The queue on which the training process waits, where this is another one; not known in workers."""

    def _reset(self, after_fork: bool = False) -> None:
        """
        Wait by a poller that stays: Python's own connection makes one for each message.
        """
        super()._reset(after_fork)  # type: ignore[misc]
        if HAS_POLL:
            self._poll = _Poll(self._reader.fileno())  # type: ignore[attr-defined]

    def put(self, pair: Any, block: bool = True, timeout: float | None = None) -> None:
        """
        Note with an error, in a worker, which batch it is of.
        """
        if self.results is None and type(pair) is tuple and isinstance(pair[1], ExceptionWrapper):
            note_position(pair[1], IN_WORKER.position)
        super().put(pair, block, timeout)

    def _on_queue_feeder_error(self, error: BaseException, pair: Any) -> None:
        """
        Send the error to where the training process waits.
        """
        queue = self if self.results is None else self.results()
        try:
            number, data = pair
        except (TypeError, ValueError):
            number = data = None
        if queue is None or not isinstance(number, int):
            super()._on_queue_feeder_error(error, pair)  # type: ignore[misc]
            return
        queue.put((number, _in_place_of(data, error)))


class _Poll:
    """
    Whether a message comes within some seconds; ``None`` for any time.
    """

    def __init__(self, handle: int) -> None:
        self._poller = _select.poll()
        self._poller.register(handle, _select.POLLIN)

    def __call__(self, timeout: float | None = 0.0) -> bool:
        return bool(self._poller.poll(None if timeout is None else max(0.0, timeout * 1000)))


def note_position(error: ExceptionWrapper, position: int | None) -> None:
    """
    Note which batch an error is of, unless that is known already.
    """
    error.__dict__.setdefault(POSITION, position)


def position_of(data: Any) -> int | None:
    """
    Return which batch an error is of, ``None`` for data, and where it is not known.
    """
    found: int | None = data.__dict__.get(POSITION) if isinstance(data, ExceptionWrapper) else None
    return found


POSITION = "autoloader_position"


def _in_place_of(data: Any, error: BaseException) -> ExceptionWrapper:
    """
    Return what the training process raises for data that cannot be pickled.

    An exception of the dataset's keeps its whole text, and comes as a RuntimeError.
    """
    if isinstance(data, ExceptionWrapper):
        data.exc_type = RuntimeError
        return data
    if isinstance(error, (OSError, RuntimeError)):  # shared memory or open files, which tensors need on their way
        wrapper = ExceptionWrapper((type(error), error, error.__traceback__), where=f"in process {os.getpid()}")  # type: ignore[no-untyped-call]
        note_position(wrapper, getattr(data, "position", None))
        return wrapper
    reason = f"{type(error).__name__}: {error}"
    if isinstance(data, Delivery):
        text = describe("worker.cannot-send", what=type(data.batch).__name__, reason=reason, pid=os.getpid())
    else:
        text = describe("worker.cannot-get-indices", reason=reason)
    found = CannotSendError(text)
    wrapper = ExceptionWrapper((type(found), found, None), where=f"in process {os.getpid()}")  # type: ignore[no-untyped-call]
    note_position(wrapper, getattr(data, "position", None))
    return wrapper


class PatientConnection(Connection):
    """
    The end of a pipe that is read while writers may die.

    Where a writer died in the middle of a message, the rest never comes, nor an end of the pipe, as other writers hold
    it open: so it looks around then.
    """

    gives_up: Callable[[], bool]
    """Asked again and again while the rest of a message does not come."""
    poll_here: _Poll

    def _recv(self, size: int, read: Any = None) -> io.BytesIO:  # noqa: ARG002 (Connection's signature)
        message = io.BytesIO()
        while size > 0:
            try:
                found = os.read(self._handle, size)  # type: ignore[attr-defined]
            except BlockingIOError:
                self._wait_for_the_rest()
                continue
            if not found:
                raise EOFError("all workers have closed the pipe")
            message.write(found)
            size -= len(found)
        return message

    def _wait_for_the_rest(self) -> None:
        while not self.poll_here(PATIENCE_SECONDS):
            if self.gives_up():
                raise EOFError("a worker ended in the middle of a message")


PATIENCE_SECONDS = 0.2


def make_patient(reader: Any, gives_up: Callable[[], bool]) -> PatientConnection | None:
    """
    Let the reading end of a queue notice that a writer died; ``None`` where it is of another kind, as on Windows.

    It has to be the plain connection until the workers have got theirs: multiprocessing knows how to send only that.
    """
    if type(reader) is not Connection or not HAS_POLL or sys.platform == "win32":
        return None
    reader.__class__ = PatientConnection
    patient: Any = reader
    patient.gives_up, patient.poll_here = gives_up, _Poll(reader.fileno())
    os.set_blocking(reader.fileno(), False)
    found: PatientConnection = patient
    return found
