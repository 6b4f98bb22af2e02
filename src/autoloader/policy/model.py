"""
How long an epoch takes with so many workers: arithmetic on what was measured of a few batches.

A worker spends the *load* on a batch: fetching its samples, collating, and putting it where the training process finds
it. The training process spends the *transfer* on taking it over, and then its own *step*. A step of the whole takes as
long as the slowest of three: the training process, the workers side by side, and all their CPU seconds on the CPUs that
there are. Without workers loading and step follow one another, and nothing is transferred.
"""

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from ..traits import Profile

GOOD_ENOUGH = 1.03
"""
Of all settings that take at most 3 % longer than the best, the one with the fewest workers is taken.
"""

FORK_SECONDS = 0.007
FORK_SECONDS_PER_GIB = 0.018
"""
What one more forked worker adds to the time to the first batch, and more with each GiB of anonymous memory, of which
the page tables are copied: ``python -m benchmarks.fork_start`` (torch 2.13, Linux, two virtual CPUs).
"""

USUAL_ANONYMOUS_BYTES = 0.5 * 2**30
"""
What a process that trains may have, where nobody knows.
"""

IMPORT_SECONDS = 2.0
"""
CPU seconds that a worker takes which imports torch anew: one and a half to three on the machines that were seen.
"""

UNKNOWN_BATCHES = 1000
"""
Batches that are expected of an epoch whose length is not known.
"""

UNEVEN = 0.5
"""
Standard deviation of the seconds of a batch, as a part of their mean, from which on batches come unevenly.
"""


class Outlook(NamedTuple):
    """
    What is left to load.
    """

    batches_left: int | None = None
    """Batches left of this epoch; ``None`` where that is not known."""
    batches: int | None = None
    """Batches of a whole epoch; ``None`` where that is not known."""
    epochs_left: int = 1
    """Epochs expected after this one, 0 or more."""


def expected_epochs_left(epochs: int | None, begun: int) -> int:
    """
    Return how many epochs to expect after the one that runs.

    Where the user does not say, another one, or as many as there were: what has lasted so long will last as long again.

    Args:
        epochs: What the user expects in all; ``None`` for many.
        begun: Epochs before the one that runs.
    """
    return max(1, begun) if epochs is None else max(0, epochs - begun - 1)


def inline_seconds(profile: Profile) -> float:
    """
    Return what loading a batch takes in the training process in the faster of two ways: at one thread, or at all.
    """
    return profile.batch_seconds if is_at_one_thread(profile) else profile.inline_batch_seconds or 0.0


def is_at_one_thread(profile: Profile) -> bool:
    """
    Return whether loading in the training process is no slower with torch at one thread than at all of its threads.
    """
    return profile.inline_batch_seconds is None or profile.batch_seconds <= profile.inline_batch_seconds


def is_uneven(profile: Profile) -> bool:
    """
    Return whether one batch takes much longer than another.
    """
    if profile.sample_deviation_seconds is None or not profile.sample_seconds:
        return False
    of_a_batch: float = profile.batch_samples**0.5 * profile.sample_deviation_seconds
    return of_a_batch > UNEVEN * profile.batch_seconds


def step_seconds(profile: Profile, workers: int, cpus: float) -> float:
    """
    Return how long a step takes, loading and training, when everything runs.

    Args:
        profile: What was measured.
        workers: Worker processes; 0 loads in the training process.
        cpus: CPUs that this rank may use.
    """
    if not workers:
        return (profile.step_seconds or 0.0) + inline_seconds(profile)
    return max(_least_step_seconds(profile, cpus), _load_seconds(profile) / workers)


def _load_seconds(profile: Profile) -> float:
    """
    Return how long a worker takes for a batch.
    """
    return profile.batch_seconds + (profile.transfer_seconds or 0.0)


def _least_step_seconds(profile: Profile, cpus: float) -> float:
    """
    Return how long a step takes with any number of workers: the training process and the CPUs need so long.
    """
    transfer = profile.transfer_seconds or 0.0
    used = (profile.step_cpu_seconds or 0.0) + profile.batch_cpu_seconds + 2 * transfer
    return max((profile.step_seconds or 0.0) + transfer, used / cpus)


def forking_seconds(anonymous_bytes: int | None) -> float:
    """
    Return how long starting one more worker takes that is forked from a process with so much memory that no file backs.
    """
    size = USUAL_ANONYMOUS_BYTES if anonymous_bytes is None else anonymous_bytes
    return FORK_SECONDS + FORK_SECONDS_PER_GIB * size / 2**30


def start_seconds(profile: Profile, workers: int, cpus: float, *, fork_seconds: float | None) -> float:
    """
    Return how long starting workers takes, with what each does at its first access.

    Args:
        profile: What was measured.
        workers: Worker processes.
        cpus: CPUs that this rank may use.
        fork_seconds: What each takes to fork; ``None`` where each imports torch anew.
    """
    if not workers:
        return 0.0
    start = IMPORT_SECONDS * max(1.0, workers / cpus) if fork_seconds is None else fork_seconds * workers
    busy = profile.batch_cpu_seconds / profile.batch_seconds if profile.batch_seconds else 1.0
    return start + profile.first_access_seconds * max(1.0, workers * busy / cpus)


def total_seconds(
    profile: Profile, workers: int, cpus: float, outlook: Outlook, *, fork_seconds: float | None
) -> float:
    """
    Return how long all that is left takes, starting the workers included.

    Whole batches are dealt out: where five are left, four workers take as long as three.
    """
    whole = outlook.batches or UNKNOWN_BATCHES
    left = whole if outlook.batches_left is None else outlook.batches_left
    if not workers:
        return (left + outlook.epochs_left * whole) * step_seconds(profile, 0, cpus)
    load, step = _load_seconds(profile), _least_step_seconds(profile, cpus)

    def epoch(batches: int) -> float:
        return max(load + (batches - 1) * step, ceil(batches / workers) * load) if batches > 0 else 0.0

    start = start_seconds(profile, workers, cpus, fork_seconds=fork_seconds)
    return start + epoch(left) + outlook.epochs_left * epoch(whole)


def fewest_workers(
    profile: Profile, counts: Iterable[int], cpus: float, outlook: Outlook, *, fork_seconds: float | None
) -> int:
    """
    Return the fewest of some numbers of workers with which all takes hardly longer than with the best.
    """
    totals = {each: total_seconds(profile, each, cpus, outlook, fork_seconds=fork_seconds) for each in sorted(counts)}
    best = min(totals.values())
    return next(workers for workers, total in totals.items() if total <= GOOD_ENOUGH * best)
