"""
What one process uses: memory, open files, threads, and what it is doing.
"""

import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessUse:
    """
    One process at one moment. ``None`` stands for what the system does not tell, or not to this user.
    """

    pid: int
    """The number by which the system knows the process."""
    rss_bytes: int | None = None
    """Bytes in physical memory, on Windows the working set; what several processes share counts in each of them."""
    pss_bytes: int | None = None
    """The same, with what is shared divided among those that share it. Only Linux tells it."""
    open_files: int | None = None
    """Open descriptors of files, pipes and sockets. On Windows open handles, which threads and events have as well."""
    threads: int | None = None
    """Threads, those of native libraries among them; 0 or more."""
    state: str | None = None
    """What it is doing in psutil's words, ``running``, ``sleeping``, ``disk sleep`` (waits for a disk or network
    storage, and cannot be killed meanwhile), ``stopped``, ``zombie`` (has ended, and its parent has not asked how).
    Windows knows only ``running`` and ``stopped``."""


def read_process(pid: int) -> ProcessUse | None:
    """
    Read what the process *pid* uses; it never raises.

    Returns:
        What could be read; ``None`` when there is no such process. A process that has ended stays as a zombie until
        its parent asks for its exit code. Where psutil cannot be loaded, nothing but the pid is known.
    """
    try:
        return _read(pid)
    except Exception:  # noqa: BLE001 (a broken psutil raises anything, PermissionError at import for one)
        return ProcessUse(pid=pid)


def _read(pid: int) -> ProcessUse | None:
    """
    Ask psutil for each field on its own, so that one refusal does not hide the others.
    """
    import psutil

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except psutil.ZombieProcess:  # the only "no such process" that is there
            return None
        except psutil.NoSuchProcess:
            raise
        except Exception:  # noqa: BLE001 (AccessDenied, OSError, or a question that this system does not have)
            return None

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return ProcessUse(
                pid=pid,
                rss_bytes=ask(lambda: process.memory_info().rss),
                pss_bytes=ask(lambda: _pss_bytes(process)) if psutil.LINUX else None,
                open_files=ask(lambda: _open_files(process)),
                threads=ask(process.num_threads),
                state=ask(lambda: process.status().replace("-", " ")),
            )
    except psutil.NoSuchProcess:
        return None


def _pss_bytes(process: Any) -> int:
    """
    Return the PSS; psutil reads smaps_rollup for it, and where that is missing the longer smaps.

    Raises:
        AttributeError: This kernel has neither, gVisor's for one.
    """
    # psutil 8 has another name for it, and warns of the old one.
    memory = getattr(process, "memory_footprint", None) or process.memory_full_info
    return int(memory().pss)


def _open_files(process: Any) -> int:
    """
    Count descriptors, or where there are none, handles.
    """
    count = getattr(process, "num_fds", None) or process.num_handles
    return int(count())


def started_at(pid: int) -> float | None:
    """
    Return when a process started, which no later one of the same number shares; ``None`` where none of it runs.
    """
    try:
        import psutil

        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except Exception:  # noqa: BLE001 (it is gone, is somebody else's, or psutil is broken)
        return None


def open_descriptors() -> frozenset[tuple[int, int, int]] | None:
    """
    Return the open descriptors of this process, each with the device and the number of its file.

    ``None`` where the system does not list them: only Linux does so here.
    """
    if sys.platform != "linux":
        return None
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return None
    found = set()
    for number in numbers:
        try:
            status = os.fstat(number)
        except OSError:  # the one by which the list was read
            continue
        found.add((number, status.st_dev, status.st_ino))
    return frozenset(found)


_LAST_OF_STANDARD_STREAMS = 2

_ACCESS_MODE = 3
"""
The bits of a descriptor's flags that say whether it may be read. Source: open(2), O_ACCMODE, which Windows has not.
"""


def positions_of_files() -> dict[tuple[int, int, int], int]:
    """
    Return where each open descriptor of a regular file of this process that can be read stands, in bytes.

    Those of the standard streams are left out: a log that a script prints to is no data. Its keys are those of
    :func:`open_descriptors`; empty where the system does not tell.
    """
    found = {}
    for key in open_descriptors() or ():
        if key[0] <= _LAST_OF_STANDARD_STREAMS:
            continue
        try:
            if stat.S_ISREG(os.fstat(key[0]).st_mode):
                with open(f"/proc/self/fdinfo/{key[0]}", encoding="ascii") as file:
                    fields = dict(line.split(":", 1) for line in file.read().splitlines() if ":" in line)
                if int(fields["flags"], 8) & _ACCESS_MODE != os.O_WRONLY:
                    found[key] = int(fields["pos"])
        except (OSError, ValueError, KeyError):
            continue
    return found
