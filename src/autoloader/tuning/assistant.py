"""
Asks the child of a calibration, and ends it with all its workers when the time is up.
"""

import contextlib
import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
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
"""
How long the end of a child is waited for that was told to end, was killed, or has closed its connection.
"""

TURN_SECONDS = 0.1


class AssistantError(Exception):
    """
    Say why there is no answer.
    """


class OutOfTimeError(AssistantError):
    """
    Say that an answer did not come in time.
    """


class NoBatchError(AssistantError):
    """
    Say that the dataset gives no batch.
    """


class ChildDiedError(AssistantError):
    """
    Say that the child has ended, which nobody asked it to.
    """


class CannotStartError(AssistantError):
    """
    Say that the child cannot be started.
    """


class Assistant:
    """
    A child process that measures.

    Args:
        method: How it starts: ``fork``, ``forkserver`` or ``spawn``.
        subject: What it measures.
        deadline: When it is ended, on the clock of ``time.monotonic``.
        while_waiting: Called several times a second while an answer is waited for; what it raises ends the wait.
    """

    def __init__(
        self, method: str, subject: Subject, deadline: float, while_waiting: Callable[[], object] = lambda: None
    ) -> None:
        self._method, self._subject = method, subject
        self._deadline, self._while_waiting = deadline, while_waiting
        self._is_asked = False

    def __enter__(self) -> "Self":
        context = multiprocessing.get_context(self._method)
        self._connection, other = context.Pipe()
        inherited = self._connection if self._method == "fork" else None
        self._process: Any = context.Process(target=serve, args=(other, self._subject, inherited))  # type: ignore[attr-defined]
        try:
            self._start()
            other.close()
            self._receive("the process that measures did not start")
        except BaseException:
            self._end()
            raise
        return self

    def _start(self) -> None:
        try:
            prepare(self._method)
            with held(self._method):
                self._process.start()
        except Exception as error:  # the user's objects may raise anything when they are pickled
            raise CannotStartError(f"{type(error).__name__}: {error}") from error

    def ask(self, question: str, *arguments: Any, **named: Any) -> Any:
        """
        Return the answer to a question, a method of the laboratory.

        Raises:
            AssistantError: It has none; the text is the dataset's own traceback if that has raised.
            ChildDiedError: The child has ended.
            NoBatchError: The dataset gives no batch.
            OutOfTimeError: The deadline has passed.
        """
        self._is_asked = True
        try:
            self._connection.send((question, arguments, named))
        except OSError:
            raise ChildDiedError(self._death()) from None
        return self._receive("no batch came")

    def batch(self) -> Any:
        """
        Return a batch that the child has loaded, as an object of this process.

        Raises:
            AssistantError: There is none, or it cannot be sent.
        """
        return torch.load(io.BytesIO(self.ask("batch")), weights_only=False)

    def _receive(self, otherwise: str) -> Any:
        while not wait([self._connection, self._process.sentinel], TURN_SECONDS):
            self._while_waiting()
            if monotonic() > self._deadline:
                raise OutOfTimeError(otherwise)
        try:
            if not self._connection.poll():
                raise ChildDiedError(self._death())
            is_good, answer = self._connection.recv()
            self._is_asked = False
        except (EOFError, OSError):
            raise ChildDiedError(self._death()) from None
        if not is_good:
            raise NoBatchError("the dataset gave no batch") if answer is None else AssistantError(answer.strip())
        return answer

    def _death(self) -> str:
        self._process.join(END_SECONDS)
        return f"the process that measures ended with exit code {self._process.exitcode}"

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _end(self) -> None:
        """
        End the child and its workers, the group that it leads; another Ctrl-C waits until that is done.
        """
        try:
            with held("fork"):
                self._kill()
        except BaseException:  # Ctrl-C by way of another thread, which does not hold it back, or a handler's own
            self._kill()
            raise

    def _kill(self) -> None:
        """
        Let a child at work end its workers, and free what it shares with them; then kill what is left of its group.
        """
        self._connection.close()
        with contextlib.suppress(ValueError):  # it is closed, or the system does not let it end yet
            if self._process.pid is None:
                return
            if sys.platform != "win32":
                if self._is_asked:
                    self._process.terminate()
                    wait([self._process.sentinel], END_SECONDS)  # no join: nobody else may get its number yet
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join(END_SECONDS)
            self._process.close()
