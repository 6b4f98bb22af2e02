"""
sample_rng(): a generator for each sample, the same wherever it loads.
"""

from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset

import autoloader
from autoloader import auto_loader
from loader import random_data
from loader.chosen import HERE, NEEDS_FORK, chosen, chosen_way, epochs_of, global_states, seed_all

SHUFFLED: dict[str, Any] = {"batch_size": 4, "shuffle": True}


def inline_epochs(dataset: Any, epochs: int = 2, **arguments: Any) -> list[list[Any]]:
    """
    Return epochs that load inline, after all global generators were seeded.
    """
    seed_all()
    with chosen(dataset, 0, **arguments) as loader:
        return epochs_of(loader, epochs)


def wrapped(length: int = 22) -> Any:
    """
    Return a dataset whose samples draw in three places: parts, a Subset of them, and a wrapper that transforms.
    """
    parts = [random_data.OwnDraws(length // 2), random_data.OwnDraws(length // 2)]
    return random_data.Transformed(Subset(ConcatDataset(parts), range(length - 2)))


def drawn_in(epochs: list[list[Any]]) -> list[float]:
    """
    Return all that samples have drawn: in a batch, columns of numbers after the one of the indices.
    """
    batches = [torch.tensor(batch, dtype=torch.float64) for epoch in epochs for batch in epoch]
    return torch.cat([batch.reshape(len(batch), -1)[1:].flatten() for batch in batches]).tolist()


def test_sample_rng_is_public() -> None:
    """
    Datasets import it from the package.
    """
    assert autoloader.sample_rng is random_data.sample_rng
    assert "sample_rng" in autoloader.__all__


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    ("num_workers", "settings"),
    [
        pytest.param(1, {}, id="1"),
        pytest.param(3, {}, id="3"),
        pytest.param(3, {"stay": False}, id="3-new-in-each-epoch"),
        pytest.param(2, {"multiprocessing_context": "forkserver"}, id="2-forkserver", marks=NEEDS_FORK),
        pytest.param(2, {"multiprocessing_context": "spawn"}, id="2-spawn"),
    ],
)
def test_samples_draw_the_same_in_any_worker(num_workers: int, settings: dict[str, Any]) -> None:
    """
    In nested wrappers too, two epochs long, and every number of them is another.
    """
    expected = inline_epochs(wrapped(), **SHUFFLED)
    seed_all()
    with chosen(wrapped(), num_workers, **SHUFFLED, **settings) as loader:
        assert epochs_of(loader, 2) == expected
    drawn = drawn_in(expected)
    assert len(drawn) == len(set(drawn)) == 2 * 20 * 3


@pytest.mark.slow_spawn
@pytest.mark.parametrize("num_workers", [0, 2])
def test_samples_draw_the_same_under_workers_of_the_users(num_workers: int) -> None:
    """
    The user's num_workers leaves torch's streams as they are, and the sample's own generator is ours all the same.
    """
    expected = inline_epochs(wrapped(), **SHUFFLED)
    seed_all()
    with auto_loader(wrapped(), num_workers=num_workers, **SHUFFLED) as loader:
        assert epochs_of(loader, 2) == expected


@pytest.mark.parametrize("way", HERE)
@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        pytest.param(random_data.OwnDraws(6), {"batch_size": None}, id="no-batches"),
        pytest.param(random_data.OwnDrawsAtOnce(8), {"batch_size": 4}, id="getitems"),
        pytest.param(random_data.OwnDraws(4), {"batch_size": 4}, id="one-batch"),
        pytest.param(random_data.OwnDraws(8), {"batch_size": 4, "sampler": [1, 1, 2, 2, 2, 1]}, id="duplicates"),
    ],
)
def test_samples_draw_the_same_in_any_kind_of_batch(
    dataset: Any, arguments: dict[str, Any], way: str, host: Any
) -> None:
    """
    Without batches, in whole ones, in epochs of one, and where an index comes again: three epochs, no number twice.
    """
    expected = inline_epochs(dataset, 3, **arguments)
    seed_all()
    with chosen_way(way, host, dataset, **arguments) as loader:
        assert epochs_of(loader, 3) == expected
        assert loader.plan.value("backend") == way
    drawn = drawn_in(expected)
    assert len(drawn) == len(set(drawn)) > 0


@pytest.mark.parametrize("way", HERE)
def test_a_batch_that_a_thread_cannot_load_draws_the_same(way: str, host: Any) -> None:
    """
    The dataset fails in a thread after it has drawn: the same batch inline draws what it would have drawn.
    """
    expected = inline_epochs(random_data.OwnDraws(12), **SHUFFLED)
    seed_all()
    with chosen_way(way, host, random_data.NotInAThread(12), **SHUFFLED) as loader:
        assert epochs_of(loader, 2) == expected


@pytest.mark.parametrize("way", HERE)
def test_samples_do_not_depend_on_what_others_draw(way: str, host: Any) -> None:
    """
    Odd samples that draw more change nothing, in a Subset either, and no global generator moves.
    """
    expected = inline_epochs(Subset(random_data.OwnDraws(12), range(12)), batch_size=4)
    seed_all()
    with chosen_way(way, host, Subset(random_data.OwnDraws(12, extra=3), range(12)), batch_size=4) as loader:
        iterator = iter(loader)
        before = global_states()
        list(iterator)
        assert global_states() == before
        loader.set_epoch(0)
        seed_all()
        assert epochs_of(loader, 2) == expected


def test_another_base_gives_other_draws() -> None:
    """
    Samples follow torch.manual_seed.
    """
    first = inline_epochs(random_data.OwnDraws(8), 1, batch_size=4)
    seed_all(8)
    with chosen(random_data.OwnDraws(8), 0, batch_size=4) as loader:
        other = epochs_of(loader)
    assert len({*drawn_in(first), *drawn_in(other)}) == 32


@pytest.mark.slow_spawn
@pytest.mark.parametrize("num_workers", [0, 2])
def test_code_that_asks_for_it_works_under_a_plain_loader(num_workers: int) -> None:
    """
    There, torch's global generator of the process that loads seeds each one: reproducible, and no number twice.
    """
    runs = []
    for _ in range(2):
        seed_all()
        runs.append(epochs_of(DataLoader(random_data.OwnDraws(8), 4, num_workers=num_workers), 2))
    assert runs[0] == runs[1]
    drawn = drawn_in(runs[0])
    assert len(drawn) == len(set(drawn)) == 32
