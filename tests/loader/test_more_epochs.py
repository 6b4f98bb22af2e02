"""
A training that lasts: after 2, 4, 8, ... epochs it is expected to last as long again, and may have more workers.
"""

import os
import time

import pytest
from torch.utils.data import Dataset

from autoloader import auto_loader
from autoloader.policy import model
from loader.chosen import NEEDS_FORK

pytestmark = [pytest.mark.usefixtures("measuring"), NEEDS_FORK]


class Waits(Dataset[int]):
    """
    Six batches of four samples, each of which takes 10 ms to come.
    """

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> int:
        time.sleep(0.01)
        return index


class WaitsOnce(Waits):
    """
    Samples that each process keeps.
    """

    def __init__(self) -> None:
        self.kept: set[tuple[int, int]] = set()

    def __getitem__(self, index: int) -> int:
        if (os.getpid(), index) not in self.kept:
            self.kept.add((os.getpid(), index))
            super().__getitem__(index)
        return index


@pytest.fixture(autouse=True)
def _starting_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let a worker count for 0.2 seconds: two workers are worth it from 4 more epochs on, six from 20.
    """
    monkeypatch.setattr(model, "FORK_SECONDS", 0.2)


def workers_by_epoch(dataset: Dataset[int], passes: int, **arguments: object) -> list[int]:
    """
    Return how many workers there were after each pass over the dataset.
    """
    found = []
    with auto_loader(dataset, 4, **arguments) as loader:
        for _ in range(passes):
            assert [int(number) for batch in loader for number in batch] == list(range(24))
            found.append(loader.plan.value("num_workers"))
    return found


def test_more_epochs_are_worth_more_workers() -> None:
    """
    Inline, 2 workers and 6 workers take 0.24, 0.12 and 0.04 seconds an epoch; a restart has to pay.
    """
    workers = workers_by_epoch(Waits(), 34)
    assert workers[:3] == [0, 0, 0]
    assert 2 <= workers[6] < 6
    assert workers[33] == 6
    changes = [epoch for epoch in range(8, 34) if workers[epoch] != workers[epoch - 1]]
    assert all(epoch & (epoch - 1) == 0 for epoch in changes)


def test_workers_that_have_become_faster_stay() -> None:
    """
    By what the first batches took six would be better; what an epoch takes now says otherwise.
    """
    workers = workers_by_epoch(WaitsOnce(), 34)
    assert 1 <= workers[8] < 6
    assert set(workers[8:]) == {workers[8]}


def test_who_says_how_many_epochs_there_will_be_has_the_workers_for_them_at_once() -> None:
    """
    Nothing is learned from their number then.
    """
    assert workers_by_epoch(Waits(), 3, epochs=34) == [6, 6, 6]
