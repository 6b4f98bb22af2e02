"""
What a dataset is made of: the datasets that it wraps, and the generators of random numbers that it holds.
"""

import contextlib
import random
import sys
from collections import deque
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice
from types import CellType, FunctionType, MethodType
from typing import Any

from .attributes import attributes_of

_MOST_DATASETS = 100_000
_MOST_DEPTH = 6
"""
Transforms in transforms, and their attributes.
"""

_MOST_ELEMENTS = 64
_MOST_OBJECTS = 10_000
_EMPTY_CELL = CellType()
_LEAVES = (type(None), bool, int, float, complex, str, bytes, bytearray, range, type)


def datasets_in(dataset: Any) -> Iterator[Any]:
    """
    Yield a dataset, and those that a Subset, a ConcatDataset or any other wrapper in it holds, each once.

    What a wrapper calls ``dataset`` or ``datasets`` counts as such, and so does every ``torch.utils.data.Dataset``
    among its attributes, or in a list, tuple or dictionary of theirs.
    """
    waiting, seen = deque([dataset]), set[int]()
    while waiting and len(seen) < _MOST_DATASETS:
        part = waiting.popleft()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        for name, value in attributes_of(part).items():
            several = isinstance(value, (list, tuple, dict))
            is_named = name == ("datasets" if several else "dataset")
            values = _elements(value) if several else (value,)
            first = next(iter(values), None)
            if _is_dataset(first) or (is_named and _may_be_dataset(first)):  # all of a kind, or not worth a look
                waiting.extend(each for each in values if is_named or _is_dataset(each))


def _elements(value: Any) -> Collection[Any]:
    return value.values() if isinstance(value, dict) else value


def _is_dataset(value: Any) -> bool:
    kind = getattr(sys.modules.get("torch.utils.data"), "Dataset", ())
    return issubclass(type(value), kind)


def _may_be_dataset(value: Any) -> bool:
    """
    Return whether something that is called a dataset may have settings: text, containers, paths and arrays have none.
    """
    kind = type(value)
    return kind.__module__ not in {"builtins", "pathlib"} and not hasattr(kind, "__array__")


def generators_in(*values: Any) -> dict[str, Any]:
    """
    Return the random number generators that are held some levels down in *values*, by their path.

    Those of Python's ``random.Random``, of numpy and of torch count; torch's on another device than the CPU do not.
    """
    kinds = _generator_kinds()
    held = ((path, value) for path, value in _walk(values) if issubclass(type(value), kinds))
    return {path: value for path, value in held if _has_own_state(value)}


def held_in(value: Any) -> Iterator[tuple[str, Any]]:
    """
    Yield what an object holds some levels down, with the path that leads there from it, the widest first.
    """
    yield from ((path.partition(".")[2], each) for path, each in _walk((value,)) if "." in path)


def _walk(values: Collection[Any]) -> Iterator[tuple[str, Any]]:
    """
    Yield what is held some levels down in *values*, by its path, and themselves by their number.

    Generators of random numbers are not looked into.
    """
    kinds = _generator_kinds()
    waiting, seen = deque((str(place), value, 0) for place, value in enumerate(values)), set[int]()
    while waiting and len(seen) < _MOST_OBJECTS:
        path, value, depth = waiting.popleft()  # the widest first: large data lies deeper than what belongs to it
        if id(value) in seen or type(value) in _LEAVES or depth > _MOST_DEPTH:
            continue
        seen.add(id(value))
        yield path, value
        if not issubclass(type(value), kinds):
            with contextlib.suppress(Exception):  # a container of the user's may raise anything
                waiting.extend((f"{path}.{name}", each, depth + 1) for name, each in _held_by(value))


def _generator_kinds() -> tuple[type, ...]:
    numpys, torchs = sys.modules.get("numpy.random"), sys.modules.get("torch")
    known = [(numpys, "Generator"), (numpys, "RandomState"), (torchs, "Generator")]
    return (random.Random, *(getattr(module, name) for module, name in known if module is not None))


def _has_own_state(generator: Any) -> bool:
    """
    Return whether a generator has a state on the CPU, which is not the state of a global one.
    """
    numpys, torchs = sys.modules.get("numpy.random.mtrand"), sys.modules.get("torch")
    shared = (
        getattr(random.random, "__self__", None),
        getattr(numpys, "_rand", None),
        getattr(torchs, "default_generator", None),
    )
    device = getattr(generator, "device", None)
    is_elsewhere = device is not None and device.type != "cpu"
    return (
        not is_elsewhere
        and not isinstance(generator, random.SystemRandom)
        and all(generator is not each for each in shared)
    )


def _held_by(value: Any) -> Iterator[tuple[Any, Any]]:
    """
    Yield what an object, a function or a small container holds, with a name; arrays and modules are left out.
    """
    kind = type(value)
    if issubclass(kind, (list, tuple, deque)):
        most = _MOST_OBJECTS if value and _may_be_dataset(value[0]) else _MOST_ELEMENTS
        yield from islice(enumerate(value), most)
    elif issubclass(kind, dict):
        yield from islice(value.items(), _MOST_ELEMENTS)
    elif kind is MethodType:
        yield "__self__", value.__self__
    elif kind is partial:
        yield from enumerate((value.func, value.args, value.keywords))
    elif kind is FunctionType:
        yield from enumerate(cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY_CELL)
    if not hasattr(kind, "__array__") and kind.__name__ != "module":
        yield from attributes_of(value).items()
