"""
Which numbers of workers are worth a trial, and which of those that were tried is the one to take. Pure arithmetic.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from ..policy.model import (
    GOOD_ENOUGH,
    UNKNOWN_BATCHES,
    Outlook,
    batch_seconds,
    fewest_workers,
    start_seconds,
    step_seconds,
    total_seconds,
)
from ..traits import Profile

MOST_CANDIDATES = 5
CANNOT_TELL = 1.3
"""
The model may be wrong by so much: what it expects to be worse than the best by more than that is not tried.
"""

STEP = 1.5
"""
Numbers of workers that are tried are at least so far apart.
"""

CLEARLY_WORSE = 1.15
"""
What was slower than the best by more than that in one run is not run again.
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
    is_forked: bool

    def total(self, workers: int) -> float:
        """
        Return the seconds that the model expects for all that is left.
        """
        return total_seconds(self.profile, workers, self.cpus, self.outlook, is_forked=self.is_forked)

    def start(self, workers: int) -> float:
        """
        Return the seconds that the model expects until the workers run.
        """
        return start_seconds(self.profile, workers, self.cpus, is_forked=self.is_forked)

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
        return min(workers * step, batch_seconds(self.profile) + (self.profile.transfer_seconds or 0.0))

    def best(self) -> int:
        """
        Return the number of workers that the model would take.
        """
        counts = range(self.most + 1)
        return fewest_workers(self.profile, counts, self.cpus, self.outlook, is_forked=self.is_forked)


def first_candidates(situation: Situation) -> list[int]:
    """
    Return the numbers of workers to try, the model's own first, then its neighbours, the nearest first.

    Among them is 0 where loading inline is not clearly slower by the model.
    """
    best = situation.best()
    worth = CANNOT_TELL * situation.total(best)
    found = [best]
    below, above = best, max(1, best)
    while len(found) < MOST_CANDIDATES and (below > 0 or above < situation.most):
        if above == best == 0:
            above = 0
        below, above = _below(below), _above(above, situation.most)
        for count in (below, above):
            if count not in found and situation.total(count) <= worth:
                found.append(count)
        if situation.total(below) > worth and situation.total(above) > worth:
            break
        if below == 0 and above == situation.most:
            break
    return found[:MOST_CANDIDATES]


def _below(count: int) -> int:
    return max(0, min(count - 1, int(count / STEP)))


def _above(count: int, most: int) -> int:
    return min(most, max(count + 1, ceil(count * STEP)))


def next_candidate(situation: Situation, steps: Mapping[int, float], starts: Mapping[int, float]) -> int | None:
    """
    Return another number to try where the best so far is the largest or smallest of those tried; ``None`` for no more.

    Args:
        situation: What is left to load.
        steps: The seconds of a step, by number of workers.
        starts: The seconds to the first batch, by number of workers.
    """
    best = choose(situation, steps, starts)
    if best == max(steps) and best < situation.most:
        return _above(best, situation.most)
    if best == min(steps) and best > 0:
        return _below(best)
    return None


def still_open(totals: Mapping[int, float]) -> list[int]:
    """
    Return the numbers of workers that are not clearly worse than the best, given the seconds that all takes with each.
    """
    best = min(totals.values())
    return [workers for workers, total in totals.items() if total <= CLEARLY_WORSE * best]


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
    totals = totals_of(situation, steps, starts)
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
        load = situation.load(workers, step)
        later = load + _after_first(workers, step, load, whole)
        totals[workers] = starts[workers] + _after_first(workers, step, load, left) + outlook.epochs_left * later
    return totals


def _after_first(workers: int, step: float, load: float, batches: int) -> float:
    """
    Return the seconds from the first batch of an epoch to its last: steps, or rounds of the workers if these take more.
    """
    return max(max(0, batches - 1) * step, (ceil(batches / max(1, workers)) - 1) * load)
