"""
macOS by the variables of its kernel.
"""

from typing import Any

import pytest

from autoloader.facts import AcceleratorFacts, HostFacts
from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace, RealHost
from autoloader.probe.questions import MacVolume
from support import FakeHost

GIB = 1 << 30

M1_PRO: dict[str, int | str] = {
    "kern.osproductversion": "14.5",
    "machdep.cpu.brand_string": "Apple M1 Pro",
    "hw.physicalcpu": 10,
    "hw.packages": 1,
    "hw.nperflevels": 2,
    "hw.perflevel0.logicalcpu": 8,
    "hw.perflevel1.logicalcpu": 2,
    "hw.memsize": 32 * GIB,
    "hw.optional.arm64": 1,
    "kern.hv_vmm_present": 0,
    "sysctl.proc_translated": 0,
}
"""
Source: Apple's technical specifications of the MacBook Pro of 2021: 10 cores, 8 of them fast.
"""

INTEL: dict[str, int | str] = {
    "kern.osproductversion": "12.7.6",
    "machdep.cpu.brand_string": "Intel(R) Core(TM) i7-7700K CPU @ 4.20GHz",
    "hw.physicalcpu": 4,
    "hw.packages": 1,
    "hw.memsize": 16 * GIB,
    "hw.optional.arm64": 0,
    "kern.hv_vmm_present": 0,
}


def mac(sysctls: dict[str, int | str], **answers: Any) -> FakeHost:
    """
    Return a Mac whose kernel has these variables.
    """
    known: dict[str, Any] = {"platform": "darwin", "machine": "arm64", "cpus": 10, "memory": (32 * GIB, 20 * GIB)}
    return FakeHost(**{**known, **answers}, sysctls=sysctls)


def facts_of(sysctls: dict[str, int | str], **answers: Any) -> HostFacts:
    """
    Return the facts of such a Mac.
    """
    return probe_host(io=mac(sysctls, **answers))


def test_apple_silicon_has_two_kinds_of_cores_and_a_gpu() -> None:
    """
    All in one memory node.
    """
    facts = facts_of(M1_PRO)
    assert (facts.system.platform, facts.system.distribution, facts.system.architecture) == (
        "macos",
        "macOS 14.5",
        "arm64",
    )
    cpu = facts.cpu
    assert (cpu.model, cpu.logical, cpu.physical, cpu.sockets) == ("Apple M1 Pro", 10, 10, 1)
    assert (cpu.performance_cpus, cpu.efficiency_cpus, cpu.usable_cpus) == (8, 2, 10.0)
    assert (facts.numa.nodes, facts.numa.cpu_nodes) == (1, 1)
    assert (facts.accelerator.kind, facts.accelerator.devices) == ("mps", 1)
    assert facts.memory.total_bytes == 32 * GIB
    assert cpu.sources["logical"] == "os.cpu_count()"
    assert cpu.sources["performance_cpus"] == "sysctl hw.perflevel0.logicalcpu"


def test_intel_mac_has_one_kind_of_cores_and_no_gpu_for_torch() -> None:
    """
    It has no levels.
    """
    facts = facts_of(INTEL, machine="x86_64", cpus=8)
    assert (facts.cpu.physical, facts.cpu.performance_cpus, facts.cpu.efficiency_cpus) == (4, None, None)
    assert (facts.accelerator.kind, facts.accelerator.devices) == (None, 0)
    assert facts.system.architecture == "x86_64"


def test_three_kinds_of_cores_are_fast_ones_and_others() -> None:
    """
    Levels count from the fastest.
    """
    facts = facts_of({**M1_PRO, "hw.nperflevels": 3, "hw.perflevel2.logicalcpu": 4})
    assert (facts.cpu.performance_cpus, facts.cpu.efficiency_cpus) == (8, 6)


def test_level_that_does_not_answer_leaves_both_unknown() -> None:
    """
    Half of the truth would be wrong.
    """
    facts = facts_of({name: value for name, value in M1_PRO.items() if name != "hw.perflevel1.logicalcpu"})
    assert (facts.cpu.performance_cpus, facts.cpu.efficiency_cpus) == (None, None)


def test_python_under_rosetta_runs_on_apple_silicon() -> None:
    """
    It says x86_64 itself.
    """
    assert facts_of({**M1_PRO, "sysctl.proc_translated": 1}, machine="x86_64").system.architecture == "arm64"


def test_virtual_machine_may_have_a_gpu_or_not() -> None:
    """
    Nothing is said then.
    """
    assert facts_of({**M1_PRO, "kern.hv_vmm_present": 1}).accelerator == AcceleratorFacts()


def test_memory_is_known_without_psutil() -> None:
    """
    How much is built in, but not how much is available.
    """
    memory = facts_of(M1_PRO, memory=None).memory
    assert (memory.total_bytes, memory.available_bytes, memory.bound_by) == (32 * GIB, None, None)


def test_mac_that_answers_nothing_has_what_python_tells() -> None:
    """
    And raises nothing.
    """
    facts = facts_of({})
    assert (facts.cpu.logical, facts.cpu.physical, facts.cpu.model) == (10, None, None)
    assert facts.accelerator == AcceleratorFacts()


@pytest.mark.real_host
def test_other_systems_have_no_such_variables() -> None:
    """
    The real host says so, and is not asked there; on a Mac it knows the number of CPUs.
    """
    host = RealHost()
    is_mac = host.platform == "darwin"
    assert host.sysctl_number("hw.logicalcpu") == (host.cpu_count() if is_mac else None)
    assert (host.sysctl_text("kern.ostype") or "") == ("Darwin" if is_mac else "")
    assert host.sysctl_number("no.such.variable") is None


@pytest.mark.parametrize(
    ("volume", "kind", "confidence"),
    [
        pytest.param(MacVolume("apfs", "/", "/dev/disk3s1", "Apple Fabric", True), "nvme", "high", id="apple-silicon"),
        pytest.param(MacVolume("apfs", "/", "/dev/disk1s5", "PCI-Express", True), "nvme", "high", id="intel-mac"),
        pytest.param(MacVolume("hfs", "/", "/dev/disk0s2", "SATA", False), "hdd", "high", id="old-mac"),
        pytest.param(MacVolume("apfs", "/Volumes/T7", "/dev/disk5s1", "USB", True), "ssd", "high", id="usb-flash"),
        pytest.param(MacVolume("exfat", "/Volumes/X", "/dev/disk5s1", "USB", False), "hdd", "low", id="usb-silent"),
        pytest.param(MacVolume("apfs", "/Volumes/I", "/dev/disk7s1", "Disk Image", True), "virtual", "low", id="image"),
        pytest.param(MacVolume("apfs", "/", "/dev/disk3s1"), "unknown", "low", id="diskutil-is-silent"),
    ],
)
def test_storage_is_as_diskutil_tells(volume: MacVolume, kind: str, confidence: str) -> None:
    """
    Bus and flash say what a disk is; without them nobody knows.
    """
    space = DiskSpace(1000, 400)
    storage = facts_of(M1_PRO, mac_volumes={"/work": volume}, spaces={volume.mount_point: space}).storage
    assert (storage.kind, storage.confidence, storage.device) == (kind, confidence, volume.device)
    assert (storage.filesystem, storage.mount_point) == (volume.filesystem, volume.mount_point)
    assert (storage.size_bytes, storage.free_bytes) == (1000, 400)


@pytest.mark.parametrize("filesystem", ["smbfs", "nfs", "macfuse"])
def test_storage_of_a_server_is_not_asked_for_its_size(filesystem: str) -> None:
    """
    A dead server never answers.
    """
    volume = MacVolume(filesystem, "/Volumes/share", "//server/share")
    spaces = {path: DiskSpace(1000, 400) for path in ("/work", "/Volumes/share")}
    storage = facts_of(M1_PRO, mac_volumes={"/work": volume}, spaces=spaces).storage
    assert (storage.kind, storage.confidence) == ("network", "high")
    assert (storage.size_bytes, storage.free_bytes) == (None, None)
