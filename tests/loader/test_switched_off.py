"""
AUTOLOADER_OFF=1 leaves everything to torch, for bug reports and comparisons.
"""

import multiprocessing
import os
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, dataloader

import datasets
from autoloader import auto_loader, calibrate, plan_loader
from autoloader.errors import CalibrationError

OFF_RULES = {
    "num_workers.off",
    "prefetch_factor.off",
    "persistent_workers.off",
    "pin_memory.off",
    "multiprocessing_context.off",
    "backend.off",
}


@pytest.fixture(autouse=True)
def _off(host: Any) -> None:
    """
    Set the variable.
    """
    host.environment["AUTOLOADER_OFF"] = "1"


def test_loader_that_is_off_has_torchs_defaults_and_says_why() -> None:
    """
    Every choice is torch's own.
    """
    loader = auto_loader(datasets.Numbers(), 4)
    assert (loader.num_workers, loader.prefetch_factor, loader.pin_memory) == (0, None, False)
    assert {choice.rule for choice in loader.plan.choices.values()} == OFF_RULES
    assert loader.plan.explain("num_workers") == (
        "num_workers = 0\n  rule: num_workers.off\n  because: AUTOLOADER_OFF is set: torch's default"
    )
    assert plan_loader(datasets.Numbers(), 4).as_kwargs() == {"num_workers": 0, "pin_memory": False}


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow_spawn)])
def test_iterator_of_a_loader_that_is_off_is_torchs_own(num_workers: int) -> None:
    """
    Nothing of ours stands between, and batches and random numbers are torch's.
    """
    kinds = {0: dataloader._SingleProcessDataLoaderIter, 2: dataloader._MultiProcessingDataLoaderIter}
    drawn = []
    for make in (DataLoader, auto_loader):
        torch.manual_seed(1)
        iterator = iter(make(datasets.Draws(16), 4, shuffle=True, num_workers=num_workers))
        assert type(iterator) is kinds[num_workers]
        drawn.append([batch[:, 3].tolist() for batch in iterator])
        drawn[-1].append([torch.rand(1).item()])
    assert drawn[0] == drawn[1]


@pytest.mark.slow_spawn
def test_persistent_workers_of_a_loader_that_is_off_stay_and_end_with_close() -> None:
    """
    What closes loaders goes on to work.
    """
    with auto_loader(datasets.Pids(), 4, num_workers=1, persistent_workers=True) as loader:
        first, second = ({int(pid) for batch in loader for pid in batch} for _ in range(2))
        assert first == second
        assert os.getpid() not in first
    assert multiprocessing.active_children() == []


def test_methods_of_a_loader_that_is_off_do_what_torch_can() -> None:
    """
    set_epoch and broadcast reach sampler and dataset in this process; there is nothing to tell of.
    """
    sampler = torch.utils.data.DistributedSampler(datasets.Numbers(), num_replicas=1, rank=0)
    loader = auto_loader(datasets.Numbers(), 4, sampler=sampler)
    loader.set_epoch(3)
    loader.broadcast(scale=5)
    assert [batch[0, 1].item() for batch in loader] == [5] * 10
    assert sampler.epoch == 3
    assert str(loader.stats()) == "no epochs yet"


def test_nothing_is_measured_while_it_is_off() -> None:
    """
    It would be by facts of no host, and start processes.
    """
    with pytest.raises(CalibrationError) as raised:
        calibrate(datasets.Numbers(), 4)
    assert str(raised.value) == (
        "Nothing is measured, because AUTOLOADER_OFF is set, which leaves loading to torch and its defaults. Unset the "
        "variable, or leave calibrate() out for as long as it is set."
    )
    assert len(list(auto_loader(datasets.Numbers(), 4, calibrate=True))) == 10
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("word", ["0", "", "false", "no"])
def test_word_that_means_no_leaves_it_on(word: str, host: Any) -> None:
    """
    An empty variable, and one that says no, do not count.
    """
    host.environment["AUTOLOADER_OFF"] = word
    assert auto_loader(datasets.Numbers(), 4).num_workers == 2
