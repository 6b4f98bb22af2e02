"""
The one place that asks the operating system and the running interpreter anything.

Every question answers ``None`` where the host does not say; none raises, and none changes the process.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .mounts import crosses_network, is_below, parse_mountinfo
from .parse import is_python_program
from .questions import (
    DiskSpace,
    HostIO,
    MacVolume,
    MainModule,
    Nvml,
    PythonThread,
    StartMethods,
    TimedReads,
    WindowsJob,
    WindowsMemory,
    WindowsVolume,
)
from .running_process import RunningProcess

__all__ = ["DiskSpace", "HostIO", "MainModule", "PythonThread", "RealHost", "StartMethods"]

_MOST_BYTES = 4 << 20


_PIECE_BYTES = 1 << 16


def _pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """
    Yield a file piece by piece, up to the most that is read: the kernel refuses to give 4 MiB of a sysctl at once.
    """
    left = _MOST_BYTES
    while left and (piece := read(min(left, _PIECE_BYTES))):
        left -= len(piece)
        yield piece


_MOST_LINKS = 40
"""
Links that Linux follows in one path. Source: path_resolution(7).
"""


def _resolve(path: str, unasked: Sequence[str]) -> str:
    """
    Return an absolute path with its links resolved.

    Args:
        path: What is resolved; the last parts need not exist.
        unasked: Folders in which no name is looked at.
    """
    found, links = os.getcwd(), 0
    waiting = path.split("/")[::-1]
    if path.startswith("/"):
        found = "/"
    while waiting:
        name = waiting.pop()
        if name in {"", ".", ".."}:
            found = os.path.dirname(found) if name == ".." else found
            continue
        place = os.path.join(found, name)
        target = None if any(is_below(place, each) for each in unasked) else _link_target(place)
        links += target is not None
        if target is None or links > _MOST_LINKS:
            found = place
            continue
        found = "/" if target.startswith("/") else found
        waiting += target.split("/")[::-1]
    return found


def _link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


class RealHost(RunningProcess):
    """
    This machine and this process.
    """

    @property
    def platform(self) -> str:
        """
        Return Python's name for the operating system.
        """
        return sys.platform

    @property
    def environment(self) -> Mapping[str, str]:
        """
        Return the environment variables, to be read only.
        """
        return os.environ

    def read_text(self, path: str) -> str | None:
        """
        Return the text of a file, at most its first 4 MiB; bytes that are not UTF-8 are as Python has them in paths.
        """
        try:
            with open(path, "rb", buffering=0) as file:
                return b"".join(_pieces(file.read)).decode("utf-8", "surrogateescape")
        except (OSError, ValueError):
            return None

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        """
        Return the names in a folder, sorted.
        """
        try:
            return tuple(sorted(os.listdir(path)))
        except (OSError, ValueError):
            return None

    def real_path(self, path: str) -> str | None:
        """
        Return the absolute path with its links resolved; the last parts need not exist.

        On Linux nothing is asked of a mount that crosses a network, which may never answer: the path stays as it is
        written from there on. A root that crosses a network answers, or nothing would run.
        """
        try:
            return _resolve(path, self._network_mounts()) if sys.platform == "linux" else os.path.realpath(path)
        except (OSError, ValueError):
            return None

    def may_wait(self, path: str) -> bool:
        """
        Return whether a path lies on a mount that crosses a network, so that asking for it may never be answered.
        """
        resolved = self.real_path(path) if sys.platform == "linux" else None
        return resolved is not None and any(is_below(resolved, each) for each in self._network_mounts())

    def _network_mounts(self) -> tuple[str, ...]:
        mounts = parse_mountinfo(self.read_text("/proc/self/mountinfo"))
        crossing = (each.mount_point for each in mounts if crosses_network(each.filesystem))
        return tuple(point for point in crossing if point != "/")

    def is_writable(self, path: str) -> bool | None:
        """
        Return whether this user may create files in a folder; ``None`` where there is no such folder.
        """
        try:
            if not os.path.isdir(path):
                return None
            return os.access(path, os.W_OK | os.X_OK)
        except (OSError, ValueError):
            return None

    def disk_space(self, path: str) -> DiskSpace | None:
        """
        Return size and free space of the file system at *path*. Not for network mounts: a dead one never answers.
        """
        try:
            if sys.platform == "win32":
                return None
            status = os.statvfs(path)
            return DiskSpace(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)
        except (OSError, ValueError):
            return None

    def affinity(self) -> tuple[int, ...] | None:
        """
        Return the CPUs that the scheduler may use for this process.
        """
        try:
            if sys.platform == "win32":
                found: tuple[int, ...] | None = _ask("win32", "affinity")
                return found
            return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None
        except OSError:
            return None

    def affinity_at_import(self) -> tuple[int, ...] | None:
        """
        Return the CPUs that this process could use before torch was loaded, if autoloader was imported before it.
        """
        seen = getattr(sys.modules.get("autoloader.start.affinity"), "SEEN_AT_IMPORT", None)
        return None if seen is None else tuple(sorted(seen))

    def cpu_count(self) -> int | None:
        """
        Return the logical CPUs that the system reports to any program.

        From Python 3.13 on ``os.cpu_count()`` is what the user set by ``-X cpu_count``, so the system is asked first.
        """
        if sys.platform != "win32":
            try:
                online = os.sysconf("SC_NPROCESSORS_ONLN")
            except (OSError, ValueError):
                online = 0
            if online > 0:
                return online
        return os.cpu_count()

    def resource_limit(self, name: str) -> tuple[float, float] | None:
        """
        Return the soft and the hard limit of a resource, ``NOFILE`` for instance; infinite where unlimited.
        """
        if sys.platform == "win32":
            return None
        try:
            import resource

            limits = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        except (AttributeError, ImportError, OSError, ValueError):
            return None
        soft, hard = (float("inf") if limit == resource.RLIM_INFINITY else limit for limit in limits)
        return soft, hard

    def tasks_of_user(self) -> int | None:
        """
        Return the processes and threads of this user as RLIMIT_NPROC counts them; it does not bind root.
        """
        if sys.platform == "win32" or os.getuid() == 0:
            return None
        tasks = 0
        for pid in self.list_dir("/proc") or ():
            try:
                if pid.isdecimal() and os.stat(f"/proc/{pid}").st_uid == os.getuid():
                    tasks += len(os.listdir(f"/proc/{pid}/task"))
            except OSError:
                continue  # it has ended meanwhile
        return tasks or None

    def uname(self) -> tuple[str, str]:
        """
        Return the system's release and the machine type.
        """
        if hasattr(os, "uname"):
            names = os.uname()
            return names.release, names.machine
        import platform

        return platform.release(), platform.machine()

    def libc(self) -> str | None:
        """
        Return the C library and its version, where it tells them.
        """
        if sys.platform == "win32":
            return None
        try:
            return os.confstr("CS_GNU_LIBC_VERSION")
        except (AttributeError, OSError, ValueError):
            return None

    def working_directory(self) -> str | None:
        """
        Return the working directory; ``None`` when it was removed.
        """
        try:
            return os.getcwd()
        except OSError:
            return None

    def temp_dir(self) -> str | None:
        """
        Return the folder that ``tempfile`` would use, by its own order of places, without trying to write there.
        """
        chosen = getattr(sys.modules.get("tempfile"), "tempdir", None)
        if chosen is not None:
            return os.fsdecode(chosen)
        named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
        usual = [] if sys.platform == "win32" else ["/tmp", "/var/tmp", "/usr/tmp"]  # noqa: S108 (tempfile's own list)
        usual.append(os.curdir)
        try:
            return next((os.path.abspath(path) for path in named + usual if self.is_writable(path)), None)
        except OSError:
            return None

    def psutil_memory(self) -> tuple[int, int] | None:
        """
        Return total and available memory as psutil sees them; a psutil that is missing or broken is no answer.
        """
        try:
            import psutil

            memory = psutil.virtual_memory()
            return int(memory.total), int(memory.available)
        except Exception:  # noqa: BLE001 (a broken psutil raises anything, PermissionError at import for one)
            return None

    def nvml(self) -> Nvml | None:
        """
        Return what NVIDIA's management library says, where the package nvidia-ml-py is installed.
        """
        from . import nvml

        return nvml.read()

    def processor_details(self) -> str | None:
        """
        Return what py-cpuinfo says of the processor, as JSON. It sleeps and starts processes, so a child asks it.
        """
        interpreter = self.interpreter()
        if interpreter is None or self.is_frozen() or not is_python_program(interpreter):
            return None
        from ..store import open_store
        from .cpu_model import identity
        from .cpuinfo_child import ask

        name = os.environ.get("PROCESSOR_IDENTIFIER") or self.sysctl_text("machdep.cpu.brand_string")
        key = {"processor": identity(self.read_text("/proc/cpuinfo"), name), "interpreter": interpreter}
        return ask(interpreter, open_store(os.environ), key)

    def timed_reads(self, path: str) -> TimedReads | None:
        """
        Return how long reads of files below a path take. They are read for seconds, by a child that may be left behind.
        """
        interpreter = self.interpreter()
        if interpreter is None or self.is_frozen() or not is_python_program(interpreter):
            return None
        from .timing_child import ask

        return ask(interpreter, path)

    def sysctl_number(self, name: str) -> int | None:
        """
        Return a variable of macOS's kernel that is a number.
        """
        value = _ask("darwin", "variable", name)
        return int.from_bytes(value, sys.byteorder, signed=True) if value is not None and len(value) in {4, 8} else None

    def sysctl_text(self, name: str) -> str | None:
        """
        Return a variable of macOS's kernel that is a text.
        """
        value = _ask("darwin", "variable", name)
        return None if value is None else value.split(b"\0")[0].decode("utf-8", "replace")

    def windows_memory(self) -> WindowsMemory | None:
        """
        Return memory and commit limit of Windows.
        """
        found: WindowsMemory | None = _ask("win32", "memory")
        return found

    def windows_processors(self) -> str | None:
        """
        Return what Windows says of cores, packages, memory nodes and groups: its own bytes, in hexadecimal.
        """
        found: bytes | None = _ask("win32", "processors")
        return None if found is None else found.hex()

    def drive_kind(self, path: str) -> str | None:
        """
        Return what kind of drive a path is on: ``fixed``, ``remote``, ``removable``, ``cdrom`` or ``ramdisk``.
        """
        found: str | None = _ask("win32", "drive_kind", path)
        return found

    def windows_version(self) -> str | None:
        """
        Return the version of Windows as it is, not as old programs are told.
        """
        found: str | None = _ask("win32", "version")
        return found

    def windows_processor_name(self) -> str | None:
        """
        Return the processor's brand text on Windows.
        """
        found: str | None = _ask("win32", "processor_name")
        return found

    def windows_job(self) -> WindowsJob | None:
        """
        Return the limits of the job object around this process, none outside of one.
        """
        found: WindowsJob | None = _ask("win32", "job")
        return found

    def windows_volume(self, path: str) -> WindowsVolume | None:
        """
        Return file system and device below a path on Windows. Not for network drives: a dead one may hang.
        """
        found: WindowsVolume | None = _ask("win32", "volume", path, module="win32_volume")
        return found

    def mac_volume(self, path: str) -> MacVolume | None:
        """
        Return file system and device below a path on macOS, by its table of mounts and by diskutil.
        """
        found: MacVolume | None = _ask("darwin", "volume", path)
        return found


def _ask(platform: str, question: str, *arguments: str, module: str | None = None) -> Any:
    """
    Return the answer of the module that calls one system's functions; ``None`` on others, and where it has none.
    """
    if sys.platform != platform:
        return None
    try:
        return getattr(importlib.import_module(f".{module or platform}", __package__), question)(*arguments)
    except Exception:  # noqa: BLE001 (functions that an older system lacks, a registry that is closed, a broken psutil)
        return None
