"""
A profile from what workers tell: first batches apart, and enough of the others.
"""

from itertools import chain, repeat

import pytest

from autoloader.profiling import Fetched, Sent, WorkerTimes
from autoloader.profiling.timing import Moment
from autoloader.traits import Profile

STEP = Moment(0.02, 0.01)
BATCH = Fetched(0.08, 0.04, 0.01)


def noted(*batches: Fetched, workers: int = 1, samples: int = 4) -> WorkerTimes:
    """
    Return times of batches from workers that have just started, with a step before each but the first.
    """
    times = WorkerTimes()
    times.begin(workers, are_new=True)
    for batch, step in zip(batches, chain([None], repeat(STEP)), strict=False):
        times.note(batch, samples, step)
    return times


def test_profile_of_batches_that_are_alike() -> None:
    """
    Each number by hand: a batch of four samples takes 80 ms, half of it CPU, and 10 ms to collate.
    """
    assert noted(*[BATCH] * 4).profile(Sent(1000, 0.001)) == Profile(
        batches=3,
        batch_samples=4.0,
        sample_seconds=pytest.approx(0.02),
        sample_cpu_seconds=pytest.approx(0.01),
        sample_deviation_seconds=None,
        first_access_seconds=0.0,
        collate_seconds=0.01,
        batch_bytes=1000,
        transfer_seconds=0.001,
        step_seconds=0.02,
        step_cpu_seconds=0.01,
    )


def test_first_batch_of_each_worker_counts_apart() -> None:
    """
    What it does once is not what a sample takes.
    """
    slow = Fetched(1.08, 1.04, 0.01)
    profile = noted(slow, slow, *[BATCH] * 4, workers=2).profile(None)
    assert profile.first_access_seconds == pytest.approx(1.0)
    assert profile.sample_seconds == pytest.approx(0.02)
    assert (profile.batch_bytes, profile.transfer_seconds) == (None, None)


def test_first_batch_of_kept_workers_is_like_any_other() -> None:
    """
    They have done once what there is to do in the epoch before.
    """
    times = noted(BATCH)
    times.begin(1, are_new=False)
    for step in (None, STEP):
        times.note(BATCH, 4, step)
    assert times.profile(None).batches == 2


def test_a_long_first_step_of_the_training_is_not_taken_for_the_usual_one() -> None:
    """
    A training compiles, or starts its device, in its first step.
    """
    times = WorkerTimes()
    times.begin(1, are_new=True)
    for step in (None, Moment(5.0, 5.0), STEP, STEP):
        times.note(BATCH, 4, step)
    assert times.profile(None).step_seconds == 0.02


@pytest.mark.parametrize(
    ("batches", "workers", "has_some", "has_seen_enough"),
    [
        pytest.param(2, 1, False, False, id="one-after-the-first"),
        pytest.param(3, 1, True, False, id="two-rounds"),
        pytest.param(4, 2, False, False, id="one-round-of-two-workers"),
        pytest.param(6, 2, True, True, id="two-rounds-of-two-workers"),
        pytest.param(4, 1, True, False, id="270-ms"),
        pytest.param(5, 1, True, True, id="360-ms"),
    ],
)
def test_enough_is_two_batches_of_each_worker_and_300_ms(
    batches: int, workers: int, *, has_some: bool, has_seen_enough: bool
) -> None:
    """
    Besides the first batch of each; a batch takes 90 ms here.
    """
    times = noted(*[BATCH] * batches, workers=workers)
    assert (times.has_some, times.has_seen_enough) == (has_some, has_seen_enough)


def test_without_a_step_of_the_training_there_is_no_profile() -> None:
    """
    An epoch of one batch shows none.
    """
    times = WorkerTimes()
    for are_new in (True, False, False, False):
        times.begin(1, are_new=are_new)
        times.note(BATCH, 4, None)
    assert not times.has_some


def test_batches_that_differ_tell_how_much_samples_do() -> None:
    """
    Batches of four samples at 60 and 100 ms, each 20 ms off their mean: a sample is off by half as much.
    """
    seconds = [0.08, 0.06, 0.1, 0.06, 0.1, 0.06, 0.1]
    profile = noted(*[Fetched(each, each, 0.0) for each in seconds]).profile(None)
    assert profile.sample_deviation_seconds == pytest.approx(0.01)


def test_empty_batches_say_nothing_of_others() -> None:
    """
    A batch sampler may yield an empty list.
    """
    times = noted(BATCH, BATCH, BATCH)
    times.note(Fetched(0.0, 0.0, 0.0), 0, STEP)
    assert times.profile(None).sample_seconds == pytest.approx(0.02)


def test_a_clock_of_cpu_seconds_that_stands_still_is_not_believed() -> None:
    """
    Windows' own goes on by 16 ms: in less than 50 ms, none of it shown, all may have been CPU.
    """
    quick = Fetched(0.004, 0.0, 0.0)
    assert noted(*[quick] * 4).profile(None).sample_cpu_seconds == pytest.approx(0.001)
    assert noted(*[BATCH._replace(cpu_seconds=0.0)] * 4).profile(None).sample_cpu_seconds == 0.0
