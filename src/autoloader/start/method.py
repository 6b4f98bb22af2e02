"""
What has to be done once before a child starts by one of the methods.
"""

import sys

from . import fork_server, openmp


def prepare(method: str | None) -> None:
    """
    Make this process ready to start a child by *method*: the fork server runs, or OpenMP can be forked.

    The resource tracker is started before SIGINT is held back: its own start ends by letting SIGINT through (CPython,
    multiprocessing/resource_tracker.py, ``ensure_running``).
    """
    if method in {"spawn", "forkserver"} and sys.platform != "win32":
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()
    if method == "forkserver":
        fork_server.ensure_running()
    elif method == "fork":
        openmp.release_pool()
