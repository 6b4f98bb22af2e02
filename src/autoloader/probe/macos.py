"""
macOS: what every Python tells, and the variables of the kernel.

Source: sysctl(3); Apple, "Determining system capabilities" (hw.perflevel, hw.optional) and "About the Rosetta
translation environment" (sysctl.proc_translated). Nothing of this was run on macOS.
"""

from ..facts import (
    AcceleratorFacts,
    CpuFacts,
    HostFacts,
    MemoryFacts,
    NumaFacts,
    StorageFacts,
    StorageKind,
    SystemFacts,
)
from . import fallback
from .host_io import HostIO
from .questions import MacVolume
from .readings import Readings


def collect(io: HostIO, path: str | None = None) -> HostFacts:
    """
    Read every fact that macOS tells.

    Args:
        io: The host.
        path: The place whose storage is asked about; the working directory without one.
    """
    facts = fallback.collect(io, path)
    return facts._replace(
        system=_with_version(facts.system, io),
        cpu=_with_kinds(facts.cpu, io),
        numa=_one_node(),
        memory=_with_total(facts.memory, io),
        storage=_with_volume(facts.storage, io),
        accelerator=_read_accelerator(io),
    )


collect_memory = fallback.collect_memory


def _with_version(system: SystemFacts, io: HostIO) -> SystemFacts:
    readings = Readings()
    version = io.sysctl_text("kern.osproductversion")
    readings.put("distribution", version and f"macOS {version}", "sysctl kern.osproductversion")
    if io.sysctl_number("sysctl.proc_translated") == 1:  # Rosetta runs a Python for Intel on Apple silicon
        readings.put("architecture", "arm64", "sysctl sysctl.proc_translated")
    return readings.extend(system)


def _with_kinds(cpu: CpuFacts, io: HostIO) -> CpuFacts:
    """
    Add the processor's name, its cores, and how many are fast. Level 0 is the fastest.
    """
    readings = Readings()
    readings.put("model", io.sysctl_text("machdep.cpu.brand_string"), "sysctl machdep.cpu.brand_string")
    readings.put("physical", io.sysctl_number("hw.physicalcpu"), "sysctl hw.physicalcpu")
    readings.put("sockets", io.sysctl_number("hw.packages"), "sysctl hw.packages")
    levels = min(io.sysctl_number("hw.nperflevels") or 1, MOST_LEVELS)
    counts = [io.sysctl_number(f"hw.perflevel{level}.logicalcpu") for level in range(levels)] if levels > 1 else []
    known = [count for count in counts if count is not None]
    if known and len(known) == len(counts):
        readings.put("performance_cpus", known[0], "sysctl hw.perflevel0.logicalcpu")
        readings.put("efficiency_cpus", sum(known[1:]), "sysctl hw.perflevel1.logicalcpu")
    return readings.extend(cpu)


def _one_node() -> NumaFacts:
    readings = Readings()
    readings.put("nodes", 1, "macOS has one memory node")
    readings.put("cpu_nodes", 1, "macOS has one memory node")
    return readings.build(NumaFacts)


def _with_total(memory: MemoryFacts, io: HostIO) -> MemoryFacts:
    readings = Readings()
    if memory.total_bytes is None:
        readings.put("total_bytes", io.sysctl_number("hw.memsize"), "sysctl hw.memsize")
    return readings.extend(memory)


MOST_LEVELS = 8
"""
More kinds of cores than any processor has.
"""

NETWORK_FILESYSTEMS = frozenset(
    {"smbfs", "nfs", "afpfs", "webdav", "ftp", "macfuse", "osxfuse", "fuse-t", "virtiofs", "AppleVirtIOFS"}
)
"""
File systems whose data crosses a network, or the wall of a virtual machine; those in user space stand for servers.
"""

VIRTUAL_BUSES = frozenset({"Disk Image", "Virtual Interface", "Virtio", "VirtIO"})
"""
Words of diskutil for disks that are files, or those of a virtual machine.
"""

NVME_BUSES = frozenset({"Apple Fabric", "PCI-Express", "PCI"})
"""
Words of diskutil for the buses of NVMe disks: those inside Apple silicon, and those in Macs before it.
"""


def _with_volume(storage: StorageFacts, io: HostIO) -> StorageFacts:
    """
    Add file system, device and kind of disk.
    """
    readings, source = Readings(), "the table of mounts and diskutil"
    volume = None if storage.path is None else io.mac_volume(storage.path)
    if volume is None:
        return storage
    readings.put("mount_point", volume.mount_point, source)
    readings.put("filesystem", volume.filesystem, source)
    readings.put("device", volume.device, source)
    kind, is_certain = _disk_kind(volume)
    readings.put("kind", kind, source)
    readings.put("confidence", "high" if is_certain else "low", source)
    space = None if kind == "network" or volume.filesystem == "autofs" else io.disk_space(volume.mount_point)
    if space is not None:
        readings.put("size_bytes", space.total, "statvfs")
        readings.put("free_bytes", space.free, "statvfs")
    return readings.extend(storage)


def _disk_kind(volume: MacVolume) -> tuple[StorageKind, bool]:
    """
    Return the kind of disk, and whether it is certain; a disk on USB may not say that it is of flash.
    """
    if volume.filesystem in NETWORK_FILESYSTEMS:
        return "network", True
    if volume.filesystem == "tmpfs":
        return "memory", True
    if volume.bus in VIRTUAL_BUSES:
        return "virtual", False
    if volume.is_solid_state is None:
        return "unknown", False
    if volume.is_solid_state:
        return ("nvme" if volume.bus in NVME_BUSES else "ssd"), True
    return "hdd", volume.bus in {"SATA", "ATA"}


def _read_accelerator(io: HostIO) -> AcceleratorFacts:
    """
    Find the GPU that each Apple silicon has. In a virtual machine it may be missing, and on Intel torch uses none.
    """
    readings = Readings()
    is_apple = io.sysctl_number("hw.optional.arm64")
    if is_apple == 1 and io.sysctl_number("kern.hv_vmm_present") == 0:
        readings.put("kind", "mps", "sysctl hw.optional.arm64")
        readings.put("devices", 1, "sysctl hw.optional.arm64")
    elif is_apple == 0:
        readings.put("devices", 0, "sysctl hw.optional.arm64")
    return readings.build(AcceleratorFacts)
