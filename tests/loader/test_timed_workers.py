"""
What cannot be timed in the training process, streams and datasets with a worker_init_fn, is timed in the workers.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from autoloader import auto_loader, calibrate
from autoloader.engine.inner import InnerLoader
from loader.chosen import NEEDS_FORK
from loader.conftest import set_world_size
from loader.resuming import through_a_checkpoint

pytestmark = [pytest.mark.usefixtures("measuring"), NEEDS_FORK]

PRIOR = 2
"""
Workers of the known host as long as nothing was measured.
"""


class Sharded(IterableDataset[tuple[int, int]]):
    """
    A stream whose samples take a while to come, each with the process that read it.
    """

    num_shards = 12

    def __init__(self, samples: int = 120, seconds: float = 0.01) -> None:
        self.samples, self.seconds = samples, seconds

    def __len__(self) -> int:
        return self.samples

    def __iter__(self) -> Iterator[tuple[int, int]]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first, self.samples, step):
            time.sleep(self.seconds)
            yield number, os.getpid()


class KnowsItsPlace(Sharded):
    """
    A stream that can be continued.
    """

    def __init__(self, samples: int = 120, seconds: float = 0.01) -> None:
        super().__init__(samples, seconds)
        self.drawn = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        while (number := first + self.drawn * step) < self.samples:
            self.drawn += 1
            time.sleep(self.seconds)
            yield number, os.getpid()
        self.drawn = 0

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = state["drawn"]


class Prepared(Dataset[tuple[int, int]]):
    """
    Samples that can be fetched only where a worker_init_fn has run.
    """

    def __init__(self, samples: int = 120, seconds: float = 0.02) -> None:
        self.samples, self.seconds = samples, seconds

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, int]:
        if self.seconds:
            time.sleep(self.seconds)
        info = get_worker_info()
        assert info is not None
        return index, info.dataset.prepared_by  # type: ignore[attr-defined]


def prepare(_worker: int) -> None:
    """
    Prepare the copy of this worker.
    """
    info = get_worker_info()
    assert info is not None
    info.dataset.prepared_by = os.getpid()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def store(host: Any, tmp_path: Path) -> Path:
    """
    Keep what is measured in a folder of the test's own.
    """
    folder = tmp_path / "cache"
    host.environment.clear()
    host.environment["AUTOLOADER_CACHE_DIR"] = str(folder)
    return folder


def epoch(loader: Any) -> tuple[list[int], int]:
    """
    Return the samples of an epoch in their order, and how many processes have fetched them.
    """
    batches = list(loader)
    pids = {int(pid) for _, found in batches for pid in found}
    assert os.getpid() not in pids
    return [int(number) for numbers, _ in batches for number in numbers], len(pids)


def take(iterator: Any, numbers: list[int]) -> None:
    """
    Add the numbers of what is left of an epoch, as they come.
    """
    for batch, _ in iterator:
        numbers += batch.tolist()


def decision(loader: Any) -> tuple[int, str]:
    """
    Return the number of workers, and its rule.
    """
    choice = loader.plan.choices["num_workers"]
    return choice.value, choice.rule


BY_LAST_BATCHES = 6, "num_workers.last-batches"
"""
A fifth of 30 batches; more would be faster still.
"""


def test_stream_is_timed_in_its_first_epoch_and_has_other_workers_in_the_second() -> None:
    """
    A stream cannot change its workers in the middle. No sample is lost or doubled, in this run and the next.
    """
    with auto_loader(Sharded(), 4) as loader:
        assert decision(loader) == (PRIOR, "num_workers.no-accelerator")
        for workers in (PRIOR, 6, 6):
            samples, processes = epoch(loader)
            assert sorted(samples) == list(range(120))
            assert processes == workers
        assert decision(loader) == BY_LAST_BATCHES
    with auto_loader(Sharded(), 4) as loader:
        for _ in range(3):
            assert decision(loader) == BY_LAST_BATCHES
            samples, processes = epoch(loader)
            assert (sorted(samples), processes) == (list(range(120)), 6)


def test_a_single_epoch_of_a_stream_is_enough_for_the_next_run(store: Path) -> None:
    """
    What it has shown is kept before it ends.
    """
    with auto_loader(Sharded(), 4) as loader:
        iterator = iter(loader)
        for _ in range(20):
            next(iterator)
        assert len(list(store.glob("plan-*.json"))) == 1
    with auto_loader(Sharded(), 4) as loader:
        assert decision(loader) == BY_LAST_BATCHES


class KnowsItsEpoch(Sharded):
    """
    A stream that is told the number of each epoch.
    """

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def test_stream_is_known_again_whatever_it_was_told_meanwhile() -> None:
    """
    A run is resumed at another epoch than the next one begins with.
    """
    with auto_loader(KnowsItsEpoch(), 4) as loader:
        loader.set_epoch(5)
        epoch(loader)
    with auto_loader(KnowsItsEpoch(), 4) as loader:
        assert decision(loader)[0] > PRIOR


def test_stream_without_batches_is_timed_too() -> None:
    """
    With ``batch_size=None`` each sample is what torch calls a batch.
    """
    with auto_loader(Sharded(60, 0.02), None) as loader:
        numbers = [number for number, _ in loader]
        assert sorted(numbers) == list(range(60))
        assert decision(loader) == (PRIOR, "num_workers.no-accelerator")
        assert sorted(number for number, _ in loader) == list(range(60))
        assert decision(loader)[0] > PRIOR


class Endless(Sharded):
    """
    A stream that does not say how long it is.
    """

    num_shards = None

    def __len__(self) -> int:
        raise TypeError("nobody knows")


@pytest.mark.parametrize("drop_last", [False, True])
def test_stream_of_unknown_length_has_no_more_workers_than_its_batches_allow(*, drop_last: bool) -> None:
    """
    Thirty batches allow six workers, or one where each drops its last samples; before they are seen, the prior does.
    """
    whole = 120 if drop_last else 0
    with auto_loader(Endless(), 4, drop_last=drop_last) as loader:
        assert [epoch(loader)[1] for _ in range(2)] == [PRIOR, 1 if drop_last else 6]
        samples, _ = epoch(loader)
        assert len(samples) >= (whole or 120)
        assert len(set(samples)) == len(samples)
    with auto_loader(Endless(), 4, drop_last=drop_last) as loader:
        assert decision(loader)[0] <= PRIOR
        assert epoch(loader)[0]


def test_what_a_stream_has_shown_does_not_hold_where_last_batches_are_dropped() -> None:
    """
    Its workers would be too many.
    """
    with auto_loader(Sharded(), 4) as loader:
        epoch(loader)
    with auto_loader(Sharded(), 4, drop_last=True) as loader:
        assert decision(loader)[1] == "num_workers.last-batches"
        assert decision(loader)[0] == 1


class ReadsLate(Sharded):
    """
    A stream that opens its file when it begins, and tells what it reads where.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(60, 0.0002)
        path.write_bytes(bytes(range(60)))
        self.path, self.descriptor = path, -1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        if self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_RDONLY)
        for number, pid in super().__iter__():
            os.lseek(self.descriptor, number, os.SEEK_SET)
            yield os.read(self.descriptor, 1)[0], pid


def test_stream_is_never_read_in_this_process_before_its_workers(tmp_path: Path) -> None:
    """
    What it opens here, forked workers would share: however cheap its samples are, one worker stays.
    """
    with auto_loader(ReadsLate(tmp_path / "data"), 4) as loader:
        for _ in range(10):
            assert sorted(epoch(loader)[0]) == list(range(60))
        assert loader.dataset.descriptor == -1


def test_calibrated_stream_keeps_its_workers() -> None:
    """
    The first batches of the workers confirm what the calibration has found, in the first epoch and later.
    """
    found = calibrate(Sharded(), 4)
    with auto_loader(Sharded(), 4) as loader:
        for _ in range(3):
            assert loader.plan.value("num_workers") == found.plan.value("num_workers") > PRIOR
            epoch(loader)


def test_stream_with_a_seed_has_the_workers_that_rules_say_in_each_run() -> None:
    """
    The order of its samples depends on the number of workers, and is to be the same again.
    """
    orders = []
    for _ in range(2):
        with auto_loader(Sharded(), 4, seed=1) as loader:
            orders += [epoch(loader) for _ in range(2)]
            assert decision(loader) == (PRIOR, "num_workers.no-accelerator")
    assert all(order == orders[0] for order in orders)


def test_stream_with_a_seed_is_calibrated_if_that_is_asked_for() -> None:
    """
    Who asks for trials wants their result.
    """
    with auto_loader(Sharded(), 4, seed=1, calibrate=True) as loader:
        assert epoch(loader)[1] > PRIOR


def test_resumed_stream_is_read_by_as_many_workers_as_before() -> None:
    """
    It has a place for each of them. The next epoch has the workers that were measured to be best.
    """
    with auto_loader(KnowsItsPlace(), 4) as loader:
        iterator, seen = iter(loader), []
        for _ in range(20):
            seen += [int(number) for number in next(iterator)[0]]
        state = through_a_checkpoint(loader.state_dict())
    with auto_loader(KnowsItsPlace(), 4) as loader:
        assert decision(loader) == BY_LAST_BATCHES
        loader.load_state_dict(state)
        rest, processes = epoch(loader)
        assert decision(loader) == (PRIOR, "num_workers.stream-resumed")
        assert (sorted(seen + rest), processes) == (list(range(120)), PRIOR)
        rest, processes = epoch(loader)
        assert decision(loader) == BY_LAST_BATCHES
        assert (sorted(rest), processes) == (list(range(120)), 6)


def test_workers_with_an_init_function_are_replaced_in_mid_epoch() -> None:
    """
    The order stays, no sample is fetched where the function has not run, and the next run begins with what was found.
    """
    with auto_loader(Prepared(480), 4, worker_init_fn=prepare) as loader:
        assert decision(loader) == (PRIOR, "num_workers.no-accelerator")
        samples, processes = epoch(loader)
        assert samples == list(range(480))
        workers, rule = decision(loader)
        assert (processes, rule) == (PRIOR + workers, "num_workers.measured")
    with auto_loader(Prepared(480), 4, worker_init_fn=prepare) as loader:
        assert decision(loader)[1] == "num_workers.measured"
        assert epoch(loader)[0] == list(range(480))


class CannotBePickled(Prepared):
    """
    Only a forked worker can have it.
    """

    def __init__(self, samples: int = 240) -> None:
        super().__init__(samples)
        self.change = lambda number: number


@pytest.mark.parametrize("on_unsafe", ["fallback", "raise"])
def test_workers_stay_where_no_other_ones_could_start(on_unsafe: str, host: Any) -> None:
    """
    A thread that the training has started since forbids a fork. What runs is not given up for it, nor is it said.
    """
    with auto_loader(CannotBePickled(), 4, worker_init_fn=prepare, on_unsafe=on_unsafe) as loader:
        for _ in range(2):
            numbers: list[int] = []
            pids: set[int] = set()
            for batch in loader:
                numbers += batch[0].tolist()
                pids |= set(batch[1].tolist())
                host.change("process", other_threads=("writer",))
            assert numbers == list(range(240))
            assert (len(pids), os.getpid() in pids) == (PRIOR, False)
        assert decision(loader)[0] == PRIOR


def test_interrupt_while_workers_are_replaced_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The old ones end first, which may take a while; the loop goes on where it was.
    """
    close, interrupts = InnerLoader.close, iter([KeyboardInterrupt])

    def interrupted(inner: InnerLoader) -> None:
        close(inner)
        for interrupt in interrupts:
            raise interrupt

    with auto_loader(Prepared(480), 4, worker_init_fn=prepare) as loader:
        iterator = iter(loader)
        numbers = next(iterator)[0].tolist()
        monkeypatch.setattr(InnerLoader, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            take(iterator, numbers)
        assert loader.state_dict()["served"] == len(numbers) // 4
        take(iterator, numbers)
        assert numbers == list(range(480))
        assert decision(loader)[1] == "num_workers.measured"


def test_quick_samples_stay_in_a_worker_whose_init_function_they_need() -> None:
    """
    Loading them here would be faster, and wrong.
    """
    with auto_loader(Prepared(40_000, 0.0), 40, worker_init_fn=prepare) as loader:
        for _ in range(3):
            samples, processes = epoch(loader)
            assert samples == list(range(40_000))
            assert processes >= 1
        assert decision(loader)[0] >= 1


def test_steps_of_the_training_are_seen_beside_the_workers() -> None:
    """
    A training that takes longer than the one worker that it needs has no more than that.
    """
    with auto_loader(Sharded(120, 0.002), 4) as loader:
        for _ in loader:
            time.sleep(0.03)
        epoch(loader)
        assert decision(loader) == (1, "num_workers.measured")


def test_ranks_of_a_group_time_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    They had better load alike.
    """
    set_world_size(monkeypatch, 2)
    with auto_loader(Sharded(), 4) as loader:
        for _ in range(2):
            assert epoch(loader)[1] == PRIOR


def test_stream_of_tensors_is_not_changed_by_being_timed() -> None:
    """
    Each batch is what torch's loader gives.
    """
    plain = torch.utils.data.DataLoader(Sharded(48, 0.0), 4, num_workers=PRIOR)
    with auto_loader(Sharded(48, 0.0), 4) as loader:
        assert [batch[0].tolist() for batch in loader] == [batch[0].tolist() for batch in plain]
