"""
What stats() of a loader counts: batches, samples, errors, restarts, what is on its way, and what workers use.
"""

import contextlib
import copy
import json
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import datasets
from autoloader import auto_loader
from autoloader.loader.statistics import LoaderStats
from autoloader.records import from_json
from loader.chosen import HERE, chosen, chosen_way
from loader.conftest import Host
from loader.deadly import Bomb, Deadly, kill, pids, workers

WORKERS = [0, 2]


def counts(stats: LoaderStats) -> list[tuple[int, int, int, bool]]:
    """
    Return number, batches, samples and end of each epoch.
    """
    return [(each.epoch, each.batches, each.samples, each.is_exhausted) for each in stats.epochs]


def is_one_line(stats: LoaderStats) -> bool:
    """
    Return whether the text of some statistics is a single line.
    """
    return len(str(stats).splitlines()) == 1


class ByName(datasets.Numbers):
    """
    Samples with names, or pairs of numbers, and lists of numbers for whole batches.
    """

    def __getitem__(self, index: Any) -> Any:
        return index


@pytest.mark.parametrize(
    ("sampler", "samples"),
    [
        pytest.param(["apple", "fig"], 2, id="names"),
        pytest.param([(1, 2), (3, 4), (5, 6)], 3, id="pairs"),
        pytest.param([[1, 2], [3, 4, 5]], 5, id="batches"),
        pytest.param([7, 8], 2, id="numbers"),
    ],
)
def test_index_of_a_single_sample_counts_as_one_whatever_it_is(sampler: list[Any], samples: int) -> None:
    """
    Without batches of the loader's own a sampler may give the dataset anything.
    """
    loader = auto_loader(ByName(), batch_size=None, sampler=sampler, num_workers=0)
    list(loader)
    assert loader.stats().total.samples == samples


@pytest.mark.parametrize("way", HERE)
def test_epochs_are_counted_wherever_they_load(way: str, host: Host) -> None:
    """
    Inline, in a thread and in workers: each batch once, with the samples of the last, shorter one.
    """
    with chosen_way(way, host, datasets.Numbers(11), batch_size=2) as loader:
        assert str(loader.stats()) == "no epochs yet"
        assert (loader.stats().epochs, loader.stats().total.epochs, loader.stats().in_flight) == ((), 0, 0)
        for _ in range(3):
            list(loader)
        stats = loader.stats()
    assert counts(stats) == [(0, 6, 11, True), (1, 6, 11, True), (2, 6, 11, True)]
    total = stats.total
    assert (total.epochs, total.batches, total.samples, total.restarts) == (3, 18, 33, 0)
    assert (stats.in_flight, stats.workers) == (0, ())
    assert total.first_batch_seconds is not None
    assert total.first_batch_seconds > 0
    assert 0 <= total.wait_seconds <= total.step_seconds
    assert str(stats).startswith("3 epochs, 18 batches: ")
    assert str(stats).endswith(", 0 in flight, 0 restarts")
    assert is_one_line(stats)
    assert from_json(LoaderStats, json.loads(stats.to_json())) == stats


@pytest.mark.parametrize("way", HERE)
def test_early_break_counts_what_was_served(way: str, host: Host) -> None:
    """
    The epoch is not exhausted, and the next one is.
    """
    with chosen_way(way, host, datasets.Numbers(12), batch_size=2) as loader:
        for number, _ in enumerate(loader, 1):
            if number == 2:
                break
        assert counts(loader.stats()) == [(0, 2, 4, False)]
        list(loader)
        assert counts(loader.stats()) == [(0, 2, 4, False), (1, 6, 12, True)]
        assert loader.stats().total.batches == 8


@pytest.mark.slow_spawn
@pytest.mark.parametrize("num_workers", WORKERS)
def test_two_iterators_at_once_are_counted_apart(num_workers: int) -> None:
    """
    Each has an epoch of its own.
    """
    with chosen(datasets.Numbers(12), num_workers, batch_size=2) as loader:
        one, two = iter(loader), iter(loader)
        next(one), next(two), next(one)
        assert counts(loader.stats()) == [(0, 2, 4, False), (1, 1, 2, False)]
        list(one), list(two)
        assert counts(loader.stats()) == [(0, 6, 12, True), (1, 6, 12, True)]
        assert loader.stats().in_flight == 0


@pytest.mark.parametrize("way", HERE)
def test_batch_that_raised_an_error_is_not_counted(way: str, host: Host) -> None:
    """
    Nor are its samples; the epoch is exhausted all the same.
    """
    with chosen_way(way, host, datasets.Failing(12, at=6), batch_size=2) as loader:
        iterator = iter(loader)
        for _ in range(6):
            with contextlib.suppress(KeyError):
                next(iterator)
        assert next(iterator, "end") == "end"
        assert counts(loader.stats()) == [(0, 5, 10, True)]
        assert loader.stats().in_flight == 0


@pytest.mark.parametrize(
    ("num_workers", "prefetch_factor"),
    [(1, 2), *(pytest.param(2, each, marks=pytest.mark.slow_spawn) for each in (2, 5))],
)
def test_batches_in_flight_are_those_that_workers_were_asked_for(num_workers: int, prefetch_factor: int) -> None:
    """
    As many as each prepares ahead, fewer towards the end, and none afterwards.
    """
    ahead = num_workers * prefetch_factor
    with chosen(datasets.Numbers(40), num_workers, batch_size=2, prefetch_factor=prefetch_factor) as loader:
        assert loader.stats().in_flight == 0
        iterator = iter(loader)
        assert loader.stats().in_flight == ahead
        assert [loader.stats().in_flight for _ in iterator] == [min(ahead, 19 - number) for number in range(20)]
        iterator = iter(loader)
        next(iterator)
        assert loader.stats().in_flight == ahead
        del iterator
        assert loader.stats().in_flight == 0
        iterator = iter(loader)
        next(iterator)
        loader.close()
        assert loader.stats().in_flight == 0


@pytest.mark.slow_spawn
def test_batches_in_flight_of_two_iterators_add_up() -> None:
    """
    Inline nothing is asked for ahead.
    """
    with chosen(datasets.Numbers(40), 1, batch_size=2) as loader:
        one, two = iter(loader), iter(loader)
        next(one), next(two)
        assert loader.stats().in_flight == 4
    with chosen(datasets.Numbers(40), 0, batch_size=2) as loader:
        one = iter(loader)
        next(one)
        assert loader.stats().in_flight == 0


@pytest.mark.skipif(sys.platform == "win32", reason="workers end by signals, which Windows has not")
@pytest.mark.slow_spawn
def test_restarts_are_counted_and_batches_still_once(tmp_path: Path, host: Host) -> None:
    """
    What was asked of the dead and is asked again is in flight once.
    """
    host.change("memory", oom_kills=0)
    dataset = Deadly(40, Bomb(tmp_path, fuses=2), at=(10, 30))
    with chosen(dataset, 2, batch_size=2, on_worker_death="restart") as loader:
        iterator = iter(loader)
        most = 0
        for _ in iterator:
            most = max(most, loader.stats().in_flight)
        stats = loader.stats()
        assert counts(stats) == [(0, 20, 40, True)]
        assert (stats.total.restarts, stats.epochs[0].restarts, stats.in_flight) == (2, 2, 0)
        assert most == 4
        assert str(stats).endswith(", 0 in flight, 2 restarts")


@pytest.mark.parametrize(
    ("arguments", "samples"),
    [
        pytest.param({"batch_size": None}, 12, id="no-batches"),
        pytest.param({"batch_size": 5, "drop_last": True}, 10, id="drop-last"),
        pytest.param({"batch_sampler": [[0, 1, 2], [3], [4, 5]]}, 6, id="batch-sampler"),
        pytest.param({"batch_size": 4, "collate_fn": len}, 12, id="collate-to-a-number"),
    ],
)
@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.slow_spawn)])
def test_samples_are_counted_by_indices(num_workers: int, arguments: dict[str, Any], samples: int) -> None:
    """
    Whatever the collate function makes of them.
    """
    with chosen(datasets.Numbers(12), num_workers, **arguments) as loader:
        list(loader)
        assert loader.stats().total.samples == samples


@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.slow_spawn)])
def test_samples_of_a_stream_are_not_known(num_workers: int) -> None:
    """
    Nobody gave it indices, and no rate of samples is told.
    """
    with auto_loader(datasets.Stream(12), 2, num_workers=num_workers) as loader:
        list(loader)
        stats = loader.stats()
    assert counts(stats) == [(0, 6, 0, True)]
    assert (stats.total.samples_per_second, stats.in_flight) == (None, 0)
    assert is_one_line(stats)


def test_epochs_have_the_numbers_that_the_user_set() -> None:
    """
    As they are counted from there.
    """
    with chosen(datasets.Numbers(4), 0, batch_size=2) as loader:
        loader.set_epoch(5)
        list(loader), list(loader)
        assert [each.epoch for each in loader.stats().epochs] == [5, 6]
        assert loader.stats().total.epochs == 2


@pytest.mark.parametrize("number", [1, 2])
def test_workers_are_looked_at_when_that_is_asked(number: int) -> None:
    """
    Those of a running epoch, and those that are kept after it; their numbers are those of the living processes.
    """
    with chosen(datasets.Numbers(12), number, batch_size=2) as loader:
        assert loader.stats(processes=True).workers == ()
        iterator = iter(loader)
        next(iterator)
        assert loader.stats().workers == ()
        for _ in range(2):
            found = loader.stats(processes=True)
            assert sorted(use.pid for use in found.workers) == pids()
            for use in found.workers:
                assert use.rss_bytes is not None
                assert use.rss_bytes > 1 << 20
                assert use.threads is not None
                assert use.threads >= 1
                assert use.state in {"running", "sleeping", "disk sleep", "idle"}
            assert os.getpid() not in {use.pid for use in found.workers}
            list(iterator)
        loader.close()
        assert loader.stats(processes=True).workers == ()


@pytest.mark.skipif(sys.platform == "win32", reason="workers end by signals, which Windows has not")
def test_workers_that_are_gone_are_not_looked_at() -> None:
    """
    Those that live are, also beside dead ones.
    """
    with chosen(datasets.Numbers(12), 2, batch_size=2) as loader:
        list(loader)
        victim, other = workers()
        kill([victim])
        assert [use.pid for use in loader.stats(processes=True).workers] == [other.pid]


@pytest.mark.slow_spawn
def test_workers_of_two_iterators_are_all_looked_at() -> None:
    """
    Each has its own.
    """
    with chosen(datasets.Numbers(12), 1, batch_size=2) as loader:
        one, two = iter(loader), iter(loader)
        next(one), next(two)
        assert sorted(use.pid for use in loader.stats(processes=True).workers) == pids()
        assert len(pids()) == 2
        list(one), list(two)


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda loader: pickle.loads(pickle.dumps(loader)), id="pickle"),
    ],
)
def test_copy_of_a_loader_has_served_nothing(copied: Any) -> None:
    """
    It counts for itself, and the original for itself.
    """
    with chosen(datasets.Numbers(4), 0, batch_size=2) as loader:
        list(loader)
        with copied(loader) as other:
            assert other.stats().total.batches == 0
            list(other), list(other)
            assert other.stats().total.batches == 4
        assert loader.stats().total.batches == 2


def test_stats_can_be_asked_while_batches_come() -> None:
    """
    By another thread, or by a hook in the middle of a step: it takes no lock of the loader's.
    """
    found: list[LoaderStats] = []
    with chosen(datasets.Numbers(12), 0, batch_size=2) as loader:
        next(iter(loader))
        thread = threading.Thread(target=lambda: found.append(loader.stats(processes=True)), daemon=True)
        with loader._inners.lock:
            thread.start()
            thread.join(60)
        assert [stats.total.batches for stats in found] == [1]
