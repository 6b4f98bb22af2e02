"""
What comes back with a batch.
"""

import os

import pytest
from torch.utils.data._utils.pin_memory import pin_memory

from autoloader.engine.delivery import Collate, Delivery
from autoloader.engine.issue import Arrival


def test_delivery_says_position_process_and_durations() -> None:
    """
    The batch is the collate function's, and the note is complete.
    """
    arrival = Arrival()
    arrival.position = 7
    delivery = Collate(sorted, arrival)([3, 1, 2])
    assert (delivery.batch, delivery.position, delivery.pid) == ([1, 2, 3], 7, os.getpid())
    assert delivery.fetch_seconds > 0
    assert delivery.collate_seconds > 0


def test_delivery_without_a_position_has_no_fetch_time() -> None:
    """
    Requests for iterable-style data carry nothing.
    """
    delivery = Collate(list, Arrival())((1, 2))
    assert (delivery.batch, delivery.position, delivery.fetch_seconds) == ([1, 2], None, None)


@pytest.mark.parametrize("batch", ["text", {"label": "cat"}])
def test_delivery_passes_torchs_pinning(batch: object) -> None:
    """
    Torch's pin thread takes a batch apart and puts it together again: a delivery stays one.
    """
    delivery = Delivery(batch, 3, 4, 0.5, 0.25)
    pinned = pin_memory(delivery, "cuda")
    assert (type(pinned), pinned) == (Delivery, delivery)
