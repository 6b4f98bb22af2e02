"""
broadcast() and plain assignment between epochs: what the dataset has become reaches every copy of it.
"""

import gc
import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, Subset

from autoloader import auto_loader
from autoloader.errors import ArgumentError
from loader.chosen import HERE, WAYS, chosen, chosen_way
from loader.epoch_data import Lengthy, Tells, Wrapper

CHANGED = "persistent_workers.dataset-changed: new workers, for what was changed since the last epoch"


def told(batches: Any, name: str = "level") -> list[Any]:
    """
    Return what each sample of some batches tells under a name.
    """
    return [value for batch in batches for value in batch[name].tolist()]


def changes_said(caplog: pytest.LogCaptureFixture) -> int:
    """
    Return how often the log says that workers were replaced for a change.
    """
    return [record.message for record in caplog.records].count(CHANGED)


@pytest.mark.parametrize("way", WAYS)
def test_broadcasts_reach_every_copy_from_the_next_epoch_on(
    way: str, host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Numbers, dictionaries and tensors, wherever the attribute is, one call after the other; workers stay.
    """
    caplog.set_level(logging.INFO, logger="autoloader")
    inner = Tells(12)
    dataset = Wrapper(Subset(ConcatDataset([inner]), range(12)))
    with chosen_way(way, host, dataset, batch_size=2) as loader:
        first = list(loader)
        loader.broadcast(difficulty=1)
        iterator = iter(loader)
        running = [next(iterator)]
        loader.broadcast(difficulty=2)
        loader.broadcast(table=torch.ones(2))
        assert (inner.difficulty, inner.table.sum().item()) == (1, 0)
        running += iterator
        assert (told(running), told(running, "table")) == ([1] * 12, [0.0] * 12)
        second = list(loader)
        assert (told(second), told(second, "table")) == ([2] * 12, [2.0] * 12)
        loader.broadcast(difficulty={"level": 3})
        third = [*loader, *loader]
        assert (told(third), told(third, "table")) == ([3] * 24, [2.0] * 24)
        assert (inner.difficulty, hasattr(dataset, "difficulty")) == ({"level": 3}, False)
        pids = [set(told(each, "pid")) for each in (first, running, second, third)]
        assert pids == [pids[0]] * 4
        assert set(told(third, "epoch")) == {-1}
    assert changes_said(caplog) == 0


@pytest.mark.parametrize("way", ["inline", "thread", pytest.param("process", marks=pytest.mark.slow_spawn)])
def test_broadcast_and_set_epoch_go_together(way: str, host: Any) -> None:
    """
    Both are passed on at once, and a later epoch alone brings no older value back.
    """
    dataset = Tells()
    with chosen_way(way, host, dataset, num_workers=1, batch_size=2) as loader:
        loader.broadcast(difficulty=1)
        loader.set_epoch(4)
        both = list(loader)
        assert (told(both), told(both, "epoch")) == ([1] * 12, [4] * 12)
        dataset.difficulty = 2
        loader.set_epoch(5)
        both = list(loader)
        assert (told(both), told(both, "epoch"), dataset.difficulty) == ([2] * 12, [5] * 12, 2)
        loader.broadcast(table=torch.ones(2))
        both = list(loader)
        assert (told(both), told(both, "table")) == ([2] * 12, [2.0] * 12)


@pytest.mark.slow_spawn
def test_a_worker_without_a_batch_hears_of_all_broadcasts_later() -> None:
    """
    In epochs of one batch one worker hears of each; the other one hears of all of them at once.
    """
    sampler = Lengthy(8)
    with chosen(Tells(8), 2, batch_size=1, sampler=sampler) as loader:
        pids = set(told(loader, "pid"))
        sampler.length = 1
        for state in ({"difficulty": 1}, {"table": torch.ones(2)}, {"difficulty": 2}):
            loader.broadcast(**state)
            list(loader)
        sampler.length = 8
        later = list(loader)
        assert (told(later), told(later, "table")) == ([2] * 8, [2.0] * 8)
        assert set(told(later, "pid")) == pids


@pytest.mark.parametrize("state", [{"dificulty": 2}, {"difficulty": 2, "dificulty": 2}])
def test_a_name_that_no_dataset_has_is_refused_and_nothing_changes(state: dict[str, Any]) -> None:
    """
    The error names it and the dataset's class; names beside it are not set either.
    """
    inner = Tells()
    loader = auto_loader(Wrapper(inner), 2, num_workers=0)
    with pytest.raises(ArgumentError) as caught:
        loader.broadcast(**state)
    assert str(caught.value) == (
        "dificulty=... cannot be set: neither the dataset, a Wrapper, nor one that it wraps has an attribute "
        "'dificulty'. Check the name, or give the attribute a first value in the dataset's __init__."
    )
    assert told(loader) == [0] * 12
    assert (inner.difficulty, hasattr(inner, "dificulty")) == (0, False)


class WithSize(Tells):
    """
    A dataset whose size cannot be set.
    """

    @property
    def size(self) -> int:
        return 3


@dataclass(frozen=True)
class Frozen:
    """
    A dataset none of whose attributes can be set.
    """

    size: int = 3

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize("kind", [WithSize, Frozen])
def test_an_attribute_that_cannot_be_set_is_one_error_and_not_one_for_each_epoch(kind: type) -> None:
    """
    The user hears of it, and can train on without.
    """

    def broadcast_and_load() -> None:
        loader.broadcast(size=5)
        list(loader)

    loader = auto_loader(kind(), num_workers=0)
    with pytest.raises((ArgumentError, AttributeError)):
        broadcast_and_load()
    assert len(list(loader)) == len(loader)


@pytest.mark.parametrize("way", HERE)
def test_what_cannot_be_pickled_is_set_where_nothing_is_pickled(way: str, host: Any) -> None:
    """
    Inline and in a thread any value will do; forked workers get a new copy, or there is one error.
    """
    with chosen_way(way, host, Tells(), batch_size=2) as loader:
        list(loader)
        loader.broadcast(difficulty=Lambda())
        try:
            assert told(loader) == [7] * 12
        except (AttributeError, TypeError):
            assert way == "process"
        loader.broadcast(difficulty=2)
        assert told(loader) == [2] * 12


class Lambda(dict):
    """
    A difficulty that holds a lambda.
    """

    def __init__(self) -> None:
        super().__init__(level=7, how=lambda: None)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")
@pytest.mark.parametrize("way", HERE)
def test_a_broadcast_tensor_leaves_no_file_open(way: str, host: Any) -> None:
    """
    It is no descriptor an epoch, and the user's tensor stays where it is.
    """
    table = torch.ones(2)
    with chosen_way(way, host, Tells(), batch_size=2) as loader:
        loader.broadcast(table=table)
        assert told(loader, "table") == [2.0] * 12
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(8):
            list(loader)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert not table.is_shared()


@pytest.mark.parametrize("way", WAYS)
def test_plain_assignment_between_epochs_is_seen_everywhere(
    way: str, host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """
    New workers for a changed dataset, said once for each change in the log; nothing of that without a change.
    """
    caplog.set_level(logging.INFO, logger="autoloader")
    dataset = Wrapper(Tells())
    has_workers = way not in {"inline", "thread"}
    with chosen_way(way, host, dataset, batch_size=2) as loader:
        before = [*loader, *loader]
        assert (told(before), changes_said(caplog)) == ([0] * 24, 0)
        dataset.what_it_wraps.difficulty = 2
        after = [*loader, *loader]
        assert (told(after), changes_said(caplog)) == ([2] * 24, int(has_workers))
        if has_workers:
            assert set(told(before, "pid")).isdisjoint(told(after, "pid"))


@pytest.mark.slow_spawn
def test_plain_assignment_in_mid_epoch_is_seen_in_the_next(caplog: pytest.LogCaptureFixture) -> None:
    """
    Together with a set_epoch after it: the change is still one, and both are in the next epoch.
    """
    caplog.set_level(logging.INFO, logger="autoloader")
    dataset = Tells()
    with chosen(dataset, 2, batch_size=2) as loader:
        iterator = iter(loader)
        running = [next(iterator)]
        dataset.difficulty = 2
        loader.set_epoch(3)
        running += iterator
        assert (told(running), told(running, "epoch")) == ([0] * 12, [-1] * 12)
        later = list(loader)
        assert (told(later), told(later, "epoch"), changes_said(caplog)) == ([2] * 12, [3] * 12, 1)
