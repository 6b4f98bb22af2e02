"""
Only one thread fetches from a dataset at a time.
"""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from torch.utils.data import ConcatDataset, Subset, TensorDataset

import datasets
from autoloader.engine.turns import in_turns, in_turns_with_threads


def waiting(entered: threading.Event, leave: threading.Event) -> Iterator[str]:
    """
    Yield after a wait, as a batch that takes its time.
    """
    entered.set()
    assert leave.wait(30)
    yield "slow"


def is_kept_waiting(waits_for: object, fetches: object) -> bool:
    """
    Return whether a fetch from one dataset waits until one from another has ended.
    """
    entered, leave, done = threading.Event(), threading.Event(), threading.Event()
    slow, quick = in_turns(waiting(entered, leave), waits_for), in_turns(iter(["quick"]), fetches)
    first = threading.Thread(target=lambda: next(slow))
    first.start()
    assert entered.wait(30)
    second = threading.Thread(target=lambda: (next(quick), done.set()))
    second.start()
    waited = not done.wait(0.2)
    leave.set()
    first.join(30)
    second.join(30)
    assert done.is_set()
    return waited


BASE, OTHER = datasets.Numbers(10), datasets.Numbers(10)


@pytest.mark.parametrize(
    ("one", "another", "waits"),
    [
        pytest.param(BASE, BASE, True, id="same"),
        pytest.param(Subset(BASE, [1]), Subset(BASE, [2]), True, id="subsets"),
        pytest.param(ConcatDataset([OTHER, BASE]), ConcatDataset([BASE, OTHER]), True, id="both-orders"),
        pytest.param(BASE, OTHER, False, id="others"),
    ],
)
def test_fetches_take_turns_where_they_share_a_dataset(one: object, another: object, waits: bool) -> None:
    """
    Wrapped or not; datasets that have nothing in common do not wait for each other.
    """
    assert is_kept_waiting(one, another) is waits


def test_inline_takes_turns_only_with_what_does_so_already() -> None:
    """
    Where no thread loads, a batch costs nothing more.
    """
    data = datasets.Numbers(10)
    source = iter([1, 2])
    assert in_turns_with_threads(source, data) is source
    threaded = in_turns(iter([1]), data)
    assert in_turns_with_threads(source, data) is not source
    assert list(in_turns_with_threads(source, Subset(data, [1]))) == [1, 2]
    del threaded
    assert in_turns_with_threads(source, data) is source


def test_dataset_may_ask_for_its_own_samples() -> None:
    """
    In the thread that fetches already.
    """
    data = datasets.Numbers(10)
    inside = in_turns(iter(["inside"]), data)
    assert next(in_turns((next(inside) for _ in range(1)), data)) == "inside"


def test_error_of_a_fetch_lets_others_go_on() -> None:
    """
    Its turn is over.
    """
    data = TensorDataset()
    with pytest.raises(ZeroDivisionError):
        next(in_turns((1 // 0 for _ in range(1)), data))
    assert not is_kept_waiting(data, datasets.Numbers(1))
    assert next(in_turns(iter([1]), data)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.parametrize("is_inherited", [False, True], ids=["new-iterator", "inherited-iterator"])
def test_forked_process_does_not_wait_for_a_thread_of_its_parent(is_inherited: bool) -> None:
    """
    The thread that fetches is not there, and would never let go of the dataset.
    """
    entered, leave = threading.Event(), threading.Event()
    slow = in_turns(waiting(entered, leave), BASE)
    inherited = in_turns(iter([3]), BASE)
    thread = threading.Thread(target=lambda: next(slow))
    thread.start()
    assert entered.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(next(inherited if is_inherited else in_turns_with_threads(iter([3]), BASE)))
    leave.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
