"""
Pools of libraries get one thread in a worker.
"""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from autoloader.engine.pools import RESIZE, AtOneThread, resize_to_one_thread

CALLS = {
    "cv2": ("setNumThreads", (1,), {}),
    "numexpr": ("set_num_threads", (1,), {}),
    "pyarrow": ("set_cpu_count", (1,), {}),
    "threadpoolctl": ("threadpool_limits", (), {"limits": 1}),
}


@pytest.mark.parametrize("name", RESIZE)
def test_pool_of_a_loaded_library_is_resized(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each is asked in its own words; the others are not loaded for it.
    """
    for other in RESIZE:
        monkeypatch.delitem(sys.modules, other, raising=False)
    called: list[Any] = []
    function, arguments, named = CALLS[name]
    library = SimpleNamespace(**{function: lambda *given, **words: called.append((given, words))})
    monkeypatch.setitem(sys.modules, name, library)
    resize_to_one_thread()
    assert called == [(arguments, named)]
    assert [other for other in RESIZE if other in sys.modules] == [name]


def test_library_that_cannot_be_resized_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A version without the function is no reason for a worker to fail, nor for the next library to keep its threads.
    """
    called: list[int] = []
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(set_cpu_count=called.append))
    resize_to_one_thread()
    assert called == [1]


class Reports:
    """
    Gives the threads that torch has while it loads, and an error at the end.
    """

    def __init__(self) -> None:
        self.left = 2

    def __next__(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return torch.get_num_threads()


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_has_its_threads_again_after_each_batch(threads: int) -> None:
    """
    One thread while a batch loads, as many as before after it, and after an error.
    """
    before, source = torch.get_num_threads(), AtOneThread(Reports())
    torch.set_num_threads(threads)
    try:
        for _ in range(2):
            assert next(source) == 1
            assert torch.get_num_threads() == threads
        with pytest.raises(StopIteration):
            next(source)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
