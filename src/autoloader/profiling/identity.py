"""
A text that stays the same from run to run for a dataset that loads alike, and differs when that is to be expected.
"""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .attributes import attributes_of

_MOST_OBJECTS = 2000
_MOST_DEPTH = 8
_MOST_ELEMENTS = 8
"""
Elements of a container that are looked at, at its begin and at its end; of the others only the number counts.
"""

_SCALARS = (type(None), bool, int, float, complex)
_MOST_TEXT = 4096


def identify(*values: Any) -> str:
    """
    Return 32 hexadecimal digits for what is to be loaded: a dataset, a collate function.

    They depend on classes and functions, by name and by code; on numbers, text and paths; on the shapes and types of
    arrays, not on what is in them; on the lengths of containers and their first and last elements. They do not depend
    on addresses, nor on what a random number generator or an open file has come to.
    """
    walk = _Walk()
    for value in values:
        walk.take(value, 0)
    return walk.digest.hexdigest()


class _Walk:
    """
    A walk over values, which visits each object once and writes what it is into a digest.
    """

    def __init__(self) -> None:
        self.digest = blake2b(digest_size=16)
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []

    def take(self, value: Any, depth: int) -> None:
        """
        Write what a value is.
        """
        kind = type(value)
        if issubclass(kind, _SCALARS):
            self._write(kind.__name__, repr(value))
        elif issubclass(kind, (str, bytes)):
            self._write(kind.__name__, str(len(value)), repr(value[:_MOST_TEXT]))
        elif kind.__module__.partition(".")[0] == "pathlib":
            self._write("path", str(value))
        elif id(value) in self._seen:
            self._write("again", str(self._seen[id(value)]))
        elif depth > _MOST_DEPTH or len(self._seen) >= _MOST_OBJECTS:
            self._write("deep", _name_of(kind))
        else:
            self._seen[id(value)] = len(self._seen)
            self._held.append(value)  # so that no other object gets its address
            try:
                self._take_object(value, depth)
            except Exception:  # noqa: BLE001 (a class of the user's may raise anything)
                self._write("unknown", _name_of(kind))

    def _take_object(self, value: Any, depth: int) -> None:
        kind = type(value)
        if hasattr(kind, "__array__") or hasattr(kind, "nelement"):
            self._write("array", str(getattr(value, "dtype", "")), str(tuple(getattr(value, "shape", ()))))
        elif issubclass(kind, (list, tuple, set, frozenset, deque)):
            self._write(_name_of(kind), str(len(value)))
            self._take_all(_ends(value), depth)
        elif issubclass(kind, dict):
            self._write(_name_of(kind), str(len(value)))
            for name, each in _ends(value.items()):
                self._take_all((name, each), depth)
        elif kind is range:
            self._write("range", repr(value))
        elif issubclass(kind, type):
            self._write("class", _name_of(value))
        elif kind is FunctionType:
            self._write("function", _name_of(value), _code_of(value.__code__))
            self._take_all((cell.cell_contents for cell in value.__closure__ or ()), depth)
        elif kind is MethodType:
            self._take_all((value.__func__, value.__self__), depth)
        elif kind is partial:
            self._take_all((value.func, value.args, value.keywords), depth)
        elif issubclass(kind, ModuleType):
            self._write("module", value.__name__)
        else:
            self._write("object", _name_of(kind), *_methods_of(kind))
            for name, each in sorted(attributes_of(value).items()):
                self._write(name)
                self.take(each, depth + 1)

    def _take_all(self, values: Any, depth: int) -> None:
        for value in values:
            self.take(value, depth + 1)

    def _write(self, *words: str) -> None:
        self.digest.update(repr(words).encode("utf-8", "backslashreplace"))


def _ends(values: Any) -> Iterator[Any]:
    """
    Yield the first and the last elements of a container, in an order that is the same in each run.
    """
    if isinstance(values, (set, frozenset)):
        values = sorted(values, key=repr) if len(values) <= 2 * _MOST_ELEMENTS else ()
    if isinstance(values, Sequence) and len(values) > 2 * _MOST_ELEMENTS:
        yield from values[:_MOST_ELEMENTS]
        yield from values[-_MOST_ELEMENTS:]
    else:
        yield from islice(values, 2 * _MOST_ELEMENTS)


def _name_of(named: Any) -> str:
    module = getattr(named, "__module__", "?")
    return f"{_name_of_script() if module == '__main__' else module}.{getattr(named, '__qualname__', '?')}"


def _name_of_script() -> str:
    """
    Return the name by which another process would import what this one runs as its script.
    """
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec is not None else Path(file).stem if file else "__main__"


def _methods_of(kind: type) -> Iterator[str]:
    """
    Yield the code of what a dataset or a transform does: methods that its classes define themselves.
    """
    for each in kind.__mro__:
        if each.__module__ in {"builtins", "typing"}:
            continue
        for name in ("__getitem__", "__getitems__", "__iter__", "__call__", "forward"):
            function = vars(each).get(name)
            if isinstance(function, FunctionType):
                yield f"{name} {_code_of(function.__code__)}"


def _code_of(code: CodeType) -> str:
    """
    Return a digest of a function's code: what it does, with its numbers and names, wherever it stands.
    """
    constants = (_code_of(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    words = (code.co_code.hex(), repr(code.co_names), *constants)
    return blake2b(repr(words).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
