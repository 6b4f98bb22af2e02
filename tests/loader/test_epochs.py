"""
set_epoch reaches all that want to know, from the next epoch on, and workers stay for it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from torch.utils.data import ConcatDataset, Subset

from autoloader import auto_loader
from autoloader.errors import ArgumentError
from loader.chosen import HERE, NEEDS_FORK, WAYS, chosen, chosen_way
from loader.epoch_data import Lengthy, Refuses, Tells, TellsAndDies, TellsStream, Wrapper


class TellingSampler:
    """
    A sampler, or a batch sampler with one, that notes each epoch that it is told.
    """

    def __init__(self, values: list[Any], sampler: Any = None) -> None:
        self.values = values
        self.heard: list[int] = []
        if sampler is not None:
            self.sampler = sampler

    def set_epoch(self, epoch: int) -> None:
        self.heard.append(epoch)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


def told(batches: Any, name: str = "epoch") -> list[Any]:
    """
    Return what each sample of some batches tells under a name.
    """
    return [value for batch in batches for value in batch[name].tolist()]


@pytest.mark.parametrize("way", WAYS)
def test_set_epoch_reaches_everything_from_the_next_epoch_on(way: str, host: Any) -> None:
    """
    Sampler, batch sampler, wrapper, parts, and their copies in workers that stay; what runs already stays as it is.
    """
    parts = [Tells(6), Tells(6)]
    dataset = Wrapper(Subset(ConcatDataset(parts), range(12)))
    batches = TellingSampler([[index, index + 1] for index in range(0, 12, 2)], TellingSampler([]))
    with chosen_way(way, host, dataset, batch_sampler=batches) as loader:
        first = list(loader)
        assert (set(told(first)), set(told(first, "wrapper"))) == ({-1}, {-1})
        loader.set_epoch(3)
        assert (dataset.epoch, batches.heard) == (-1, [1])  # as nobody had set an epoch until then
        iterator = iter(loader)
        running = [next(iterator)]
        loader.set_epoch(7)
        assert (dataset.epoch, [part.epoch for part in parts], batches.heard) == (3, [3, 3], [1, 3])
        running += iterator
        assert (told(running), told(running, "wrapper")) == ([3] * 12, [3] * 12)
        later = [*loader, *loader]
        assert (told(later), told(later, "wrapper")) == ([7] * 24, [7] * 24)
        assert (batches.heard, batches.sampler.heard) == ([1, 3, 7], [1, 3, 7])
        pids = [set(told(each, "pid")) for each in (first, running, later)]
        assert pids[0] == pids[1] == pids[2]
        assert len(pids[0]) == (1 if way in {"inline", "thread"} else 2)


@pytest.mark.parametrize("way", HERE)
def test_a_sampler_is_told_before_it_gives_an_order(way: str, host: Any) -> None:
    """
    The order of the epoch that begins is that of its number.
    """

    class Rotates(TellingSampler):
        def __iter__(self) -> Iterator[int]:
            shift = self.heard[-1] if self.heard else 0
            return iter([*self.values[shift:], *self.values[:shift]])

    with chosen_way(way, host, Tells(), sampler=Rotates([0, 1, 2, 3])) as loader:
        orders = [told(loader, "index")]
        for epoch in (2, 1):
            loader.set_epoch(epoch)
            orders.append(told(loader, "index"))
    assert orders == [[0, 1, 2, 3], [2, 3, 0, 1], [1, 2, 3, 0]]


@NEEDS_FORK
def test_set_epoch_in_mid_epoch_is_not_heard_by_workers_that_start_then(tmp_path: Any) -> None:
    """
    New workers for a dead one go on with the epoch that runs.
    """
    dataset = TellsAndDies(12, at=10, flag=tmp_path / "died")
    with chosen(dataset, 2, prefetch_factor=1, batch_size=2, on_worker_death="restart") as loader:
        loader.set_epoch(3)
        iterator = iter(loader)
        running = [next(iterator)]
        loader.set_epoch(7)
        loader.broadcast(difficulty=1)
        running += iterator
        assert (loader.stats().total.restarts, told(running), told(running, "level")) == (1, [3] * 12, [0] * 12)
        later = list(loader)
        assert (told(later), told(later, "level")) == ([7] * 12, [1] * 12)


@pytest.mark.slow_spawn
def test_a_worker_without_a_batch_hears_of_the_epoch_later() -> None:
    """
    In an epoch of one batch one worker hears; the other one is told the same number in the next epoch.
    """
    sampler = Lengthy(8)
    with chosen(Tells(8), 2, batch_size=1, sampler=sampler) as loader:
        pids = set(told(loader, "pid"))
        loader.set_epoch(3)
        sampler.length = 1
        assert told(loader) == [3]
        sampler.length = 8
        later = list(loader)
        assert (told(later), set(told(later, "pid"))) == ([3] * 8, pids)
        loader.set_epoch(4)
        sampler.length = 1
        list(loader)
        loader.set_epoch(9)
        sampler.length = 8
        later = list(loader)
        assert (told(later), set(told(later, "pid"))) == ([9] * 8, pids)


@pytest.mark.slow_spawn
@pytest.mark.parametrize("stays", [True, False])
def test_set_epoch_reaches_workers_of_the_users(stays: bool) -> None:
    """
    Workers of a number that the user set hear of it as well, and after an early break.
    """
    arguments: dict[str, Any] = {"num_workers": 2, "persistent_workers": stays, "batch_size": 2}
    with auto_loader(Tells(), **arguments) as loader:
        loader.set_epoch(1)
        iterator = iter(loader)
        assert told([next(iterator)]) == [1, 1]
        loader.set_epoch(2)
        del iterator
        assert told(loader) == [2] * 12


@pytest.mark.slow_spawn
def test_a_second_iterator_hears_and_the_first_goes_on_as_it_was() -> None:
    """
    Workers of a running epoch keep its number; those that are kept hear of the new one when they are free.
    """
    with chosen(Tells(), 2, batch_size=2) as loader:
        pids = set(told(loader, "pid"))
        first = iter(loader)
        begun = [next(first)]
        loader.set_epoch(5)
        assert told(loader) == [5] * 12
        assert told([*begun, *first]) == [-1] * 12
        later = list(loader)
        assert (told(later), set(told(later, "pid"))) == ([5] * 12, pids)


@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.slow_spawn)])
def test_iterable_style_data_is_told_too(num_workers: int) -> None:
    """
    A stream has no indices that could bring news: its workers start anew.
    """
    arguments: dict[str, Any] = {"num_workers": num_workers, "persistent_workers": True} if num_workers else {}
    with auto_loader(TellsStream(), 2, **arguments) as loader:
        assert told(loader) == [-1] * 4
        loader.set_epoch(3)
        iterator = iter(loader)
        running = [next(iterator)]
        loader.set_epoch(4)
        assert told([*running, *iterator]) == [3] * 4
        loader.broadcast(difficulty=2)
        later = list(loader)
        assert (told(later), told(later, "level")) == ([4] * 4, [2] * 4)
        again = list(loader)
        assert (told(again), told(again, "level")) == ([4] * 4, [2] * 4)


@pytest.mark.parametrize("way", HERE)
def test_an_error_of_set_epoch_is_the_datasets(way: str, host: Any) -> None:
    """
    It is raised before the first batch, nothing hangs, and the next number is tried anew.
    """
    with chosen_way(way, host, Refuses(), batch_size=2) as loader:
        list(loader)
        loader.set_epoch(3)
        with pytest.raises(KeyError, match="no epoch 3"):
            next(iter(loader))
        loader.set_epoch(4)
        assert told(loader) == [4] * 16


@pytest.mark.slow_spawn
def test_an_error_of_set_epoch_in_workers_only_is_raised_for_each_batch() -> None:
    """
    No batch of such an epoch comes from a copy that did not hear of it, and the loader can go on afterwards.
    """
    with chosen(Refuses(is_everywhere=False), 2, batch_size=2) as loader:
        list(loader)
        loader.set_epoch(3)
        iterator = iter(loader)
        for _ in range(8):
            with pytest.raises(KeyError, match="no epoch 3"):
                next(iterator)
        assert next(iterator, None) is None
        loader.set_epoch(4)
        assert told(loader) == [4] * 16


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            -1,
            "epoch=-1 is too small: it is the number of the next epoch, and the smallest is 0. "
            "Pass 0 or more, or leave epoch out.",
            id="negative",
        ),
        pytest.param(
            1.5,
            "epoch=1.5 is not a whole number: it is the number of the next epoch. "
            "Pass an int of 0 or more, or leave epoch out.",
            id="fraction",
        ),
        pytest.param(
            "x",
            "epoch='x' is not a whole number: it is the number of the next epoch. "
            "Pass an int of 0 or more, or leave epoch out.",
            id="text",
        ),
    ],
)
def test_what_is_no_epoch_is_refused(value: Any, text: str) -> None:
    """
    The error says which numbers are epochs, and nobody is told anything.
    """
    dataset = Tells()
    loader = auto_loader(dataset, num_workers=0)
    with pytest.raises(ArgumentError) as caught:
        loader.set_epoch(value)
    assert str(caught.value) == text
    list(loader)
    assert dataset.epoch == -1


def test_an_epoch_of_any_integer_type_is_told_as_a_number() -> None:
    """
    Numbers of numpy's count like Python's.
    """
    dataset = Tells()
    loader = auto_loader(dataset, num_workers=0)
    loader.set_epoch(np.int64(3))  # type: ignore[arg-type]
    list(loader)
    assert (dataset.epoch, type(dataset.epoch)) == (3, int)


def test_set_epoch_is_heard_where_autoloader_is_switched_off(host: Any) -> None:
    """
    The same code under AUTOLOADER_OFF trains with the same orders.
    """
    host.environment["AUTOLOADER_OFF"] = "1"
    dataset, sampler = Tells(), TellingSampler([0, 1])
    loader = auto_loader(dataset, sampler=sampler)
    loader.set_epoch(3)
    list(loader)
    assert (dataset.epoch, sampler.heard) == (3, [3])
