"""
Copies of a loader are loaders, without what was live in the original.
"""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import datasets
from autoloader import AutoLoader, auto_loader

COPIES = [
    pytest.param(lambda loader: pickle.loads(pickle.dumps(loader)), id="pickle"),
    pytest.param(copy.copy, id="copy"),
    pytest.param(copy.deepcopy, id="deepcopy"),
]


@pytest.mark.slow_spawn
@pytest.mark.parametrize("make_copy", COPIES)
@pytest.mark.parametrize("epochs_before", [0, 1])
def test_copy_loads_the_same_with_workers_of_its_own(make_copy: Callable[[Any], Any], epochs_before: int) -> None:
    """
    A copy has the same plan and gives the same batches, whether or not the original has workers.
    """
    with auto_loader(datasets.Numbers(), 4) as loader:
        for _ in range(epochs_before):
            list(loader)
        with make_copy(loader) as other:
            assert isinstance(other, AutoLoader)
            assert other.plan == loader.plan
            assert [batch.tolist() for batch in other] == [batch.tolist() for batch in loader]
            assert len(multiprocessing.active_children()) == 4
        assert len(multiprocessing.active_children()) == 2


def test_attributes_make_an_equal_loader() -> None:
    """
    Made again from the attributes named like the arguments, as frameworks do, a loader keeps its plan and reasons.
    """
    loader = auto_loader(datasets.Numbers(), 4, epochs=3)
    names = ("batch_size", "num_workers", "pin_memory", "timeout", "multiprocessing_context", "prefetch_factor")
    arguments = {name: getattr(loader, name) for name in (*names, "persistent_workers", "epochs", "plan")}
    assert type(loader)(loader.dataset, **arguments).plan == loader.plan


@pytest.mark.parametrize("make_copy", COPIES)
def test_iterator_is_not_copied(make_copy: Callable[[Any], Any]) -> None:
    """
    Two iterators over the same workers would each get a part of the batches.
    """
    iterator = iter(auto_loader(datasets.Numbers(), 4, num_workers=0))
    with pytest.raises(NotImplementedError):
        make_copy(iterator)
