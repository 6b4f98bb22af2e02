"""
What a worker would be sent: values as multiprocessing pickles them, without the contents of what is large.
"""

import copyreg
import functools
import io
import pickle
import sys
from collections.abc import Mapping
from multiprocessing.reduction import ForkingPickler
from types import BuiltinFunctionType, FunctionType
from typing import Any

from .child import look_up

MOST_SENT_BYTES = 64 << 20
"""
Of something larger the child gets the names of its classes and functions only.
"""

_STAND_IN_BYTES = 1 << 20


class Pickled:
    """
    A value as multiprocessing would pickle it, but large arrays and tensors without their contents.

    Args:
        value: What to pickle.
        with_contents: Whether to pickle these, too.
    """

    def __init__(self, value: Any, *, with_contents: bool = False) -> None:
        sink = _Sink()
        pickler = _Pickler(sink, with_contents=with_contents)
        self.problem = ""
        try:
            pickler.dump(value)
        except RuntimeError as error:
            if "inheritance" not in str(error) and "spawn" not in str(error):
                self.problem = show(error)
            sink.is_whole = False  # a lock or queue of multiprocessing, which can be pickled for a process that starts
        except Exception as error:  # noqa: BLE001 (pickling runs code of the user's, which may raise anything)
            self.problem = show(error)
        self.names = frozenset(pickler.names)
        self.has_stand_ins = pickler.has_stand_ins
        self.copied_bytes = sink.written_bytes + pickler.left_out_bytes
        self.data = sink.getvalue() if sink.is_whole else None

    def to_send(self) -> bytes:
        """
        Return the pickle for the child.
        """
        return pickle.dumps(_LookUp(self.names)) if self.data is None else self.data


class _LookUp:
    def __init__(self, names: frozenset[tuple[str, str]]) -> None:
        self._names = names

    def __reduce__(self) -> tuple[Any, ...]:
        return look_up, tuple(sorted(self._names))


class _Sink(io.BytesIO):
    """
    A file in memory that gives up what it holds when that becomes too large.
    """

    is_whole = True
    written_bytes = 0

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes  # what numpy hands over has no len()
        self.written_bytes += length
        if self.is_whole and self.tell() + length > MOST_SENT_BYTES:
            self.is_whole = False
            self.seek(0)
            self.truncate()
        return super().write(data) if self.is_whole else length


class _Pickler(ForkingPickler):
    """
    Multiprocessing's pickler, which notes each class and function by its name.

    Tensors are pickled by value and not moved to shared memory, which is left to the real start of a worker.
    """

    def __init__(self, file: io.BytesIO, *, with_contents: bool) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._with_contents = with_contents
        self.has_stand_ins = False
        self.left_out_bytes = 0
        self.names: set[tuple[str, str]] = set()
        torch = sys.modules.get("torch")
        own = getattr(torch, "Tensor", ()), getattr(torch, "UntypedStorage", ()), getattr(torch, "TypedStorage", ())
        extra: Mapping[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        self.dispatch_table = {
            **copyreg.dispatch_table,
            **{kind: reduce for kind, reduce in extra.items() if not issubclass(kind, own)},
        }

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, type) or kind in (FunctionType, BuiltinFunctionType):
            module = getattr(value, "__module__", None)
            if isinstance(module, str) and module != "builtins":  # others are every Python's own, or bound to something
                self.names.add((module, value.__qualname__))
        elif kind.__name__ == "Tensor" and kind.__module__ == "torch":
            return self._noted(_stand_in_of_tensor(value))
        elif kind.__name__ == "UntypedStorage" and kind.__module__ == "torch.storage":
            return kind, (value.nbytes(),)  # torch sends its memory, and has no way to pickle it
        elif kind.__name__ in {"ndarray", "memmap"} and kind.__module__ == "numpy":
            stand_in = self._noted(_stand_in_of_array(value))
            self.left_out_bytes += 0 if stand_in is NotImplemented else value.nbytes
            return stand_in
        return NotImplemented

    def _noted(self, stand_in: Any) -> Any:
        if stand_in is NotImplemented or self._with_contents:
            return NotImplemented
        self.has_stand_ins = True
        return stand_in


def _stand_in_of_tensor(value: Any) -> Any:
    """
    Return how to make a tensor of the same shape whose contents nobody needs, for a large one.

    Raises:
        PicklingError: It cannot go to another process (torch.multiprocessing.reductions, reduce_tensor).
    """
    import torch

    if value.requires_grad and not value.is_leaf:
        raise pickle.PicklingError("it requires grad and is no leaf, and could go to another process after detach()")
    is_plain = value.device.type == "cpu" and value.layout == torch.strided and not value.is_quantized
    if not is_plain or value.nbytes <= _STAND_IN_BYTES:
        return NotImplemented
    return functools.partial(torch.empty, dtype=value.dtype), (tuple(value.shape),)


def _stand_in_of_array(value: Any) -> Any:
    """
    Return how to make an array of the same shape whose contents nobody needs, for a large one.
    """
    import numpy as np

    if value.nbytes <= _STAND_IN_BYTES or value.dtype.hasobject:
        return NotImplemented
    return np.empty, (value.shape, value.dtype)


def show(error: BaseException) -> str:
    """
    Return an error with its kind.
    """
    return f"{type(error).__name__}: {error}"
