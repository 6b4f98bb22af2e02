"""
Windows's own answers, by functions of kernel32, each with its declared types.

Only :class:`RealHost` asks here, on Windows.
"""

import sys
from typing import Any

from .questions import WindowsMemory

_ALL_RELATIONS = 0xFFFF
_MOST_GROUPS = 64

DRIVE_KINDS = {2: "removable", 3: "fixed", 4: "remote", 5: "cdrom", 6: "ramdisk"}
"""
Source: GetDriveTypeW.
"""


def _kernel() -> Any:
    """
    Return kernel32 with the types of what is called; ``None`` on other systems.
    """
    if sys.platform != "win32":
        return None
    import ctypes
    from ctypes import wintypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    size_of = ctypes.POINTER(ctypes.c_size_t)
    for name, result, arguments in (
        ("GetCurrentProcess", wintypes.HANDLE, []),
        ("GlobalMemoryStatusEx", wintypes.BOOL, [ctypes.c_void_p]),
        ("GetDriveTypeW", wintypes.UINT, [wintypes.LPCWSTR]),
        ("GetVolumePathNameW", wintypes.BOOL, [wintypes.LPCWSTR, wintypes.LPWSTR, wintypes.DWORD]),
        ("GetProcessAffinityMask", wintypes.BOOL, [wintypes.HANDLE, size_of, size_of]),
        (
            "GetProcessGroupAffinity",
            wintypes.BOOL,
            [wintypes.HANDLE, ctypes.POINTER(wintypes.USHORT), ctypes.POINTER(wintypes.USHORT)],
        ),
        (
            "GetLogicalProcessorInformationEx",
            wintypes.BOOL,
            [ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(wintypes.DWORD)],
        ),
    ):
        function = getattr(kernel, name)
        function.restype, function.argtypes = result, arguments
    return kernel


def memory() -> WindowsMemory | None:
    """
    Return memory and commit limit, by GlobalMemoryStatusEx.
    """
    kernel = _kernel()
    if kernel is None:
        return None
    import ctypes

    # MEMORYSTATUSEX: two numbers of 32 bits, the length and the load, and seven of 64.
    status = (ctypes.c_uint64 * 8)()
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
    if not kernel.GlobalMemoryStatusEx(status):
        return None
    return WindowsMemory(total=status[1], available=status[2], commit_limit=status[3], commit_available=status[4])


def processors() -> bytes | None:
    """
    Return what GetLogicalProcessorInformationEx says of all relations, as :func:`parse_processors` reads it.
    """
    kernel = _kernel()
    if kernel is None or sys.maxsize < 1 << 32:  # a Python of 32 bits gets masks of 32 bits
        return None
    import ctypes
    from ctypes import wintypes

    size = wintypes.DWORD(0)
    kernel.GetLogicalProcessorInformationEx(_ALL_RELATIONS, None, ctypes.byref(size))
    found = ctypes.create_string_buffer(max(1, size.value))
    if not kernel.GetLogicalProcessorInformationEx(_ALL_RELATIONS, found, ctypes.byref(size)):
        return None
    return found.raw[: size.value]


def affinity() -> tuple[int, ...] | None:
    """
    Return the CPUs on which this process may run, 64 numbers for each group; ``None`` where it runs in several groups.

    A process of several groups has a mask for each of its threads, and an empty one of its own.
    """
    kernel = _kernel()
    if kernel is None:
        return None
    import ctypes
    from ctypes import wintypes

    process, count, groups = (
        kernel.GetCurrentProcess(),
        wintypes.USHORT(_MOST_GROUPS),
        (wintypes.USHORT * _MOST_GROUPS)(),
    )
    mask, system = ctypes.c_size_t(0), ctypes.c_size_t(0)
    if not kernel.GetProcessAffinityMask(process, ctypes.byref(mask), ctypes.byref(system)) or not mask.value:
        return None
    knows_groups = kernel.GetProcessGroupAffinity(process, ctypes.byref(count), groups)
    group = groups[0] if knows_groups and count.value == 1 else 0
    return tuple(64 * group + bit for bit in range(64) if mask.value >> bit & 1)


def drive_kind(path: str) -> str | None:
    """
    Return what kind of drive a path is on, by GetDriveTypeW of the volume that it is mounted from.
    """
    kernel = _kernel()
    if kernel is None:
        return None
    import ctypes

    root = ctypes.create_unicode_buffer(1024)
    if not kernel.GetVolumePathNameW(path, root, len(root)):
        return None
    return DRIVE_KINDS.get(kernel.GetDriveTypeW(root.value))
