"""
What this process and its interpreter are like: the part of the host's questions that no system call answers.

Only :class:`~autoloader.probe.host_io.RealHost` asks here.
"""

import importlib
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from .questions import MainModule, PythonThread, StartMethods, documented_start_methods


class RunningProcess:
    """
    This process. It never imports a module to ask it something, but for semaphores.
    """

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

    def launcher_affinity(self, rank_variable: str) -> tuple[int, ...] | None:
        """
        Return the CPUs of the process that started this rank.

        That is the nearest one above in whose environment this rank's number does not stand: what stands between is a
        wrapper of this rank alone, a shell for instance. One whose environment cannot be read counts as the launcher.
        """
        try:
            import psutil

            number = os.environ.get(rank_variable)
            process: Any = psutil.Process().parent()
            while process is not None and number is not None and _variable_of(process, rank_variable) == number:
                process = process.parent()
            return None if process is None else tuple(sorted(process.cpu_affinity()))
        except Exception:  # noqa: BLE001 (a broken psutil raises anything, one of a system without masks AttributeError)
            return None

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


def _variable_of(process: Any, name: str) -> str | None:
    """
    Return a variable that a process was started with; ``None`` where this user may not look at it.
    """
    import psutil

    try:
        value: str | None = process.environ().get(name)
    except psutil.AccessDenied:
        return None
    return value


def _describe_thread(thread: Any) -> PythonThread:
    """
    Return a thread by its name, and by what it runs: its target, or its own class.
    """
    runs = getattr(thread, "_target", None) or type(thread)
    return PythonThread(thread.name, f"{getattr(runs, '__module__', '')}.{getattr(runs, '__qualname__', '')}")
