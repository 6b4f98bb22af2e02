"""
Thread pools of libraries in a worker: one thread each, as torch has, or all workers together want the CPUs many times.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
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


@contextlib.contextmanager
def torch_at_one_thread() -> Iterator[None]:
    """
    For the time of a ``with`` block, let torch compute in the calling thread alone, as it does in a worker.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
