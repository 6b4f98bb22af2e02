"""
The mount table, and which mount holds a path.
"""

import re
from typing import NamedTuple

NETWORK_FILESYSTEMS = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "dvs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs"),
        *("nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "wekafs"),
        *("9p", "drvfs", "fakeowner", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"),
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


class Mount(NamedTuple):
    """
    One line of /proc/self/mountinfo.
    """

    number: int
    parent: int
    device: tuple[int, int]
    root: str
    mount_point: str
    filesystem: str
    source: str
    super_options: tuple[str, ...]


def parse_mountinfo(text: str | None) -> tuple[Mount, ...]:
    """
    Return the mounts in the kernel's order, lines that make no sense left out. Source: proc_pid_mountinfo(5).
    """
    return tuple(mount for line in (text or "").splitlines() if (mount := _parse_line(line)) is not None)


def _parse_line(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    numbers = re.fullmatch(r"([0-9]{1,9}) ([0-9]{1,9}) ([0-9]{1,9}):([0-9]{1,9})", " ".join(left[:3]))
    if not separator or numbers is None or len(left) < 5 or len(right) < 2:
        return None
    return Mount(
        number=int(numbers[1]),
        parent=int(numbers[2]),
        device=(int(numbers[3]), int(numbers[4])),
        root=unescape(left[3]),
        mount_point=unescape(left[4]),
        filesystem=right[0],
        source=unescape(right[1]),
        super_options=tuple(right[2].split(",")) if len(right) > 2 else (),
    )


def unescape(text: str) -> str:
    """
    Put back space, tab, newline and backslash, which the kernel writes in octal.
    """
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def parse_overlay_layers(options: tuple[str, ...]) -> tuple[str, ...]:
    """
    Return the folders that an overlay shows, by the options of its mount; those without a full path are left out.

    A colon stands between lower folders, and a backslash before a colon in a name. Newer kernels write an option for
    each. Source: kernel, filesystems/overlayfs.rst, "Multiple lower layers" and "Data-only lower layers".
    """
    folders: list[str] = []
    for name, _, value in (option.partition("=") for option in options):
        if name in {"upperdir", "lowerdir", "lowerdir+", "datadir+"}:
            text = unescape(value)
            folders += re.split(r"(?<!\\):", text) if name == "lowerdir" else [text]
    return tuple(folder.replace("\\:", ":") for folder in folders if folder.startswith("/"))


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """
    Return the mount that holds an absolute, resolved path; of mounts over one another the last.
    """
    holding = [mount for mount in mounts if is_below(path, mount.mount_point)]
    hidden = _hidden(holding)
    seen = [mount for mount in holding if mount.number not in hidden]
    longest = max((len(mount.mount_point) for mount in seen), default=0)
    return next((mount for mount in reversed(seen) if len(mount.mount_point) == longest), None)


def _hidden(holding: list[Mount]) -> set[int]:
    """
    Return the numbers of the mounts to which no path leads, and of those below them.

    A mount is hidden where a folder above its mount point was mounted over, in the same tree. What is mounted over
    ``/`` itself hides nothing: this process's root stays below it.
    """
    points: dict[int, set[str]] = {}
    children: dict[int, list[int]] = {}
    for mount in holding:
        points.setdefault(mount.parent, set()).add(mount.mount_point)
        children.setdefault(mount.parent, []).append(mount.number)
    hidden: set[int] = set()
    found = [
        mount.number
        for mount in holding
        if any(
            point not in {"/", mount.mount_point} and is_below(mount.mount_point, point)
            for point in points[mount.parent]
        )
    ]
    while found:
        number = found.pop()
        if number not in hidden:
            hidden.add(number)
            found += children.get(number, ())
    return hidden


def is_below(path: str, folder: str) -> bool:
    """
    Return whether *path* is *folder* or lies in it.
    """
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def crosses_network(filesystem: str) -> bool:
    """
    Return whether data of a type of file system crosses a network, or the wall of a virtual machine.
    """
    is_fuse = filesystem == "fuse" or filesystem.startswith("fuse.")
    return filesystem in NETWORK_FILESYSTEMS or (is_fuse and filesystem not in LOCAL_FUSE_FILESYSTEMS)
