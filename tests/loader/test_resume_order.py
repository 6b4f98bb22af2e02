"""
A state that is loaded where the samples come in another order: an error, before any sample is lost.
"""

import os
import sys
from typing import Any

import pytest
import torch

import datasets
from autoloader import auto_loader
from autoloader.errors import ArgumentError, AutoloaderWarning

OTHER_ORDER = (
    "The state cannot be continued here: the order of the samples is another one, so that after 3 batches samples "
    "would be lost, and others come twice. Make the loader with the same dataset, shuffle, sampler, generator and "
    "seed, or begin a new epoch."
)


def state_after_three(length: int = 23, **arguments: Any) -> dict[str, Any]:
    """
    Return the state of a loader of 6 batches after the first three.
    """
    loader = auto_loader(datasets.Numbers(length), 4, num_workers=0, **arguments)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    return loader.state_dict()


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow_spawn)])
@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        pytest.param({"shuffle": True}, {"shuffle": True, "seed": 3}, id="with-a-seed"),
        pytest.param({"shuffle": True, "seed": 3}, {"shuffle": True}, id="without-a-seed"),
        pytest.param({"shuffle": True}, {}, id="in-order"),
        pytest.param({"shuffle": True}, {"shuffle": True, "length": 22}, id="another-length"),
    ],
)
def test_state_of_another_order_is_an_error(saved: dict[str, Any], loaded: dict[str, Any], num_workers: int) -> None:
    """
    No child is left of the attempt, and the next epoch is a whole one.
    """
    torch.manual_seed(1)
    state = state_after_three(**saved)
    length = loaded.pop("length", 23)
    with auto_loader(datasets.Numbers(length), 4, num_workers=num_workers, **loaded) as loader:
        loader.load_state_dict(state)
        with pytest.raises(ArgumentError) as caught:
            iter(loader)
        assert str(caught.value) == OTHER_ORDER
        assert sorted(torch.cat(list(loader))[:, 0].tolist()) == list(range(length))
    loaded.update({} if length == 23 else {"length": length})


def test_state_whose_indices_cannot_be_compared_is_taken() -> None:
    """
    Objects of the user's may look different in each process.
    """
    loader = auto_loader({None: torch.tensor(1)}, sampler=[None, None, None], batch_size=None, num_workers=0)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert len(list(loader)) == 2


def test_place_within_an_epoch_is_warned_of_where_autoloader_is_off(host: Any) -> None:
    """
    Both to save and to load one is said, once.
    """
    state = state_after_three()
    host.environment["AUTOLOADER_OFF"] = "1"
    loader = auto_loader(datasets.Numbers(23), 4)
    with pytest.warns(AutoloaderWarning) as said:
        loader.load_state_dict(state)
    text = (
        "state.switched-off: AUTOLOADER_OFF is set, and torch's DataLoader knows no place within an epoch. Save and "
        "load with autoloader on. To silence this: warnings.filterwarnings('ignore', 'state.switched-off')."
    )
    assert [str(each.message) for each in said] == [text]
    loader.state_dict()


@pytest.mark.slow_spawn
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_restart_of_a_stream_says_that_it_cannot_be() -> None:
    """
    Who asked for a restart learns why there is none.
    """
    loader = auto_loader(Killed(), 2, num_workers=1, on_worker_death="restart")
    with loader, pytest.raises(RuntimeError) as caught:
        list(loader)
    assert str(caught.value).endswith(
        "on_worker_death='restart' does not help here: what a worker of an iterable-style dataset had yielded is gone. "
        "Begin the epoch again, or use a map-style dataset, whose indices are known."
    )


class Killed(datasets.Stream):
    """
    A stream whose worker is killed after some numbers.
    """

    def __iter__(self) -> Any:
        yield from range(4)
        os.kill(os.getpid(), 9)
