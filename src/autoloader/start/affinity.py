"""
The CPUs that this process could use before OpenMP bound its main thread to some of them.

It is looked at when autoloader is imported: with ``OMP_PLACES`` or ``OMP_PROC_BIND`` set, loading torch binds the main
thread, every child inherits that, and all workers share one CPU (pytorch issue 101850).
"""

import os
import sys


def _affinity() -> frozenset[int] | None:
    if sys.platform == "win32" or not hasattr(os, "sched_getaffinity"):
        return None
    try:
        return frozenset(os.sched_getaffinity(0))
    except OSError:
        return None


SEEN_AT_IMPORT = None if "torch" in sys.modules else _affinity()
"""
The mask before torch was loaded; ``None`` where torch was there first, or the system has no masks.
"""


def restore(cpus: frozenset[int]) -> None:
    """
    Let this process run on *cpus* again, as far as the system still allows it.
    """
    if sys.platform != "win32" and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            return
