"""
What lies under one path on Linux: file system, device and kind of medium.
"""

import posixpath

from ..facts import StorageFacts, StorageKind
from .host_io import HostIO
from .mounts import Mount, mount_of
from .readings import Readings

NETWORK_FILESYSTEMS = frozenset(
    {
        *(
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "davfs",
            "drvfs",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "nfs",
        ),
        *("nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
    }
)
"""
File systems whose data crosses a network, or the wall of a virtual machine, at every read.
"""

LOCAL_FUSE_FILESYSTEMS = frozenset(
    {
        *("fuse.bindfs", "fuse.encfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.lxcfs", "fuse.mergerfs"),
        *("fuse.squashfuse", "fuse.squashfuse_ll", "fuse.unionfs"),
    }
)
"""
File systems in user space whose data is on this machine; all others stand for object stores and servers.
"""

MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})

PHYSICAL_DRIVERS = frozenset({"sd", "hd"})

VIRTUAL_DISKS = ("QEMU", "VBOX", "VMWARE", "VIRTUAL", "MSFT", "GOOGLE")
"""
Words by which hypervisors name their disks, in the vendor (SCSI) or the model (ATA) of sysfs.
"""


def read_storage(path: str | None, io: HostIO, mounts: tuple[Mount, ...]) -> StorageFacts:
    """
    Read what lies under *path*.
    """
    readings = Readings()
    resolved = None if path is None else io.real_path(path)
    readings.put("path", resolved, "realpath")
    mount = None if resolved is None else mount_of(resolved, mounts)
    if resolved is None or mount is None:
        return readings.build(StorageFacts)
    readings.put("mount_point", mount.mount_point, "/proc/self/mountinfo")
    readings.put("filesystem", mount.filesystem, "/proc/self/mountinfo")
    readings.put("device", mount.source, "/proc/self/mountinfo")
    kind, source = _kind(mount, io)
    readings.put("kind", kind, source)
    # A dead server never answers, and asking an automounter would mount.
    if kind != "network" and mount.filesystem != "autofs":
        space = io.disk_space(resolved) or io.disk_space(mount.mount_point)
        if space is not None:
            readings.put("size_bytes", space.total, "statvfs")
            readings.put("free_bytes", space.free, "statvfs")
    return readings.build(StorageFacts)


def _kind(mount: Mount, io: HostIO) -> tuple[StorageKind, str]:
    """
    Return the kind of medium, and the file that says so.

    The rotational flag lies on virtual disks: virtio, Xen and loop devices may all say 1. It is believed on a
    physical bus only. Source: kernel, ABI/stable/sysfs-block.
    """
    if _crosses_network(mount.filesystem):
        return "network", "/proc/self/mountinfo"
    if mount.filesystem in MEMORY_FILESYSTEMS:
        return "memory", "/proc/self/mountinfo"
    link = f"/sys/dev/block/{mount.device[0]}:{mount.device[1]}"
    folder = io.real_path(link)
    if mount.device[0] == 0 or folder is None or io.list_dir(folder) is None:
        return "unknown", "/proc/self/mountinfo"
    if io.read_text(f"{folder}/partition") is not None:
        folder = posixpath.dirname(folder)
    return _disk_kind(folder, io), folder


def _crosses_network(filesystem: str) -> bool:
    is_fuse = filesystem == "fuse" or filesystem.startswith("fuse.")
    return filesystem in NETWORK_FILESYSTEMS or (is_fuse and filesystem not in LOCAL_FUSE_FILESYSTEMS)


def _disk_kind(folder: str, io: HostIO) -> StorageKind:
    """
    Return the kind of one whole disk, by its driver's name, its vendor and model, and its rotational flag.
    """
    name = posixpath.basename(folder)
    named = " ".join(io.read_text(f"{folder}/device/{word}") or "" for word in ("vendor", "model")).upper()
    if name.startswith("nvme"):
        return "nvme"
    if name.startswith(("zram", "ram")):
        return "memory"
    if name.startswith(("vd", "xvd")) or "/virtio" in folder or any(word in named for word in VIRTUAL_DISKS):
        return "virtual"
    if name[:2] in PHYSICAL_DRIVERS:
        return {"0": "ssd", "1": "hdd"}.get((io.read_text(f"{folder}/queue/rotational") or "").strip(), "unknown")  # type: ignore[return-value]
    return "unknown"
