"""
The same samples in the same order as a plain DataLoader's, and the same random numbers where num_workers is the user's.
"""

import itertools
import random
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, WeightedRandomSampler

import datasets
from autoloader import auto_loader
from loader.chosen import chosen

pytestmark = pytest.mark.usefixtures("measuring")


def slow(num_workers: int) -> Any:
    """
    Return a number of workers whose start takes too long under Wine.
    """
    return pytest.param(num_workers, marks=pytest.mark.slow_spawn)


def plain(batch: Any) -> Any:
    """
    Return a batch as lists, which compare by value.
    """
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def epochs_of(loader: Any, epochs: int) -> tuple[list[list[Any]], list[float]]:
    """
    Return the batches of each epoch, and what the global generators draw afterwards.
    """
    batches = [[plain(batch) for batch in loader] for _ in range(epochs)]
    return batches, [torch.rand(1).item(), float(np.random.rand()), random.random()]


def seed() -> None:
    """
    Seed every global generator.
    """
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)


def both(dataset: Any, epochs: int = 3, **arguments: Any) -> tuple[Any, Any]:
    """
    Return what a plain DataLoader and ours give for the same arguments and the same seed.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        seed()
        expected = epochs_of(DataLoader(dataset, **arguments), epochs)
        seed()
        with auto_loader(dataset, **arguments) as loader:
            return expected, epochs_of(loader, epochs)


@pytest.mark.parametrize("num_workers", [0, slow(1), slow(3)])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"batch_size": 4}, id="in-order"),
        pytest.param({"batch_size": 4, "shuffle": True}, id="shuffled"),
        pytest.param({"batch_size": 3, "shuffle": True, "drop_last": True}, id="drop-last"),
        pytest.param({"batch_size": None, "shuffle": True}, id="no-batches"),
        pytest.param({"batch_size": 4, "collate_fn": datasets.add_hundred}, id="own-collate"),
        pytest.param({"batch_size": 4, "shuffle": True, "worker_init_fn": datasets.seed_by_numpy}, id="own-init"),
    ],
)
def test_batches_with_given_num_workers_equal_torch(arguments: dict[str, Any], num_workers: int) -> None:
    """
    Batches, random draws in workers and the global generators afterwards are torch's, over three epochs.
    """
    expected, got = both(datasets.Draws(), num_workers=num_workers, **arguments)
    assert got == expected


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    "method",
    [
        pytest.param("forkserver", marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")),
        "spawn",
    ],
)
def test_batches_under_other_start_methods_equal_torch(method: str) -> None:
    """
    Nothing depends on how workers start.
    """
    arguments = {"batch_size": 8, "shuffle": True, "num_workers": 1, "multiprocessing_context": method}
    expected, got = both(datasets.Draws(), epochs=2, **arguments)
    assert got == expected


@pytest.mark.slow_spawn
def test_batches_with_given_persistent_workers_equal_torch() -> None:
    """
    Workers that the user keeps continue their random streams, as torch's do.
    """
    expected, got = both(datasets.Draws(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    assert got == expected


@pytest.mark.slow_spawn
def test_batches_with_a_generator_equal_torch() -> None:
    """
    The loader's own generator decides the order and the workers' seeds.
    """
    dataset, results = datasets.Draws(), []
    for make in (DataLoader, auto_loader):
        seed()
        loader = make(dataset, 4, True, num_workers=2, generator=torch.Generator().manual_seed(3))
        results.append(epochs_of(loader, 2))
        getattr(loader, "close", lambda: None)()
    assert results[0] == results[1]


class EagerSampler:
    """
    Draws its order when iter() is called, not when the first index is asked for.
    """

    def __iter__(self) -> Any:
        return iter(torch.randperm(12).tolist())

    def __len__(self) -> int:
        return 12


@pytest.mark.parametrize("num_workers", [0, slow(2)])
@pytest.mark.parametrize("batch_size", [3, None])
def test_batches_of_a_sampler_that_draws_early_equal_torch(num_workers: int, batch_size: int | None) -> None:
    """
    A sampler is asked for its iterator as often, and at the same moments, as by torch.
    """
    expected, got = both(datasets.Draws(), sampler=EagerSampler(), batch_size=batch_size, num_workers=num_workers)
    assert got == expected


@pytest.mark.slow_spawn
@pytest.mark.parametrize("batch_size", [3, None])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_order_of_a_sampler_that_draws_early_depends_on_no_number_of_ours(
    batch_size: int | None, num_workers: int
) -> None:
    """
    Torch asks a sampler once more where it starts workers. With a number of ours it is asked as without any.
    """
    arguments: dict[str, Any] = {"sampler": EagerSampler(), "batch_size": batch_size}
    seed()
    expected = epochs_of(DataLoader(datasets.Numbers(), **arguments), 3)
    seed()
    with chosen(datasets.Numbers(), num_workers, **arguments) as loader:
        assert epochs_of(loader, 3) == expected


@pytest.mark.parametrize("kind", [datasets.Stream, datasets.SharedStream])
@pytest.mark.parametrize("num_workers", [0, slow(2)])
def test_iterable_batches_with_given_num_workers_equal_torch(kind: type, num_workers: int) -> None:
    """
    The user's own num_workers is kept for iterable-style data, repetition and all.
    """
    expected, got = both(kind(), batch_size=4, num_workers=num_workers)
    assert got == expected


def test_every_sample_comes_once_and_in_order_with_chosen_settings() -> None:
    """
    With the settings that we choose, the order is the one of torch's DataLoader.
    """
    expected, got = both(datasets.Numbers(101), batch_size=8, shuffle=True)
    assert got == expected


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([[0, 1], [2], [3, 4, 5]], id="lists"),
        pytest.param([(0, 1), (2,)], id="tuples"),
        pytest.param([np.array([0, 1]), np.array([2])], id="arrays"),
        pytest.param([range(3), range(3, 5)], id="ranges"),
    ],
)
@pytest.mark.parametrize("num_workers", [0, slow(1)])
def test_a_batch_sampler_may_yield_any_iterable(batches: list[Any], num_workers: int) -> None:
    """
    Indices reach the dataset as the batch sampler made them.
    """
    expected, got = both(datasets.Numbers(), batch_sampler=batches, num_workers=num_workers)
    assert got == expected


@pytest.mark.parametrize("num_workers", [0, slow(1)])
def test_getitems_gets_a_plain_list(num_workers: int) -> None:
    """
    __getitems__ is called with the very type that torch passes.
    """
    with auto_loader(datasets.ManyAtOnce(4), 2, num_workers=num_workers) as loader:
        assert list(loader) == [["list:0", "list:1"], ["list:2", "list:3"]]


@pytest.mark.slow_spawn
def test_an_infinite_sampler_goes_on() -> None:
    """
    A sampler without end gives as many batches as are asked for.
    """
    with auto_loader(datasets.Numbers(), 2, sampler=itertools.cycle([5, 6])) as loader:
        assert [plain(batch) for batch in itertools.islice(loader, 3)] == [[[5, 1], [6, 1]]] * 3


@pytest.mark.slow_spawn
def test_a_dataset_without_length_works_with_a_sampler() -> None:
    """
    Torch needs no len() where a sampler gives the indices, and neither do we.
    """
    with auto_loader(datasets.Unsized(), 2, sampler=[3, 1, 2]) as loader:
        assert [plain(batch) for batch in loader] == [[3, 1], [2]]


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    "sampler",
    [
        pytest.param(SequentialSampler, id="sequential"),
        pytest.param(lambda data: RandomSampler(data, replacement=True, num_samples=30), id="with-replacement"),
        pytest.param(lambda data: WeightedRandomSampler([1.0] * len(data), 20), id="weighted"),
    ],
)
def test_samplers_of_torch_give_the_same_order(sampler: Any) -> None:
    """
    Any sampler of torch's is passed on as it is.
    """
    dataset = datasets.Numbers()
    expected, got = both(dataset, sampler=sampler(dataset), batch_size=4)
    assert got == expected


@pytest.mark.parametrize("num_workers", [0, 1, slow(2)])
def test_an_error_of_the_dataset_is_the_datasets_and_the_loader_goes_on(num_workers: int) -> None:
    """
    The error has the dataset's type and text, and the next batch is the one after it, as in torch.
    """
    dataset, outcomes = datasets.Failing(12, at=5), []
    for make in (DataLoader, auto_loader):
        loader = make(dataset, 2, num_workers=num_workers)
        iterator, outcome = iter(loader), []
        for _ in range(7):
            try:
                outcome.append(plain(next(iterator)))
            except (KeyError, StopIteration) as error:
                outcome.append((type(error), str(error).strip("'\"").splitlines()[-1:]))
        outcomes.append(outcome)
        getattr(loader, "close", lambda: None)()
    assert outcomes[1] == outcomes[0]
    assert [type(each) for each in outcomes[1]] == [list, list, tuple, list, list, list, tuple]


@pytest.mark.parametrize("num_workers", [0, slow(2)])
def test_lengths_equal_torch(num_workers: int) -> None:
    """
    len(loader) and len(iter(loader)) count batches.
    """
    with auto_loader(datasets.Numbers(41), 4, num_workers=num_workers) as loader:
        assert (len(loader), len(iter(loader))) == (11, 11)


def test_positional_arguments_mean_what_torch_means() -> None:
    """
    auto_loader(dataset, 64, True) shuffles batches of 64.
    """
    loader = auto_loader(datasets.Numbers(), 64, True)
    assert (loader.batch_size, type(loader.sampler)) == (64, RandomSampler)
    batches = BatchSampler(SequentialSampler(range(4)), 2, False)
    assert auto_loader(datasets.Numbers(), 1, None, None, batches, 0).batch_sampler is batches
