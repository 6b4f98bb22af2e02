"""
What runs in the child that tries to load what a worker would have to load.
"""

import contextlib
import importlib
import pickle
import signal
from functools import reduce
from multiprocessing.connection import Connection


def answer(connection: Connection) -> None:
    """
    For each pickle that arrives, say why it cannot be loaded; nothing where it can. End when the other side does.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError), connection:
        connection.send("")
        while True:
            connection.send(_problem(connection.recv_bytes()))


def _problem(data: bytes) -> str:
    try:
        pickle.loads(data)  # noqa: S301 (the parent's own)
    except BaseException as error:  # noqa: BLE001 (loading runs code of the user's, which may raise anything)
        return f"{type(error).__name__}: {error}"
    return ""


def look_up(*names: tuple[str, str]) -> None:
    """
    Find classes and functions by module and name: what is left of unpickling something too large to be sent.
    """
    for module, name in names:
        reduce(getattr, name.split("."), importlib.import_module(module))
