"""
What comes back with a batch.
"""

import pytest
from torch.utils.data._utils.pin_memory import pin_memory

from autoloader.engine.delivery import Collate, Delivery
from autoloader.engine.issue import Arrival


def test_delivery_says_its_position() -> None:
    """
    The batch is the collate function's.
    """
    arrival = Arrival()
    arrival.position = 7
    assert Collate(sorted, arrival)([3, 1, 2]) == Delivery([1, 2, 3], 7)


def test_delivery_of_iterable_style_data_has_no_position() -> None:
    """
    Requests for iterable-style data carry nothing.
    """
    assert Collate(list, Arrival())((1, 2)) == Delivery([1, 2], None)


def test_delivery_is_the_error_that_came_with_the_indices() -> None:
    """
    What failed when the batch began is raised where torch expects a batch's errors.
    """
    arrival = Arrival()
    arrival.failure = KeyError("set_epoch")
    with pytest.raises(KeyError, match="set_epoch"):
        Collate(list, arrival)([1])


@pytest.mark.parametrize("batch", ["text", {"label": "cat"}])
def test_delivery_passes_torchs_pinning(batch: object) -> None:
    """
    Torch's pin thread takes a batch apart and puts it together again: a delivery stays one.
    """
    delivery = Delivery(batch, 3)
    pinned = pin_memory(delivery, "cuda")
    assert (type(pinned), pinned) == (Delivery, delivery)
