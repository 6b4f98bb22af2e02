"""
The clock that times first batches: what counts as a sample, a first access, a step of the training.

Time is told by the tests, on both clocks, so that every number is known.
"""

import copy
import pickle
from typing import Any

import pytest

from autoloader.profiling import BatchClock, Sent, timing
from autoloader.traits import Profile


class Time:
    """
    Two clocks that go on only when told.
    """

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def passes(self, seconds: float, cpu: float | None = None) -> None:
        self.wall += seconds
        self.cpu += seconds if cpu is None else cpu


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """
    Let the clock be told.
    """
    told = Time()
    monkeypatch.setattr(timing, "perf_counter", lambda: told.wall)
    monkeypatch.setattr(timing, "process_time", lambda: told.cpu)
    return told


SENT = Sent(1000, 0.001)


def load(
    clock: BatchClock, time: Time, samples: list[float], *, cpu: float = 1.0, collate: float = 0.0, step: float = 0.0
) -> None:
    """
    Load a batch as torch does, whose samples take so many seconds, and train on it.
    """
    clock.note_asked()
    indices = clock.begin(list(range(len(samples))))
    for place in indices:
        time.passes(samples[place], cpu * samples[place])
    clock.collating(lambda _: time.passes(collate))(None)
    clock.note_served()
    time.passes(step)


def test_profile_of_two_batches(time: Time) -> None:
    """
    Samples, collation and the training's second step, on both clocks.
    """
    clock = BatchClock()
    load(clock, time, [0.01, 0.02], cpu=0.5, collate=0.003, step=0.5)
    assert not clock.has_seen_enough
    load(clock, time, [0.02, 0.03], cpu=0.5, collate=0.002, step=0.1)
    assert clock.has_seen_enough
    clock.note_asked()
    profile = clock.profile(SENT)
    assert profile == Profile(
        batches=2,
        batch_samples=2,
        sample_seconds=pytest.approx(0.02),
        sample_cpu_seconds=pytest.approx(0.01),
        sample_deviation_seconds=pytest.approx(0.01 / 2**0.5),
        first_access_seconds=0.0,
        collate_seconds=pytest.approx(0.002),
        batch_bytes=1000,
        transfer_seconds=0.001,
        step_seconds=pytest.approx(0.1),
        step_cpu_seconds=pytest.approx(0.1),
    )


def test_profile_is_over_after_a_third_of_a_second(time: Time) -> None:
    """
    The batch that passes 0.3 seconds is the last one.
    """
    clock = BatchClock()
    load(clock, time, [0.1, 0.1, 0.1])
    assert clock.has_enough_batches
    assert not clock.has_seen_enough  # the training has not come back yet
    clock.note_asked()
    assert clock.has_seen_enough


def test_step_is_not_waited_for_for_ever(time: Time) -> None:
    """
    A loop that always leaves after the first batch has none.
    """
    clock = BatchClock()
    for batches in range(4):
        assert clock.has_seen_enough == (batches >= 4)
        clock.begin_epoch()
        load(clock, time, [0.01])
    assert clock.has_seen_enough


def test_empty_batches_are_not_counted(time: Time) -> None:
    """
    They say nothing of others.
    """
    clock = BatchClock()
    for samples in ([], [], [0.2]):
        load(clock, time, samples)
    assert clock.count == 1
    assert clock.profile(SENT).batch_samples == 1


def test_batch_at_all_threads_is_told_apart(time: Time) -> None:
    """
    What a sample costs is seen at one thread, as a worker would load it.
    """
    clock = BatchClock()
    load(clock, time, [0.01, 0.01], collate=0.1)
    clock.is_at_one_thread = False
    load(clock, time, [0.02, 0.02], collate=0.01)
    profile = clock.profile(SENT)
    assert (profile.batches, profile.sample_seconds) == (2, pytest.approx(0.01))
    assert profile.collate_seconds == pytest.approx(0.1)
    assert profile.inline_batch_seconds == pytest.approx(0.05)


def test_list_that_reaches_the_dataset_is_the_samplers_own(time: Time) -> None:
    """
    Where samples are not fetched one by one, and wherever the list is copied or pickled.
    """
    indices = [1, 2]
    assert BatchClock(goes_one_by_one=False).begin(indices) is indices
    timed = BatchClock().begin(indices)
    for same in (copy.copy(timed), copy.deepcopy(timed), pickle.loads(pickle.dumps(timed))):
        assert type(same) is list
        assert same == indices


def test_first_access_stands_apart(time: Time) -> None:
    """
    The first sample is counted as an ordinary one and the rest of it for each process.
    """
    clock = BatchClock()
    load(clock, time, [1.01, 0.01, 0.01])
    profile = clock.profile(SENT)
    assert profile.sample_seconds == pytest.approx(0.01)
    assert profile.first_access_seconds == pytest.approx(1.0)


def test_slow_sample_later_on_counts_as_a_sample(time: Time) -> None:
    """
    Only the first one can be a first access.
    """
    clock = BatchClock()
    load(clock, time, [0.01, 0.09, 0.02])
    profile = clock.profile(SENT)
    assert profile.sample_seconds == pytest.approx(0.04)
    assert profile.first_access_seconds == 0.0


@pytest.mark.parametrize("goes_through", [True, False])
@pytest.mark.parametrize("sizes", [[4, 4], [4, 2]])
def test_samples_that_are_fetched_together_are_timed_by_batch(time: Time, sizes: list[int], goes_through: bool) -> None:
    """
    Where the dataset gets all indices at once, a sample takes its part of the batch, and none is known to be slower.

    So it is where the dataset goes through the indices first.
    """
    clock = BatchClock()
    for size in sizes:
        clock.note_asked()
        indices = clock.begin(list(range(size)))
        if goes_through:
            for _ in indices:
                time.passes(1e-6)
        time.passes(0.1 * size)
        clock.collating(lambda _: None)(None)
        clock.note_served()
    profile = clock.profile(SENT)
    assert profile.batch_samples == pytest.approx(sum(sizes) / 2)
    assert profile.sample_seconds == pytest.approx(0.1, rel=1e-4)
    assert profile.sample_deviation_seconds is None


def test_first_batch_that_is_fetched_together_may_hold_a_first_access(time: Time) -> None:
    """
    What it took beyond the second is a first access.
    """
    clock = BatchClock()
    for seconds in (1.4, 0.4):
        clock.begin([0, 1, 2, 3])
        time.passes(seconds)
        clock.collating(lambda _: None)(None)
    profile = clock.profile(SENT)
    assert profile.sample_seconds == pytest.approx(0.1)
    assert profile.first_access_seconds == pytest.approx(1.0)


@pytest.mark.parametrize("indices", [7, "key", (1, 2)])
def test_indices_that_are_no_list_reach_the_dataset_as_they_are(indices: Any) -> None:
    """
    Only lists are known to be gone through one by one.
    """
    assert BatchClock().begin(indices) is indices


def test_indices_of_a_batch_are_a_list_to_the_dataset() -> None:
    """
    They compare, copy, slice and count as the sampler's own.
    """
    indices = BatchClock().begin([3, 1, 2])
    assert isinstance(indices, list)
    assert indices == [3, 1, 2]
    assert (indices[0], indices[1:], len(indices), list(indices)) == (3, [1, 2], 3, [3, 1, 2])


@pytest.mark.parametrize(
    ("step", "seconds"),
    [pytest.param(0.05, 0.05, id="short-beside-loading"), pytest.param(0.5, None, id="long-maybe-only-the-first")],
)
def test_first_step_counts_only_if_it_is_short(time: Time, step: float, seconds: float | None) -> None:
    """
    A first step allocates and compiles; later ones may be far shorter.
    """
    clock = BatchClock()
    load(clock, time, [0.5, 0.5], step=step)
    clock.note_asked()
    assert clock.profile(SENT).step_seconds == (None if seconds is None else pytest.approx(seconds))


def test_time_between_epochs_is_no_step(time: Time) -> None:
    """
    What the training does after an epoch, such as validation, is not what it does between two batches.
    """
    clock = BatchClock()
    load(clock, time, [0.01, 0.01], step=60.0)
    clock.begin_epoch()
    load(clock, time, [0.01, 0.01], step=0.02)
    clock.note_asked()
    assert clock.profile(SENT).step_seconds is None


def test_time_too_short_for_the_clock_counts_as_cpu(time: Time) -> None:
    """
    Some systems' clocks of CPU seconds go on in steps of 16 milliseconds.
    """
    clock = BatchClock()
    load(clock, time, [0.001, 0.001], cpu=0.0)
    assert clock.profile(SENT).sample_cpu_seconds == pytest.approx(0.001)


def test_long_wait_is_no_cpu(time: Time) -> None:
    """
    In a tenth of a second any clock of CPU seconds would have moved.
    """
    clock = BatchClock()
    load(clock, time, [0.05, 0.05], cpu=0.0)
    assert clock.profile(SENT).sample_cpu_seconds == 0.0


def test_batch_that_failed_is_not_counted(time: Time) -> None:
    """
    The next one is timed from its own begin.
    """
    clock = BatchClock()
    for index in clock.begin([0, 1, 2]):
        time.passes(5.0)
        if index == 1:
            break
    load(clock, time, [0.01, 0.01])
    load(clock, time, [0.01, 0.01])
    profile = clock.profile(SENT)
    assert (profile.batches, profile.sample_seconds) == (2, pytest.approx(0.01))


def test_batch_that_cannot_be_pickled_has_no_size(time: Time) -> None:
    """
    Its profile says that no worker could send it.
    """
    clock = BatchClock()
    load(clock, time, [0.2, 0.2])
    profile = clock.profile(None)
    assert (profile.batch_bytes, profile.transfer_seconds) == (None, None)
