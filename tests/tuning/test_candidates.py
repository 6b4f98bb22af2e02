"""
Which numbers of workers are tried, and which of them is taken: tables worked out by hand.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from autoloader.policy import Outlook
from autoloader.traits import Profile
from autoloader.tuning.candidates import (
    Situation,
    choose,
    first_candidates,
    median,
    next_candidate,
    still_open,
    totals_of,
)

PROFILE = Profile(
    batches=8,
    batch_samples=10,
    sample_seconds=0.1,
    sample_cpu_seconds=0.1,
    transfer_seconds=0.0,
    step_seconds=0.0,
    step_cpu_seconds=0.0,
)
"""
A second to load a batch, all of it CPU; nothing to hand it over or to train on it.
"""

WAITING = replace(PROFILE, sample_cpu_seconds=0.0)
SITUATION = Situation(PROFILE, 4.0, 16, Outlook(1000, 1000, 0), fork_seconds=0.025)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        # 4 workers take 0.1 + 1 + 999/4 = 250.9 s, 6 take 0.15 + 1 + 999/4 = 250.9; 2 take twice as long.
        pytest.param({}, [4, 6], id="four-cpus"),
        # A step takes 1/1.5: 2 workers take 0.05 + 1 + 666 = 667 s, 1 and 0 take 1000.
        pytest.param({"cpus": 1.5}, [2, 3], id="one-and-a-half-cpus"),
        # A step takes 2 s with any worker, and 1 s inline, by the model.
        pytest.param({"cpus": 0.5}, [0], id="half-a-cpu"),
        pytest.param({"most": 0}, [0], id="no-worker-allowed"),
        pytest.param({"most": 4}, [4], id="no-more-allowed-than-the-best"),
        # 16 workers take 0.4 s and 63 rounds of a second, 10 take 0.25 and 100.
        pytest.param({"profile": WAITING}, [16], id="waits-only"),
        # 3 workers take 0.075 + 1 round, 2 take 0.05 + 2, 1 takes 3 and inline too.
        pytest.param({"profile": WAITING, "outlook": Outlook(3, 3, 0), "most": 3}, [3], id="three-batches-in-all"),
        # Inline takes 1 s, 2 workers 0.05 + 1.
        pytest.param({"profile": WAITING, "outlook": Outlook(1, 1, 0)}, [0, 2], id="one-batch-in-all"),
        # 1000 batches are expected, twice.
        pytest.param({"outlook": Outlook(None, None, 1)}, [4, 6], id="length-unknown"),
    ],
)
def test_first_candidates_are_the_models_choice_and_what_it_cannot_tell_apart(
    changes: Mapping[str, object], counts: list[int]
) -> None:
    """
    The model's own comes first; what it expects to take 1.3 times as long is left out.
    """
    assert first_candidates(SITUATION._replace(**changes)) == counts


@pytest.mark.parametrize(
    ("steps", "failed", "most", "count"),
    [
        pytest.param({4: 0.25, 6: 0.2}, (), 16, 9, id="best-is-the-largest"),
        pytest.param({4: 0.25, 6: 0.2}, (), 7, 7, id="as-many-as-allowed"),
        pytest.param({4: 0.25, 6: 0.2}, (), 6, None, id="no-more-allowed"),
        pytest.param({4: 0.2, 6: 0.2}, (), 16, 2, id="best-is-the-smallest"),
        pytest.param({2: 0.3, 4: 0.2, 6: 0.2}, (), 16, None, id="neighbours-were-tried"),
        pytest.param({1: 0.3, 4: 0.2, 6: 0.2}, (), 16, 2, id="gap-below"),
        pytest.param({4: 0.2, 3: 0.3, 8: 0.3}, (), 16, 6, id="gap-above"),
        pytest.param({4: 0.2}, (6,), 16, 2, id="above-failed"),
        pytest.param({4: 0.2}, (6, 2), 16, None, id="both-failed"),
        pytest.param({0: 1.0}, (), 16, 2, id="inline-alone"),
        pytest.param({0: 1.0, 2: 2.0}, (), 16, None, id="two-are-slower-than-inline"),
        pytest.param({0: 1.0, 2: 0.9, 3: 0.95}, (), 16, 1, id="one-beside-two"),
        pytest.param({0: 1.0}, (), 0, None, id="no-worker-allowed"),
    ],
)
def test_next_candidate_is_a_neighbour_of_the_best(
    steps: Mapping[int, float], failed: tuple[int, ...], most: int, count: int | None
) -> None:
    """
    At most half as many again, or two thirds; starting takes nothing here.
    """
    situation = SITUATION._replace(most=most)
    assert next_candidate(situation, steps, dict.fromkeys(steps, 0.0), failed) == count


@pytest.mark.parametrize(
    ("outlook", "workers", "step", "seconds"),
    [
        pytest.param(Outlook(10, 10, 0), 0, 2.0, 5 + 9 * 2, id="inline"),
        pytest.param(Outlook(10, 10, 2), 0, 2.0, 5 + 9 * 2 + 2 * 10 * 2, id="inline-three-epochs"),
        pytest.param(Outlook(10, 10, 0), 2, 0.5, 5 + 4, id="four-more-rounds"),
        pytest.param(Outlook(10, 10, 0), 4, 0.25, 5 + 2, id="two-more-rounds-the-last-of-two"),
        pytest.param(Outlook(5, 5, 0), 4, 0.125, 5 + 0.5, id="round-of-half-a-second-as-the-step-tells"),
        pytest.param(Outlook(9, 9, 1), 8, 0.125, 5 + 1 + 2, id="another-epoch-has-two-rounds"),
        pytest.param(Outlook(9, 9, 1), 8, 1.5, 5 + 1 * 1.5 + 9 * 1.5, id="cpus-bind"),
        pytest.param(Outlook(4, 10, 1), 2, 0.5, 5 + 1 + 5, id="rest-of-an-epoch"),
        pytest.param(Outlook(None, None, 0), 2, 0.5, 5 + 499, id="length-unknown"),
        pytest.param(Outlook(1, 1, 0), 2, 0.5, 5, id="one-batch"),
    ],
)
def test_total_is_the_start_and_then_rounds_or_steps(
    outlook: Outlook, workers: int, step: float, seconds: float
) -> None:
    """
    The first batch comes after 5 s; a worker takes a second for a batch, or what the step tells if that is less.
    """
    situation = SITUATION._replace(profile=WAITING, outlook=outlook)
    assert totals_of(situation, {workers: step}, {workers: 5.0}) == {workers: pytest.approx(seconds)}


def test_total_is_no_less_than_the_training_takes() -> None:
    """
    Nine more batches of half a second each, where four workers could have loaded them in two rounds.
    """
    training = replace(WAITING, step_seconds=0.375, transfer_seconds=0.125)
    situation = SITUATION._replace(profile=training, outlook=Outlook(10, 10, 0))
    assert totals_of(situation, {4: 0.5}, {4: 5.0}) == {4: 5 + 9 * 0.5}


@pytest.mark.parametrize(
    ("steps", "starts", "count"),
    [
        pytest.param({4: 1.0, 6: 0.98}, {4: 0.0, 6: 0.0}, 4, id="hardly-slower"),
        pytest.param({4: 1.0, 6: 0.95}, {4: 0.0, 6: 0.0}, 6, id="faster"),
        pytest.param({4: 1.0, 6: 0.95}, {4: 0.0, 6: 60.0}, 4, id="start-takes-longer-than-it-gains"),
        pytest.param({0: 3.0}, {0: 3.0}, 0, id="single"),
    ],
)
def test_fewest_within_3_percent_of_the_best_is_chosen(
    steps: Mapping[int, float], starts: Mapping[int, float], count: int
) -> None:
    """
    Of a thousand batches, the start included.
    """
    assert choose(SITUATION, steps, starts) == count


@pytest.mark.parametrize(
    ("totals", "runs", "counts"),
    [
        pytest.param({2: 10.0, 3: 14.0}, {2: 1, 3: 1}, [], id="clear-after-one-run"),
        pytest.param({2: 10.0, 3: 12.9}, {2: 1, 3: 1}, [2, 3], id="not-clear-after-one-run"),
        pytest.param({2: 10.0, 3: 12.9}, {2: 2, 3: 2}, [], id="clear-after-two"),
        pytest.param({2: 10.0, 3: 11.4, 5: 12.9}, {2: 2, 3: 2, 5: 2}, [2, 3], id="not-clear-after-two"),
        pytest.param({2: 10.0, 3: 10.0}, {2: 3, 3: 3}, [], id="three-are-enough"),
        pytest.param({2: 10.0, 3: 10.0}, {2: 3, 3: 1}, [3], id="only-what-has-run-less"),
        pytest.param({0: 10.0}, {0: 1}, [], id="single"),
    ],
)
def test_what_is_clearly_worse_does_not_run_again(
    totals: Mapping[int, float], runs: Mapping[int, int], counts: list[int]
) -> None:
    """
    By 30 % after one run, by 15 % after two.
    """
    assert still_open(totals, runs) == counts


def test_median_of_two_in_the_middle_is_the_smaller() -> None:
    """
    What else happens on a machine only makes a run longer.
    """
    assert [median([3.0]), median([4.0, 3.0]), median([9.0, 3.0, 4.0])] == [3.0, 3.0, 4.0]
