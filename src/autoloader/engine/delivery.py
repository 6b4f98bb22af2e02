"""
What comes back with each batch: where it stood in the epoch, who loaded it, and how long that took.
"""

from collections.abc import Callable
from os import getpid
from time import perf_counter
from typing import Any, NamedTuple

from .issue import Arrival


class Delivery(NamedTuple):
    """
    One batch on its way to the training loop. As a named tuple it passes torch's pinning unharmed.
    """

    batch: Any
    position: int | None
    pid: int
    fetch_seconds: float | None
    collate_seconds: float


class Collate:
    """
    A collate function around the user's, which sends the delivery note along.

    Args:
        collate: Takes a list of samples, or one sample where the loader makes no batches, and returns the batch.
        arrival: Where the batch that is being loaded is noted.
    """

    def __init__(self, collate: Callable[[Any], Any], arrival: Arrival) -> None:
        self._collate = collate
        self._arrival = arrival

    def __call__(self, samples: Any) -> Delivery:
        """
        Make the batch, and the note that goes with it.
        """
        begun, arrival = perf_counter(), self._arrival
        batch = self._collate(samples)
        if arrival.position is None:
            return Delivery(batch, None, getpid(), None, perf_counter() - begun)
        return Delivery(batch, arrival.position, getpid(), begun - arrival.seconds, perf_counter() - begun)
