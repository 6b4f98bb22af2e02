"""
A training that lasts: after 2, 4, 8, ... epochs it is expected to last as long again, and may have more workers.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from torch.utils.data import Dataset

from autoloader import auto_loader
from autoloader.loader import knowledge
from autoloader.loader.remembering import Remembered, TrialStep
from autoloader.loader.starting import FEWER_AFTER_DEATHS, with_fewer_workers
from autoloader.loader.worker_batches import WorkerBatches
from autoloader.policy import Outlook, model
from autoloader.traits import Profile
from loader.chosen import NEEDS_FORK
from loader.conftest import Host

pytestmark = [pytest.mark.usefixtures("measuring"), NEEDS_FORK]


class Waits(Dataset[int]):
    """
    Six batches of four samples, each of which takes 10 ms to come.
    """

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> int:
        time.sleep(0.01)
        return index


class WaitsOnce(Waits):
    """
    Samples that each process keeps.
    """

    def __init__(self) -> None:
        self.kept: set[tuple[int, int]] = set()

    def __getitem__(self, index: int) -> int:
        if (os.getpid(), index) not in self.kept:
            self.kept.add((os.getpid(), index))
            super().__getitem__(index)
        return index


@pytest.fixture(autouse=True)
def _starting_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let a worker count for 0.2 seconds: two workers are worth it from 4 more epochs on, six from 20.
    """
    monkeypatch.setattr(model, "FORK_SECONDS", 0.2)


def workers_by_epoch(dataset: Dataset[int], passes: int, **arguments: object) -> list[int]:
    """
    Return how many workers there were after each pass over the dataset.
    """
    found = []
    with auto_loader(dataset, 4, **arguments) as loader:
        for _ in range(passes):
            assert [int(number) for batch in loader for number in batch] == list(range(24))
            found.append(loader.plan.value("num_workers"))
    return found


def test_more_epochs_are_worth_more_workers() -> None:
    """
    Inline, 2 workers and 6 workers take 0.24, 0.12 and 0.04 seconds an epoch; a restart has to pay.
    """
    workers = workers_by_epoch(Waits(), 66)
    assert workers[:2] == [0, 0]
    assert 2 <= workers[6] < 6
    assert workers[65] == 6
    changes = [epoch for epoch in range(8, 66) if workers[epoch] != workers[epoch - 1]]
    assert all(epoch & (epoch - 1) == 0 for epoch in changes)


def test_workers_that_have_become_faster_stay() -> None:
    """
    By what the first batches took six would be better; what an epoch takes now says otherwise.
    """
    workers = workers_by_epoch(WaitsOnce(), 34)
    assert 1 <= workers[8] < 6
    assert set(workers[8:]) == {workers[8]}


PROFILE = Profile(
    batches=2,
    batch_samples=4,
    sample_seconds=0.0101,
    sample_cpu_seconds=0.0001,
    batch_bytes=100,
    transfer_seconds=0.0001,
    step_seconds=0.0,
    step_cpu_seconds=0.0,
)
"""
What a calibration measures of :class:`Waits`.
"""

TRIALS = TrialStep(2, 0.0205, 0.45), TrialStep(3, 0.014, 0.65)


def remember(monkeypatch: pytest.MonkeyPatch, found: Remembered) -> None:
    """
    Let loaders find that, and rely on it.
    """
    monkeypatch.setattr(knowledge, "recall", lambda *_: found)
    monkeypatch.setattr(knowledge, "is_like", lambda *_: True)
    monkeypatch.setattr(WorkerBatches, "is_to_confirm", False)


@pytest.fixture
def store(host: Host, tmp_path: Path) -> None:
    """
    Let loaders have a place where something may be kept.
    """
    host.environment.clear()
    host.environment["AUTOLOADER_CACHE_DIR"] = str(tmp_path)


@pytest.mark.usefixtures("store")
def test_trials_are_weighed_again_and_then_the_model_is_asked_about_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A calibration found 2 workers best for a short training, having tried 3 as well; what 6 do it never saw.
    """
    remember(monkeypatch, Remembered(PROFILE, 2, "by trials", TRIALS))
    workers = workers_by_epoch(Waits(), 70)
    assert workers[0] == 2
    assert 3 in workers
    assert workers[69] == 6
    assert workers == sorted(workers)


@pytest.mark.usefixtures("store")
def test_number_of_workers_that_failed_in_a_trial_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nor is a larger one.
    """
    remember(monkeypatch, Remembered(PROFILE, 2, "by trials", TRIALS, failed=(4,)))
    assert max(workers_by_epoch(Waits(), 70)) == 3


@pytest.mark.usefixtures("store")
def test_training_that_never_waits_keeps_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A calibration without step= knows nothing of the training, and expects to gain from loading faster.
    """
    remember(monkeypatch, Remembered(PROFILE, 2, "by trials", TRIALS))
    with auto_loader(Waits(), 4) as loader:
        for _ in range(18):
            for _batch in loader:
                time.sleep(0.04)
        assert loader.plan.value("num_workers") == 2


def test_training_counts_beside_what_trials_without_it_took_inline() -> None:
    """
    Loading takes 20 ms inline and 10 with two workers, and the training 30: 50 a step in all, or 30.
    """
    known = knowledge.Knowledge()
    known.recalled = Remembered(PROFILE, 0, "by trials", (TrialStep(0, 0.02, 0.02), TrialStep(2, 0.01, 0.3)))
    profile = replace(PROFILE, sample_seconds=0.005, step_seconds=0.03, step_cpu_seconds=0.0)
    totals = known.totals(auto_loader(Waits(), 4), profile, Outlook(100, 100, 0))
    assert totals == {}
    known.recalled = known.recalled._replace(profile=replace(PROFILE, sample_seconds=0.005))
    totals = known.totals(auto_loader(Waits(), 4), profile, Outlook(100, 100, 0))
    assert totals[0] == pytest.approx(0.02 + 99 * 0.05)
    assert totals[2] == pytest.approx(0.3 + 99 * 0.0301)


@pytest.mark.parametrize(
    ("step", "workers", "because"),
    [
        pytest.param(0.0, 0, "by trials", id="as-in-the-trials"),
        pytest.param(
            0.03, 2, "by trials; for what is left to load with steps of 30 ms, 2 is best by them", id="with-steps"
        ),
    ],
)
def test_reason_says_why_it_is_not_the_best_of_the_trials(step: float, workers: int, because: str) -> None:
    """
    Two workers are no faster at loading, and let it go on beside the training.
    """
    known, cheaper = knowledge.Knowledge(), replace(PROFILE, sample_seconds=0.005)
    known.recalled = Remembered(cheaper, 0, "by trials", (TrialStep(0, 0.02, 0.02), TrialStep(2, 0.021, 0.3)))
    plan = known.plan(auto_loader(Waits(), 4), replace(cheaper, step_seconds=step), 100, 0)
    choice = plan.choices["num_workers"]
    assert (choice.value, choice.rule, choice.because) == (workers, "num_workers.calibrated", because)


def test_workers_that_are_fewer_after_deaths_stay_so() -> None:
    """
    Memory is as short as before.
    """
    with auto_loader(Waits(), 4, epochs=34) as loader:
        for passes in range(20):
            assert [int(number) for batch in loader for number in batch] == list(range(24))
            if passes == 2:
                loader._take_plan(with_fewer_workers(loader.plan, 1))
        assert (loader.plan.value("num_workers"), loader.plan.choices["num_workers"].rule) == (1, FEWER_AFTER_DEATHS)


def test_who_says_how_many_epochs_there_will_be_has_the_workers_for_them_at_once() -> None:
    """
    Nothing is learned from their number then.
    """
    assert workers_by_epoch(Waits(), 3, epochs=34) == [6, 6, 6]
