"""
Where a worker is that does not answer, and where one was that crashed: its stack, which C code writes on a signal.
"""

import contextlib
import faulthandler
import os
import signal
import sys
from multiprocessing import Pipe
from multiprocessing.connection import wait
from time import monotonic
from typing import Any

ANSWER_SECONDS = 2.0
"""
What a worker gets to write its stack; one in an uninterruptible wait for a disk cannot.
"""

SIGNAL: int | None = getattr(signal, "SIGURG", None) if hasattr(faulthandler, "register") else None
"""
A signal that does nothing where nobody asked for it. Windows has none.
"""


class StackPipe:
    """
    A pipe through which workers write their stacks when they are asked to.

    It travels to each worker, which keeps the end to write to; the training process keeps the other.
    """

    def __init__(self) -> None:
        self._reader: Any = None  # a Connection, or on Windows nothing
        self._writer: Any = None
        if SIGNAL is not None:
            self._reader, self._writer = Pipe(duplex=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"_reader": None, "_writer": self._writer}

    def register(self) -> None:
        """
        In a worker: write the stacks of all threads to the pipe when it is asked, and when it crashes.

        Torch's own handlers of a crash, which print one line, run after that.
        """
        if sys.platform != "win32" and SIGNAL is not None and self._writer is not None:
            os.set_blocking(self._writer.fileno(), False)
            faulthandler.register(SIGNAL, self._writer.fileno(), all_threads=True, chain=False)
            faulthandler.disable()  # or it would stay as it is, if the environment has enabled it
            faulthandler.enable(self._writer.fileno())

    def ask(self, pid: int) -> str | None:
        """
        Return the stack of a worker's main thread down to torch's loop, the innermost call first.

        ``None`` where the system has no such signal, or the worker does not answer in time.
        """
        if SIGNAL is None or self._reader is None:
            return None
        self._read_all()
        with contextlib.suppress(OSError):
            os.kill(pid, SIGNAL)
        deadline, text = monotonic() + ANSWER_SECONDS, ""
        while not text and wait([self._reader], max(0.0, deadline - monotonic())):
            text += self._read_all()
        return _main_stack(text)

    def last_words(self) -> str | None:
        """
        Return the stack that a worker wrote when it crashed.
        """
        return _main_stack(self._read_all())

    def _read_all(self) -> str:
        """
        Return what lies in the pipe, after the moment that a writer may need between two lines.
        """
        found = b""
        while self._reader is not None and wait([self._reader], 0.05):
            piece = os.read(self._reader.fileno(), 1 << 16)
            if not piece:
                break
            found += piece
        return found.decode("utf-8", "replace")

    def close(self) -> None:
        """
        Close both ends in this process.
        """
        for end in (self._reader, self._writer):
            if end is not None:
                end.close()
        self._reader = self._writer = None


def _main_stack(text: str) -> str | None:
    """
    Return the lines of the last stack that ``faulthandler`` writes, which is the main thread's, to torch's loop.

    Source: CPython, Python/traceback.c, ``_Py_DumpTracebackThreads`` (the newest thread first).
    """
    lines = text.rstrip().rpartition("most recent call first):\n")[2].splitlines()
    ends = (place for place, line in enumerate(lines) if "_worker_loop" in line)
    return "\n".join(lines[: next(ends, len(lines))]) or None
