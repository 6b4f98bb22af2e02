"""
Asks the child of a calibration, and ends it with all its workers when the time is up.
"""

import contextlib
import io
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import wait
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch

from ..start.interrupts import held
from ..start.method import prepare
from .laboratory import Subject, serve

if TYPE_CHECKING:
    from typing_extensions import Self

END_SECONDS = 1.0


class AssistantError(Exception):
    """
    Say why there is no answer.
    """


class OutOfTimeError(AssistantError):
    """
    Say that an answer did not come in time.
    """


class Assistant:
    """
    A child process that measures.

    Args:
        method: How it starts: ``fork``, ``forkserver`` or ``spawn``.
        subject: What it measures.
        deadline: When it is ended, on the clock of ``time.monotonic``.
    """

    def __init__(self, method: str, subject: Subject, deadline: float) -> None:
        self._method, self._subject = method, subject
        self._deadline = deadline

    def __enter__(self) -> "Self":
        context = multiprocessing.get_context(self._method)
        try:
            prepare(self._method)
            self._connection, other = context.Pipe()
            self._process: Any = context.Process(target=serve, args=(other, self._subject))  # type: ignore[attr-defined]
            with held(self._method):
                self._process.start()
        except Exception as error:
            raise AssistantError(f"{type(error).__name__}: {error}") from error
        other.close()
        try:
            self._receive("the process that measures did not start")
        except BaseException:
            self._end()
            raise
        return self

    def ask(self, question: str, *arguments: Any, **named: Any) -> Any:
        """
        Return the answer to a question, a method of the laboratory.

        Raises:
            AssistantError: It has none; the text is the dataset's own traceback if that has raised.
            OutOfTimeError: The deadline has passed.
        """
        try:
            self._connection.send((question, arguments, named))
        except OSError:
            raise AssistantError(self._death()) from None
        return self._receive("no batch came")

    def batch(self) -> Any:
        """
        Return a batch that the child has loaded, as an object of this process.

        Raises:
            AssistantError: There is none, or it cannot be sent.
        """
        return torch.load(io.BytesIO(self.ask("batch")), weights_only=False)

    def _receive(self, otherwise: str) -> Any:
        left = max(0.0, self._deadline - monotonic())
        try:
            if not wait([self._connection, self._process.sentinel], left):
                raise OutOfTimeError(otherwise)
            if not self._connection.poll():
                raise AssistantError(self._death())
            is_good, answer = self._connection.recv()
        except (EOFError, OSError):
            raise AssistantError(self._death()) from None
        if not is_good:
            raise AssistantError("there is no batch to load" if answer is None else answer)
        return answer

    def _death(self) -> str:
        self._process.join(END_SECONDS)
        return f"the process that measures ended with exit code {self._process.exitcode}"

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _end(self) -> None:
        """
        End the child and its workers: the group that it leads.
        """
        self._connection.close()
        if not self._is_stuck():
            self._process.join(END_SECONDS)
        if sys.platform != "win32" and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._process.close()

    def _is_stuck(self) -> bool:
        return monotonic() >= self._deadline
