"""
Windows: processors in groups and nodes, memory and commit limit, drives.

Source: Microsoft, SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX, "Processor Groups", MEMORYSTATUSEX, GetDriveTypeW. What was
run on a real Python for Windows ran under Wine.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ..facts import CpuFacts, HostFacts, MemoryFacts, NumaFacts, StorageFacts, StorageKind
from . import fallback
from .accelerator import read_accelerator_by_nvml
from .host_io import HostIO
from .interpreter import read_python_cpu_count
from .parse import tightest
from .readings import Readings

_RELATIONS = {0: "core", 1: "node", 3: "package", 4: "group"}
_GROUP_SIZE = 64

DRIVES: dict[str, StorageKind] = {"remote": "network", "ramdisk": "memory"}
"""
What a kind of drive says of its medium; of a fixed one, nothing.
"""


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
    relations = parse_processors(bytes.fromhex(io.windows_processors() or ""))
    return facts._replace(
        cpu=_read_cpu(facts.cpu, relations, io),
        numa=_read_numa(relations),
        memory=_read_memory(facts.memory, io),
        storage=_with_drive(facts.storage, io),
        accelerator=read_accelerator_by_nvml(io),
    )


def collect_memory(io: HostIO) -> HostFacts:
    """
    Read only memory and limits on files.
    """
    facts = fallback.collect_memory(io)
    return facts._replace(memory=_read_memory(facts.memory, io))


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


def _read_cpu(cpu: CpuFacts, relations: tuple[Relation, ...], io: HostIO) -> CpuFacts:
    readings, source = Readings(), "GetLogicalProcessorInformationEx"
    cores = [each for each in relations if each.kind == "core"]
    logical = sum(len(each.cpus) for each in relations if each.kind == "group") or cpu.logical
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
    bound = tightest({"logical": logical, "affinity": mask, "python_cpu_count": own})
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


def _read_memory(memory: MemoryFacts, io: HostIO) -> MemoryFacts:
    """
    Read memory, and what may still be promised to processes: Windows keeps a place for all that is allocated.
    """
    readings, source = Readings(), "GlobalMemoryStatusEx"
    found = io.windows_memory()
    if found is None:
        return memory
    readings.put("total_bytes", found.total, source)
    readings.put("available_bytes", found.available, source)
    readings.put("commit_limit_bytes", found.commit_limit, source)
    readings.put("commit_headroom_bytes", found.commit_available, source)
    bound = tightest({"available_bytes": found.available, "commit_headroom_bytes": found.commit_available})
    if bound is not None:
        readings.put("headroom_bytes", float(bound[0]), source)
        readings.put("bound_by", bound[1], source)
    return readings.extend(memory)


def _with_drive(storage: StorageFacts, io: HostIO) -> StorageFacts:
    readings = Readings()
    drive = None if storage.path is None else io.drive_kind(storage.path)
    readings.put("kind", drive and DRIVES.get(drive, "unknown"), "GetDriveTypeW")
    return readings.extend(storage)
