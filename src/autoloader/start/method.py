"""
What has to be done once before a child starts by one of the methods.
"""

from . import fork_server, openmp


def prepare(method: str | None) -> None:
    """
    Make this process ready to start a child by *method*: the fork server runs, or OpenMP can be forked.
    """
    if method == "forkserver":
        fork_server.ensure_running()
    elif method == "fork":
        openmp.release_pool()
