"""
macOS's own answers: the variables of its kernel, its mounts and disks. Only :class:`RealHost` asks here.
"""

import plistlib
from typing import Any

from .questions import MacVolume

PATIENCE_SECONDS = 5.0


def variable(name: str) -> bytes | None:
    """
    Return the bytes of a variable; ``None`` where there is none of that name.

    Source: sysctlbyname(3).
    """
    import ctypes

    ask = ctypes.CDLL(None).sysctlbyname
    size_of = ctypes.POINTER(ctypes.c_size_t)
    ask.argtypes = [ctypes.c_char_p, ctypes.c_void_p, size_of, ctypes.c_void_p, ctypes.c_size_t]
    ask.restype = ctypes.c_int
    size = ctypes.c_size_t(1024)
    value = ctypes.create_string_buffer(size.value)
    return value.raw[: size.value] if ask(name.encode(), value, ctypes.byref(size), None, 0) == 0 else None


def volume(path: str) -> MacVolume | None:
    """
    Return what is known of the volume that holds an absolute, resolved path.

    The table of mounts is the kernel's own, which asks no server; diskutil is asked of devices only.

    Source: getfsstat(2) with MNT_NOWAIT, as psutil calls it; diskutil(8).
    """
    import psutil

    mounts = [each for each in psutil.disk_partitions(all=True) if _is_below(path, each.mountpoint)]
    if not mounts:
        return None
    mount = max(mounts, key=lambda each: len(each.mountpoint))
    found = MacVolume(mount.fstype, mount.mountpoint, mount.device)
    if not mount.device.startswith("/dev/"):
        return found
    told = _diskutil(mount.device)
    bus, solid = told.get("BusProtocol"), told.get("SolidState")
    return found._replace(
        bus=bus if isinstance(bus, str) else None, is_solid_state=solid if isinstance(solid, bool) else None
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _diskutil(device: str) -> dict[str, Any]:
    """
    Return what diskutil says of a device; nothing where it is missing, fails, or takes too long.
    """
    import subprocess

    try:
        done = subprocess.run(
            ["/usr/sbin/diskutil", "info", "-plist", device],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        found = plistlib.loads(done.stdout)
    except Exception:  # noqa: BLE001 (the program may be missing, fail or hang, and expat has errors of its own)
        return {}
    return found if isinstance(found, dict) else {}
