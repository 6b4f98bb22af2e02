"""
Keeps Ctrl-C away from children that are not ready for it.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

_here = threading.local()
"""
What was blocked in this thread before signals were held; a forked child has it from the thread that forked.
"""


@contextlib.contextmanager
def held(method: str) -> Iterator[None]:
    """
    Hold SIGINT back in this thread while a child starts. The child inherits that, and lets the signal through itself.

    For a forked one also SIGTERM: before it has a handler of its own it has the training process's, which may write a
    checkpoint.

    Children of the fork server inherit from the server, so that holding would only make this process deaf meanwhile.

    A terminal sends Ctrl-C to all processes of a job. A child that is still importing would answer with a traceback
    beside the one of the training process. Windows has nothing of the kind.
    """
    if sys.platform == "win32" or method == "forkserver":
        yield
        return
    signals = {signal.SIGINT, signal.SIGTERM} if method == "fork" else {signal.SIGINT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        _here.blocked_before = before
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # which may raise an interrupt once they are blocked
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through() -> None:
    """
    Let signals through again, in a child that was started while they were held; not what the user had blocked before.

    A child that was not forked cannot know what that was: only SIGINT was held for it.
    """
    if sys.platform != "win32":
        held_back = {signal.SIGINT, signal.SIGTERM} - getattr(_here, "blocked_before", {signal.SIGTERM})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held_back)


def ignore() -> None:
    """
    Ignore SIGINT from now on, in a child that ends by itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
