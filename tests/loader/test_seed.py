"""
seed= and generator=: where the order and all random numbers come from, and what is left alone.
"""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, Subset, WeightedRandomSampler, random_split

import datasets
from autoloader import auto_loader
from autoloader.errors import ArgumentError
from loader import random_data
from loader.chosen import HERE, chosen_way, epochs_of, global_states, plain, seed_all

LENGTH = 22

SHUFFLED: dict[str, Any] = {"batch_size": 4, "shuffle": True}


def order_of(epoch: list[Any]) -> list[float]:
    """
    Return the indices of an epoch's samples.
    """
    return [sample[0] for batch in epoch for sample in batch]


def seeded(seed: int = 5, epochs: int = 3, dataset: Any = None, **arguments: Any) -> list[list[Any]]:
    """
    Return epochs of a seeded loader that loads inline, because the user says so.
    """
    dataset = datasets.Draws(LENGTH) if dataset is None else dataset
    with auto_loader(dataset, seed=seed, num_workers=0, **SHUFFLED | arguments) as loader:
        return epochs_of(loader, epochs)


@pytest.mark.parametrize("way", ["inline", "thread", "process"])
def test_seed_decides_order_and_draws_and_leaves_the_global_generators_alone(way: str, host: Any) -> None:
    """
    Whatever the global generators are seeded with: the same epochs, and not one number drawn from them.
    """
    seed_all(1)
    expected = seeded()
    seed_all(2)
    before = global_states()
    with chosen_way(way, host, datasets.Draws(LENGTH), seed=5, **SHUFFLED) as loader:
        got = []
        for _ in range(3):
            got += epochs_of(loader)
            assert global_states() == before
    assert got == expected
    assert {len(set(order_of(epoch))) for epoch in got} == {LENGTH}
    assert len({tuple(order_of(epoch)) for epoch in got}) == 3
    assert len({number for epoch in got for batch in epoch for _, *drawn in batch for number in drawn}) == 9 * LENGTH


@pytest.mark.slow_spawn
@pytest.mark.parametrize("arguments", [{"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
def test_seed_decides_under_workers_of_the_users_too(arguments: dict[str, Any]) -> None:
    """
    With a seed, the user's num_workers is no part of what is drawn.
    """
    expected = seeded()
    before = global_states()
    with auto_loader(datasets.Draws(LENGTH), seed=5, **SHUFFLED, **arguments) as loader:
        assert epochs_of(loader, 3) == expected
    assert global_states() == before


def test_another_seed_gives_other_orders_and_draws() -> None:
    """
    Zero is a seed as good as another.
    """
    runs = [seeded(seed, epochs=2) for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    orders = {tuple(order_of(epoch)) for run in (runs[0], runs[2]) for epoch in run}
    assert len(orders) == 4
    drawn = [{number for batch in run[0] for _, *each in batch for number in each} for run in (runs[0], runs[2])]
    assert drawn[0].isdisjoint(drawn[1])


def test_a_seed_of_numpys_is_the_number_that_it_is() -> None:
    """
    Seeds come from configurations and sweeps, as any integer type.
    """
    assert seeded(np.int64(5)) == seeded(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            -1, "seed=-1 is too small: all random numbers come from it, and the smallest is 0.", id="negative"
        ),
        pytest.param(1.5, "seed=1.5 is not a whole number: all random numbers come from it.", id="fraction"),
        pytest.param("x", "seed='x' is not a whole number: all random numbers come from it.", id="text"),
    ],
)
def test_what_is_no_seed_is_refused(value: Any, text: str) -> None:
    """
    The error says which numbers are seeds.
    """
    with pytest.raises(ArgumentError) as caught:
        auto_loader(datasets.Numbers(), seed=value)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("way", HERE)
def test_seeded_epochs_count_whether_they_were_finished_or_not(way: str, host: Any) -> None:
    """
    After an early break the next epoch is the one that it would have been.
    """
    expected = seeded()
    with chosen_way(way, host, datasets.Draws(LENGTH), seed=5, **SHUFFLED) as loader:
        assert plain(next(iter(loader))) == expected[0][0]
        assert epochs_of(loader, 2) == expected[1:]


def test_set_epoch_goes_to_any_epoch_of_a_seeded_loader() -> None:
    """
    The order and the draws of an epoch depend on its number, not on how many were iterated before.
    """
    expected = seeded(epochs=4)
    with auto_loader(datasets.Draws(LENGTH), seed=5, num_workers=0, **SHUFFLED) as loader:
        loader.set_epoch(3)
        assert epochs_of(loader) == expected[3:]
        loader.set_epoch(np.int64(1))  # type: ignore[arg-type]
        assert epochs_of(loader, 2) == expected[1:3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_copy_of_a_seeded_loader_gives_the_same_epochs(copied: Any) -> None:
    """
    A copy has an order of its own: each is iterated as if the other were not there.
    """
    expected = seeded()
    first = auto_loader(datasets.Draws(LENGTH), seed=5, num_workers=0, **SHUFFLED)
    second = copied(first)
    for epoch in expected:
        assert epochs_of(first) == [epoch]
        assert epochs_of(second) == [epoch]


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda data: Subset(data, range(3, 21)), id="subset"),
        pytest.param(lambda data: random_split(data, [18, 4], torch.Generator().manual_seed(1))[0], id="split"),
    ],
)
def test_seed_of_a_subset(wrap: Any, host: Any) -> None:
    """
    What is a part of a dataset is shuffled and drawn from in the same way.
    """
    epochs = []
    for seed, way in ((1, "inline"), (2, "process")):
        dataset = wrap(datasets.Draws(LENGTH))
        seed_all(seed)
        before = global_states()
        with chosen_way(way, host, dataset, seed=5, **SHUFFLED) as loader:
            epochs.append(epochs_of(loader, 2))
        assert global_states() == before
    assert epochs[0] == epochs[1]
    assert [sorted(order_of(epoch)) for epoch in epochs[0]] == [sorted(map(float, dataset.indices))] * 2
    assert order_of(epochs[0][0]) != order_of(epochs[0][1])


def test_seed_without_batches_shuffles_too() -> None:
    """
    With batch_size=None the sampler is the loader's own as well.
    """
    runs = []
    for seed in (1, 2):
        seed_all(seed)
        before = global_states()
        runs.append([[sample[0] for sample in epoch] for epoch in seeded(batch_size=None)])
        assert global_states() == before
    assert runs[0] == runs[1]
    assert len({tuple(order) for order in runs[0]}) == 3


def test_seed_leaves_the_order_to_the_users_generator() -> None:
    """
    With both, the generator gives the order, and nothing else is drawn from it; the draws in samples are the seed's.
    """
    order = torch.Generator().manual_seed(3)
    got = seeded(generator=torch.Generator().manual_seed(3), epochs=2)
    torchs = RandomSampler(range(LENGTH), generator=order)
    assert [order_of(epoch) for epoch in got] == [list(torchs), list(torchs)]
    seed_all(9)
    assert seeded(generator=torch.Generator().manual_seed(3), epochs=2) == got


def test_seed_leaves_the_order_to_the_users_sampler() -> None:
    """
    The sampler draws from where it always does, torch's global generator here; the samples from the seed.
    """
    weights, runs = [1.0] * LENGTH, []
    for seed in (1, 1, 2):
        seed_all(seed)
        epochs = seeded(sampler=WeightedRandomSampler(weights, 12), shuffle=None, epochs=2)
        seed_all(seed)
        torchs = WeightedRandomSampler(weights, 12)
        assert [order_of(epoch) for epoch in epochs] == [list(torchs), list(torchs)]
        runs.append(epochs)
    assert runs[0] == runs[1]
    drawn = [[each[1:] for batch in epochs[0] for each in batch] for epochs in runs]
    assert drawn[1] == drawn[2]  # the batches are others, their streams the same


@pytest.mark.parametrize("way", HERE)
def test_generator_decides_order_and_draws_and_leaves_the_global_generators_alone(way: str, host: Any) -> None:
    """
    The order is torch's, the generator stands afterwards where torch leaves it, and batches are those loaded inline.
    """
    mine = torch.Generator().manual_seed(3)
    torchs = DataLoader(datasets.Numbers(LENGTH), generator=mine, **SHUFFLED)
    order, after = [order_of(epoch) for epoch in epochs_of(torchs, 2)], mine.get_state()
    runs = []
    for seed, each in ((1, "inline"), (2, way)):
        seed_all(seed)
        before, mine = global_states(), torch.Generator().manual_seed(3)
        with chosen_way(each, host, random_data.Holding(LENGTH), generator=mine, **SHUFFLED) as loader:
            runs.append(epochs_of(loader, 2))
        assert global_states() == before
        assert torch.equal(mine.get_state(), after)
    assert [order_of(epoch) for epoch in runs[0]] == order
    assert runs[0] == runs[1]


@pytest.mark.slow_spawn
def test_generator_decides_the_draws_of_global_generators(host: Any) -> None:
    """
    What samples draw comes from the base that the generator gives: another generator, other numbers.
    """
    drawn = []
    for seed in (3, 3, 4):
        seed_all(len(drawn))
        mine = torch.Generator().manual_seed(seed)
        with chosen_way("process", host, datasets.Draws(LENGTH), generator=mine, **SHUFFLED) as loader:
            drawn.append(epochs_of(loader))
    assert drawn[0] == drawn[1]
    assert {each[1] for batch in drawn[0][0] for each in batch}.isdisjoint(
        each[1] for batch in drawn[2][0] for each in batch
    )
