"""
A host that exists only as answers, for tests that must give the same on every machine.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from autoloader.probe.host_io import DiskSpace, MainModule, PythonThread, StartMethods
from autoloader.probe.questions import MacVolume, Nvml, TimedReads, WindowsJob, WindowsMemory, WindowsVolume


@dataclass
class FakeHost:
    """
    Answers by path. A folder exists when a file lies in it, or when it is listed in *folders*.
    """

    files: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    platform: str = "linux"
    spaces: dict[str, DiskSpace] = field(default_factory=dict)
    mask: tuple[int, ...] | None = None
    mask_at_import: tuple[int, ...] | None = None
    launcher_masks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cpus: int | None = None
    resource_limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    user_tasks: int | None = None
    release: str = "6.1.0"
    machine: str = "x86_64"
    own_cpu_count: int | None = None
    methods: StartMethods | None = StartMethods(("fork", "spawn", "forkserver"), "fork", None)
    main: MainModule = MainModule(None, None)
    threads: tuple[PythonThread, ...] = ()
    modules: tuple[str, ...] = ()
    program: str | None = "/usr/bin/python3"
    frozen: bool = False
    semaphores: bool = True
    daemonic: bool = False
    dataloader_worker: bool = False
    accelerator_initialised: bool = False
    accelerators: tuple[str, ...] | None = None
    memory: tuple[int, int] | None = None
    read_only: frozenset[str] = frozenset()
    commit: WindowsMemory | None = None
    processors: str | None = None
    drives: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, int | str] = field(default_factory=dict)
    c_library: str | None = None
    management: Nvml | None = None
    details: str | None = None
    windows: str | None = None
    processor_name: str | None = None
    job: WindowsJob | None = None
    windows_volumes: dict[str, WindowsVolume] = field(default_factory=dict)
    mac_volumes: dict[str, MacVolume] = field(default_factory=dict)
    timed: dict[str, TimedReads] = field(default_factory=dict)
    folder: str = "/work"
    temp: str = "/tmp"

    def _is_folder(self, path: str) -> bool:
        prefix = path.rstrip("/") + "/"
        return path in self.folders or any(name.startswith(prefix) for name in (*self.files, *self.folders))

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        if not self._is_folder(path):
            return None
        prefix = path.rstrip("/") + "/"
        below = (name[len(prefix) :] for name in (*self.files, *self.folders) if name.startswith(prefix))
        return tuple(sorted({name.partition("/")[0] for name in below}))

    def real_path(self, path: str) -> str | None:
        return self.links.get(path, posixpath.normpath(path))

    def is_writable(self, path: str) -> bool | None:
        return path not in self.read_only if self._is_folder(path) or path in self.spaces else None

    def disk_space(self, path: str) -> DiskSpace | None:
        return self.spaces.get(path)

    def affinity(self) -> tuple[int, ...] | None:
        return self.mask

    def affinity_at_import(self) -> tuple[int, ...] | None:
        return self.mask_at_import

    def launcher_affinity(self, rank_variable: str) -> tuple[int, ...] | None:
        return self.launcher_masks.get(rank_variable)

    def cpu_count(self) -> int | None:
        return self.cpus

    def resource_limit(self, name: str) -> tuple[float, float] | None:
        return self.resource_limits.get(name)

    def tasks_of_user(self) -> int | None:
        return self.user_tasks

    def uname(self) -> tuple[str, str]:
        return self.release, self.machine

    def libc(self) -> str | None:
        return self.c_library

    def nvml(self) -> Nvml | None:
        return self.management

    def processor_details(self) -> str | None:
        return self.details

    def python(self) -> tuple[str, bool]:
        return "CPython 3.12.1", False

    def python_cpu_count(self) -> int | None:
        return self.own_cpu_count

    def working_directory(self) -> str | None:
        return self.folder

    def temp_dir(self) -> str | None:
        return self.temp

    def start_methods(self) -> StartMethods | None:
        return self.methods

    def main_module(self) -> MainModule:
        return self.main

    def other_threads(self) -> tuple[PythonThread, ...]:
        return self.threads

    def pause(self) -> None:
        pass

    def loaded_modules(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in self.modules)

    def interpreter(self) -> str | None:
        return self.program

    def is_frozen(self) -> bool:
        return self.frozen

    def has_semaphores(self) -> bool:
        return self.semaphores

    def is_daemonic(self) -> bool:
        return self.daemonic

    def is_dataloader_worker(self) -> bool:
        return self.dataloader_worker

    def is_accelerator_initialised(self) -> bool:
        return self.accelerator_initialised

    def torch_accelerators(self) -> tuple[str, ...] | None:
        return self.accelerators

    def psutil_memory(self) -> tuple[int, int] | None:
        return self.memory

    def sysctl_number(self, name: str) -> int | None:
        value = self.sysctls.get(name)
        return value if isinstance(value, int) else None

    def sysctl_text(self, name: str) -> str | None:
        value = self.sysctls.get(name)
        return value if isinstance(value, str) else None

    def windows_memory(self) -> WindowsMemory | None:
        return self.commit

    def windows_processors(self) -> str | None:
        return self.processors

    def drive_kind(self, path: str) -> str | None:
        return self.drives.get(path)

    def windows_version(self) -> str | None:
        return self.windows

    def windows_processor_name(self) -> str | None:
        return self.processor_name

    def windows_job(self) -> WindowsJob | None:
        return self.job

    def windows_volume(self, path: str) -> WindowsVolume | None:
        return self.windows_volumes.get(path)

    def mac_volume(self, path: str) -> MacVolume | None:
        return self.mac_volumes.get(path)

    def timed_reads(self, path: str) -> TimedReads | None:
        return self.timed.get(path)
