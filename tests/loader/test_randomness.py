"""
The same random numbers whatever number of workers autoloader chooses, and the caller's own streams as they were.
"""

import functools
import pickle
import sys
import warnings
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import datasets
from autoloader import auto_loader
from autoloader.profiling import generators_in
from loader import random_data
from loader.chosen import HERE, NEEDS_FORK, chosen, chosen_way, epochs_of, plain, seed_all
from loader.random_data import three_draws

LENGTH = 22
"""
Six batches of four: more than three workers have at once, and fewer than eight.
"""

START_METHOD = "spawn" if sys.platform == "win32" else "forkserver"
"""
One that sends a copy of the dataset.
"""

DRAWING: dict[str, Any] = {
    "batch_size": 4,
    "shuffle": True,
    "collate_fn": random_data.collate_drawing,
    "worker_init_fn": random_data.note_draws,
}


@functools.cache
def inline_epochs(*, has_torchs: bool = True) -> tuple[list[list[Any]], list[float]]:
    """
    Return three epochs that load inline, and what the global generators draw afterwards.
    """
    seed_all()
    with chosen(random_data.DrawsAndHolds(LENGTH, has_torchs=has_torchs), 0, **DRAWING) as loader:
        return epochs_of(loader, 3), three_draws()


def order_of(epoch: list[Any]) -> list[float]:
    """
    Return the indices of an epoch's samples.
    """
    return [sample[0] for samples, _ in epoch for sample in samples]


def draws_of(epochs: list[list[Any]]) -> Iterator[float]:
    """
    Yield what samples and batches of some epochs have drawn.
    """
    for epoch in epochs:
        for samples, of_batch in epoch:
            yield from (number for sample in samples for number in sample[1:])
            yield from of_batch


def test_no_two_draws_are_the_same() -> None:
    """
    Epochs, batches and generators all get streams of their own; the order is the one that torch gives.
    """
    epochs, _ = inline_epochs()
    drawn = list(draws_of(epochs))
    assert len(drawn) == len(set(drawn)) == 3 * (LENGTH * 8 + 6 * 3)
    seed_all()
    torchs = DataLoader(datasets.Numbers(LENGTH), 4, shuffle=True)
    assert [order_of(epoch) for epoch in epochs] == [torch.cat(list(torchs))[:, 0].tolist() for _ in range(3)]


def test_the_callers_streams_are_those_of_a_dataset_that_does_not_draw() -> None:
    """
    Torch alone with such a dataset draws the order and a base for each epoch, and so do we.
    """
    _, drawn = inline_epochs()
    seed_all()
    epochs_of(DataLoader(datasets.Numbers(LENGTH), 4, shuffle=True), 3)
    assert drawn == three_draws()


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    ("num_workers", "settings"),
    [
        pytest.param(1, {}, id="1"),
        pytest.param(3, {}, id="3"),
        pytest.param(8, {}, id="8"),
        pytest.param(3, {"prefetch_factor": 1}, id="3-prefetch-1"),
        pytest.param(3, {"prefetch_factor": 5}, id="3-prefetch-5"),
        pytest.param(3, {"stay": False}, id="3-new-in-each-epoch"),
        pytest.param(2, {"multiprocessing_context": "forkserver"}, id="2-forkserver", marks=NEEDS_FORK),
        pytest.param(2, {"multiprocessing_context": "spawn"}, id="2-spawn"),
    ],
)
def test_batches_do_not_depend_on_workers_that_we_chose(num_workers: int, settings: dict[str, Any]) -> None:
    """
    Bit by bit what loads inline, three epochs long, and the same draws of the caller's afterwards.
    """
    has_torchs = "multiprocessing_context" not in settings
    expected = inline_epochs(has_torchs=has_torchs)
    seed_all()
    dataset = random_data.DrawsAndHolds(LENGTH, has_torchs=has_torchs)
    with chosen(dataset, num_workers, **DRAWING, **settings) as loader:
        assert (epochs_of(loader, 3), three_draws()) == expected
        assert (loader.plan.value("backend"), loader.plan.value("num_workers")) == ("process", num_workers)


def test_batches_do_not_depend_on_the_backend(host: Any) -> None:
    """
    Where no process may start, a thread or this process draws the same.
    """
    expected = inline_epochs()
    host.change("process", is_daemonic=True)
    seed_all()
    with chosen(random_data.DrawsAndHolds(LENGTH), 2, **DRAWING | {"worker_init_fn": None}) as loader:
        assert (epochs_of(loader, 3), three_draws()) == expected
        assert loader.plan.choices["backend"].rule == "backend.not-in-a-thread"


@pytest.mark.parametrize("way", HERE)
def test_a_dataset_that_draws_only_from_generators_that_it_holds(way: str, host: Any) -> None:
    """
    Threads need not share these: each batch has a stream, and the dataset's generators are where they were.
    """
    epochs = []
    for each in ("inline", way):
        seed_all()
        dataset = random_data.Holding()
        before = [
            pickle.dumps(held) for held in generators_in(dataset).values() if not isinstance(held, torch.Generator)
        ]
        with chosen_way(each, host, dataset, batch_size=4) as loader:
            epochs.append(epochs_of(loader, 2))
            assert loader.plan.value("backend") == each
        after = [
            pickle.dumps(held) for held in generators_in(dataset).values() if not isinstance(held, torch.Generator)
        ]
        assert (len(before), after) == (4, before)
    assert epochs[0] == epochs[1]
    assert len({number for epoch in epochs[0] for batch in epoch for _, *drawn in batch for number in drawn}) == 2 * 60


@pytest.mark.slow_spawn
@pytest.mark.parametrize("stay", [True, False])
def test_generators_that_set_epoch_replaces_get_streams_too(stay: bool) -> None:
    """
    ``self.rng = random.Random(epoch)`` in set_epoch: workers that stay find the new one.
    """
    runs = []
    for num_workers in (0, 3):
        seed_all()
        with chosen(random_data.HoldingOne(None), num_workers, stay=stay, batch_size=2) as loader:
            run = []
            for epoch in (4, 5, 5):
                loader.set_epoch(epoch)
                run += epochs_of(loader)
        runs.append(run)
    assert runs[0] == runs[1]
    assert len({number for epoch in runs[0] for batch in epoch for number in batch}) == 16  # the last two are one


@pytest.mark.slow_spawn
def test_a_copy_that_leaves_a_generator_behind_draws_the_same() -> None:
    """
    A dataset may drop parts when it is pickled: the streams of the others stay theirs.
    """
    runs = []
    for arguments in ({"num_workers": 0}, {"num_workers": 1, "multiprocessing_context": START_METHOD}):
        with chosen(random_data.LeavesBehind(), **arguments, batch_size=2) as loader:
            runs.append(epochs_of(loader, 2))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("way", HERE)
def test_draws_in_the_training_loop_and_in_batches_do_not_meet(way: str, host: Any) -> None:
    """
    Dropout between two batches changes no batch, and no batch changes dropout.
    """

    def train(loader: Any, *, draws: bool) -> tuple[list[Any], list[list[float]]]:
        seed_all()
        batches, drawn = [], []
        for batch in loader:
            batches.append(plain(batch))
            drawn += [three_draws()] if draws else []
        return batches, drawn

    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True}
    _, dropout = train(DataLoader(datasets.Numbers(LENGTH), **arguments), draws=True)
    with chosen(datasets.Draws(LENGTH), 0, **arguments) as inline:
        expected, _ = train(inline, draws=False)
    with chosen_way(way, host, datasets.Draws(LENGTH), **arguments) as loader:
        assert train(loader, draws=True) == (expected, dropout)


@pytest.mark.parametrize("way", HERE)
def test_what_the_caller_draws_after_iter_changes_no_order(way: str, host: Any) -> None:
    """
    The order is drawn when the epoch begins, as with workers, and not when its first batch is asked for.
    """
    runs = []
    for each, draws in (("inline", False), (way, True)):
        seed_all()
        with chosen_way(each, host, datasets.Draws(LENGTH), batch_size=4, shuffle=True) as loader:
            iterator = iter(loader)
            if draws:
                three_draws()
            runs.append([plain(batch) for batch in iterator])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("way", HERE)
def test_epochs_after_an_early_break_are_the_same_everywhere(way: str, host: Any) -> None:
    """
    What was loaded ahead and not asked for has drawn from nobody's stream.
    """
    runs = []
    for each in ("inline", way):
        seed_all()
        with chosen_way(each, host, datasets.Draws(LENGTH), batch_size=4, shuffle=True) as loader:
            iterator = iter(loader)
            begun = [plain(next(iterator)), plain(next(iterator))]
            del iterator
            runs.append((begun, epochs_of(loader, 2), three_draws()))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("way", HERE)
def test_a_failed_sample_changes_no_other_batch(way: str, host: Any) -> None:
    """
    A batch that raised an error has had its own stream, too, and the caller's is given back.
    """
    seed_all()
    with chosen(datasets.Draws(LENGTH), 0, batch_size=4) as inline:
        expected = [plain(batch) for batch in inline]
    seed_all()
    with chosen_way(way, host, random_data.FailsToDraw(LENGTH, at=9), batch_size=4) as loader:
        iterator, got = iter(loader), []
        for position in range(6):
            try:
                got.append(plain(next(iterator)))
            except KeyError:
                got.append(expected[position])
                failed = position
    assert (got, failed) == (expected, 2)
    after = three_draws()
    seed_all()
    epochs_of(DataLoader(datasets.Numbers(LENGTH), 4))
    assert after == three_draws()


@NEEDS_FORK
def test_a_death_of_a_worker_changes_no_batch(tmp_path: Any) -> None:
    """
    New workers give the batches that are loaded once more the same streams.
    """
    seed_all()
    with chosen(datasets.Draws(LENGTH), 0, batch_size=4, shuffle=True) as inline:
        expected = epochs_of(inline, 2), three_draws()
    seed_all()
    dataset = random_data.DiesOnce(LENGTH, at=9, flag=tmp_path / "died")
    with chosen(dataset, 2, batch_size=4, shuffle=True, on_worker_death="restart") as loader:
        assert (epochs_of(loader, 2), three_draws()) == expected
        assert loader.stats().total.restarts == 1


@pytest.mark.parametrize("generator", [None, 3])
def test_workers_that_cannot_start_have_drawn_nothing(generator: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Where the system does not let a worker start, a thread goes on with the order and the base that were drawn for it.
    """

    def refuse(process: BaseProcess) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    runs = []
    for num_workers in (0, 2):
        monkeypatch.setattr(BaseProcess, "start", refuse)
        seed_all()
        mine = None if generator is None else torch.Generator().manual_seed(generator)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with chosen(datasets.Draws(LENGTH), num_workers, generator=mine, batch_size=4, shuffle=True) as loader:
                runs.append((epochs_of(loader, 2), three_draws()))
        assert ["BlockingIOError" in str(warning.message) for warning in said] == [True] * (num_workers > 0)
    assert runs[0] == runs[1]


@NEEDS_FORK
def test_a_new_worker_for_a_dead_one_begins_with_the_same_streams(tmp_path: Any) -> None:
    """
    Torch's streams for worker k, before its first batch, are those of the epoch: what draws from them draws the same.
    """
    noted = []
    for at in (100, 5):
        seed_all()
        dataset = random_data.NotedAndDies(12, at, tmp_path / "died")
        arguments: dict[str, Any] = {"batch_size": 2, "worker_init_fn": random_data.note_draws}
        with chosen(dataset, 1, on_worker_death="restart", **arguments) as loader:
            noted.append({tuple(sample) for batch in epochs_of(loader)[0] for sample in batch})
    assert (tmp_path / "died").exists()
    assert noted[0] == noted[1]
    assert len(noted[0]) == 1


@pytest.mark.slow_spawn
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [1, 3])
def test_draws_of_worker_init_fn_are_torchs(num_workers: int) -> None:
    """
    Before its first batch, worker k has the streams that torch gives to worker k.
    """
    noted = []
    arguments: dict[str, Any] = {"batch_size": 2, "worker_init_fn": random_data.note_draws}
    for make in (functools.partial(DataLoader, num_workers=num_workers), None):
        dataset = random_data.Noted(12)
        seed_all()
        loader = make(dataset, **arguments) if make else chosen(dataset, num_workers, **arguments)
        noted.append(epochs_of(loader))
        getattr(loader, "close", list)()
    assert noted[0] == noted[1]
    assert {batch[0][0] for batch in noted[0][0]} == set(range(num_workers))


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow_spawn)])
@pytest.mark.parametrize("batch_size", [4, None])
def test_with_given_num_workers_all_draws_are_torchs(num_workers: int, batch_size: int | None) -> None:
    """
    In samples, in the collate function, from generators that each worker has a clone of, and the caller's afterwards.
    """
    arguments = DRAWING | {"batch_size": batch_size, "num_workers": num_workers}
    arguments |= {} if batch_size else {"collate_fn": collate_one}
    runs = []
    for make in (DataLoader, auto_loader):
        seed_all()
        loader = make(random_data.DrawsAndHolds(10), **arguments)
        runs.append((epochs_of(loader, 2), three_draws()))
        getattr(loader, "close", list)()
    assert runs[0] == runs[1]


def collate_one(sample: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    """
    Be a collate function for single samples that draws.
    """
    return sample, three_draws()


@pytest.mark.slow_spawn
def test_streams_that_worker_init_fn_sets_do_not_make_batches_depend_on_workers() -> None:
    """
    Under workers that we chose, a batch's stream is its own, whatever a worker has seeded before.
    """
    runs = []
    for num_workers in (1, 3):
        seed_all()
        with chosen(datasets.Draws(8), num_workers, batch_size=2, worker_init_fn=datasets.seed_by_numpy) as loader:
            runs.append(epochs_of(loader))
    assert runs[0] == runs[1]
