"""
Puts GNU's OpenMP runtime in a state that survives fork.
"""

import ctypes
from contextlib import suppress

_SOFT = 1
"""
``omp_pause_soft``: settings stay as they are. Source: OpenMP 5.0, section 3.2.44, omp_pause_resource_all.
"""


def release_pool() -> None:
    """
    Let the threads end that GNU's OpenMP runtime keeps for the calling one, if it is loaded.

    A forked child inherits the runtime's belief in these threads but not the threads, and waits for them forever once
    it computes with more than one (pytorch issue 45198). The pool is made anew by the next parallel operation here.
    """
    for path in _mapped_runtimes():
        with suppress(OSError, AttributeError):
            pause = ctypes.CDLL(path).omp_pause_resource_all
            pause.argtypes, pause.restype = [ctypes.c_int], ctypes.c_int
            pause(_SOFT)


def _mapped_runtimes() -> set[str]:
    """
    Return the paths of the GNU OpenMP runtimes that this process has loaded; Linux tells.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = (line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "libgomp" in line)
            return {path for path in paths if path.startswith("/")}
    except (OSError, IndexError):
        return set()
