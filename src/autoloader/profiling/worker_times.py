"""
Makes a profile of batches that load in workers, where they tell how long they took.
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ..traits import Profile
from .timing import ENOUGH_SECONDS, LEAST_CPU_SECONDS, Moment, Sent, stands_out

ENOUGH_ROUNDS = 2
"""
Batches of each worker after its first one, with what it does once, that a profile needs at least.
"""

FEWEST_FOR_DEVIATION = 5
"""
Fewer batches than this do not say how much one takes longer than another.
"""


class Fetched(NamedTuple):
    """
    What loading one batch took in a worker, in seconds.
    """

    seconds: float
    """Fetching its samples."""
    cpu_seconds: float
    """CPU time of the worker's process meanwhile."""
    collate_seconds: float


class WorkerTimes:
    """
    Collects what workers and the training loop tell of the first batches.
    """

    def __init__(self) -> None:
        self._firsts: list[Fetched] = []
        self._others: list[Fetched] = []
        self._steps: list[Moment] = []
        self._samples = 0
        self._left_of_firsts = 0
        self._workers = 1

    def begin(self, workers: int, *, are_new: bool) -> None:
        """
        Note that an epoch begins with so many workers; the first batch of each counts apart where they are new.
        """
        self._workers, self._left_of_firsts = workers, workers if are_new else 0

    def note(self, fetched: Fetched, samples: int, step: Moment | None) -> None:
        """
        Note a batch of so many samples.

        Args:
            fetched: What it took.
            samples: The number of its samples.
            step: What the training loop did before it asked for this one; ``None`` before the first of an epoch.
        """
        if step is not None:
            self._steps.append(step)
        if self._left_of_firsts:
            self._left_of_firsts -= 1
            self._firsts.append(fetched)
        elif samples:
            self._others.append(fetched)
            self._samples += samples

    @property
    def has_some(self) -> bool:
        """
        Return whether a profile can be made.
        """
        return len(self._others) >= ENOUGH_ROUNDS * self._workers and bool(self._steps)

    @property
    def has_seen_enough(self) -> bool:
        """
        Return whether more batches would not make it a better one.
        """
        return self.has_some and sum(one.seconds + one.collate_seconds for one in self._others) >= ENOUGH_SECONDS

    def profile(self, sent: Sent | None) -> Profile:
        """
        Return what was seen.

        Args:
            sent: What sending a batch costs; ``None`` where it cannot be pickled.
        """
        others = self._others
        size = self._samples / len(others)
        wall = statistics.fmean(one.seconds for one in others)
        cpu = statistics.fmean(one.cpu_seconds for one in others)
        if cpu <= 0 and wall * len(others) < LEAST_CPU_SECONDS:
            cpu = wall
        return Profile(
            batches=len(others),
            batch_samples=size,
            sample_seconds=wall / size,
            sample_cpu_seconds=max(0.0, cpu) / size,
            sample_deviation_seconds=self._deviation(size),
            first_access_seconds=_beyond(self._firsts, others),
            collate_seconds=min(one.collate_seconds for one in others),
            batch_bytes=None if sent is None else sent.bytes,
            transfer_seconds=None if sent is None else sent.seconds,
            step_seconds=statistics.median_low(step.wall for step in self._steps),
            step_cpu_seconds=max(0.0, statistics.median_low(step.cpu for step in self._steps)),
        )

    def _deviation(self, size: float) -> float | None:
        """
        Return the standard deviation of what a sample takes, as independent samples have it whose batches differ so.
        """
        if len(self._others) < FEWEST_FOR_DEVIATION:
            return None
        return float(statistics.pstdev(one.seconds for one in self._others) / size**0.5)


def _beyond(firsts: Sequence[Fetched], others: Sequence[Fetched]) -> float:
    """
    Return what a worker's first batch takes beyond another one, where it stands out.
    """
    if not firsts:
        return 0.0
    first = Moment(statistics.median(one.seconds for one in firsts))
    if not stands_out(first, [Moment(one.seconds) for one in others]):
        return 0.0
    return first.wall - statistics.median(one.seconds for one in others)
