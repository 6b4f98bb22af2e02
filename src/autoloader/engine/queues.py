"""
Queues between the training process and its workers that tell what could not be sent, where Python's would be silent.
"""

import io
import os
import queue
import select
import sys
import threading
import weakref
from collections.abc import Iterable
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from time import monotonic
from typing import Any

from torch._utils import ExceptionWrapper

from ..errors import CannotSendError
from ..findings import describe
from .delivery import Delivery
from .issue import IN_WORKER

_select: Any = select
_make_poller = getattr(select, "poll", None)  # now: libraries such as eventlet take it out of the module later
HAS_POLL = _make_poller is not None


class WorkerQueue(Queue):  # type: ignore[type-arg]
    """
    A queue of torch's pairs: a batch's number, and its indices on the way out or its data on the way back.

    A thread pickles them. If it cannot, Python prints a traceback and drops the pair, and whoever waits for it waits
    for ever; here an error travels in its place.

    Indices need no thread as long as they are short. The thread would hold up the training process, and be held up, at
    each system call after which they both want the interpreter's lock.
    """

    results: "weakref.ref[WorkerQueue] | None" = None
    """The queue on which the training process waits, where this is another one; not known in workers."""

    _has_room: "_Poll | None" = None

    def _reset(self, after_fork: bool = False) -> None:
        """
        Wait by a poller that stays: Python's own connection makes one for each message.
        """
        super()._reset(after_fork)  # type: ignore[misc]
        if make_patient(self) is not None:
            self._poll = _Poll(self._reader.fileno())  # type: ignore[attr-defined]
            self._has_room = _Poll(self._writer.fileno(), "POLLOUT")  # type: ignore[attr-defined]

    def put(self, pair: Any, block: bool = True, timeout: float | None = None) -> None:
        """
        Send indices at once if that takes no wait; note with an error, in a worker, which batch it is of.
        """
        if self.results is not None:
            if self._send_at_once(pair):
                return
        elif type(pair) is tuple and isinstance(pair[1], ExceptionWrapper):
            note_position(pair[1], IN_WORKER.position)
        super().put(pair, block, timeout)

    def _send_at_once(self, pair: Any) -> bool:
        """
        Send a pair without the thread, and return whether it is sent.

        A pipe that has room takes ``PIPE_BUF`` bytes in one step, without a wait. The first pair that is longer, or for
        which there is no room, starts the thread, and all others follow it.
        """
        if self._closed or self._thread is not None or self._has_room is None:  # type: ignore[attr-defined]
            return False
        if not _is_plain(pair):
            return False
        message = ForkingPickler.dumps(pair)
        if len(message) > _select.PIPE_BUF - LENGTH_BYTES or not self._has_room():
            return False
        self._sem.acquire()  # type: ignore[attr-defined]
        self._send_bytes(message)  # type: ignore[attr-defined]
        return True

    def close(self) -> None:
        """
        Close the pipe, too, of a queue to a worker: otherwise the thread does that.
        """
        super().close()
        if self.results is not None and self._thread is None:  # type: ignore[attr-defined]
            self._reader.close()  # type: ignore[attr-defined]
            self._writer.close()  # type: ignore[attr-defined]

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


def wait_for_threads(queues: Iterable[Any]) -> None:
    """
    Wait until the threads of closed queues have ended: it does them no good if Python ends before.

    One that computes with torch just then would abort the process, and one that lets go of the last named semaphore
    would leave it to be reported as leaked. Where nobody reads any more what is left to send, there is no wait for it.
    """
    deadline = monotonic() + THREAD_SECONDS
    for each in queues:
        thread = getattr(each, "_thread", None)
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - monotonic()))


THREAD_SECONDS = 1.0
"""
What all threads together get to send what they have begun to pickle.
"""


def _is_plain(pair: Any) -> bool:
    """
    Return whether to pickle a pair calls nothing of the user's: its indices are numbers or text, or it is torch's own.
    """
    if type(pair) is not tuple:
        return True
    indices = pair[1][0] if isinstance(pair[1], tuple) else pair[1]
    return PLAIN.issuperset(map(type, indices if type(indices) is list else (indices,)))


PLAIN = frozenset({int, str, type(None)})
"""
Classes whose objects are pickled without a call of anything in Python.
"""

LENGTH_BYTES = 4
"""
What a pipe gets in front of each message, together with it.
"""


class _Poll:
    """
    Whether a message comes, or with POLLOUT one fits in, within some seconds; ``None`` for any time.
    """

    def __init__(self, handle: int, event: str = "POLLIN") -> None:
        self._poller: Any = _make_poller()  # type: ignore[misc]
        self._poller.register(handle, getattr(_select, event))

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
    The reading end of a queue whose writers may die or stop, and whose reader may be interrupted; the queue closes it.

    Where a writer died in the middle of a message, the rest never comes, nor an end of the pipe, as other writers hold
    it open: so there is no message then, as in an empty queue, and whoever reads can look around. What has come of one
    is kept, and the next call goes on there.
    """

    def __init__(self, handle: int) -> None:
        super().__init__(handle, writable=False)
        self.taken = 0
        """Messages that were read to their end."""
        self._poll_here = _Poll(handle)
        self._parts: list[io.BytesIO] = []
        """What has come of a message: its length, and itself, each complete but for the last one."""
        self._place = 0

    def _close(self, *_: Any) -> None:
        pass

    def _recv_bytes(self, maxsize: int | None = None) -> io.BytesIO | None:
        self._place = 0
        message: io.BytesIO | None = super()._recv_bytes(maxsize)  # type: ignore[misc]
        self._parts, self.taken = [], self.taken + 1
        return message

    def _recv(self, size: int, read: Any = None) -> io.BytesIO:  # noqa: ARG002 (Connection's signature)
        is_first = not self._parts
        if self._place == len(self._parts):
            self._parts.append(io.BytesIO())
        part = self._parts[self._place]
        while part.tell() < size:
            if not is_first and not self._poll_here(PATIENCE_SECONDS):
                raise queue.Empty
            is_first, wanted = False, min(size - part.tell(), MOST_BYTES)
            # In one step, as a signal's handler that runs between the two may raise: the bytes would be lost.
            if not next(map(part.write, map(os.read, (self._handle,), (wanted,)))):  # type: ignore[attr-defined]
                raise EOFError("all workers have closed the pipe")
        self._place += 1
        return part


PATIENCE_SECONDS = 0.2
"""
How long the rest of a message is waited for at a time.
"""

MOST_BYTES = 1 << 16
"""
Bytes that are asked for at once: seldom do more lie in a pipe.
"""


def make_patient(messages: Any) -> PatientConnection | None:
    """
    Let a queue that nobody reads yet wait for no more than what is there, and return how it reads.

    ``None`` where its pipe is of another kind, as on Windows.
    """
    known = getattr(getattr(messages, "_recv_bytes", None), "__self__", None)
    if type(known) is PatientConnection:
        return known
    if type(known) is not Connection or not HAS_POLL or sys.platform == "win32":
        return None
    patient = PatientConnection(known.fileno())
    messages._recv_bytes = patient.recv_bytes
    return patient
