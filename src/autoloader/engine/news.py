"""
What workers that stay are told between two epochs: the epoch's number, and attributes of the dataset.
"""

import pickle
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ..profiling import datasets_in
from ..profiling.attributes import attributes_of


class News:
    """
    What has changed since a copy of the dataset was made.

    Args:
        version: How often something has changed before, and with this.
        epoch: The number of the epoch; ``None`` if nobody has set it.
        state: Attributes of the dataset.
    """

    def __init__(self, version: int, epoch: int | None, state: Mapping[str, Any]) -> None:
        self.version = version
        self._told = epoch, dict(state)

    @cached_property
    def wire(self) -> tuple[int, bytes]:
        """
        Return the version, and the rest pickled: only a worker that has not heard it yet unpickles it.

        Tensors travel by value. In shared memory, where torch puts them for a queue, one worker only could read them.
        """
        return self.version, pickle.dumps(self._told)


def hear(pickled: bytes, dataset: Any) -> None:
    """
    Bring a copy of the dataset up to date.
    """
    epoch, state = pickle.loads(pickled)  # noqa: S301 (the training process wrote it)
    apply(dataset, epoch, state)


def apply(dataset: Any, epoch: int | None, state: Mapping[str, Any]) -> None:
    """
    Set the epoch and attributes of a dataset, and of those that it wraps, wherever these have them.
    """
    for each in list(datasets_in(dataset)):
        if epoch is not None and has_attribute(each, "set_epoch") and callable(each.set_epoch):
            each.set_epoch(epoch)
        for name, value in state.items():
            if has_attribute(each, name):
                setattr(each, name, value)


def has_attribute(dataset: Any, name: str) -> bool:
    """
    Return whether *name* is an attribute of this dataset itself; what it passes on to a wrapped one is that one's.
    """
    return hasattr(type(dataset), name) or name in attributes_of(dataset)
