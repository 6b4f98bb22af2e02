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
from autoloader.probe.parse import NO_LIMIT
from autoloader.probe.questions import WindowsJob, WindowsMemory, WindowsVolume
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
        pytest.param("cdrom", "optical", id="optical"),
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


SATA, USB, RAID, NVME, FILE_BACKED, ISCSI, SPACES = 11, 7, 8, 17, 15, 9, 16
"""
STORAGE_BUS_TYPE.
"""


@pytest.mark.parametrize(
    ("bus", "product", "seeks", "trims", "expected"),
    [
        pytest.param(NVME, "Samsung SSD 990 PRO 2TB", False, True, ("nvme", "high"), id="nvme"),
        pytest.param(SATA, "Samsung SSD 870 EVO 1TB", False, True, ("ssd", "high"), id="sata-ssd"),
        pytest.param(SATA, "ST4000DM004-2CV104", True, False, ("hdd", "high"), id="sata-hdd"),
        pytest.param(USB, "Portable SSD T7", None, True, ("ssd", "low"), id="usb-that-trims"),
        pytest.param(USB, "Expansion", None, None, ("unknown", "low"), id="usb-that-is-silent"),
        pytest.param(RAID, "RAID 5 Volume", True, False, ("hdd", "low"), id="raid"),
        pytest.param(SPACES, "Storage Space", False, True, ("ssd", "low"), id="storage-spaces"),
        pytest.param(10, "Virtual Disk", True, False, ("virtual", "low"), id="hyper-v"),
        pytest.param(10, "VMware Virtual S", True, False, ("virtual", "low"), id="vmware"),
        pytest.param(FILE_BACKED, "Virtual Disk", False, True, ("virtual", "low"), id="vhd"),
        pytest.param(ISCSI, "LUN", True, None, ("network", "high"), id="iscsi"),
        pytest.param(NVME, "Amazon Elastic Block Store", False, True, ("virtual", "low"), id="ebs"),
        pytest.param(NVME, "MSFT NVMe Accelerator v1.0", False, True, ("virtual", "low"), id="azure"),
        pytest.param(None, None, None, None, ("unknown", "low"), id="nothing"),
    ],
)
def test_disk_is_of_a_kind_by_bus_name_and_seeks(
    bus: int | None, product: str | None, seeks: bool | None, trims: bool | None, expected: tuple[str, str]
) -> None:
    """
    What RAID controllers and USB bridges pass on is believed less; virtual disks tell what their host made up.
    """
    volume = WindowsVolume("NTFS", "D:\\", 1000, 400, bus, product, seeks, trims)
    storage = facts_of(drives={"/work": "fixed"}, windows_volumes={"/work": volume}).storage
    assert (storage.kind, storage.confidence) == expected
    assert (storage.filesystem, storage.mount_point) == ("NTFS", "D:\\")
    assert (storage.size_bytes, storage.free_bytes) == (1000, 400)


def test_network_drive_is_not_asked_for_its_volume() -> None:
    """
    A dead server may never answer.
    """
    volume = WindowsVolume("NTFS", "Z:\\", 1000, 400)
    storage = facts_of(drives={"/work": "remote"}, windows_volumes={"/work": volume}).storage
    assert (storage.kind, storage.confidence, storage.size_bytes, storage.filesystem) == ("network", "high", None, None)


ACTIVE_PROCESS, AFFINITY, PROCESS_MEMORY, JOB_MEMORY = 0x8, 0x10, 0x100, 0x200
ENABLE, WEIGHT_BASED, HARD_CAP, MIN_MAX = 0x1, 0x2, 0x4, 0x10


def job(flags: int, *, processes: int = 0, active: int = 1, memory: int = 0, peak: int = 0, rate: bytes = b"") -> Any:
    """
    Return the structures of a job object, as winnt.h lays them out on 64 bits.

    Limits: two times, flags, the least and the most of a working set, processes, affinity, priority, scheduling; six
    counters; memory a process, of the job, and the most that either used. Accounting: four times, faults, processes in
    all, active ones, ended ones.
    """
    basic = struct.pack("<qqI4xQQI4xQII", 0, 0, flags, 0, 0, processes, 0, 0x20, 5)
    limits = basic + bytes(48) + struct.pack("<QQQQ", 7, memory, 5, peak)
    accounting = struct.pack("<qqqqIIII", 0, 0, 0, 0, 0, active, active, 0)
    return WindowsJob(limits.hex(), rate.hex() or None, accounting.hex())


@pytest.mark.parametrize(
    ("around", "quota", "bound_by"),
    [
        pytest.param(WindowsJob(""), NO_LIMIT, "logical", id="no-job"),
        pytest.param(job(0), NO_LIMIT, "logical", id="job-without-limits"),
        pytest.param(job(0, rate=struct.pack("<II", ENABLE | HARD_CAP, 2500)), 4.0, "quota_cpus", id="hard-cap"),
        pytest.param(job(0, rate=struct.pack("<II", ENABLE, 2500)), NO_LIMIT, "logical", id="soft"),
        pytest.param(job(0, rate=struct.pack("<II", ENABLE | WEIGHT_BASED, 5)), NO_LIMIT, "logical", id="weight"),
        pytest.param(job(0, rate=struct.pack("<II", HARD_CAP, 2500)), NO_LIMIT, "logical", id="not-enabled"),
        pytest.param(
            job(0, rate=struct.pack("<IHH", ENABLE | MIN_MAX, 1000, 5000)), 8.0, "quota_cpus", id="least-and-most"
        ),
        pytest.param(WindowsJob("00", "zz", "00"), NO_LIMIT, "logical", id="garbage"),
    ],
)
def test_hard_cap_of_a_job_is_a_quota(around: Any, quota: float, bound_by: str) -> None:
    """
    In hundredths of a percent of all CPUs; shares that may be exceeded while others idle are no limit.
    """
    cpu = facts_of(DESKTOP, mask=tuple(range(16)), job=around).cpu
    assert (cpu.quota_cpus, cpu.usable_cpus, cpu.bound_by) == (quota, min(16.0, quota), bound_by)


def test_job_that_cannot_be_asked_leaves_its_limits_unknown() -> None:
    """
    That nobody answers is not "no limit".
    """
    facts = facts_of(DESKTOP)
    assert (facts.cpu.quota_cpus, facts.memory.job_limit_bytes, facts.limits.pids_headroom) == (None, None, None)


def test_memory_of_a_job_is_a_limit() -> None:
    """
    What was used at most is taken for what is used now, which no structure tells.
    """
    answers = {
        "commit": WindowsMemory(16 * GIB, 9 * GIB, 20 * GIB, 8 * GIB),
        "job": job(JOB_MEMORY, memory=4 * GIB, peak=GIB),
    }
    for memory in (facts_of(**answers).memory, probe_memory(io=windows(**answers)).memory):
        assert (memory.job_limit_bytes, memory.job_headroom_bytes) == (4.0 * GIB, 3.0 * GIB)
        assert (memory.headroom_bytes, memory.bound_by) == (3.0 * GIB, "job_headroom_bytes")


def test_processes_of_a_job_are_a_limit() -> None:
    """
    Those that are active already are taken off.
    """
    assert facts_of(job=job(ACTIVE_PROCESS, processes=10, active=3)).limits.pids_headroom == 7.0
    assert facts_of(job=job(0, processes=10, active=3)).limits.pids_headroom == NO_LIMIT


def test_system_and_processor_have_their_names() -> None:
    """
    The registry has the processor's brand, and RtlGetVersion the version that programs of any age are told.
    """
    facts = facts_of(windows="10.0.22631", processor_name="AMD Ryzen 9 7950X 16-Core Processor")
    assert facts.system.distribution == "Windows 10.0.22631"
    assert facts.cpu.model == "AMD Ryzen 9 7950X 16-Core Processor"


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
    version = sys.getwindowsversion()  # type: ignore[attr-defined]
    assert host.windows_version() == ".".join(map(str, version.platform_version))
    storage = probe_host(io=host, path="C:\\Windows").storage
    space = psutil.disk_usage("C:\\")
    assert (storage.mount_point, storage.size_bytes) == ("C:\\", space.total)
    assert storage.filesystem == {each.mountpoint: each.fstype for each in psutil.disk_partitions()}["C:\\"]


@pytest.mark.real_host
@pytest.mark.skipif(sys.platform != "win32", reason="starts a rank on Windows")
def test_launcher_of_a_rank_is_the_process_above_it() -> None:
    """
    Also above a process of the same rank: of three, the first has no number in its environment.
    """
    import os
    import subprocess

    ask = "from autoloader.probe import RealHost; print(RealHost().launcher_affinity('LOCAL_RANK'))"
    wrapped = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {ask!r}]))"
    for code in (ask, wrapped):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "LOCAL_RANK": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout.strip()) == (0, repr(RealHost().affinity())), done.stderr


LIMITED = """
import ctypes, json, struct
from autoloader.probe import RealHost, probe_host
before = RealHost().windows_job()
kernel = ctypes.WinDLL("kernel32")
kernel.CreateJobObjectW.restype = kernel.GetCurrentProcess.restype = ctypes.c_void_p
kernel.SetInformationJobObject.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
kernel.AssignProcessToJobObject.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
job = kernel.CreateJobObjectW(None, None)
limits = bytearray(144)
struct.pack_into("<I", limits, 16, 0x208)
struct.pack_into("<I", limits, 40, 10)
struct.pack_into("<Q", limits, 120, 3 << 30)
assert kernel.SetInformationJobObject(job, 9, bytes(limits), 144), "limits"
assert kernel.AssignProcessToJobObject(job, kernel.GetCurrentProcess()), "assigned"
facts = probe_host()
keeps_limits = not hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")
print(json.dumps([before is None, RealHost().windows_job() is None, keeps_limits]))
print(json.dumps([facts.memory.job_limit_bytes, facts.limits.pids_headroom]))
"""


@pytest.mark.real_host
@pytest.mark.skipif(sys.platform != "win32", reason="makes a job object")
def test_process_in_a_job_has_its_limits() -> None:
    """
    A process puts itself into a job of ten processes and 3 GiB. Wine lets it, and shows a job without limits.
    """
    import json
    import subprocess

    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (_, is_outside, keeps_limits), found = (json.loads(line) for line in done.stdout.splitlines())
    assert is_outside is False
    assert found == ([3.0 * GIB, 9.0] if keeps_limits else [NO_LIMIT, NO_LIMIT])
