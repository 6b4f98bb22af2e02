"""
Any system without a backend of its own: what Python's standard library and psutil tell everywhere.
"""

from ..facts import CpuFacts, HostFacts, JobFacts, LimitFacts, MemoryFacts, SharedMemoryFacts, StorageFacts, SystemFacts
from .host_io import HostIO
from .interpreter import read_process, read_python_cpu_count, read_start_methods
from .job import put_launcher_affinity, read_job
from .parse import tightest
from .readings import Readings

PLATFORM_NAMES = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}


def collect(io: HostIO, path: str | None = None) -> HostFacts:
    """
    Read what every Python tells.

    Args:
        io: The host.
        path: The place whose storage is asked about; the working directory without one.
    """
    job = read_job(io.environment)
    return HostFacts(
        system=_read_system(io),
        start_methods=read_start_methods(io),
        cpu=_read_cpu(io, job),
        memory=_read_memory(io),
        shared_memory=SharedMemoryFacts(),
        limits=_read_limits(io),
        storage=_read_storage(path or io.working_directory(), io),
        job=job,
        process=read_process(io),
    )


def collect_memory(io: HostIO) -> HostFacts:
    """
    Read only memory and limits on files.
    """
    limits = Readings()
    _put_open_files(limits, io)
    limits.put("temp_dir", io.temp_dir(), "tempfile's order of places")
    return HostFacts(memory=_read_memory(io), limits=limits.build(LimitFacts))


def _read_system(io: HostIO) -> SystemFacts:
    readings = Readings()
    release, machine = io.uname()
    version, is_free_threaded = io.python()
    readings.put("platform", PLATFORM_NAMES.get(io.platform, io.platform), "sys.platform")
    readings.put("release", release, "platform")
    readings.put("architecture", machine, "platform")
    readings.put("python", version, "platform")
    readings.put("is_free_threaded", is_free_threaded, "sys._is_gil_enabled()")
    return readings.build(SystemFacts)


def _read_cpu(io: HostIO, job: JobFacts) -> CpuFacts:
    readings = Readings()
    logical = readings.put("logical", io.cpu_count(), "os.cpu_count()")
    affinity = readings.put("affinity", io.affinity(), "sched_getaffinity")
    put_launcher_affinity(readings, io, job)
    own = readings.put("python_cpu_count", *read_python_cpu_count(io))
    mask = None if affinity is None else len(affinity)
    bound = tightest({"logical": logical, "affinity": mask, "python_cpu_count": own})
    if bound is not None:
        readings.put("usable_cpus", float(bound[0]), f"the smallest of the limits: {bound[1]}")
        readings.put("bound_by", bound[1], "the smallest of the limits")
    return readings.build(CpuFacts)


def _read_memory(io: HostIO) -> MemoryFacts:
    readings = Readings()
    total, available = io.psutil_memory() or (None, None)
    readings.put("total_bytes", total, "psutil.virtual_memory()")
    readings.put("available_bytes", available, "psutil.virtual_memory()")
    if available is not None:
        readings.put("headroom_bytes", float(available), "psutil.virtual_memory()")
        readings.put("bound_by", "available_bytes", "psutil.virtual_memory()")
    return readings.build(MemoryFacts)


def _read_limits(io: HostIO) -> LimitFacts:
    readings = Readings()
    _put_open_files(readings, io)
    readings.put("temp_dir", io.temp_dir(), "tempfile's order of places")
    return readings.build(LimitFacts)


def _put_open_files(readings: Readings, io: HostIO) -> None:
    """
    Note how many files this process may have open; macOS also shows those that it has, and the look opens one more.
    """
    soft, hard = io.resource_limit("NOFILE") or (None, None)
    readings.put("open_files_soft", soft, "RLIMIT_NOFILE")
    readings.put("open_files_hard", hard, "RLIMIT_NOFILE")
    open_now = io.list_dir("/dev/fd") if io.platform == "darwin" else None
    readings.put("open_files_now", None if open_now is None else len(open_now) - 1, "/dev/fd")


def _read_storage(path: str | None, io: HostIO) -> StorageFacts:
    readings = Readings()
    resolved = None if path is None else readings.put("path", io.real_path(path), "realpath")
    # macOS knows which mounts are of servers, and asks only then: a dead one never answers.
    space = None if resolved is None or io.platform == "darwin" else io.disk_space(resolved)
    if space is not None:
        readings.put("size_bytes", space.total, "statvfs")
        readings.put("free_bytes", space.free, "statvfs")
    return readings.build(StorageFacts)
