"""
Which numbers of workers are worth a trial, and which of those that were tried is the one to take. Pure arithmetic.
"""

from collections.abc import Collection, Iterable, Mapping
from math import ceil
from typing import NamedTuple

from ..policy.model import (
    GOOD_ENOUGH,
    UNKNOWN_BATCHES,
    Outlook,
    fewest_workers,
    start_seconds,
    step_seconds,
    total_seconds,
)
from ..traits import Profile

CANNOT_TELL = 1.3
"""
The model may be wrong by so much: what it expects to be worse than the best by more than that is not tried.
"""

STEP = 1.5
"""
Numbers of workers that are tried are at least so far apart.
"""

MARGINS = (1.3, 1.15)
"""
What was slower than the best by more than that in one run, or in two, is not run again; three runs are enough.
"""


class Situation(NamedTuple):
    """
    All that the model needs beside the number of workers.
    """

    profile: Profile
    cpus: float
    most: int
    """The most workers that the budgets allow."""
    outlook: Outlook
    fork_seconds: float | None
    """What one more worker takes to fork; ``None`` where each imports torch anew."""

    def total(self, workers: int) -> float:
        """
        Return the seconds that the model expects for all that is left.
        """
        return total_seconds(self.profile, workers, self.cpus, self.outlook, fork_seconds=self.fork_seconds)

    def start(self, workers: int) -> float:
        """
        Return the seconds that the model expects until the workers run.
        """
        return start_seconds(self.profile, workers, self.cpus, fork_seconds=self.fork_seconds)

    def step(self, workers: int) -> float:
        """
        Return the seconds that the model expects of a step.
        """
        return step_seconds(self.profile, workers, self.cpus)

    def load(self, workers: int, step: float) -> float:
        """
        Return the seconds from the begin of an epoch to its first batch, given those of a step.

        It is what a worker takes for a batch: no more than was measured without any, nor than the step tells.
        """
        if not workers:
            return step
        return min(workers * step, self.profile.batch_seconds + (self.profile.transfer_seconds or 0.0))

    def best(self) -> int:
        """
        Return the number of workers that the model would take.
        """
        counts = range(self.most + 1)
        return fewest_workers(self.profile, counts, self.cpus, self.outlook, fork_seconds=self.fork_seconds)


def first_candidates(situation: Situation) -> list[int]:
    """
    Return the numbers of workers to try: the model's own, its neighbours and 0, unless clearly slower by the model.
    """
    best = situation.best()
    worth = CANNOT_TELL * situation.total(best)
    found = dict.fromkeys((best, _below(best), _above(best, situation.most), 0))
    return [workers for workers in found if situation.total(workers) <= worth]


def _below(count: int) -> int:
    return max(0, min(count - 1, int(count / STEP)))


def _above(count: int, most: int) -> int:
    return min(most, max(2, count + 1, ceil(count * STEP)))  # one worker alone may well be slower than none


def next_candidate(
    situation: Situation, steps: Mapping[int, float], starts: Mapping[int, float], failed: Collection[int] = ()
) -> int | None:
    """
    Return a neighbour of the best so far, where none was tried that is as near; ``None`` for no more.

    Args:
        situation: What is left to load.
        steps: The seconds of a step, by number of workers.
        starts: The seconds to the first batch, by number of workers.
        failed: Numbers of workers whose trial failed.
    """
    best = choose(situation, steps, starts)
    below, above = _below(best), _above(best, situation.most)
    tried = {*steps, *failed}
    if best < above and not any(best < each <= above for each in tried):
        return above
    if below < best and not any(below <= each < best for each in tried):
        return below
    return None


def still_open(totals: Mapping[int, float], runs: Mapping[int, int]) -> list[int]:
    """
    Return the numbers of workers to run again, as they are not clearly worse than the best: none where all others are.

    Args:
        totals: The seconds that all takes, by number of workers.
        runs: How often each has run.
    """
    best = min(totals.values())
    near = [each for each in totals if totals[each] <= MARGINS[min(runs[each], len(MARGINS)) - 1] * best]
    return [each for each in near if runs[each] <= len(MARGINS)] if len(near) > 1 else []


def median(values: Iterable[float]) -> float:
    """
    Return the middle of some values; of two in the middle the smaller one.
    """
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def choose(situation: Situation, steps: Mapping[int, float], starts: Mapping[int, float]) -> int:
    """
    Return the fewest workers with which all that is left takes hardly longer than with the best that was tried.

    Args:
        situation: What is left to load.
        steps: The seconds of a step, by number of workers.
        starts: The seconds to the first batch, by number of workers.
    """
    return fewest_of(totals_of(situation, steps, starts))


def fewest_of(totals: Mapping[int, float]) -> int:
    """
    Return the fewest workers with which all that is left takes hardly longer than with the best.

    Args:
        totals: The seconds that it takes, by number of workers, the smallest number first.
    """
    best = min(totals.values())
    return next(workers for workers, total in totals.items() if total <= GOOD_ENOUGH * best)


def totals_of(situation: Situation, steps: Mapping[int, float], starts: Mapping[int, float]) -> dict[int, float]:
    """
    Return the seconds that all that is left takes, by number of workers, the smallest number first.
    """
    outlook = situation.outlook
    whole = outlook.batches or UNKNOWN_BATCHES
    left = whole if outlook.batches_left is None else outlook.batches_left
    totals = {}
    for workers, step in sorted(steps.items()):
        later = max(whole * step, situation.load(workers, step) + _after_first(situation, workers, step, whole))
        totals[workers] = starts[workers] + _after_first(situation, workers, step, left) + outlook.epochs_left * later
    return totals


def _after_first(situation: Situation, workers: int, step: float, batches: int) -> float:
    """
    Return the seconds from the first batch of an epoch to its last.

    The first batches of all workers come together, and the others in rounds, as fast as steps were measured to be, or
    as the training takes them.
    """
    together, profile = max(1, workers), situation.profile
    rounds = (ceil(batches / together) - 1) * situation.load(workers, step)
    training = (profile.step_seconds or 0.0) + (profile.transfer_seconds or 0.0)
    return max(0.0, (batches - together) * step, rounds, (batches - 1) * training if workers else 0.0)
