"""
What comes back with each batch: where it stood in the epoch, who loaded it, and how long that took.
"""

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from .issue import arrival


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
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Delivery:
        """
        Make the batch, and the note that goes with it.
        """
        begun = perf_counter()
        batch = self.collate(samples)
        arrived = arrival()
        return Delivery(
            batch=batch,
            position=None if arrived is None else arrived.position,
            pid=os.getpid(),
            fetch_seconds=None if arrived is None else begun - arrived.seconds,
            collate_seconds=perf_counter() - begun,
        )
