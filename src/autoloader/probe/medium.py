"""
What a mount's data lies on, through partitions, LVM, dm-crypt, RAID, loop devices, btrfs and overlays.

Source: kernel, ABI/stable/sysfs-block, ABI/testing/sysfs-block-loop; filesystems/overlayfs.rst.
"""

import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from ..facts import StorageKind
from .host_io import HostIO
from .mounts import Mount, crosses_network, mount_of, parse_overlay_layers
from .parse import is_rotation_reported

MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})

PHYSICAL_DRIVERS = frozenset({"sd", "hd"})

REMOTE_NVME = ("AMAZON ELASTIC BLOCK STORE", "NVME_CARD-PD", "MSFT NVME ACCELERATOR")
"""
Models by which clouds name network disks that speak NVMe; those that sit in the machine have other names.

Source: AWS, "Amazon EBS volumes and NVMe"; Google Cloud, "About Persistent Disk"; Azure, "NVMe general FAQ".
"""

VIRTUAL_DISKS = ("QEMU", "VBOX", "VMWARE", "VIRTUAL", "MSFT", "GOOGLE")
"""
Words by which hypervisors name their disks, in the vendor (SCSI) or the model (ATA) of sysfs.
"""

SLOWEST_FIRST: tuple[StorageKind, ...] = ("network", "optical", "hdd", "unknown", "virtual", "ssd", "nvme", "memory")
"""
What a stack of several media is as slow as; one that is not known may be slower than all that follow it.
"""


class Medium(NamedTuple):
    """
    A kind of medium, and the file or folder that says so.
    """

    kind: StorageKind
    source: str
    devices: tuple[str, ...] = ()
    """Names of the block devices from the upper end down to the disks."""
    is_certain: bool = True
    """Whether the kind rests on more than what a hypervisor passed on."""


UNKNOWN = Medium("unknown", "/proc/self/mountinfo", is_certain=False)


def read_medium(mount: Mount, io: HostIO, mounts: tuple[Mount, ...]) -> Medium:
    """
    Return the slowest medium below a mount.

    Args:
        mount: What is asked about.
        io: The host.
        mounts: All mounts, for overlays and loop devices, which lie on other mounts.
    """
    return _of_mount(mount, io, mounts, frozenset())


def _slowest(media: Iterable[Medium], above: tuple[str, ...] = ()) -> Medium:
    """
    Return the slowest of several media, with the devices of all, below those that are *above*.
    """
    found = tuple(media)
    slowest = min(found, key=lambda medium: SLOWEST_FIRST.index(medium.kind), default=UNKNOWN)
    names = (*above, *(name for medium in found for name in medium.devices))
    return slowest._replace(devices=tuple(dict.fromkeys(names)))


def _of_mount(mount: Mount, io: HostIO, mounts: tuple[Mount, ...], seen: frozenset[str]) -> Medium:
    """
    Return the slowest medium of a mount's disks or layers.

    In a container the layers of ``/`` are named as the host sees them, and seem to lie on ``/`` itself.
    """
    if crosses_network(mount.filesystem):
        return Medium("network", "/proc/self/mountinfo")
    if mount.filesystem in MEMORY_FILESYSTEMS:
        return Medium("memory", "/proc/self/mountinfo")
    if str(mount.number) in seen:
        return UNKNOWN
    seen |= {str(mount.number)}
    if mount.filesystem == "overlay":
        return _slowest(_of_path(layer, io, mounts, seen) for layer in parse_overlay_layers(mount.super_options))
    return _slowest(_of_device(folder, io, mounts, seen) for folder in _device_folders(mount, io))


def _of_path(path: str, io: HostIO, mounts: tuple[Mount, ...], seen: frozenset[str]) -> Medium:
    resolved = io.real_path(path)
    mount = None if resolved is None else mount_of(resolved, mounts)
    return UNKNOWN if mount is None else _of_mount(mount, io, mounts, seen)


def _device_folders(mount: Mount, io: HostIO) -> tuple[str, ...]:
    """
    Return the links in sysfs to the devices of a mount.

    Where the file system hands out numbers of its own (major 0), it is found by the name of what was mounted: of a
    btrfs that is one device of several, and of a bcachefs all of them, with colons between.
    """
    major, minor = mount.device
    if major != 0:
        return (f"/sys/dev/block/{major}:{minor}",)
    paths = [io.real_path(part) or part for part in mount.source.split(":") if part.startswith("/dev/")]
    names = [posixpath.basename(path) for path in paths]
    if mount.filesystem == "btrfs":
        for folder in (f"/sys/fs/btrfs/{each}/devices" for each in io.list_dir("/sys/fs/btrfs") or ()):
            devices = io.list_dir(folder) or ()
            if set(names) & set(devices):
                return tuple(f"{folder}/{name}" for name in devices)
    return tuple(f"/sys/class/block/{name}" for name in names)


def _of_device(link: str, io: HostIO, mounts: tuple[Mount, ...], seen: frozenset[str]) -> Medium:
    """
    Return the slowest medium below a block device: its disk's where it is a partition, its parts' where it has some.
    """
    folder = io.real_path(link)
    if folder is None or folder in seen or io.list_dir(folder) is None:
        return UNKNOWN
    names: tuple[str, ...] = (posixpath.basename(folder),)
    if io.read_text(f"{folder}/partition") is not None:
        folder = posixpath.dirname(folder)
        names = (*names, posixpath.basename(folder))
    seen |= {folder}
    parts = io.list_dir(f"{folder}/slaves")
    if parts:
        return _slowest((_of_device(f"{folder}/slaves/{name}", io, mounts, seen) for name in parts), names)
    backing_file = io.read_text(f"{folder}/loop/backing_file")
    if backing_file is not None:
        return _slowest([_of_path(backing_file.rstrip("\n"), io, mounts, seen)], names)
    kind, is_certain = _disk_kind(folder, io)
    return Medium(kind, folder, names, is_certain)


def _disk_kind(folder: str, io: HostIO) -> tuple[StorageKind, bool]:
    """
    Return the kind of one whole disk, and whether it is certain, by its driver's name, model and rotational flag.

    The flag lies on virtual disks: virtio, Xen and others may all say 1. It is believed on a physical bus only, and on
    QEMU's SCSI disks, which say what their owner told them to, unless they say that he told them nothing.
    """
    name = posixpath.basename(folder)
    if name.startswith(("zram", "ram")):
        return "memory", True
    if name.startswith("sr"):
        return "optical", True
    if name.startswith(("vd", "xvd")):
        return "virtual", False
    vendor, model = ((io.read_text(f"{folder}/device/{word}") or "").strip().upper() for word in ("vendor", "model"))
    if name.startswith("nvme"):
        return ("virtual", False) if model.startswith(REMOTE_NVME) else ("nvme", "QEMU" not in model)
    if vendor == "QEMU":
        is_virtual = is_rotation_reported(io.read_text(f"{folder}/device/vpd_pgb1")) is False
    else:
        is_virtual = "/virtio" in folder or any(word in f"{vendor} {model}" for word in VIRTUAL_DISKS)
    if is_virtual or name[:2] not in PHYSICAL_DRIVERS:
        return ("virtual" if is_virtual else "unknown"), False
    kinds: dict[str, StorageKind] = {"0": "ssd", "1": "hdd"}
    kind = kinds.get((io.read_text(f"{folder}/queue/rotational") or "").strip(), "unknown")
    return kind, kind != "unknown" and vendor != "QEMU"
