"""
A number that changes when the user changes a dataset between epochs.
"""

import sys
import zlib
from collections.abc import Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

_MOST_OBJECTS = 10_000
_MOST_DEPTH = 6
_MOST_ELEMENTS = 64
_MOST_IDENTITIES = 100_000
_BLOCK_BYTES = 1 << 20

_SCALARS = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(*values: Any) -> int:
    """
    Return a number that is equal as long as nothing of *values* was changed that this bounded look can see.

    It compares numbers, text and small containers by value, attributes of objects some levels down, the elements of
    large containers by identity, and arrays by identity, shape and a checksum of their first MiB. A generator of
    random numbers, a file or a lock counts by identity: using one is no change.
    """
    walk = _Walk()
    return hash(tuple(walk.token(value, 0) for value in values))


class _Walk:
    """
    One look at some values, which visits each object once.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def token(self, value: Any, depth: int) -> Any:
        """
        Return something hashable that stands for *value*.
        """
        if isinstance(value, _SCALARS):
            return type(value), value
        if id(value) in self._seen or depth > _MOST_DEPTH or len(self._seen) >= _MOST_OBJECTS:
            return id(value)
        self._seen.add(id(value))
        if _is_array(value):
            return id(value), *_array_token(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value), len(value), self._elements(value, depth)
        if isinstance(value, dict):
            return type(value), len(value), self._items(value, depth)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and not isinstance(value, (type, FunctionType, ModuleType)):
            return id(value), self._items(attributes, depth)
        return id(value)

    def _elements(self, values: Any, depth: int) -> Any:
        if len(values) > _MOST_ELEMENTS:
            return hash(tuple(map(id, islice(values, _MOST_IDENTITIES))))
        return tuple(self.token(value, depth + 1) for value in values)

    def _items(self, items: Mapping[Any, Any], depth: int) -> Any:
        if len(items) > _MOST_ELEMENTS:
            return hash(tuple((id(key), id(value)) for key, value in islice(items.items(), _MOST_IDENTITIES)))
        return tuple((self.token(key, depth + 1), self.token(value, depth + 1)) for key, value in items.items())


def _is_array(value: Any) -> bool:
    return any(
        isinstance(value, getattr(sys.modules.get(module), name, ()))
        for module, name in (("torch", "Tensor"), ("numpy", "ndarray"))
    )


def _array_token(array: Any) -> tuple[Any, ...]:
    """
    Return shape, and what changes when the array is written to: torch's own count of writes, or a checksum.
    """
    shape = tuple(array.shape)
    version = getattr(array, "_version", None)
    if version is not None:
        return shape, version
    block = array[: max(1, _BLOCK_BYTES * len(array) // max(1, array.nbytes))] if array.ndim else array
    return shape, None if array.dtype.hasobject else zlib.crc32(block.tobytes())
