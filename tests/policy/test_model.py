"""
The model: seconds of steps, starts and epochs, worked out by hand.
"""

from dataclasses import replace
from typing import Any

import pytest

from autoloader.facts import HostFacts, ProcessFacts
from autoloader.policy import fork_seconds
from autoloader.policy.model import (
    Outlook,
    expected_epochs_left,
    fewest_workers,
    start_seconds,
    step_seconds,
    total_seconds,
)
from autoloader.traits import Profile

PROFILE = Profile(
    batches=2,
    batch_samples=8,
    sample_seconds=0.1,
    sample_cpu_seconds=0.05,
    collate_seconds=0.2,
    transfer_seconds=0.25,
    step_seconds=0.5,
    step_cpu_seconds=0.4,
)
"""
A second to load a batch, 0.6 of it CPU; half a second to train on one; a quarter to hand one over.
"""


def test_batch_is_its_samples_and_their_collation() -> None:
    """
    Collating counts as CPU.
    """
    assert PROFILE.batch_seconds == pytest.approx(8 * 0.1 + 0.2)
    assert PROFILE.batch_cpu_seconds == pytest.approx(8 * 0.05 + 0.2)


@pytest.mark.parametrize(
    ("workers", "cpus", "seconds"),
    [
        pytest.param(0, 8, 1.5, id="inline-one-after-the-other"),
        pytest.param(1, 8, 1.25, id="one-worker-loads-and-hands-over"),
        pytest.param(2, 8, 0.75, id="training-takes-over-and-trains"),
        pytest.param(9, 8, 0.75, id="more-do-not-help"),
        pytest.param(4, 1, 1.5, id="one-cpu-does-it-all"),
        pytest.param(4, 0.5, 3.0, id="half-a-cpu"),
    ],
)
def test_step_takes_as_long_as_its_slowest_part(workers: int, cpus: float, seconds: float) -> None:
    """
    Inline 0.5 + 1; a worker 1 + 0.25; the training process 0.5 + 0.25; CPU 0.4 + 0.6 + 2 x 0.25.
    """
    assert step_seconds(PROFILE, workers, cpus) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("workers", "cpus", "fork", "seconds"),
    [
        pytest.param(0, 2, 0.025, 0.0, id="inline-knows-its-first-access"),
        pytest.param(4, 8, 0.025, 0.1 + 3.0, id="forks-one-after-the-other"),
        pytest.param(4, 8, None, 2.0 + 3.0, id="imports-side-by-side"),
        pytest.param(4, 2, None, 4.0 + 3.0 * 4 * 0.6 / 2, id="imports-and-first-accesses-wait-for-cpus"),
    ],
)
def test_start_counts_each_workers_first_access(workers: int, cpus: float, fork: float | None, seconds: float) -> None:
    """
    A first access of 3 seconds, 0.6 of it CPU as of all samples.
    """
    profile = replace(PROFILE, first_access_seconds=3.0)
    assert start_seconds(profile, workers, cpus, fork_seconds=fork) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("gib", "seconds"),
    [
        pytest.param(0, 0.007, id="nothing"),
        pytest.param(2, 0.043, id="two-gib"),
        pytest.param(None, 0.016, id="unknown-counts-as-half-a-gib"),
    ],
)
def test_forking_takes_longer_with_memory_whose_page_tables_are_copied(gib: int | None, seconds: float) -> None:
    """
    Seven milliseconds, and eighteen for each GiB.
    """
    size = None if gib is None else gib << 30
    facts = HostFacts(process=ProcessFacts(anonymous_bytes=size))
    assert fork_seconds(facts, "fork") == pytest.approx(seconds)
    assert fork_seconds(facts, "spawn") is None


@pytest.mark.parametrize(
    ("workers", "outlook", "seconds"),
    [
        pytest.param(0, Outlook(4, 10, 0), 4 * 1.5, id="inline"),
        pytest.param(0, Outlook(4, 10, 2), 24 * 1.5, id="inline-and-two-epochs"),
        pytest.param(0, Outlook(None, None, 0), 1000 * 1.5, id="length-unknown"),
        pytest.param(3, Outlook(4, 10, 0), 0.075 + 1.25 + 3 * 0.75, id="first-batch-and-three-steps"),
        pytest.param(1, Outlook(4, 10, 0), 0.025 + 4 * 1.25 + 0.0, id="four-rounds"),
        pytest.param(2, Outlook(10, 10, 1), 0.05 + 2 * (1.25 + 9 * 0.75), id="and-another-epoch"),
        pytest.param(2, Outlook(0, 10, 1), 0.05 + 1.25 + 9 * 0.75, id="nothing-left-of-this-one"),
    ],
)
def test_total_is_start_rounds_and_later_epochs(workers: int, outlook: Outlook, seconds: float) -> None:
    """
    The first batch takes a load; then steps follow, or rounds of the workers where these take longer.
    """
    assert total_seconds(PROFILE, workers, 8, outlook, fork_seconds=0.025) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [
        pytest.param(5, 0.125 + 2.0, id="two-rounds"),
        pytest.param(6, 0.15 + 1.0, id="a-batch-for-each-worker"),
        pytest.param(8, 0.2 + 1.0, id="two-workers-have-none"),
    ],
)
def test_batches_that_only_wait_come_in_rounds(workers: int, seconds: float) -> None:
    """
    An epoch of six batches that take a second each, and nothing else does.
    """
    waits = replace(
        PROFILE,
        sample_seconds=0.125,
        sample_cpu_seconds=0.0,
        collate_seconds=0.0,
        transfer_seconds=0.0,
        step_seconds=0.0,
        step_cpu_seconds=0.0,
    )
    assert total_seconds(waits, workers, 8, Outlook(6, 6, 0), fork_seconds=0.025) == pytest.approx(seconds)


def test_fewest_workers_within_3_percent_of_the_best_are_taken() -> None:
    """
    A third worker is started only where two are more than that slower.
    """
    many = Outlook(1000, 1000, 9)
    assert fewest_workers(PROFILE, range(9), 8, many, fork_seconds=0.025) == 2
    slower = replace(PROFILE, sample_seconds=0.13575)  # two workers take 1.536 / 2, 2.4 % more than 0.75
    assert step_seconds(slower, 2, 8) == pytest.approx(0.768)
    assert fewest_workers(slower, range(9), 8, many, fork_seconds=0.025) == 2
    slower = replace(PROFILE, sample_seconds=0.13782)  # 3.5 % more
    assert step_seconds(slower, 2, 8) == pytest.approx(0.77628)
    assert fewest_workers(slower, range(9), 8, many, fork_seconds=0.025) == 3


@pytest.mark.parametrize(
    ("epochs", "begun", "left"),
    [
        pytest.param(None, 0, 1, id="another-one"),
        pytest.param(None, 1, 1, id="another-one-after-one"),
        pytest.param(None, 7, 7, id="as-many-as-there-were"),
        pytest.param(10, 0, 9, id="what-the-user-says"),
        pytest.param(10, 9, 0, id="the-last"),
        pytest.param(1, 5, 0, id="more-than-the-user-said"),
    ],
)
def test_epochs_left(epochs: Any, begun: int, left: int) -> None:
    """
    What lasted so long is expected to last as long again, unless the user says how long.
    """
    assert expected_epochs_left(epochs, begun) == left
