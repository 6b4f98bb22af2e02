"""
From TARGET on the command line to a dataset.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import TargetError, TorchMissingError
from ..findings import describe


def require_torch(what: str) -> None:
    """
    Import torch, for a command that cannot do without it.

    Raises:
        TorchMissingError: It is not installed, or does not import.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        text = describe("torch.missing", what=what, reason=error, python=sys.executable)
        raise TorchMissingError(text) from error


def load_dataset(target: str) -> Any:
    """
    Return the dataset that ``module:factory`` or ``file.py:factory`` gives.

    Raises:
        TargetError: It does not exist, its own code fails, or it gives something that is no dataset.
    """
    place, _, name = target.rpartition(":")
    if not place.rstrip(":") or place.endswith(":") or not name:
        raise TargetError(describe("target.malformed", target=target))
    module = _import(place, target)
    if not hasattr(module, name):
        raise TargetError(describe("target.not-found", target=target, reason=f"{place} has no {name!r}"))
    value = getattr(module, name)
    if callable(value) and (isinstance(value, type) or not _is_dataset(value)):
        try:
            value = value()
        except (Exception, SystemExit) as error:
            raise TargetError(describe("target.failed", target=target, error=_show(error))) from error
    if not _is_dataset(value):
        raise TargetError(describe("target.not-a-dataset", target=target, what=f"of type {type(value).__name__}"))
    return value


def _import(place: str, target: str) -> ModuleType:
    try:
        return _import_file(Path(place), target) if place.endswith(".py") else importlib.import_module(place)
    except TargetError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            reason = f"there is no module {error.name!r}"
            raise TargetError(describe("target.not-found", target=target, reason=reason)) from error
        raise TargetError(describe("target.failed", target=target, error=_show(error))) from error
    except (Exception, SystemExit) as error:
        raise TargetError(describe("target.failed", target=target, error=_show(error))) from error


def _import_file(path: Path, target: str) -> ModuleType:
    """
    Import a file by its path, under its own name, with its folder on the path as Python has it for a script.
    """
    if not path.is_file():
        raise TargetError(describe("target.not-found", target=target, reason=f"there is no file {str(path)!r}"))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _is_dataset(value: Any) -> bool:
    """
    Return whether torch's DataLoader can load from *value*.
    """
    from torch.utils.data import IterableDataset

    if isinstance(value, (str, bytes, dict)):
        return False
    return isinstance(value, IterableDataset) or (hasattr(type(value), "__getitem__") and not isinstance(value, type))


def _show(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
