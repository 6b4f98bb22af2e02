"""
Workers that cannot all be started: what has been started ends, and the error says what the system refused.
"""

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
from torch.utils.data import default_convert

import datasets
from autoloader.engine import processes
from autoloader.engine.inner import InnerLoader
from autoloader.engine.issue import IssuedIndices
from autoloader.engine.processes import WorkerStartError
from autoloader.engine.randomness import BaseSeed


def make(sampler: Any = range(12)) -> InnerLoader:
    """
    Return a loader of twelve samples with two workers.
    """
    settings = {"num_workers": 2, "prefetch_factor": 2}
    return InnerLoader(
        datasets.Numbers(12),
        issued=IssuedIndices(sampler, BaseSeed(None)),
        makes_batches=False,
        collate_fn=default_convert,
        settings=settings,
        rest={},
    )


def refuse_after(count: int, function: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """
    Return a function that may be called so often, and raises from then on.
    """
    calls = iter(range(count))

    def limited(*arguments: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise error
        return function(*arguments, **named)

    return limited


@pytest.mark.parametrize(
    "queues",
    [
        pytest.param(0, id="no-queue"),
        pytest.param(1, id="no-worker"),
        pytest.param(2, id="one-worker"),
    ],
)
def test_queue_that_cannot_be_made_ends_what_was_started(queues: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Torch makes a queue for the batches, and one for each worker before it starts.
    """
    full = OSError(28, "No space left on device")
    loader = make()
    with monkeypatch.context() as patch:
        patch.setattr(processes, "WorkerQueue", refuse_after(queues, processes.WorkerQueue, full))
        with pytest.raises(WorkerStartError, match=r"^OSError: \[Errno 28\] No space left on device$"):
            loader.start_epoch()
    assert multiprocessing.active_children() == []
    loader.close()


def test_event_that_cannot_be_made_is_an_error_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It needs semaphores like a queue, and is made when no worker runs.
    """
    monkeypatch.setattr(BaseContext, "Event", refuse_after(0, BaseContext.Event, PermissionError(13, "not allowed")))
    with pytest.raises(WorkerStartError, match=r"^PermissionError: \[Errno 13\] not allowed$"):
        make().start_epoch()
    assert multiprocessing.active_children() == []


def test_second_worker_that_cannot_start_ends_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The system's own error stands in ours.
    """
    refused = BlockingIOError(11, "no more processes")
    monkeypatch.setattr(BaseProcess, "start", refuse_after(1, BaseProcess.start, refused))
    with pytest.raises(WorkerStartError, match=r"^BlockingIOError: \[Errno 11\] no more processes$"):
        make().start_epoch()
    assert multiprocessing.active_children() == []


@pytest.mark.slow_spawn
def test_thread_that_cannot_start_ends_both_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each queue has a thread that feeds it, which begins with the first indices that are more than numbers or text.
    """
    refused = RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", refuse_after(0, threading.Thread.start, refused))
    with pytest.raises(WorkerStartError, match="^RuntimeError: can't start new thread$"):
        make([(place, place) for place in range(12)]).start_epoch()
    assert multiprocessing.active_children() == []


@pytest.mark.slow_spawn
def test_loader_that_could_not_start_serves_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing of the attempt is left: the next one begins with the first batch.
    """
    loader = make()
    with monkeypatch.context() as patch:
        refused = refuse_after(1, processes.WorkerQueue, OSError(24, "Too many open files"))
        patch.setattr(processes, "WorkerQueue", refused)
        with pytest.raises(WorkerStartError):
            loader.start_epoch()
    assert [delivery.batch.tolist()[0] for delivery in loader.start_epoch()] == list(range(12))
    loader.close()
