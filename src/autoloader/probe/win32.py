"""
Windows's own answers, by functions of kernel32, each with its declared types.

Only :class:`RealHost` asks here, on Windows.
"""

import sys
from typing import Any

from .questions import WindowsJob, WindowsMemory

_ALL_RELATIONS = 0xFFFF
_MOST_GROUPS = 64

DRIVE_KINDS = {2: "removable", 3: "fixed", 4: "remote", 5: "cdrom", 6: "ramdisk"}
"""
Source: GetDriveTypeW.
"""


SIGNATURES = {
    "CloseHandle": "BOOL HANDLE",
    "CreateFileW": "HANDLE LPCWSTR DWORD DWORD LPVOID DWORD DWORD HANDLE",
    "DeviceIoControl": "BOOL HANDLE DWORD LPVOID DWORD LPVOID DWORD DWORD* LPVOID",
    "GetCurrentProcess": "HANDLE",
    "GetDiskFreeSpaceExW": "BOOL LPCWSTR ULARGE_INTEGER* ULARGE_INTEGER* ULARGE_INTEGER*",
    "GetDriveTypeW": "UINT LPCWSTR",
    "GetLogicalProcessorInformationEx": "BOOL INT LPVOID DWORD*",
    "GetProcessAffinityMask": "BOOL HANDLE size_t* size_t*",
    "GetProcessGroupAffinity": "BOOL HANDLE USHORT* USHORT*",
    "GetVolumeInformationW": "BOOL LPCWSTR LPWSTR DWORD DWORD* DWORD* DWORD* LPWSTR DWORD",
    "GetVolumeNameForVolumeMountPointW": "BOOL LPCWSTR LPWSTR DWORD",
    "GetVolumePathNameW": "BOOL LPCWSTR LPWSTR DWORD",
    "GlobalMemoryStatusEx": "BOOL LPVOID",
    "IsProcessInJob": "BOOL HANDLE HANDLE BOOL*",
    "QueryInformationJobObject": "BOOL HANDLE INT LPVOID DWORD DWORD*",
}
"""
The functions of kernel32 that are called: the type of the result, and those of the arguments, a star for a pointer.
"""


def kernel32() -> Any:
    """
    Return kernel32 with the types of what is called; ``None`` on other systems.
    """
    if sys.platform != "win32":
        return None
    import ctypes
    from ctypes import wintypes

    def type_of(word: str) -> Any:
        plain: Any = ctypes.c_size_t if word.startswith("size_t") else getattr(wintypes, word.rstrip("*"))
        return ctypes.POINTER(plain) if word.endswith("*") else plain

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    for name, signature in SIGNATURES.items():
        function = getattr(kernel, name)
        function.restype, *function.argtypes = map(type_of, signature.split())
    return kernel


def volume_root(kernel: Any, path: str) -> str | None:
    """
    Return where the volume that holds a path is mounted.
    """
    import ctypes

    root = ctypes.create_unicode_buffer(1024)
    return root.value if kernel.GetVolumePathNameW(path, root, len(root)) else None


def memory() -> WindowsMemory | None:
    """
    Return memory and commit limit, by GlobalMemoryStatusEx.
    """
    kernel = kernel32()
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
    kernel = kernel32()
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
    kernel = kernel32()
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
    kernel = kernel32()
    if kernel is None:
        return None
    root = volume_root(kernel, path)
    return None if root is None else DRIVE_KINDS.get(kernel.GetDriveTypeW(root))


def version() -> str | None:
    """
    Return major, minor and build number, by RtlGetVersion, which tells all programs the same.
    """
    if sys.platform != "win32":
        return None
    import ctypes

    ask = ctypes.WinDLL("ntdll").RtlGetVersion
    ask.restype, ask.argtypes = ctypes.c_long, [ctypes.c_void_p]
    # RTL_OSVERSIONINFOW: five numbers, of which the first is its size, and 128 characters.
    found = (ctypes.c_uint32 * 69)(276)
    return None if ask(found) else ".".join(str(number) for number in found[1:4])


def processor_name() -> str | None:
    """
    Return the processor's brand text, which Windows reads at its start and keeps in the registry.
    """
    if sys.platform != "win32":
        return None
    import winreg

    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
        name, _ = winreg.QueryValueEx(key, "ProcessorNameString")
    return str(name).strip() or None


_JOB_PARTS = (("limits", 9, 144), ("cpu_rate", 15, 8), ("accounting", 1, 48))
"""
What is asked of a job object, the number of each class of information, and its size on a system of 64 bits.
"""


def job() -> WindowsJob | None:
    """
    Return the limits of the innermost job object around this process, none outside of one.

    Source: QueryInformationJobObject.
    """
    kernel = kernel32()
    if kernel is None or sys.maxsize < 1 << 32:
        return None
    import ctypes
    from ctypes import wintypes

    inside = wintypes.BOOL(0)
    if not kernel.IsProcessInJob(kernel.GetCurrentProcess(), None, ctypes.byref(inside)):
        return None
    if not inside.value:
        return WindowsJob(limits="")
    parts: dict[str, str] = {}
    for name, number, size in _JOB_PARTS:
        data = ctypes.create_string_buffer(size)
        if kernel.QueryInformationJobObject(None, number, data, size, None):
            parts[name] = data.raw.hex()
    return WindowsJob(**parts) if "limits" in parts else None
