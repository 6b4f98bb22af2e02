"""
What comes back with each batch: where it stood in the epoch.
"""

import functools
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, NamedTuple

from ..profiling import Fetched
from .issue import Arrival
from .stream import CopyState, state_of_copy


class Delivery(NamedTuple):
    """
    One batch on its way to the training loop. As a named tuple it passes torch's pinning unharmed.
    """

    batch: Any
    position: int | None
    """Where it stands in the epoch; ``None`` for iterable-style data."""
    state: CopyState | None = None
    """Where the worker's copy of an iterable-style dataset stands after it."""
    fetched: Fetched | None = None
    """What it took, where that is asked for."""


class InlineCollate(functools.partial[Any]):
    """
    The user's collate function, with the note of the batch that is being loaded: inline, none has to travel.
    """

    arrival: Arrival


class Collate:
    """
    A collate function around the user's, which sends the delivery note along.

    Args:
        collate: Takes a list of samples, or one sample where the loader makes no batches, and returns the batch.
        arrival: Where the batch that is being loaded is noted.
        is_timed: Whether the note says how long it took.
    """

    def __init__(self, collate: Callable[[Any], Any], arrival: Arrival, *, is_timed: bool = False) -> None:
        self.users = collate
        self.arrival = arrival
        self.is_timed = is_timed

    def __call__(self, samples: Any) -> Delivery:
        """
        Make the batch, and the note that goes with it.
        """
        arrival = self.arrival
        if arrival.failure is not None:
            raise arrival.failure
        if not self.is_timed:
            batch, fetched = self.users(samples), None
        else:
            batch, fetched = self._timed(samples)
        position = arrival.position
        state = state_of_copy(sys._getframe(1)) if position is None else None
        # Past the named tuple's own __new__, which takes as long as all else here.
        return tuple.__new__(Delivery, (batch, position, state, fetched))

    def _timed(self, samples: Any) -> tuple[Any, Fetched]:
        begun, begun_cpu = self.arrival.begun
        collating, cpu = perf_counter(), process_time()
        batch = self.users(samples)
        return batch, Fetched(collating - begun, cpu - begun_cpu, perf_counter() - collating)
