"""
What a probe may ask of a host, and the shape of the answers.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol


class DiskSpace(NamedTuple):
    """
    What ``statvfs`` says of one file system, in bytes.
    """

    total: int
    free: int


class StartMethods(NamedTuple):
    """
    What multiprocessing says of its start methods; *in_force* is ``None`` while the process has fixed none.
    """

    available: tuple[str, ...]
    default: str
    in_force: str | None


def documented_start_methods(platform: str, version: tuple[int, int]) -> tuple[str, ...]:
    """
    Return the start methods of a platform, the default first.

    Source: Python's library reference, multiprocessing, "Contexts and start methods".
    """
    if platform == "win32":
        return ("spawn",)
    if platform == "darwin":
        return ("spawn", "fork", "forkserver")
    return ("forkserver", "fork", "spawn") if version >= (3, 14) else ("fork", "spawn", "forkserver")


class MainModule(NamedTuple):
    """
    How ``__main__`` was started: the name of its import spec, its file, and whether that is there.
    """

    spec_name: str | None
    file: str | None
    is_file: bool | None = None


class PythonThread(NamedTuple):
    """
    A Python thread: its name, and the module and name of what it runs.
    """

    name: str
    runs: str


class WindowsMemory(NamedTuple):
    """
    What Windows says of memory, in bytes: built in, available, and what may be promised in all and still.
    """

    total: int
    available: int
    commit_limit: int
    commit_available: int


class WindowsJob(NamedTuple):
    """
    What Windows says of the job object around this process: its own structures, in hexadecimal.
    """

    limits: str
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION; empty outside of any job."""
    cpu_rate: str | None = None
    """JOBOBJECT_CPU_RATE_CONTROL_INFORMATION."""
    accounting: str | None = None
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION."""


class WindowsVolume(NamedTuple):
    """
    What Windows says of the volume that holds a path, and of the device below.
    """

    filesystem: str | None = None
    mount_point: str | None = None
    total: int | None = None
    free: int | None = None
    bus: int | None = None
    """STORAGE_BUS_TYPE."""
    product: str | None = None
    seek_penalty: bool | None = None
    trim: bool | None = None


class MacVolume(NamedTuple):
    """
    What macOS says of the volume that holds a path: its mount, and ``diskutil info -plist`` of its device.
    """

    filesystem: str
    mount_point: str
    device: str
    bus: str | None = None
    is_solid_state: bool | None = None


class NvmlDevice(NamedTuple):
    """
    What NVIDIA's management library says of one device: its UUID, bytes of memory, busy share (0 to 1).
    """

    uuid: str | None = None
    memory: int | None = None
    busy: float | None = None


class Nvml(NamedTuple):
    """
    What NVIDIA's management library says: the driver's version, and all devices.
    """

    driver: str | None = None
    devices: tuple[NvmlDevice, ...] = ()


class TimedReads(NamedTuple):
    """
    How long small reads of files below a path took, in a process that was ended when the time was over.
    """

    problem: str | None = None
    """Why nothing was read, or not all of it; ``None`` where nothing went wrong."""
    is_reached: bool = False
    """Whether the system answered what lies at the path."""
    files: int = 0
    """Files that were found in the time for that."""
    bytes: int = 0
    """About the size of them all, by that of those which were read."""
    way: Literal["direct", "dropped", "plain"] = "plain"
    """Past the page cache; by it, after it had dropped what was read; or by it, whatever it had."""
    seconds: tuple[float, ...] = ()
    """What each read of 4 KiB took, one after another, each at a random place of a random file."""
    cached: int = 0
    """Reads that the page cache answered, besides."""
    unreadable: int = 0
    """Files that could not be opened or read."""
    together_seconds: tuple[float, ...] = ()
    """What each read took while three others were under way; asked for only where one alone takes long."""
    sequential: tuple[int, float] | None = None
    """Bytes that were read of the largest of the files from its beginning on, and seconds; past the page cache only."""


class HostIO(Protocol):
    """
    All that a probe may ask of a host. A fake answers by path.
    """

    @property
    def platform(self) -> str: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    def read_text(self, path: str) -> str | None: ...
    def list_dir(self, path: str) -> tuple[str, ...] | None: ...
    def real_path(self, path: str) -> str | None: ...
    def is_writable(self, path: str) -> bool | None: ...
    def disk_space(self, path: str) -> DiskSpace | None: ...
    def affinity(self) -> tuple[int, ...] | None: ...
    def affinity_at_import(self) -> tuple[int, ...] | None: ...
    def launcher_affinity(self, rank_variable: str) -> tuple[int, ...] | None: ...
    def cpu_count(self) -> int | None: ...
    def resource_limit(self, name: str) -> tuple[float, float] | None: ...
    def tasks_of_user(self) -> int | None: ...
    def uname(self) -> tuple[str, str]: ...
    def libc(self) -> str | None: ...
    def python(self) -> tuple[str, bool]: ...
    def python_cpu_count(self) -> int | None: ...
    def working_directory(self) -> str | None: ...
    def temp_dir(self) -> str | None: ...
    def start_methods(self) -> StartMethods | None: ...
    def main_module(self) -> MainModule: ...
    def other_threads(self) -> tuple[PythonThread, ...]: ...
    def pause(self) -> None: ...
    def loaded_modules(self, names: Iterable[str]) -> tuple[str, ...]: ...
    def interpreter(self) -> str | None: ...
    def is_frozen(self) -> bool: ...
    def has_semaphores(self) -> bool: ...
    def is_daemonic(self) -> bool: ...
    def is_dataloader_worker(self) -> bool: ...
    def is_accelerator_initialised(self) -> bool: ...
    def torch_accelerators(self) -> tuple[str, ...] | None: ...
    def psutil_memory(self) -> tuple[int, int] | None: ...
    def nvml(self) -> Nvml | None: ...
    def processor_details(self) -> str | None: ...
    def sysctl_number(self, name: str) -> int | None: ...
    def sysctl_text(self, name: str) -> str | None: ...
    def windows_memory(self) -> WindowsMemory | None: ...
    def windows_processors(self) -> str | None: ...
    def drive_kind(self, path: str) -> str | None: ...
    def windows_version(self) -> str | None: ...
    def windows_processor_name(self) -> str | None: ...
    def windows_job(self) -> WindowsJob | None: ...
    def windows_volume(self, path: str) -> WindowsVolume | None: ...
    def timed_reads(self, path: str) -> TimedReads | None: ...
    def mac_volume(self, path: str) -> MacVolume | None: ...
