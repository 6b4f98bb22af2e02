"""
What the fork server imports before it serves: torch and numpy, which nearly every worker needs.

Ctrl-C is held back meanwhile. The server learns to ignore it only later, and its children are to get it as ever.
"""

import contextlib
import importlib
import signal
import sys

MODULES = ("torch", "numpy")
"""
Nothing of the user's: any error but ImportError there ends the server for everybody.
"""


def load() -> None:
    """
    Import what is installed of them.
    """
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def load_undisturbed() -> None:
    """
    Import them, and drop a SIGINT that comes meanwhile.
    """
    if sys.platform == "win32":
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        load()
    finally:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)


load_undisturbed()
