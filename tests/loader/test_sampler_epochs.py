"""
Samplers that want to know the epoch: advanced where nobody tells them, and one warning where that is not ours to do.
"""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler

import datasets
from autoloader import AutoloaderWarning, auto_loader
from loader.chosen import HERE, chosen_way

STANDS_STILL = (
    "sampler.epoch-not-set: the sampler shuffles by the number of the epoch, which nobody has set since the last one: "
    "this epoch has the same order. Call loader.set_epoch(epoch) before each epoch, on all ranks. To silence this: "
    "warnings.filterwarnings('ignore', 'sampler.epoch-not-set')."
)


def sampler(
    replicas: int = 1, *, shuffle: bool = True, kind: type[DistributedSampler[Any]] = DistributedSampler
) -> Any:
    """
    Return a sampler that shuffles by its epoch.
    """
    return kind(datasets.Numbers(12), num_replicas=replicas, rank=0, shuffle=shuffle)


def inline(mine: Any, **arguments: Any) -> Any:
    """
    Return a loader in this process.
    """
    return auto_loader(datasets.Numbers(12), num_workers=0, sampler=mine, **arguments)


def order(loader: Any) -> list[int]:
    """
    Return the indices of one epoch.
    """
    return [int(index) for batch in loader for index in batch[:, 0]]


def orders_of(*epochs: int, replicas: int = 1) -> list[list[int]]:
    """
    Return the orders that torch's sampler gives for these epochs.
    """
    mine, orders = sampler(replicas), []
    for epoch in epochs:
        mine.set_epoch(epoch)
        orders.append(list(mine))
    return orders


def warnings_of(train: Callable[[], object]) -> list[Any]:
    """
    Return the warnings of autoloader's that a training gives.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train()
    return [each for each in caught if issubclass(each.category, AutoloaderWarning)]


@pytest.mark.parametrize("way", HERE)
def test_a_sampler_that_nobody_tells_advances_after_each_exhausted_epoch(way: str, host: Any) -> None:
    """
    One process, no call: each epoch has the order that set_epoch(0), set_epoch(1) and so on would give.
    """
    mine = sampler()
    with chosen_way(way, host, datasets.Numbers(12), sampler=mine, batch_size=4) as loader:
        assert [order(loader) for _ in range(3)] == orders_of(0, 1, 2)
    assert mine.epoch == 3


def test_the_sampler_of_a_batch_sampler_advances() -> None:
    """
    It has the epoch, whoever makes the batches.
    """
    loader = auto_loader(datasets.Numbers(12), batch_sampler=BatchSampler(sampler(), 4, False), num_workers=0)
    assert [order(loader) for _ in range(3)] == orders_of(0, 1, 2)


def test_an_early_break_is_no_epoch_to_a_sampler() -> None:
    """
    After it the same order comes again, as nothing says that the epoch was over.
    """
    loader = inline(sampler(), batch_size=4)
    next(iter(loader))
    assert [order(loader) for _ in range(2)] == orders_of(0, 1)


@pytest.mark.parametrize(
    "epochs",
    [
        pytest.param([0, 1, 2], id="in-order"),
        pytest.param([5, 6, 9], id="resumed"),
        pytest.param([3, 3, 3], id="one"),
        pytest.param([0, 0, 0], id="first"),
        pytest.param([1, 0, 1], id="back-and-forth"),
    ],
)
@pytest.mark.parametrize("by_loader", [True, False])
def test_a_sampler_that_the_user_tells_is_left_to_the_user(epochs: list[int], by_loader: bool) -> None:
    """
    Whether by the sampler's own method or the loader's: each epoch has the order of the number that was set.
    """
    mine, orders = sampler(), []
    loader = inline(mine, batch_size=4)
    for epoch in epochs:
        (loader if by_loader else mine).set_epoch(epoch)
        orders.append(order(loader))
    assert orders == orders_of(*epochs)


@pytest.mark.parametrize("by_loader", [True, False])
def test_an_epoch_that_the_user_sets_once_stays(by_loader: bool) -> None:
    """
    Who sets a number is taken at it, as with torch.
    """
    mine = sampler()
    loader = inline(mine, batch_size=4)
    (loader if by_loader else mine).set_epoch(5)
    assert [order(loader) for _ in range(2)] == orders_of(5, 5)
    assert mine.epoch == 5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_copy_of_a_loader_goes_on_advancing(copied: Any) -> None:
    """
    The sampler in the copy stands where the other one stood.
    """
    loader = inline(sampler(), batch_size=4)
    assert order(loader) == orders_of(0)[0]
    again = copied(loader)
    assert [order(again) for _ in range(2)] == orders_of(1, 2)
    assert order(loader) == orders_of(1)[0]


def test_a_loader_that_is_made_anew_for_each_epoch_goes_on_advancing() -> None:
    """
    The sampler is the same one.
    """
    mine = sampler()
    assert [order(inline(mine, batch_size=4)) for _ in range(3)] == orders_of(0, 1, 2)


def test_several_ranks_are_warned_once_and_not_advanced() -> None:
    """
    Ranks have to agree on the epoch, so that the user has to say it; the warning stands at the user's line.
    """
    loader, orders = inline(sampler(2), batch_size=3), []

    def train() -> None:
        orders.extend(order(loader) for _ in range(3))

    (said,) = warnings_of(train)
    assert (str(said.message), said.filename) == (STANDS_STILL, __file__)
    assert orders == orders_of(0, 0, 0, replicas=2)


def by_sampler(loader: Any, epoch: int) -> None:
    """
    Set the epoch as code for torch's DataLoader does.
    """
    loader.sampler.set_epoch(epoch)


@pytest.mark.parametrize("tell", [by_sampler, lambda loader, epoch: loader.set_epoch(epoch)])
@pytest.mark.parametrize("looks", [False, True])
def test_several_ranks_that_are_told_get_no_warning(tell: Callable[[Any, int], None], looks: bool) -> None:
    """
    By the sampler's method or the loader's, and also after a look at one batch before the training.
    """
    loader, orders = inline(sampler(2), batch_size=3), []

    def train() -> None:
        if looks:
            next(iter(loader))
        for epoch in range(3):
            tell(loader, epoch)
            orders.append(order(loader))

    assert warnings_of(train) == []
    assert orders == orders_of(0, 1, 2, replicas=2)


@pytest.mark.parametrize(
    "mine",
    [
        pytest.param(sampler(2, shuffle=False), id="not-shuffled"),
        pytest.param(sampler(1), id="one-process"),
        pytest.param(RandomSampler(range(12)), id="no-epoch"),
    ],
)
def test_orders_that_do_not_stand_still_are_no_warning(mine: Any) -> None:
    """
    In order, on one process, or by a generator: there is nothing to set.
    """
    loader = inline(mine, batch_size=3)
    assert warnings_of(lambda: [order(loader) for _ in range(3)]) == []


def test_several_ranks_are_warned_on_the_first_of_a_node(host: Any) -> None:
    """
    The others would say the same.
    """
    host.change("job", local_rank=1, local_world_size=2)
    loader = inline(sampler(2), batch_size=3)
    assert warnings_of(lambda: [order(loader) for _ in range(3)]) == []


class WithSlots:
    """
    A sampler that can be told the epoch and nothing else.
    """

    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        return iter([self.epoch] * 2)


def test_a_sampler_with_slots_is_told_by_the_user() -> None:
    """
    It works, although nothing can be noted in it.
    """
    loader = inline(WithSlots(), batch_size=2)
    list(loader)
    loader.set_epoch(4)
    assert [order(loader) for _ in range(2)] == [[4, 4], [4, 4]]
