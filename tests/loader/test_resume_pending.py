"""
What was set and not passed on yet when a state was saved comes when it would have come.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import datasets
from autoloader import AutoLoader, auto_loader


class Tells(datasets.Numbers):
    """
    Sample *i* is ``(i, scale, epoch)``; nobody has told the epoch of -1.
    """

    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, self.scale, self.epoch])


def new() -> AutoLoader[Any]:
    """
    Return a loader of four batches.
    """
    return auto_loader(Tells(8), 2, num_workers=0)


def begun(loader: AutoLoader[Any]) -> Any:
    """
    Return an iterator of which the first batch was taken.
    """
    iterator = iter(loader)
    next(iterator)
    return iterator


def nothing_before(loader: AutoLoader[Any]) -> None:
    """
    Begin with the first epoch.
    """


def told_before(loader: AutoLoader[Any]) -> None:
    """
    Go through an epoch whose number was set; the next one's is not.
    """
    loader.set_epoch(5)
    list(loader)


@pytest.mark.parametrize("before", [nothing_before, told_before])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda loader: loader.broadcast(scale=5), id="broadcast"),
        pytest.param(lambda loader: loader.set_epoch(7), id="set-epoch"),
        pytest.param(lambda loader: None, id="nothing"),
    ],
)
@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("is_copied", [False, True])
def test_what_is_pending_comes_as_without_a_break(
    before: Callable[[Any], None], change: Callable[[Any], None], is_inside: bool, is_copied: bool
) -> None:
    """
    The rest of the epoch and the one after it are made as by the loader that was not interrupted.
    """
    loader = new()
    before(loader)
    rest = begun(loader) if is_inside else None
    change(loader)
    state = loader.state_dict()
    resumed = new()
    resumed.load_state_dict(state)
    if is_copied:
        resumed = copy.deepcopy(resumed)
    expected = [] if rest is None else [batch.tolist() for batch in rest]
    expected += [batch.tolist() for batch in loader]
    found = [batch.tolist() for batch in resumed]
    found += [batch.tolist() for batch in resumed] if is_inside else []
    assert found == expected
