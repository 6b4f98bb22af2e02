"""
The variables of macOS's kernel. Only :class:`RealHost` asks here.
"""


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
