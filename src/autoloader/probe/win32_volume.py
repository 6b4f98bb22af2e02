"""
Windows's own answers about volumes and the devices below them.

Only :class:`RealHost` asks here, on Windows. No administrator's rights are needed: nothing is read or written.

Source: Microsoft, IOCTL_STORAGE_QUERY_PROPERTY, STORAGE_DEVICE_DESCRIPTOR, DEVICE_SEEK_PENALTY_DESCRIPTOR,
DEVICE_TRIM_DESCRIPTOR.
"""

import struct
from typing import Any

from .questions import WindowsVolume
from .win32 import drive_kind, kernel32, volume_root

_QUERY_PROPERTY = 0x2D1400
_DEVICE, _SEEK_PENALTY, _TRIM = 0, 7, 8
_SHARE_ALL, _OPEN_EXISTING = 7, 3


def volume(path: str) -> WindowsVolume | None:
    """
    Return what is known of the volume that holds a path; of a network drive, nothing but where it is mounted.
    """
    kernel = kernel32()
    if kernel is None:
        return None
    import ctypes

    root = volume_root(kernel, path)
    if root is None:
        return None
    found = WindowsVolume(mount_point=root)
    if drive_kind(path) in {"remote", None}:
        return found
    name = ctypes.create_unicode_buffer(261)
    if kernel.GetVolumeInformationW(root, None, 0, None, None, None, name, len(name)):
        found = found._replace(filesystem=name.value or None)
    free, total = ctypes.c_uint64(0), ctypes.c_uint64(0)
    if kernel.GetDiskFreeSpaceExW(root, ctypes.byref(free), ctypes.byref(total), None):
        found = found._replace(total=total.value, free=free.value)
    device = ctypes.create_unicode_buffer(261)
    if not kernel.GetVolumeNameForVolumeMountPointW(root, device, len(device)):
        return found
    return _with_device(found, kernel, device.value.rstrip("\\"))


def _with_device(found: WindowsVolume, kernel: Any, name: str) -> WindowsVolume:
    """
    Add what the device says; without any right to its data it answers for its properties.
    """
    import ctypes

    handle = kernel.CreateFileW(name, 0, _SHARE_ALL, None, _OPEN_EXISTING, 0, None)
    if handle is None or handle == ctypes.c_void_p(-1).value:
        return found
    try:
        descriptor = _property(kernel, handle, _DEVICE)
        seek, trim = _property(kernel, handle, _SEEK_PENALTY), _property(kernel, handle, _TRIM)
    finally:
        kernel.CloseHandle(handle)
    if len(descriptor) >= 32:
        product, bus = struct.unpack_from("<I", descriptor, 16)[0], struct.unpack_from("<I", descriptor, 28)[0]
        text = descriptor[product:].split(b"\0")[0].decode("ascii", "replace").strip() if product else ""
        found = found._replace(bus=bus, product=text or None)
    return found._replace(
        seek_penalty=bool(seek[8]) if len(seek) > 8 else None, trim=bool(trim[8]) if len(trim) > 8 else None
    )


def _property(kernel: Any, handle: Any, number: int) -> bytes:
    """
    Return a property's descriptor; nothing where the device does not tell.
    """
    import ctypes
    from ctypes import wintypes

    query = ctypes.create_string_buffer(struct.pack("<II4x", number, 0), 12)
    answer, size = ctypes.create_string_buffer(1024), wintypes.DWORD(0)
    if not kernel.DeviceIoControl(
        handle, _QUERY_PROPERTY, query, len(query), answer, len(answer), ctypes.byref(size), None
    ):
        return b""
    return answer.raw[: size.value]
