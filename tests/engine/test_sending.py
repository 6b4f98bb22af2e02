"""
What it costs to send a batch, seen in one process.
"""

import threading
from typing import Any

import pytest
import torch
import torch.multiprocessing

from autoloader.engine import sending
from autoloader.engine.sending import TAKEOVER_SECONDS, TAKEOVER_SECONDS_PER_TENSOR, try_to_send

MIB = 1 << 20


@pytest.mark.parametrize(
    ("batch", "least"),
    [
        pytest.param(torch.zeros(1000), 4000, id="tensor"),
        pytest.param([torch.zeros(1000), {"label": torch.zeros(10, dtype=torch.int64)}], 4080, id="nested"),
        pytest.param("x" * 5000, 5000, id="text"),
        pytest.param([], 0, id="empty"),
        pytest.param(torch.zeros(0), 0, id="empty-tensor"),
    ],
)
def test_bytes_are_those_of_tensors_and_of_the_rest(batch: Any, least: int) -> None:
    """
    Tensors count with all their elements, anything else with its pickle.
    """
    sent = try_to_send(batch, MIB)
    assert sent is not None
    assert least <= sent.bytes < least + 1000
    assert sent.seconds > 0


def test_batch_stays_where_it_is() -> None:
    """
    A tensor that was shared would be another one to the training loop.
    """
    batch = torch.arange(1000)
    try_to_send(batch, MIB)
    assert not batch.is_shared()
    assert batch.tolist() == list(range(1000))


def test_batch_that_cannot_be_pickled_cannot_be_sent() -> None:
    """
    A lock goes nowhere.
    """
    assert try_to_send([torch.zeros(3), threading.Lock()], MIB) is None


def test_tensor_that_torch_refuses_to_send_cannot_be_sent() -> None:
    """
    One that requires grad and is no leaf, as a collate function makes it that runs a part of the model.
    """
    leaf = torch.zeros(3, requires_grad=True)
    assert try_to_send([leaf], 1 << 20) is not None
    assert try_to_send([leaf * 2], 1 << 20) is None


def test_no_more_shared_memory_is_used_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of large batches a part is copied, and of none of them anything where nothing is free.
    """
    sizes: list[int] = []
    monkeypatch.setattr(sending, "_seconds_to_copy", lambda size: sizes.append(size) or 0.5)
    quarter = MIB // 4
    batch = [torch.zeros(quarter, dtype=torch.uint8), torch.zeros(3 * quarter, dtype=torch.uint8)]
    sent = try_to_send(batch, 2 * quarter)
    assert sizes == [quarter] * 6  # three times each
    assert sent is not None
    assert sent.seconds == pytest.approx(2 * 1.0, rel=0.1)  # twice as many bytes as were copied
    sizes.clear()
    assert try_to_send(batch, 0) is not None
    assert sizes == []


class _Pickled:
    """
    Pickled, it sets the clock forward by the next number of seconds.
    """

    def __init__(self, clock: list[float], seconds: list[float]) -> None:
        self.clock, self.seconds = clock, seconds

    def __reduce__(self) -> tuple[type, tuple[()]]:
        self.clock[0] += self.seconds.pop(0)
        return list, ()


@pytest.mark.parametrize(
    ("seconds", "counts", "left"),
    [
        pytest.param([0.008, 0.0001, 0.0002], 0.0001, 0, id="first-was-interrupted"),
        pytest.param([0.03, 0.001, 0.001], 0.03, 2, id="too-long-for-another"),
        pytest.param([0.012, 0.012, 0.001], 0.012, 1, id="too-long-for-a-third"),
    ],
)
def test_fastest_of_several_picklings_counts(
    seconds: list[float], counts: float, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What else runs on the machine may take the CPU away for longer than a small batch takes to pickle.
    """
    clock = [100.0]
    monkeypatch.setattr(sending, "perf_counter", lambda: clock[0])
    sent = try_to_send([_Pickled(clock, seconds)], 0)
    assert sent is not None
    assert sent.seconds == pytest.approx(counts + TAKEOVER_SECONDS)
    assert len(seconds) == left


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_each_tensor_is_taken_over(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    By as much as torch's way of sharing takes, wherever it lies in the batch; numbers and texts travel together.
    """
    monkeypatch.setattr(torch.multiprocessing, "get_sharing_strategy", lambda: strategy)
    monkeypatch.setattr(sending, "perf_counter", lambda: 100.0)
    for batch, tensors in (([1, "two"], 0), (torch.zeros(3), 1), ([torch.zeros(3), {"label": torch.zeros(0)}], 2)):
        sent = try_to_send(batch, MIB)
        assert sent is not None
        assert sent.seconds == pytest.approx(TAKEOVER_SECONDS + tensors * TAKEOVER_SECONDS_PER_TENSOR[strategy])
