"""
Linux: procfs, sysfs and control groups.
"""

import posixpath
import re

from ..facts import CpuFacts, HostFacts, JobFacts, LimitFacts, MemoryFacts, NumaFacts, SharedMemoryFacts
from . import cgroup
from .accelerator import read_accelerator
from .host_io import HostIO
from .interpreter import put_affinity, read_process, read_python_cpu_count, read_start_methods
from .job import put_launcher_affinity, read_job, read_scheduler_cpus
from .linux_system import read_system
from .mounts import Mount, parse_mountinfo
from .parse import (
    NO_LIMIT,
    parse_cpu_list,
    parse_cpu_model,
    parse_distances,
    parse_int,
    parse_load,
    parse_meminfo,
    parse_node_cpus,
    parse_oom_kills,
    tightest,
)
from .readings import Readings
from .storage import read_storage

SHARED_MEMORY = "/dev/shm"  # noqa: S108 (not a temporary file: the kernel's place for shared memory)


MANY_PROCESSES = 4096
"""
A limit of processes and threads from which on nobody need count them: no loader starts so many workers.
"""


OVERCOMMIT: dict[int | None, str] = {0: "heuristic", 1: "always", 2: "never"}
"""
What the kernel's numbers stand for. Source: kernel, mm/overcommit-accounting.rst.
"""


def collect(io: HostIO, path: str | None = None) -> HostFacts:
    """
    Read every fact that Linux tells.

    Args:
        io: The host.
        path: The place whose storage is asked about; the working directory without one.
    """
    mounts = parse_mountinfo(io.read_text("/proc/self/mountinfo"))
    job = read_job(io.environment)
    return HostFacts(
        system=read_system(io),
        start_methods=read_start_methods(io),
        cpu=_read_cpu(io, mounts, job),
        numa=_read_numa(io),
        memory=_read_memory(io, mounts),
        shared_memory=_read_shared_memory(io),
        limits=_read_limits(io, mounts),
        storage=read_storage(path or io.working_directory(), io, mounts),
        accelerator=read_accelerator(io),
        job=job,
        process=read_process(io),
    )


def collect_memory(io: HostIO) -> HostFacts:
    """
    Read only memory, shared memory and limits on files: a few small files of the kernel, in about a millisecond.
    """
    limits = Readings()
    _put_open_files(limits, io)
    limits.put("temp_dir", io.temp_dir(), "tempfile's order of places")
    return HostFacts(
        memory=_read_memory(io, parse_mountinfo(io.read_text("/proc/self/mountinfo"))),
        shared_memory=_read_shared_memory(io),
        limits=limits.build(LimitFacts),
    )


def _read_cpu(io: HostIO, mounts: tuple[Mount, ...], job: JobFacts) -> CpuFacts:
    readings = Readings()
    readings.put("model", parse_cpu_model(io.read_text("/proc/cpuinfo")), "/proc/cpuinfo")
    online = parse_cpu_list(io.read_text("/sys/devices/system/cpu/online"))
    if online is not None:
        logical = readings.put("logical", len(online), "/sys/devices/system/cpu/online")
        _put_topology(readings, io, online)
    else:
        logical = readings.put("logical", io.cpu_count(), "os.cpu_count()")
    frequency = parse_int(io.read_text("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"))
    readings.put("max_frequency_hertz", frequency and frequency * 1e3, "cpu0/cpufreq/cpuinfo_max_freq")
    affinity = put_affinity(readings, io)
    put_launcher_affinity(readings, io, job)
    cpuset, source = cgroup.read_cpuset(io, mounts) or (None, "")
    readings.put("cpuset", cpuset, source)
    quota, source = cgroup.read_quota(io, mounts) or (None, "")
    readings.put("quota_cpus", quota, source)
    scheduler, source = read_scheduler_cpus(io.environment, job) or (None, "")
    readings.put("scheduler_cpus", scheduler, source)
    own = readings.put("python_cpu_count", *read_python_cpu_count(io))
    bound = tightest(
        {
            "logical": logical,
            "affinity": None if affinity is None else float(len(affinity)),
            "cpuset": None if cpuset is None else float(len(cpuset)),
            "quota_cpus": quota,
            "scheduler_cpus": scheduler,
            "python_cpu_count": own,
        }
    )
    if bound is not None:
        readings.put("usable_cpus", float(bound[0]), f"the smallest of the limits: {bound[1]}")
        readings.put("bound_by", bound[1], "the smallest of the limits")
    readings.put("load_1min", parse_load(io.read_text("/proc/loadavg")), "/proc/loadavg")
    return readings.build(CpuFacts)


def _put_topology(readings: Readings, io: HostIO, online: tuple[int, ...]) -> None:
    """
    Count cores and packages by the sibling lists of the CPUs that are online.
    """
    folder = "/sys/devices/system/cpu"
    cores = {io.read_text(f"{folder}/cpu{cpu}/topology/core_cpus_list") for cpu in online}
    if cores == {None}:
        cores = {io.read_text(f"{folder}/cpu{cpu}/topology/thread_siblings_list") for cpu in online}
    packages = {io.read_text(f"{folder}/cpu{cpu}/topology/physical_package_id") for cpu in online}
    readings.put("physical", len(cores - {None}) or None, f"{folder}/cpu*/topology")
    known = {number for text in packages if (number := parse_int(text)) is not None and number >= 0}
    readings.put("sockets", len(known) or None, f"{folder}/cpu*/topology")
    kinds = _kinds_of_cpus(io, online)
    if kinds is not None:
        fast, slow, source = kinds
        readings.put("performance_cpus", fast, source)
        readings.put("efficiency_cpus", slow, source)


def _kinds_of_cpus(io: HostIO, online: tuple[int, ...]) -> tuple[int, int, str] | None:
    """
    Count the CPUs of the fastest kind, and all others; ``None`` where all are of one kind.

    Intel's hybrid processors have a counter of events for each kind, ARM's CPUs a capacity each.

    Source: kernel, admin-guide/perf and ABI/testing/sysfs-bus-event_source-devices (cpus); ABI/testing/
    sysfs-devices-system-cpu (cpu_capacity).
    """
    fast = parse_cpu_list(io.read_text("/sys/devices/cpu_core/cpus"))
    if fast is not None and set(fast) & set(online):
        fast_here = len(set(fast) & set(online))
        return (fast_here, len(online) - fast_here, "/sys/devices/cpu_core/cpus") if fast_here < len(online) else None
    folder = "/sys/devices/system/cpu"
    if parse_int(io.read_text(f"{folder}/cpu{online[0]}/cpu_capacity")) is None:
        return None
    capacities = [parse_int(io.read_text(f"{folder}/cpu{cpu}/cpu_capacity")) or 0 for cpu in online]
    fast_here = capacities.count(max(capacities))
    source = f"{folder}/cpu*/cpu_capacity"
    return (fast_here, len(online) - fast_here, source) if fast_here < len(online) else None


def _read_numa(io: HostIO) -> NumaFacts:
    readings = Readings()
    folder = "/sys/devices/system/node"
    names = io.list_dir(folder)
    if names is None and io.list_dir(posixpath.dirname(folder)) is not None:
        readings.put("nodes", 1, "the kernel shows no memory nodes")
        readings.put("cpu_nodes", 1, "the kernel shows no memory nodes")
        return readings.build(NumaFacts)
    with_memory = parse_cpu_list(io.read_text(f"{folder}/has_memory"))
    with_cpus = parse_cpu_list(io.read_text(f"{folder}/has_cpu"))
    readings.put("nodes", with_memory and len(with_memory), f"{folder}/has_memory")
    readings.put("cpu_nodes", with_cpus and len(with_cpus), f"{folder}/has_cpu")
    numbers = sorted(int(name[4:]) for name in names or () if re.fullmatch("node[0-9]{1,9}", name))
    for field, file, parse in (
        ("node_cpus", "cpulist", parse_node_cpus),
        ("node_memory_bytes", "meminfo", lambda text: parse_meminfo(text).get("MemTotal")),
        ("node_distances", "distance", parse_distances),
    ):
        found = {str(number): parse(io.read_text(f"{folder}/node{number}/{file}")) for number in numbers}
        known = {number: value for number, value in found.items() if value is not None}
        readings.put(field, known or None, f"{folder}/node*/{file}")
    return readings.build(NumaFacts)


def _read_memory(io: HostIO, mounts: tuple[Mount, ...]) -> MemoryFacts:
    readings = Readings()
    sizes = parse_meminfo(io.read_text("/proc/meminfo"))
    readings.put("total_bytes", sizes.get("MemTotal"), "/proc/meminfo")
    available = readings.put("available_bytes", sizes.get("MemAvailable"), "/proc/meminfo")
    readings.put("swap_total_bytes", sizes.get("SwapTotal"), "/proc/meminfo")
    overcommit = OVERCOMMIT.get(parse_int(io.read_text("/proc/sys/vm/overcommit_memory")))
    readings.put("overcommit", overcommit, "/proc/sys/vm/overcommit_memory")
    readings.put("swappiness", parse_int(io.read_text("/proc/sys/vm/swappiness")), "/proc/sys/vm/swappiness")
    found = cgroup.read_memory_limit(io, mounts)
    limit, source = found or (None, "")
    readings.put("cgroup_limit_bytes", limit, source)
    usage, source = (found and cgroup.read_memory_usage(found, io)) or (None, "")
    readings.put("cgroup_usage_bytes", usage, source)
    headroom, source = cgroup.read_memory_headroom(io, mounts) or (None, "")
    readings.put("cgroup_headroom_bytes", headroom, source)
    known = (("available_bytes", available), ("cgroup_headroom_bytes", headroom))
    least = min(((float(size), name) for name, size in known if size is not None and size < NO_LIMIT), default=None)
    if least is not None:
        readings.put("headroom_bytes", least[0], f"the smaller of the two: {least[1]}")
        readings.put("bound_by", least[1], "the smaller of the two")
    of_host = parse_oom_kills(io.read_text("/proc/vmstat")), "/proc/vmstat"
    readings.put("oom_kills", *(cgroup.read_oom_kills(io, mounts) or of_host))
    return readings.build(MemoryFacts)


def _read_shared_memory(io: HostIO) -> SharedMemoryFacts:
    readings = Readings()
    is_writable = io.is_writable(SHARED_MEMORY)
    if is_writable is None:
        return readings.build(SharedMemoryFacts)
    readings.put("path", SHARED_MEMORY, "the kernel's fixed place")
    readings.put("is_writable", is_writable, "access(2)")
    space = io.disk_space(SHARED_MEMORY)
    if space is not None:
        readings.put("size_bytes", space.total, "statvfs")
        readings.put("free_bytes", space.free, "statvfs")
    return readings.build(SharedMemoryFacts)


def _read_limits(io: HostIO, mounts: tuple[Mount, ...]) -> LimitFacts:
    readings = Readings()
    _put_open_files(readings, io)
    locked, _ = io.resource_limit("MEMLOCK") or (None, None)
    readings.put("locked_memory_soft_bytes", locked, "RLIMIT_MEMLOCK")
    processes, _ = io.resource_limit("NPROC") or (None, None)
    readings.put("processes_soft", processes, "RLIMIT_NPROC")
    if processes is not None and processes < MANY_PROCESSES:
        readings.put("processes_now", io.tasks_of_user(), "/proc/*/task")
    headroom, source = cgroup.read_pids_headroom(io, mounts) or (None, "")
    readings.put("pids_headroom", headroom, source)
    readings.put("temp_dir", io.temp_dir(), "tempfile's order of places")
    return readings.build(LimitFacts)


def _put_open_files(readings: Readings, io: HostIO) -> None:
    """
    Note how many files this process may have open, and how many it has; the look at them opens one more.
    """
    soft, hard = io.resource_limit("NOFILE") or (None, None)
    readings.put("open_files_soft", soft, "RLIMIT_NOFILE")
    readings.put("open_files_hard", hard, "RLIMIT_NOFILE")
    open_now = io.list_dir("/proc/self/fd")
    readings.put("open_files_now", None if open_now is None else len(open_now) - 1, "/proc/self/fd")
