"""
Windows: processors in groups and nodes, memory and commit limit, drives.

Source: Microsoft, SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX, "Processor Groups", MEMORYSTATUSEX, GetDriveTypeW. What was
run on a real Python for Windows ran under Wine.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ..facts import (
    CpuFacts,
    HostFacts,
    LimitFacts,
    MemoryFacts,
    NumaFacts,
    StorageFacts,
    StorageKind,
    SystemFacts,
)
from . import fallback
from .accelerator import read_accelerator_by_nvml
from .host_io import HostIO
from .interpreter import read_python_cpu_count
from .medium import REMOTE_NVME, VIRTUAL_DISKS
from .parse import NO_LIMIT, tightest
from .questions import WindowsJob, WindowsVolume
from .readings import Readings

_RELATIONS = {0: "core", 1: "node", 3: "package", 4: "group"}
_GROUP_SIZE = 64

DRIVES: dict[str, StorageKind] = {"remote": "network", "ramdisk": "memory", "cdrom": "optical"}
"""
What a kind of drive says of its medium; of a fixed one, nothing.
"""

_ISCSI, _VIRTUAL_BUSES, _NVME = 9, frozenset({14, 15}), 17
_PHYSICAL_BUSES = frozenset({3, 10, 11, 12, 13, 17, 19})
"""
Buses on which the flag of seeks is the disk's own: ATA, SAS, SATA, SD, MMC, NVMe, UFS. Source: STORAGE_BUS_TYPE.
"""

_CPU_ENABLED, _CPU_HARD_CAP, _CPU_MIN_MAX = 1, 4, 16
_ACTIVE_PROCESSES, _JOB_MEMORY = 0x8, 0x200


class JobLimits(NamedTuple):
    """
    What a job object grants all its processes; infinite where it does not limit.
    """

    cpu_fraction: float = NO_LIMIT
    """Share of all CPUs, 0 to 1."""
    memory: float = NO_LIMIT
    """Committed bytes."""
    memory_left: float = NO_LIMIT
    """What was left of them when most were used."""
    processes_left: float = NO_LIMIT


class Relation(NamedTuple):
    """
    A core, a package, a memory node or a group, and the numbers of its CPUs: 64 for each group.
    """

    kind: str
    cpus: tuple[int, ...]
    number: int = 0
    """Of a node, its number; of a core, its class: the higher, the faster."""


def collect(io: HostIO, path: str | None = None) -> HostFacts:
    """
    Read every fact that Windows tells.

    Args:
        io: The host.
        path: The place whose storage is asked about; the working directory without one.
    """
    facts = fallback.collect(io, path)
    relations = parse_processors(_from_hex(io.windows_processors()))
    job = parse_job(io.windows_job())
    return facts._replace(
        system=_with_version(facts.system, io),
        cpu=_read_cpu(facts.cpu, relations, job, io),
        numa=_read_numa(relations),
        memory=_read_memory(facts.memory, job, io),
        limits=_with_processes(facts.limits, job),
        storage=_with_volume(facts.storage, io),
        accelerator=read_accelerator_by_nvml(io),
    )


def collect_memory(io: HostIO) -> HostFacts:
    """
    Read only memory and limits on files.
    """
    facts = fallback.collect_memory(io)
    return facts._replace(memory=_read_memory(facts.memory, parse_job(io.windows_job()), io))


def parse_processors(data: bytes) -> tuple[Relation, ...]:
    """
    Return the relations that GetLogicalProcessorInformationEx wrote, on a system of 64 bits.

    Those that are cut off, or of another kind, are left out.
    """
    found, start = [], 0
    while start + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, start)
        if size < 8 or start + size > len(data):
            break
        if kind in _RELATIONS and size >= 32:
            found.append(_parse_relation(_RELATIONS[kind], data[start + 8 : start + size]))
        start += size
    return tuple(found)


def _parse_relation(kind: str, body: bytes) -> Relation:
    if kind == "group":
        (active,) = struct.unpack_from("<H", body, 2)
        masks = _masks(body, "<BB38xQ", active)
        return Relation(kind, tuple(cpu for group, (_, _, mask) in enumerate(masks) for cpu in _bits(mask, group)))
    (count,) = struct.unpack_from("<H", body, 22)
    number = struct.unpack_from("<I", body)[0] if kind == "node" else body[1]
    # Before Windows Server 2022 a node had one group, and 0 in the place of their number.
    masks = _masks(body, "<QH6x", max(1, count))
    return Relation(kind, tuple(cpu for mask, group in masks for cpu in _bits(mask, group)), number)


def _masks(body: bytes, layout: str, count: int) -> Iterator[tuple[int, ...]]:
    size = struct.calcsize(layout)
    for place in range(min(count, (len(body) - 24) // size)):
        yield struct.unpack_from(layout, body, 24 + place * size)


def _bits(mask: int, group: int) -> tuple[int, ...]:
    return tuple(_GROUP_SIZE * group + bit for bit in range(_GROUP_SIZE) if mask >> bit & 1)


def parse_job(job: WindowsJob | None) -> JobLimits | None:
    """
    Return the limits of a job object; none where there is no job, or its structures are cut off.

    Source: JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECT_CPU_RATE_CONTROL_INFORMATION,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, on a system of 64 bits.
    """
    if job is None:
        return None
    limits, rates, counts = (_from_hex(part) for part in (job.limits, job.cpu_rate, job.accounting))
    found = JobLimits()
    if len(limits) >= 144:
        flags, processes = struct.unpack_from("<I", limits, 16)[0], struct.unpack_from("<I", limits, 40)[0]
        memory, peak = struct.unpack_from("<Q", limits, 120)[0], struct.unpack_from("<Q", limits, 136)[0]
        if flags & _JOB_MEMORY:
            found = found._replace(memory=float(memory), memory_left=float(max(0, memory - peak)))
        if flags & _ACTIVE_PROCESSES:
            active = struct.unpack_from("<I", counts, 40)[0] if len(counts) >= 48 else 1
            found = found._replace(processes_left=float(max(0, processes - active)))
    if len(rates) >= 8:
        flags, rate, _, most = *struct.unpack_from("<II", rates), *struct.unpack_from("<HH", rates, 4)
        if flags & _CPU_ENABLED and flags & (_CPU_HARD_CAP | _CPU_MIN_MAX):
            found = found._replace(cpu_fraction=(most if flags & _CPU_MIN_MAX else rate) / 10_000)
    return found


def _from_hex(text: str | None) -> bytes:
    """
    Return bytes that were written in hexadecimal; none where it is something else.
    """
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        return b""


def _with_version(system: SystemFacts, io: HostIO) -> SystemFacts:
    readings, version = Readings(), io.windows_version()
    readings.put("distribution", version and f"Windows {version}", "RtlGetVersion")
    return readings.extend(system)


def _with_processes(limits: LimitFacts, job: JobLimits | None) -> LimitFacts:
    readings = Readings()
    readings.put("pids_headroom", job and job.processes_left, "QueryInformationJobObject")
    return readings.extend(limits)


def _read_cpu(cpu: CpuFacts, relations: tuple[Relation, ...], job: JobLimits | None, io: HostIO) -> CpuFacts:
    readings, source = Readings(), "GetLogicalProcessorInformationEx"
    cores = [each for each in relations if each.kind == "core"]
    logical = sum(len(each.cpus) for each in relations if each.kind == "group") or cpu.logical
    readings.put("model", io.windows_processor_name(), "the registry's ProcessorNameString")
    readings.put("logical", logical, source)
    readings.put("physical", len(cores) or None, source)
    readings.put("sockets", sum(each.kind == "package" for each in relations) or None, source)
    fastest = max((each.number for each in cores), default=0)
    slow = sum(len(each.cpus) for each in cores if each.number < fastest)
    if slow:
        readings.put("efficiency_cpus", slow, source)
        readings.put("performance_cpus", sum(len(each.cpus) for each in cores) - slow, source)
    affinity = io.affinity()
    readings.put("affinity", affinity, "GetProcessAffinityMask")
    readings.put("affinity_now", affinity, "GetProcessAffinityMask")
    own, _ = read_python_cpu_count(io)
    mask = None if affinity is None else len(affinity)
    quota = None if job is None else job.cpu_fraction * (logical or 1)
    readings.put("quota_cpus", quota, "QueryInformationJobObject")
    bound = tightest({"logical": logical, "affinity": mask, "quota_cpus": quota, "python_cpu_count": own})
    if bound is not None:
        readings.put("usable_cpus", float(bound[0]), f"the smallest of the limits: {bound[1]}")
        readings.put("bound_by", bound[1], "the smallest of the limits")
    return readings.extend(cpu)


def _read_numa(relations: tuple[Relation, ...]) -> NumaFacts:
    readings, source = Readings(), "GetLogicalProcessorInformationEx"
    nodes = {str(each.number): each.cpus for each in relations if each.kind == "node"}
    readings.put("cpu_nodes", sum(bool(cpus) for cpus in nodes.values()) or None, source)
    readings.put("node_cpus", nodes or None, source)
    return readings.build(NumaFacts)


def _read_memory(memory: MemoryFacts, job: JobLimits | None, io: HostIO) -> MemoryFacts:
    """
    Read memory, and what may still be promised to processes: Windows keeps a place for all that is allocated.
    """
    readings, source = Readings(), "GlobalMemoryStatusEx"
    found = io.windows_memory()
    if job is not None:
        readings.put("job_limit_bytes", job.memory, "QueryInformationJobObject")
        readings.put("job_headroom_bytes", job.memory_left, "QueryInformationJobObject")
    available = memory.available_bytes
    if found is not None:
        available = found.available
        readings.put("total_bytes", found.total, source)
        readings.put("available_bytes", found.available, source)
        readings.put("commit_limit_bytes", found.commit_limit, source)
        readings.put("commit_headroom_bytes", found.commit_available, source)
    commit = None if found is None else found.commit_available
    limits = {
        "available_bytes": available,
        "commit_headroom_bytes": commit,
        "job_headroom_bytes": job and job.memory_left,
    }
    known = [(size, name) for name, size in limits.items() if size is not None and size < NO_LIMIT]
    if known and (found is not None or job is not None):
        least, name = min(known, key=lambda pair: pair[0])
        readings.put("headroom_bytes", float(least), f"the smallest: {name}")
        readings.put("bound_by", name, "the smallest")
    return readings.extend(memory)


def _with_volume(storage: StorageFacts, io: HostIO) -> StorageFacts:
    """
    Add what Windows says of drive, volume and device; a network drive is not asked, as it may never answer.
    """
    readings = Readings()
    drive = None if storage.path is None else io.drive_kind(storage.path)
    if storage.path is None or drive is None:
        return storage
    volume = WindowsVolume() if drive == "remote" else io.windows_volume(storage.path) or WindowsVolume()
    readings.put("mount_point", volume.mount_point, "GetVolumePathNameW")
    readings.put("filesystem", volume.filesystem, "GetVolumeInformationW")
    readings.put("size_bytes", volume.total, "GetDiskFreeSpaceExW")
    readings.put("free_bytes", volume.free, "GetDiskFreeSpaceExW")
    kind, is_certain = (DRIVES[drive], True) if drive in DRIVES else _disk_kind(volume)
    source = "GetDriveTypeW" if drive in DRIVES else "IOCTL_STORAGE_QUERY_PROPERTY"
    readings.put("kind", kind, source)
    readings.put("confidence", "high" if is_certain else "low", source)
    return readings.extend(storage)


def _disk_kind(volume: WindowsVolume) -> tuple[StorageKind, bool]:
    """
    Return the kind of a disk by its bus, its name, and whether it says that seeking costs time, and how certain it is.

    A disk that takes TRIM has flash where nothing is said of seeks; behind RAID and USB both may be made up.
    """
    name = (volume.product or "").upper()
    if volume.bus in _VIRTUAL_BUSES or any(word in name for word in VIRTUAL_DISKS):
        return "virtual", False
    if volume.bus == _ISCSI:
        return "network", True
    if volume.bus == _NVME:
        return ("virtual", False) if name.startswith(REMOTE_NVME) else ("nvme", True)
    is_certain = volume.bus in _PHYSICAL_BUSES
    if volume.seek_penalty is not None:
        return ("hdd" if volume.seek_penalty else "ssd"), is_certain
    return ("ssd", False) if volume.trim else ("unknown", False)
