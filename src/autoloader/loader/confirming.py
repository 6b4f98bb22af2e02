"""
Whether the first batches confirm what an earlier run has found.
"""

import logging
import statistics
from dataclasses import replace
from typing import NamedTuple

from ..policy.model import step_seconds
from ..profiling.timing import SHORT_STEP
from ..records import seconds_text
from ..traits import Profile

logger = logging.getLogger("autoloader")

OFF = 0.5
"""
What costs more than by this part more or less than it did is not what was remembered.
"""

SEEN_BATCHES = 8
"""
Batches that are looked at to see that, or two of each worker where that is less: after the first one of each worker,
which may open files.
"""


class Verdict(NamedTuple):
    """
    What the first batches say of what is remembered.
    """

    is_stale: bool = False
    """Whether batches take another time to load."""
    other: Profile | None = None
    """What holds instead where the training takes another time for a batch; ``None`` where it does not."""


class Confirmation:
    """
    Collects what the first batches take, in however many epochs.

    Args:
        known: What is remembered.
    """

    def __init__(self, known: Profile) -> None:
        self._known = known
        self._loads: list[float] = []
        self._steps: list[float] = []

    def note(self, load_seconds: float, step: float | None, workers: int, cpus: float) -> Verdict | None:
        """
        Note a batch, and return the verdict once there are enough; ``None`` until then.

        Args:
            load_seconds: What fetching it took.
            step: Seconds of the training before it asked for this one; ``None`` before the first of an epoch.
            workers: How many workers load side by side; 1 where the training process does.
            cpus: CPUs that this rank may use.
        """
        self._loads.append(load_seconds)
        if step is not None:
            self._steps.append(step)
        is_enough = len(self._loads) >= workers + min(2 * workers, SEEN_BATCHES)
        return self._verdict(workers, cpus) if is_enough else None

    def _verdict(self, workers: int, cpus: float) -> Verdict:
        """
        See whether what fetching took, and the training's own steps, fit what is remembered.

        Either may take half of that, or half as long again, and where workers share the CPUs as long as it has to.
        First batches may open files, later ones may come while all workers start: either adds to what fetching takes.
        """
        known, all_loads, later = self._known, self._loads, self._loads[workers:]
        middle = min(statistics.median(all_loads), statistics.median(later))
        usual, paced = known.batch_samples * known.sample_seconds, step_seconds(known, workers, cpus)
        if not _fits(middle, usual, max(usual, workers * paced)):
            took = f"{seconds_text(middle)} a batch instead of {seconds_text(usual)}"
            logger.info("store: what an earlier run has measured does not fit any more: %s", took)
            return Verdict(is_stale=True)
        if known.step_seconds == 0.0 or not self._steps:
            return Verdict()  # a calibration has looked for the fastest loading, whatever the training does
        step, before = statistics.median_low(self._steps), known.step_seconds  # a first step is longer than others
        if before is not None and (
            max(step, before) < SHORT_STEP * paced or _fits(step, before, _beside(known, workers, cpus))
        ):
            return Verdict()  # the same, or neither is worth another choice
        logger.info("store: the training takes %s a batch, unlike in an earlier run", seconds_text(step))
        share = known.step_cpu_seconds / before if before and known.step_cpu_seconds is not None else 1.0
        return Verdict(other=replace(known, step_seconds=step, step_cpu_seconds=share * step))


def is_like(profile: Profile, remembered: Profile) -> bool:
    """
    Return whether a sample, and a step of the training, cost about what they cost when something was remembered.
    """
    step, known = profile.step_seconds, remembered.step_seconds
    is_step_like = not known or step is None or _fits(step, known)
    return is_step_like and _fits(profile.sample_seconds, remembered.sample_seconds)


def _fits(seconds: float, usual: float, most: float | None = None) -> bool:
    """
    Return whether something takes about what it usually does, or at most is known to take in bad circumstances.
    """
    return (1 - OFF) * usual <= seconds <= (1 + OFF) * (usual if most is None else most)


def _beside(profile: Profile, workers: int, cpus: float) -> float:
    """
    Return what a step of the training takes at most where it shares the CPUs with workers.
    """
    busy = workers * profile.batch_cpu_seconds / profile.batch_seconds if profile.batch_seconds else workers
    return (profile.step_seconds or 0.0) * max(1.0, (1 + busy) / cpus)
