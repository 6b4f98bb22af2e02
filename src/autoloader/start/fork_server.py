"""
The fork server of this process: one for all loaders, with torch and numpy loaded before the first worker needs them.
"""

import multiprocessing
from typing import Any

PRELOADED = (f"{__package__}.preload",)
"""
The module that loads them.
"""


def ensure_running() -> None:
    """
    Start the fork server if it does not run, with torch and numpy loaded unless the user said what it loads.

    Source: CPython, Lib/multiprocessing/forkserver.py: the list is read once, when the server starts.
    """
    from multiprocessing import forkserver

    server: Any = forkserver._forkserver
    has_started = getattr(server, "_forkserver_pid", None) is not None
    if not has_started and getattr(server, "_preload_modules", None) == ["__main__"]:
        multiprocessing.set_forkserver_preload(list(PRELOADED))
    forkserver.ensure_running()
