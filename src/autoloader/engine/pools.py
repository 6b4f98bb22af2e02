"""
Thread pools of libraries in a worker: one thread each, as torch has, or all workers together want the CPUs many times.
"""

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

RESIZE: Mapping[str, Callable[[Any], object]] = {
    "cv2": lambda library: library.setNumThreads(1),
    "numexpr": lambda library: library.set_num_threads(1),
    "pyarrow": lambda library: library.set_cpu_count(1),
    "threadpoolctl": lambda library: library.threadpool_limits(limits=1),
}
"""
How the pool of a library is resized that can be resized while it runs; threadpoolctl does it for BLAS and OpenMP.

Source: OpenCV ``setNumThreads``, NumExpr ``set_num_threads``, Arrow ``set_cpu_count``, threadpoolctl
``threadpool_limits``.
"""


def resize_to_one_thread() -> None:
    """
    Let each library that is loaded, and whose pool can be resized, use one thread from now on.

    What the user sets in ``worker_init_fn`` comes after this, and wins.
    """
    for name, resize in RESIZE.items():
        library = sys.modules.get(name)
        if library is not None:
            with contextlib.suppress(Exception):  # another version of it may not know how
                resize(library)


class AtOneThread:
    """
    Loads inline as it was measured: torch computes in the calling thread alone, as in a worker.

    A few threads that wait for one another after each small operation cost more than they bring, and many times as much
    where other processes want the same CPUs.

    Args:
        source: What loads.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    def __next__(self) -> Any:
        threads = torch.get_num_threads()
        if threads == 1:
            return next(self._source)
        torch.set_num_threads(1)
        try:
            return next(self._source)
        finally:
            torch.set_num_threads(threads)
