"""
What it costs to send a batch from one process to another, seen without another process.
"""

import contextlib
import io
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from time import perf_counter
from typing import Any

import torch
import torch.multiprocessing

from ..profiling.timing import Sent

TAKEOVER_SECONDS = 200e-6
TAKEOVER_SECONDS_PER_TENSOR = {"file_descriptor": 300e-6, "file_system": 70e-6}
"""
What the training process spends on taking over a batch that waits for it, and on each tensor in it by torch's sharing
strategy: a file descriptor is asked for, by a connection that proves who asks. A worker's part takes about as long.
``python -m benchmarks.transfer`` (torch 2.13, Linux, two virtual CPUs).
"""

MOST_COPIED_BYTES = 1 << 20
"""
How much of a batch is copied to see how long that takes.
"""

TRIES = 3
"""
So often a batch is pickled and its tensors copied: the fastest counts, as all else on the machine only adds to it.
"""

MOST_PICKLING_SECONDS = 0.02
"""
After as long a batch is not pickled again.
"""

LARGE_BYTES = 1 << 20
"""
Arrays that are too large to be pickled for a look.
"""


class _TensorsApart(ForkingPickler):
    """
    Pickles a batch as it would be for another process, and sets its tensors aside, which travel in shared memory.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.sizes: list[int] = []
        """Bytes of what was set aside."""
        self.tensors = 0
        """How many tensors are among that."""

    def persistent_id(self, value: Any) -> int | None:
        """
        Return what stands in the pickle for a tensor or a large array.
        """
        if isinstance(value, torch.Tensor):
            if value.requires_grad and not value.is_leaf:
                raise PicklingError("torch sends no tensor that requires grad and is no leaf")
            self.sizes.append(value.element_size() * value.nelement() if value.device.type == "cpu" else 0)
            self.tensors += 1
        elif type(value).__module__ == "numpy" and getattr(value, "nbytes", 0) >= LARGE_BYTES:
            self.sizes.append(int(value.nbytes))  # is copied as well
        else:
            return None
        return len(self.sizes)


def try_to_send(batch: Any, most_shared_bytes: int) -> Sent | None:
    """
    Return what sending a batch costs, ``None`` where it cannot be pickled. The batch itself is left as it is.

    Args:
        batch: What ``collate_fn`` returned.
        most_shared_bytes: How much shared memory may be used for a moment.
    """
    pickling: list[float] = []
    while len(pickling) < TRIES and sum(pickling) < MOST_PICKLING_SECONDS:
        begun, stream = perf_counter(), io.BytesIO()
        pickler = _TensorsApart(stream)
        try:
            pickler.dump(batch)
        except Exception:  # noqa: BLE001 (the user's __reduce__ may raise anything)
            return None
        pickling.append(perf_counter() - begun)
    sizes = pickler.sizes
    copying = min(pickling) + _seconds_to_share(sizes, most_shared_bytes)
    return Sent(len(stream.getbuffer()) + sum(sizes), copying + _seconds_to_take_over(pickler.tensors))


def _seconds_to_take_over(tensors: int) -> float:
    strategy = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    return TAKEOVER_SECONDS + tensors * TAKEOVER_SECONDS_PER_TENSOR.get(strategy, 0.0)


def _seconds_to_share(sizes: Sequence[int], most_shared_bytes: int) -> float:
    """
    Return how long it takes to put tensors of so many bytes into shared memory, by a copy of the first of them.
    """
    left, copied, seconds = min(most_shared_bytes, MOST_COPIED_BYTES), 0, 0.0
    with contextlib.suppress(RuntimeError, OSError):  # shared memory may be full by now
        for size in sizes:
            part = min(size, left)
            if part:
                seconds += min(_seconds_to_copy(part) for _ in range(TRIES))
                copied, left = copied + part, left - part
    return seconds * sum(sizes) / copied if copied else 0.0


def _seconds_to_copy(size: int) -> float:
    ordinary, begun = torch.zeros(size, dtype=torch.uint8), perf_counter()
    ordinary.share_memory_()  # type: ignore[no-untyped-call]
    return perf_counter() - begun
