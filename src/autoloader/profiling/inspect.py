"""
Looks at a dataset from outside: no sample is fetched and no iterator is made.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

from ..traits import DatasetTraits, SampleKind
from .parts import held_in

_MOST_ATTRIBUTES = 64
_MOST_DEPTH = 8
_MOST_PARTS = 1000
"""
Datasets within a dataset that are looked at; what is made of more parts counts as unknown.
"""

_PATH_NAMES = re.compile(r"root|path|dir|folder|file|url|sample|image|img|data", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
"""
A scheme has at least two letters: ``C://`` is a drive.
"""

_HANDLES = frozenset(
    {
        *("h5py.File", "h5py.Group", "h5py.Dataset", "lmdb.Environment", "builtins.Environment", "sqlite3.Connection"),
        *(
            "zipfile.ZipFile",
            "tarfile.TarFile",
            "netCDF4.Dataset",
            "tables.File",
            "socket.socket",
            "pysam.AlignmentFile",
        ),
    }
)
"""
Classes that keep a file open, by their library and name; lmdb's own calls itself a builtin.
"""

_CONTAINERS = (list, tuple, range, bytes, bytearray)
_KINDS: dict[str, SampleKind] = {
    **dict.fromkeys(("jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff"), "image"),
    **dict.fromkeys(("txt", "json", "jsonl", "csv", "tsv", "md", "xml"), "text"),
}


def inspect_dataset(
    dataset: Any, *, batches_per_epoch: int | None = None, has_own_collate: bool = False
) -> DatasetTraits:
    """
    Return what can be known of *dataset* without running it.

    Args:
        dataset: Anything that torch takes for a dataset.
        batches_per_epoch: What the sampler and the batch size make of its length.
        has_own_collate: Whether the user gave a ``collate_fn``, which may do any amount of work.
    """
    is_iterable = _is_torch_instance(dataset, "IterableDataset")
    path = next(_paths(dataset), None)
    is_remote = path is not None and _URL.match(path) is not None and not path.startswith("file://")
    return DatasetTraits(
        style="iterable" if is_iterable else "map",
        samples=length_of(dataset),
        batches_per_epoch=batches_per_epoch,
        is_in_memory=not is_iterable and not has_own_collate and is_in_memory(dataset),
        num_shards=_num_shards(dataset) if is_iterable else None,
        is_worker_aware=is_iterable and _is_worker_aware(dataset),
        path=path,
        is_remote=is_remote,
        open_handle=find_open_handle(dataset),
        sample_kind=None if path is None else _KINDS.get(path.rpartition(".")[2].lower()),
        sample_bytes=_sample_bytes(dataset),
    )


def length_of(sized: Any) -> int | None:
    """
    Return ``len(sized)``, ``None`` where it has none; a length that raises is none.
    """
    try:
        return len(sized) if isinstance(sized, Sized) else None
    except Exception:  # noqa: BLE001 (the user's own __len__ may raise anything; torch asks again when it must know)
        return None


def _torch_class(name: str) -> type | None:
    """
    Return a class of ``torch.utils.data``, ``None`` while torch is not loaded: then nothing can be an instance of it.
    """
    return getattr(sys.modules.get("torch.utils.data"), name, None)


def _is_torch_instance(value: Any, name: str) -> bool:
    torch_class = _torch_class(name)
    try:
        return torch_class is not None and isinstance(value, torch_class)
    except Exception:  # noqa: BLE001 (isinstance asks the object for its __class__, which may be a property)
        return False


def is_in_memory(dataset: Any) -> bool:
    """
    Return whether a sample is nothing but a slice of something in memory.
    """

    def is_plain(part: Any) -> bool:
        return type(part) in _CONTAINERS or _is_array(part) or _fetches_like(part, "TensorDataset")

    return _holds_for_all(
        dataset, is_plain, lambda part: _wrapped(part) if _fetches_like(part, "Subset", "ConcatDataset") else []
    )


def _holds_for_all(dataset: Any, holds: Callable[[Any], bool], parts_of: Callable[[Any], Iterable[Any]]) -> bool:
    """
    Return whether something holds for a dataset, or else for every one of the datasets that it is made of.
    """
    waiting, seen, found = [dataset], set[int](), False
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if len(seen) > _MOST_PARTS:
            return False
        if holds(part):
            found = True
            continue
        parts = list(parts_of(part))
        if not parts:
            return False
        waiting += parts
    return found


def _fetches_like(dataset: Any, *names: str) -> bool:
    """
    Return whether *dataset* fetches samples exactly as one of torch's classes of these names does.
    """
    classes = (each for each in map(_torch_class, names) if each is not None)
    methods = [(name, _attribute(type(dataset), name)) for name in ("__getitem__", "__getitems__")]
    return any(all(getattr(each, name, None) is method for name, method in methods) for each in classes)


def _wrapped(dataset: Any) -> list[Any]:
    """
    Return the datasets that a Subset, a ConcatDataset or any other wrapper holds, as far as they can be seen.
    """
    attributes = _attributes(dataset)
    several = attributes.get("datasets", ())
    parts = list(islice(several, _MOST_PARTS + 1)) if type(several) in (list, tuple) else []
    return [*parts, *([attributes["dataset"]] if "dataset" in attributes else [])]


def _is_array(value: Any) -> bool:
    modules = ((sys.modules.get("torch"), "Tensor"), (sys.modules.get("numpy"), "ndarray"))
    return any(type(value) is getattr(module, name, None) for module, name in modules)


def _sample_bytes(dataset: Any) -> int | None:
    """
    Return the bytes of one sample where shapes tell them: arrays and TensorDatasets.
    """
    arrays = _attribute(dataset, "tensors") if _fetches_like(dataset, "TensorDataset") else (dataset,)
    try:
        if not arrays or not all(_is_array(array) and array.ndim and len(array) for array in arrays):
            return None
        return sum(int(array.nbytes) // len(array) for array in arrays)
    except Exception:  # noqa: BLE001 (sparse and nested tensors have no such size, and say so in several ways)
        return None


def _num_shards(dataset: Any) -> int | None:
    for name in ("num_shards", "n_shards"):
        shards = _attribute(dataset, name)
        if type(shards) is int and shards > 0:
            return shards
    return None


def _attributes(value: Any) -> dict[str, Any]:
    """
    Return the attributes that an object itself holds, without asking code of its class.
    """
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 (__dict__ may be a property of the user's)
        return {}
    if type(attributes) is not dict:
        return {}
    return {name: attributes[name] for name in islice(attributes, _MOST_ATTRIBUTES) if type(name) is str}


def _attribute(dataset: Any, name: str) -> Any:
    try:
        return getattr(dataset, name, None)
    except Exception:  # noqa: BLE001 (a property of the user's may raise anything)
        return None


def _is_worker_aware(dataset: Any) -> bool:
    """
    Return whether the code of the dataset's class names get_worker_info, or that of all iterable datasets in it.
    """
    return _holds_for_all(dataset, lambda part: _class_names(type(part), "get_worker_info"), _iterable_datasets_in)


def _class_names(kind: type, name: str) -> bool:
    """
    Return whether a method of a class that is not torch's own refers to *name*.
    """
    torchs = getattr(_torch_class("IterableDataset"), "__mro__", ())
    members = (member for each in kind.__mro__ if each not in torchs for member in vars(each).values())
    return any(_names(function.__code__, name) for member in members for function in _functions_of(member))


def _iterable_datasets_in(dataset: Any) -> Iterator[Any]:
    """
    Yield the iterable-style datasets among the attributes of a wrapper, and in its lists.
    """
    for value in _attributes(dataset).values():
        values = islice(value, _MOST_PARTS + 1) if type(value) in (list, tuple) else (value,)
        yield from (each for each in values if _is_torch_instance(each, "IterableDataset"))


def _functions_of(member: Any) -> Iterator[FunctionType]:
    """
    Yield the plain functions behind a method, property, static method, partial or decorated function.
    """
    for _ in range(_MOST_DEPTH):
        if type(member) is FunctionType:
            yield member
        inner = (_attribute(member, name) for name in ("fget", "__wrapped__", "__func__", "func"))
        member = next((each for each in inner if each is not None), None)
        if member is None:
            return


def _names(code: CodeType, name: str) -> bool:
    """
    Return whether *code*, or a function within it, refers to *name*: as a global, an attribute or a closure's.
    """
    nested = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return name in (*code.co_names, *code.co_freevars) or any(_names(each, name) for each in nested)


def _paths(dataset: Any) -> Iterator[str]:
    """
    Yield what looks like a path or URL among the attributes of a dataset and of the first that it wraps.
    """
    for _ in range(_MOST_DEPTH):
        attributes = _attributes(dataset)
        for name, value in attributes.items():
            if _PATH_NAMES.search(name) and (path := _first_path(value)) is not None:
                yield path
        wrapped = _wrapped(dataset)
        if not wrapped:
            return
        dataset = wrapped[0]


def _first_path(value: Any) -> str | None:
    """
    Return *value* as a path, or the first element of a list of paths or of (path, label) pairs.
    """
    for _ in range(2):
        for container in (list, tuple):
            if issubclass(type(value), container) and container.__len__(value):
                value = container.__getitem__(value, 0)
    text = _path_text(value)
    looks_like_one = text is not None and len(text) < 4096 and re.search(r"[/\\]|\.\w{2,5}$", text)
    return text if text is not None and looks_like_one and "\n" not in text else None


def find_open_handle(dataset: Any) -> str | None:
    """
    Return the path of the first attribute that is open on a file, in a dataset or in what it holds some levels down.
    """
    return next((path for path, value in held_in(dataset) if _is_open_handle(value)), None)


def _is_open_handle(value: Any) -> bool:
    """
    Return whether *value* is an open file that can be read, or of a class by which libraries keep one open.
    """
    kind = type(value)
    if issubclass(kind, (io.FileIO, io.BufferedReader, io.BufferedRandom, io.TextIOWrapper)):
        try:
            return bool(value.readable()) and value.fileno() > 2  # a log, and what all processes share, is no data
        except Exception:  # noqa: BLE001 (it is closed, or no file at all)
            return False
    names = {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in kind.__mro__}
    return not names.isdisjoint(_HANDLES)


def _path_text(value: Any) -> str | None:
    """
    Return a path as text, without ``os.fspath``, for which classes of paths in a cloud fetch the file.
    """
    try:
        return str(value) if issubclass(type(value), (str, os.PathLike)) else None
    except Exception:  # noqa: BLE001 (a path class of the user's may raise anything)
        return None
