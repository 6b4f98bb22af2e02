"""
The one place that asks the operating system and the running interpreter anything.

Every question answers ``None`` where the host does not say; none raises, and none changes the process.
"""

import importlib
import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .questions import (
    DiskSpace,
    HostIO,
    MainModule,
    PythonThread,
    StartMethods,
    WindowsMemory,
    documented_start_methods,
)

__all__ = ["DiskSpace", "HostIO", "MainModule", "PythonThread", "RealHost", "StartMethods"]

_MOST_BYTES = 4 << 20


class RealHost:
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
        Return the text of a file, at most its first 4 MiB; bytes that are not UTF-8 are replaced.
        """
        try:
            with open(path, "rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")
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
        """
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return None

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

    def python(self) -> tuple[str, bool]:
        """
        Return implementation and version, and whether this build runs without the GIL.
        """
        implementation = {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name, sys.implementation.name)
        version = f"{implementation} {sys.version.partition(' ')[0]}"
        return version, not getattr(sys, "_is_gil_enabled", lambda: True)()

    def python_cpu_count(self) -> int | None:
        """
        Return what the user set by ``-X cpu_count``; Python 3.13 and newer also take it from ``PYTHON_CPU_COUNT``.
        """
        value = sys._xoptions.get("cpu_count")
        return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None

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
        try:
            return next((os.path.abspath(path) for path in named + usual if self.is_writable(path)), None)
        except OSError:
            return None

    def start_methods(self) -> StartMethods | None:
        """
        Return the start methods, without fixing one.

        Until multiprocessing is loaded the process cannot have fixed any, and the others are as documented: loading it
        just to ask would take longer than all other questions together.
        """
        multiprocessing = sys.modules.get("multiprocessing")
        if multiprocessing is None:
            available = documented_start_methods(sys.platform, sys.version_info[:2])
            return StartMethods(available, available[0], None)
        available = tuple(multiprocessing.get_all_start_methods())
        return StartMethods(available, available[0], multiprocessing.get_start_method(allow_none=True))

    def main_module(self) -> MainModule:
        """
        Return how ``__main__`` was started.
        """
        main = sys.modules.get("__main__")
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        if not isinstance(file, str):
            return MainModule(getattr(spec, "name", None), None)
        original = getattr(sys.modules.get("multiprocessing.process"), "ORIGINAL_DIR", None)
        return MainModule(getattr(spec, "name", None), file, os.path.exists(os.path.join(original or "", file)))

    def other_threads(self) -> tuple[PythonThread, ...]:
        """
        Return the Python threads besides this one.
        """
        threading = sys.modules.get("threading")
        if threading is None:
            return ()
        current = threading.current_thread()
        return tuple(_describe_thread(thread) for thread in threading.enumerate() if thread is not current)

    def pause(self) -> None:
        """
        Wait long enough for a thread of this process to end that is about to.
        """
        time.sleep(0.001)

    def loaded_modules(self, names: Iterable[str]) -> tuple[str, ...]:
        """
        Return those of the modules that this process has loaded.
        """
        return tuple(name for name in names if sys.modules.get(name) is not None)

    def interpreter(self) -> str | None:
        """
        Return the program that multiprocessing starts for a child.
        """
        spawn = sys.modules.get("multiprocessing.spawn")
        chosen = sys.executable if spawn is None else spawn.get_executable()
        return os.fsdecode(chosen) if chosen else None

    def is_frozen(self) -> bool:
        """
        Return whether this Python is part of a program that was packed into one file or folder.
        """
        return bool(getattr(sys, "frozen", False))

    def has_semaphores(self) -> bool:
        """
        Return whether a semaphore can be made; the one that is made to see it has no name left and goes at once.
        """
        try:
            _multiprocessing: Any = importlib.import_module("_multiprocessing")
            _multiprocessing.SemLock(1, 1, 1, f"/autoloader-{os.getpid()}-{os.urandom(4).hex()}", True)
        except (ImportError, AttributeError, OSError):
            return False
        return True

    def is_daemonic(self) -> bool:
        """
        Return whether multiprocessing made this process a daemon.
        """
        process = sys.modules.get("multiprocessing.process")
        return False if process is None else bool(process.current_process().daemon)

    def is_dataloader_worker(self) -> bool:
        """
        Return whether this process is a worker of a DataLoader.
        """
        data = sys.modules.get("torch.utils.data")
        worker_info = getattr(data, "get_worker_info", None)  # not there yet while torch is being imported
        return worker_info is not None and worker_info() is not None

    def is_accelerator_initialised(self) -> bool:
        """
        Return whether torch has initialised CUDA, ROCm or XPU in this process; never imports torch to ask.
        """
        torch = sys.modules.get("torch")
        backends = (getattr(torch, name, None) for name in ("cuda", "xpu"))
        questions = (getattr(backend, "is_initialized", None) for backend in backends)
        return any(is_initialized is not None and is_initialized() for is_initialized in questions)

    def torch_accelerators(self) -> tuple[str, ...] | None:
        """
        Return the accelerators that the loaded torch was built for; ``None`` while torch is not loaded.
        """
        version = getattr(sys.modules.get("torch"), "version", None)
        if version is None:
            return None
        names = {"cuda": "cuda", "hip": "rocm", "xpu": "xpu"}
        return tuple(kind for name, kind in names.items() if getattr(version, name, None))

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


def _ask(platform: str, question: str, *arguments: str) -> Any:
    """
    Return the answer of the module that calls one system's functions; ``None`` on others, and where it has none.
    """
    if sys.platform != platform:
        return None
    try:
        return getattr(importlib.import_module(f".{platform}", __package__), question)(*arguments)
    except (AttributeError, ImportError, OSError, ValueError):
        return None


def _describe_thread(thread: Any) -> PythonThread:
    """
    Return a thread by its name, and by what it runs: its target, or its own class.
    """
    runs = getattr(thread, "_target", None) or type(thread)
    return PythonThread(thread.name, f"{getattr(runs, '__module__', '')}.{getattr(runs, '__qualname__', '')}")


_NAMES_OF_NOBODY = frozenset({"host", "linux", "localhost", "none", "root", "server", "user"})


def private_names() -> dict[str, str]:
    """
    Return the names of this user and of this host, and what stands in their place in a document to pass on.
    """
    names = [os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")]
    users = {*names, os.path.basename(os.path.expanduser("~").rstrip("/\\"))}
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    private = {**dict.fromkeys(users, "user"), host: "host", host.partition(".")[0]: "host"}
    kept = (name for name in private if len(name) > 1 and name.lower() not in _NAMES_OF_NOBODY)
    return {name: private[name] for name in sorted(kept, key=len, reverse=True)}
