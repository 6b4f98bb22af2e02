"""
Batches that come in any order (``in_order=False``): what was served and what was not is known of each.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import datasets
from autoloader import auto_loader
from loader.chosen import chosen, plain, seed_all
from loader.resuming import LENGTH, Drawn, indices, resumed, through_a_checkpoint

pytestmark = pytest.mark.slow_spawn

PATIENCE_SECONDS = 60


class Gated(datasets.Draws):
    """
    Fetching one sample waits until a file is there; some raise an error.
    """

    def __init__(self, folder: Path, waits: int | None, fails: tuple[int, ...] = ()) -> None:
        super().__init__(LENGTH)
        self.gate = folder / "open"
        self.waits = waits
        self.fails = fails

    def __getitem__(self, index: int) -> torch.Tensor:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while index == self.waits and not self.gate.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        if index in self.fails:
            raise KeyError(f"no sample {index}")
        return super().__getitem__(index)


def first_run(dataset: Gated, draws: int, **arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    """
    Return what a run was served by two workers in so many attempts, and its checkpoint.
    """
    seed_all()
    found: list[Any] = []
    with chosen(dataset, 2, batch_size=1, in_order=False, **arguments) as loader:
        iterator = iter(loader)
        for _ in range(draws):
            with contextlib.suppress(KeyError):
                found.append(plain(next(iterator)))
        state = through_a_checkpoint(loader.state_dict())
        dataset.gate.touch()
    return found, state


def whole_epoch(**arguments: Any) -> list[Any]:
    """
    Return the batches of an epoch without interruption, in the sampler's order.
    """
    seed_all()
    with chosen(datasets.Draws(LENGTH), 0, batch_size=1, **arguments) as loader:
        return [plain(batch) for batch in loader]


ORDERS = [
    pytest.param(dict, id="in-order"),
    pytest.param(lambda: {"shuffle": True}, id="shuffle"),
    pytest.param(lambda: {"sampler": Drawn()}, id="users", marks=pytest.mark.filterwarnings("ignore:resume.fast")),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("waits", [0, 1, 2])
@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_batches_that_were_overtaken_come_in_the_second_run(
    num_workers: int, waits: int, order: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    """
    None is lost, none comes twice, and each has its random numbers.
    """
    whole = whole_epoch(**order())
    dataset = Gated(tmp_path, int(whole[waits][0][0]))
    found, state = first_run(dataset, 4, **order())
    assert len(state["served_ahead"]) > 0
    with resumed(chosen(dataset, num_workers, batch_size=1, **order()), state) as loader:
        found += [plain(batch) for batch in loader]
        assert loader.stats().epochs[0].is_exhausted
    assert sorted(found) == sorted(whole)


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("draws", [1, 2, 3])
def test_second_checkpoint_knows_what_the_first_run_served(draws: int, num_workers: int, tmp_path: Path) -> None:
    """
    Also of batches that the second run has not come to.
    """
    whole = whole_epoch(shuffle=True)
    dataset = Gated(tmp_path, int(whole[1][0][0]))
    found, state = first_run(dataset, 5, shuffle=True)
    for number in (num_workers, 0):
        with resumed(chosen(dataset, number, batch_size=1, shuffle=True), state) as loader:
            iterator = iter(loader)
            found += [plain(next(iterator)) for _ in range(draws)]
            state = through_a_checkpoint(loader.state_dict())
    with resumed(chosen(dataset, 0, batch_size=1, shuffle=True), state) as loader:
        found += [plain(batch) for batch in loader]
    assert sorted(found) == sorted(whole)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_that_were_overtaken_come_to_workers_of_the_users(num_workers: int, tmp_path: Path) -> None:
    """
    With num_workers fixed in the second run the order is the one of the first, too, though position 0 was not served.
    """
    whole = whole_epoch(shuffle=True)
    dataset = Gated(tmp_path, int(whole[0][0][0]))
    found, state = first_run(dataset, 4, shuffle=True)
    assert state["served"] == 0
    with resumed(auto_loader(dataset, 1, shuffle=True, num_workers=num_workers), state) as loader:
        found += [plain(batch) for batch in loader]
    assert sorted(indices(found)) == list(range(LENGTH))


@pytest.mark.parametrize("draws", [1, 2, 3, 4])
def test_error_of_a_batch_is_that_batchs(draws: int, tmp_path: Path) -> None:
    """
    It overtook another one, which comes in the second run; what raised the error in the first, the second, does not.
    """
    dataset = Gated(tmp_path, waits=0, fails=(3,))
    found, state = first_run(dataset, draws)
    with resumed(chosen(dataset, 0, batch_size=1), state) as loader:
        iterator = iter(loader)
        while True:
            try:
                found.append(plain(next(iterator)))
            except KeyError:
                found.append([[3.0]])
            except StopIteration:
                break
    numbers = [int(batch[0][0]) for batch in found]
    assert sorted(set(numbers) - {3}) == [each for each in range(LENGTH) if each != 3]
    assert len(numbers) == len(set(numbers))
    assert (3 in numbers) == (draws < 2)


def test_epoch_with_an_error_in_any_order_is_exhausted(tmp_path: Path) -> None:
    """
    Its workers stay, and the next epoch has the next number.
    """
    dataset = Gated(tmp_path, waits=None, fails=(3, 8))
    with chosen(dataset, 2, batch_size=1, in_order=False) as loader:
        for epoch in range(2):
            iterator, errors, numbers = iter(loader), 0, []
            while True:
                try:
                    numbers.append(int(next(iterator)[0, 0]))
                except KeyError:
                    errors += 1
                except StopIteration:
                    break
            assert (errors, sorted(numbers)) == (2, [0, 1, 2, 4, 5, 6, 7, 9, 10, 11])
            stats = loader.stats()
            assert (stats.epochs[epoch].is_exhausted, stats.in_flight) == (True, 0)
            assert loader.state_dict()["epoch"] == epoch + 1
