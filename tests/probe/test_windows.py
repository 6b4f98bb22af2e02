"""
Windows by the records that its own functions write, laid out as Microsoft documents them.
"""

import struct
import sys
from typing import Any

import pytest

from autoloader.facts import HostFacts, StorageFacts
from autoloader.probe import probe_host, probe_memory
from autoloader.probe.host_io import RealHost, StartMethods
from autoloader.probe.questions import WindowsMemory
from autoloader.probe.windows import Relation, parse_processors
from support import FakeHost

GIB = 1 << 30


def relation(kind: int, body: bytes) -> bytes:
    """
    Return a SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX: relationship, size, and one of its bodies.
    """
    return struct.pack("<II", kind, 8 + len(body)) + body


def affinities(*masks: tuple[int, int]) -> bytes:
    """
    Return GROUP_AFFINITY structures: mask, group, three reserved words.
    """
    return b"".join(struct.pack("<QHHHH", mask, group, 0, 0, 0) for group, mask in masks)


def core(*masks: tuple[int, int], efficiency: int = 0, kind: int = 0) -> bytes:
    """
    Return a PROCESSOR_RELATIONSHIP: flags, efficiency class, 20 reserved bytes, group count, masks.
    """
    return relation(kind, struct.pack("<BB20xH", 0, efficiency, len(masks)) + affinities(*masks))


def package(*masks: tuple[int, int]) -> bytes:
    """
    Return the same for a package.
    """
    return core(*masks, kind=3)


def node(number: int, *masks: tuple[int, int], group_count: int | None = None) -> bytes:
    """
    Return a NUMA_NODE_RELATIONSHIP: number, 18 reserved bytes, group count, masks.
    """
    count = len(masks) if group_count is None else group_count
    return relation(1, struct.pack("<I18xH", number, count) + affinities(*masks))


def groups(*masks: int) -> bytes:
    """
    Return a GROUP_RELATIONSHIP: maximum and active count, 20 reserved bytes, a PROCESSOR_GROUP_INFO for each.
    """
    infos = b"".join(struct.pack("<BB38xQ", 64, mask.bit_count(), mask) for mask in masks)
    return relation(4, struct.pack("<HH20x", len(masks), len(masks)) + infos)


CACHE = relation(2, bytes(44))
"""
A CACHE_RELATIONSHIP, which is not looked at.
"""

DESKTOP = b"".join(
    [*(core((0, 0b11 << 2 * each)) for each in range(8)), CACHE, package((0, 0xFFFF)), node(0, (0, 0xFFFF))]
)

HYBRID = b"".join(
    [
        *(core((0, 0b11 << 2 * each), efficiency=1) for each in range(6)),
        *(core((0, 1 << 12 + each)) for each in range(8)),
        package((0, (1 << 20) - 1)),
        node(0, (0, (1 << 20) - 1)),
        groups((1 << 20) - 1),
    ]
)
"""
Six fast cores of two threads, eight slow ones of one.
"""

ALL = (1 << 64) - 1

SERVER = b"".join(
    [
        *(core((group, 0b11 << 2 * each)) for group in range(2) for each in range(32)),
        package((0, ALL)),
        package((1, ALL)),
        *(node(2 * group + half, (group, 0xFFFFFFFF << 32 * half)) for group in range(2) for half in range(2)),
        groups(ALL, ALL),
    ]
)
"""
Two sockets, each a processor group of 64 CPUs and two nodes.
"""


def windows(processors: bytes = b"", **answers: Any) -> FakeHost:
    """
    Return a Windows machine whose processors are these.
    """
    known: dict[str, Any] = {
        "platform": "win32",
        "release": "11",
        "machine": "AMD64",
        "cpus": 16,
        "methods": StartMethods(("spawn",), "spawn", None),
        "memory": (16 * GIB, 9 * GIB),
        **answers,
    }
    return FakeHost(**known, processors=processors.hex() or None)


def facts_of(processors: bytes = b"", **answers: Any) -> HostFacts:
    """
    Return the facts of such a machine.
    """
    return probe_host(io=windows(processors, **answers))


def test_desktop_has_cores_of_one_kind_in_one_node() -> None:
    """
    Without a record of groups, as some systems have it, the count is Python's.
    """
    facts = facts_of(DESKTOP, mask=tuple(range(16)))
    cpu = facts.cpu
    assert (cpu.logical, cpu.physical, cpu.sockets) == (16, 8, 1)
    assert (cpu.performance_cpus, cpu.efficiency_cpus) == (None, None)
    assert (cpu.usable_cpus, cpu.bound_by) == (16.0, "logical")
    assert (facts.numa.cpu_nodes, facts.numa.node_cpus) == (1, {"0": tuple(range(16))})


def test_hybrid_laptop_has_fast_and_slow_cpus() -> None:
    """
    The higher the class, the faster the core.
    """
    cpu = facts_of(HYBRID, cpus=20).cpu
    assert (cpu.logical, cpu.physical, cpu.performance_cpus, cpu.efficiency_cpus) == (20, 14, 12, 8)


def test_server_of_two_groups_has_all_its_cpus() -> None:
    """
    Numbers go on in the second group. A process of several groups has no mask of its own.
    """
    facts = facts_of(SERVER, cpus=128, mask=None)
    cpu = facts.cpu
    assert (cpu.logical, cpu.physical, cpu.sockets, cpu.affinity) == (128, 64, 2, None)
    assert (cpu.usable_cpus, cpu.bound_by) == (128.0, "logical")
    assert facts.numa.cpu_nodes == 4
    assert facts.numa.node_cpus is not None
    assert facts.numa.node_cpus["3"] == tuple(range(96, 128))


def test_process_in_one_of_two_groups_has_its_cpus_only() -> None:
    """
    As before Windows 11, where a process starts in one group.
    """
    cpu = facts_of(SERVER, cpus=128, mask=tuple(range(64, 128))).cpu
    assert (cpu.usable_cpus, cpu.bound_by) == (64.0, "affinity")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", (), id="nothing"),
        pytest.param(core((0, 5))[:-1], (), id="cut"),
        pytest.param(core((0, 5)) + b"\0" * 5, (Relation("core", (0, 2)),), id="rest"),
        pytest.param(relation(0, b""), (), id="without-a-body"),
        pytest.param(struct.pack("<II", 0, 0) * 9, (), id="size-zero"),
        pytest.param(node(3, (1, 1), group_count=0), (Relation("node", (64,), 3),), id="node-of-an-older-windows"),
        pytest.param(node(3, (0, 1), (1, 1)), (Relation("node", (0, 64), 3),), id="node-of-two-groups"),
        pytest.param(node(3, (0, 1), group_count=9), (Relation("node", (0,), 3),), id="more-groups-said-than-there"),
        pytest.param(relation(6, bytes(40)), (), id="another-kind"),
    ],
)
def test_records_are_read_as_far_as_they_go(data: bytes, expected: tuple[Relation, ...]) -> None:
    """
    Nothing is raised, and nothing is read beyond.
    """
    assert parse_processors(data) == expected


def test_memory_is_bound_by_what_may_be_promised() -> None:
    """
    With half the memory free, the commit limit may leave next to nothing.
    """
    answers = {"commit": WindowsMemory(16 * GIB, 9 * GIB, 20 * GIB, GIB)}
    for memory in (facts_of(**answers).memory, probe_memory(io=windows(**answers)).memory):
        assert (memory.total_bytes, memory.available_bytes) == (16 * GIB, 9 * GIB)
        assert (memory.commit_limit_bytes, memory.commit_headroom_bytes) == (20 * GIB, GIB)
        assert (memory.headroom_bytes, memory.bound_by) == (float(GIB), "commit_headroom_bytes")


def test_memory_is_that_of_psutil_where_windows_does_not_answer() -> None:
    """
    It has no commit limit then.
    """
    memory = facts_of().memory
    assert (memory.total_bytes, memory.headroom_bytes, memory.commit_limit_bytes) == (16 * GIB, 9.0 * GIB, None)


@pytest.mark.parametrize(
    ("drive", "kind"),
    [
        pytest.param("remote", "network", id="network-drive"),
        pytest.param("ramdisk", "memory", id="memory"),
        pytest.param("fixed", "unknown", id="some-disk"),
        pytest.param("removable", "unknown", id="removable"),
        pytest.param(None, None, id="no-answer"),
    ],
)
def test_storage_kind_is_as_far_as_the_drive_tells(drive: str | None, kind: str | None) -> None:
    """
    A fixed disk may be any.
    """
    facts = facts_of(drives={} if drive is None else {"/work": drive})
    assert (facts.storage.path, facts.storage.kind) == ("/work", kind)
    assert facts.storage != StorageFacts()


@pytest.mark.real_host
@pytest.mark.skipif(sys.platform != "win32", reason="asks Windows")
def test_this_machine_answers_as_other_functions_do() -> None:
    """
    The number of CPUs by GetActiveProcessorCount, memory by psutil, CPUs of the nodes as in the groups.
    """
    import ctypes

    import psutil

    host = RealHost()
    facts = probe_host(io=host)
    count = ctypes.windll.kernel32.GetActiveProcessorCount  # type: ignore[attr-defined]
    assert facts.cpu.logical == count(0xFFFF)
    assert facts.cpu.physical is not None
    assert facts.cpu.physical <= facts.cpu.logical
    assert facts.memory.total_bytes == psutil.virtual_memory().total
    assert facts.memory.commit_limit_bytes is not None
    assert facts.memory.commit_limit_bytes >= (facts.memory.commit_headroom_bytes or 0) > 0
    assert facts.numa.node_cpus is not None
    assert sum(len(cpus) for cpus in facts.numa.node_cpus.values()) == facts.cpu.logical
    assert facts.cpu.affinity == tuple(psutil.Process().cpu_affinity() or ())
    assert host.drive_kind("C:\\Windows") == "fixed"
    assert host.drive_kind("C:\\no\\such\\folder") in {"fixed", None}
