"""
What lies under one path on Linux: file system, device and kind of medium.
"""

from ..facts import StorageFacts
from .host_io import HostIO
from .medium import read_medium
from .mounts import Mount, mount_of
from .readings import Readings


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
    medium = read_medium(mount, io, mounts)
    readings.put("kind", medium.kind, medium.source)
    readings.put("confidence", "high" if medium.is_certain else "low", medium.source)
    readings.put("devices", medium.devices, "/sys/dev/block")
    # A dead server never answers, and asking an automounter would mount.
    if medium.kind != "network" and mount.filesystem != "autofs":
        space = io.disk_space(resolved) or io.disk_space(mount.mount_point)
        if space is not None:
            readings.put("size_bytes", space.total, "statvfs")
            readings.put("free_bytes", space.free, "statvfs")
    return readings.build(StorageFacts)
