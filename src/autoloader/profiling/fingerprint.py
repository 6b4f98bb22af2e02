"""
A number that changes when the user changes a dataset between epochs.
"""

import random
import sys
import weakref
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import Any

from .attributes import attributes_of

_MOST_OBJECTS = 10_000
_MOST_DEPTH = 12
"""
Wrappers in wrappers around a dataset, transforms in transforms, and their attributes.
"""

_MOST_ELEMENTS = 1000
"""
Larger containers are data rather than settings; they count by the identity of their elements.
"""

_MOST_IDENTITIES = 100_000
"""
Elements of all large containers together that are looked at: about 10 ms.
"""

_BLOCK_BYTES = 1 << 20
_MOST_BLOCKS = 32
"""
Arrays whose contents are looked at, a block each: about 2 ms.
"""

_EXACT = (type(None), bool, str, bytes)
_BY_IDENTITY = (type, FunctionType, ModuleType, random.Random)
_USED_WITHOUT_CHANGE = {"threading", "_thread", "multiprocessing.synchronize"}
"""
Modules whose objects count by identity: a lock that is held is no change.
"""


class Fingerprint:
    """
    One look at some values, to be compared with a later one.

    It sees numbers, text and small containers by value, attributes of objects some levels down, the elements of large
    containers by identity, and arrays by identity, shape and a checksum of the first MiB of the first ones. A generator
    of random numbers, a file or a lock counts by identity: using one is no change.

    What counted by identity is held, so that nothing else can take its place in memory; arrays are held weakly.
    """

    def __init__(self, *values: Any) -> None:
        walk = _Walk()
        self.token = hash(tuple(walk.token(value, 0) for value in values))
        self.held = walk.held
        self.arrays = walk.arrays

    def differs_from(self, earlier: "Fingerprint") -> bool:
        """
        Return whether something was changed since *earlier* that this bounded look can see.
        """
        return self.token != earlier.token or any(array() is None for array in earlier.arrays)


class _Walk:
    """
    A walk over values, which visits each object once.
    """

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.arrays: list[weakref.ref[Any]] = []
        self._seen: set[int] = set()
        self._identities_left = _MOST_IDENTITIES
        self._blocks_left = _MOST_BLOCKS

    def token(self, value: Any, depth: int) -> Any:
        """
        Return something hashable that stands for *value*.
        """
        scalar = _scalar_token(value)
        if scalar is not None:
            return scalar
        if id(value) in self._seen or depth > _MOST_DEPTH or len(self._seen) >= _MOST_OBJECTS:
            return id(value)
        self._seen.add(id(value))
        try:
            if _is_array(type(value)):
                self.arrays.append(weakref.ref(value))
                return id(value), *self._array_token(value)
            self.held.append(value)
            return self._object_token(value, depth)
        except Exception:  # noqa: BLE001 (a class of the user's may raise anything, and so do torch's inference tensors)
            return id(value)

    def _object_token(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if issubclass(kind, (list, tuple, set, frozenset)):
            return id(kind), len(value), self._elements(value, depth)
        if issubclass(kind, dict):
            return id(kind), len(value), self._items(value, depth)
        if kind is MethodType:
            return id(value.__func__), self.token(value.__self__, depth + 1)
        if kind is partial:
            return id(value), self._elements((value.func, value.args, value.keywords), depth)
        if issubclass(kind, _BY_IDENTITY) or kind.__module__ in _USED_WITHOUT_CHANGE:
            return id(value)
        return id(value), self._items(attributes_of(value), depth)

    def _array_token(self, array: Any) -> tuple[Any, ...]:
        """
        Return shape, and what changes when the array is written to: torch's own count of writes, and a checksum.
        """
        shape = tuple(array.shape)
        if hasattr(type(array), "_version"):
            return shape, getattr(array, "_version")  # noqa: B009 (torch has no other name for it)
        if not self._blocks_left:
            return shape, None
        self._blocks_left -= 1
        elements = array.flat  # which takes them one by one
        if array.flags.c_contiguous and not hasattr(array, "mask"):  # a masked array's bytes depend on its mask
            elements = array.view(sys.modules["numpy"].ndarray).reshape(-1)
        return shape, zlib.crc32(elements[: max(1, _BLOCK_BYTES // max(1, array.itemsize))].tobytes())

    def _elements(self, values: Any, depth: int) -> Any:
        if len(values) > _MOST_ELEMENTS:
            some = list(self._some(values))
            self.held.append(some)
            return hash(tuple(map(id, some)))
        return tuple(self.token(value, depth + 1) for value in islice(values, _MOST_ELEMENTS))

    def _items(self, items: Mapping[Any, Any], depth: int) -> Any:
        if len(items) > _MOST_ELEMENTS:
            some = list(self._some(items.items()))
            self.held.append(some)
            return hash(tuple((id(key), id(value)) for key, value in some))
        few = islice(items.items(), _MOST_ELEMENTS)
        return tuple((self.token(key, depth + 1), self.token(value, depth + 1)) for key, value in few)

    def _some(self, values: Any) -> Iterator[Any]:
        """
        Yield the first elements of a large container, as many as are left to look at.
        """
        count = min(len(values), self._identities_left)
        self._identities_left -= count
        return islice(values, count)


def _scalar_token(value: Any) -> Any:
    """
    Return what stands for a number, text or path, ``None`` for all else.

    Python hashes -1 as -2, so numbers are spelt out.
    """
    kind = type(value)
    if kind in _EXACT:
        return kind, value
    if kind is int:
        return kind, f"{value:x}"
    if kind is float:
        return kind, value.hex()
    if kind.__module__.partition(".")[0] == "pathlib":
        return kind, str(value)  # a path notes what was asked of it in attributes of its own
    is_number = kind is complex or issubclass(kind, getattr(sys.modules.get("numpy"), "generic", ()))
    return (kind, repr(value)) if is_number else None


def _is_array(kind: type) -> bool:
    return any(
        issubclass(kind, getattr(sys.modules.get(module), name, ()))
        for module, name in (("torch", "Tensor"), ("numpy", "ndarray"))
    )
