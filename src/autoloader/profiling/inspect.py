"""
Looks at a dataset from outside: no sample is fetched and no iterator is made.
"""

import os
import re
import sys
from collections.abc import Iterator, Sized
from itertools import islice
from types import CodeType
from typing import Any

from ..traits import DatasetTraits, SampleKind

_MOST_ATTRIBUTES = 64
_MOST_DEPTH = 8
_PATH_NAMES = re.compile(r"root|path|dir|folder|file|url|sample|image|img|data", re.IGNORECASE)
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
    return DatasetTraits(
        style="iterable" if is_iterable else "map",
        samples=length_of(dataset),
        batches_per_epoch=batches_per_epoch,
        is_in_memory=not is_iterable and not has_own_collate and _is_in_memory(dataset),
        num_shards=_num_shards(dataset) if is_iterable else None,
        is_worker_aware=is_iterable and _is_worker_aware(dataset),
        path=path,
        is_remote=path is not None and "://" in path and not path.startswith("file://"),
        sample_kind=None if path is None else _KINDS.get(path.rpartition(".")[2].lower()),
        sample_bytes=_sample_bytes(dataset),
    )


def length_of(sized: Any) -> int | None:
    """
    Return ``len(sized)``, ``None`` where it has none; a length that raises is none.
    """
    if not isinstance(sized, Sized):
        return None
    try:
        return len(sized)
    except Exception:  # noqa: BLE001 (the user's own __len__ may raise anything; torch asks again when it must know)
        return None


def _torch_class(name: str) -> type | None:
    """
    Return a class of ``torch.utils.data``, ``None`` while torch is not loaded: then nothing can be an instance of it.
    """
    return getattr(sys.modules.get("torch.utils.data"), name, None)


def _is_torch_instance(value: Any, name: str) -> bool:
    torch_class = _torch_class(name)
    return torch_class is not None and isinstance(value, torch_class)


def _is_in_memory(dataset: Any, depth: int = 0) -> bool:
    """
    Return whether a sample is nothing but a slice of something in memory.
    """
    if depth > _MOST_DEPTH:
        return False
    if type(dataset) in (list, tuple, range, bytes, bytearray) or _is_array(dataset):
        return True
    if _has_method_of(dataset, "TensorDataset"):
        return True
    if _has_method_of(dataset, "Subset"):
        return _is_in_memory(dataset.dataset, depth + 1)
    if _has_method_of(dataset, "ConcatDataset"):
        return all(_is_in_memory(part, depth + 1) for part in dataset.datasets)
    return False


def _has_method_of(dataset: Any, name: str) -> bool:
    """
    Return whether *dataset* fetches samples exactly as torch's class *name* does.
    """
    torch_class: Any = _torch_class(name)
    return torch_class is not None and getattr(type(dataset), "__getitem__", None) is torch_class.__getitem__


def _is_array(value: Any) -> bool:
    modules = ((sys.modules.get("torch"), "Tensor"), (sys.modules.get("numpy"), "ndarray"))
    return any(type(value) is getattr(module, name, None) for module, name in modules)


def _sample_bytes(dataset: Any) -> int | None:
    """
    Return the bytes of one sample where shapes tell them: arrays and TensorDatasets.
    """
    arrays = dataset.tensors if _has_method_of(dataset, "TensorDataset") else (dataset,)
    if not arrays or not all(_is_array(array) and array.ndim and len(array) for array in arrays):
        return None
    return sum(int(array.nbytes) // len(array) for array in arrays)


def _num_shards(dataset: Any) -> int | None:
    for name in ("num_shards", "n_shards"):
        shards = _attribute(dataset, name)
        if isinstance(shards, int) and not isinstance(shards, bool) and shards > 0:
            return shards
    return None


def _attribute(dataset: Any, name: str) -> Any:
    try:
        return getattr(dataset, name, None)
    except Exception:  # noqa: BLE001 (a property of the user's may raise anything)
        return None


def _is_worker_aware(dataset: Any, depth: int = 0) -> bool:
    """
    Return whether the code of the dataset's class, or of an iterable dataset that it wraps, names get_worker_info.
    """
    base = _torch_class("IterableDataset")
    for each in type(dataset).__mro__:
        if each is base:
            break
        functions = (_function_of(member) for member in vars(each).values())
        if any(_names(function.__code__, "get_worker_info") for function in functions if function is not None):
            return True
    inner = islice(getattr(dataset, "__dict__", {}).values(), _MOST_ATTRIBUTES)
    return depth < _MOST_DEPTH and any(
        _is_worker_aware(each, depth + 1) for each in inner if _is_torch_instance(each, "IterableDataset")
    )


def _function_of(member: Any) -> Any:
    """
    Return the plain function behind a method, property, static method or decorated function.
    """
    for _ in range(_MOST_DEPTH):
        inner = (
            getattr(member, "fget", None) or getattr(member, "__wrapped__", None) or getattr(member, "__func__", None)
        )
        if inner is None:
            break
        member = inner
    return member if hasattr(member, "__code__") else None


def _names(code: CodeType, name: str) -> bool:
    nested = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return name in code.co_names or any(_names(each, name) for each in nested)


def _paths(dataset: Any, depth: int = 0) -> Iterator[str]:
    """
    Yield what looks like a path or URL among the attributes of a dataset and of those that it wraps.
    """
    attributes = getattr(dataset, "__dict__", None) or {}
    named = ((name, value) for name, value in islice(attributes.items(), _MOST_ATTRIBUTES) if _PATH_NAMES.search(name))
    plain = []
    for name, value in named:
        if name in {"dataset", "datasets"}:
            plain.append(value)
        elif (path := _first_path(value)) is not None:
            yield path
    for value in plain if depth < _MOST_DEPTH else ():
        for part in value[:1] if isinstance(value, (list, tuple)) else (value,):
            yield from _paths(part, depth + 1)


def _first_path(value: Any) -> str | None:
    """
    Return *value* as a path, or the first element of a list of paths or of (path, label) pairs.
    """
    for _ in range(2):
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    looks_like_one = isinstance(value, str) and len(value) < 4096 and re.search(r"[/\\]|\.\w{2,5}$", value)
    return value if looks_like_one and "\n" not in value else None
