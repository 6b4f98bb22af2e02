"""
What is said of a worker from which the batch that is due does not come.
"""

import logging
import reprlib
from statistics import median
from typing import NamedTuple

from ..engine.inner import InnerLoader
from ..engine.watch import Silence
from ..findings import describe
from ..processes import read_process
from .statistics import EpochRecorder

logger = logging.getLogger("autoloader")

LEAST_SECONDS = 60.0
MEDIANS = 20
STARTING_FACTOR = 3
"""
How long a batch may take before it is told of: a minute, or 20 medians of the waits before; three minutes for the first
one of some workers, which may still import what they need.
"""


class _Seen(NamedTuple):
    """
    What is known of a silent worker, in words.
    """

    pid: int
    state: str
    indices: str
    stack: str


class SilenceReport:
    """
    Says where a silent worker is, first after some time and then each time that this time has doubled.

    Args:
        inner: Whose workers are waited for.
        record: The waits so far.
    """

    def __init__(self, inner: InnerLoader, record: EpochRecorder) -> None:
        self._inner = inner
        self._record = record
        self._served_before = record.batches
        self._next_seconds: float | None = None
        self._last_seconds = 0.0
        self._last: Silence | None = None

    def note(self, silence: Silence) -> None:
        """
        Note that the wait goes on, and say so if that is due.
        """
        if self._next_seconds is None or silence.seconds < self._last_seconds:
            self._next_seconds = self._patience()
        self._last_seconds, self._last = silence.seconds, silence
        if silence.seconds >= self._next_seconds:
            self._next_seconds = 2 * silence.seconds
            logger.warning("%s", self.describe(silence))

    def describe_last(self) -> str | None:
        """
        Return where the worker is that was waited for when the user's time was over; ``None`` if that is not known.
        """
        if self._last is None:
            return None
        seen = self._look(self._last)
        return describe("worker.timed-out", pid=seen.pid, state=seen.state, indices=seen.indices, stack=seen.stack)

    def _patience(self) -> float:
        waits, _ = self._record.recent()
        if not waits or self._record.batches == self._served_before:
            return LEAST_SECONDS * STARTING_FACTOR
        return max(LEAST_SECONDS, MEDIANS * median(waits))

    def describe(self, silence: Silence) -> str:
        """
        Return what is known of a worker that is waited for.
        """
        seen, seconds = self._look(silence), f"{silence.seconds:.0f}"
        return describe(
            "worker.silent",
            seconds=seconds,
            pid=seen.pid,
            state=seen.state,
            indices=seen.indices,
            stack=seen.stack,
        )

    def _look(self, silence: Silence) -> _Seen:
        """
        Return what is known of the worker, its stack first asked for.
        """
        inner = self._inner
        outstanding = {} if inner.issued is None else inner.issued.outstanding
        due, use = min(outstanding, default=None), read_process(silence.pid)
        stack = None if inner.stacks is None else inner.stacks.ask(silence.pid)
        state = "gone" if use is None else (use.state or "in an unknown state")
        if stack is None and state == "stopped":
            stack = f"  (it was stopped by a signal, and tells no stack; 'kill -CONT {silence.pid}' lets it go on)"
        return _Seen(
            pid=silence.pid,
            state=state,
            indices="not known" if due is None else reprlib.repr(outstanding[due]),
            stack="  (no stack could be read; it may still be starting)" if stack is None else stack,
        )
