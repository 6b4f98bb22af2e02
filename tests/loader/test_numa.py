"""
Workers run on the memory node of the accelerator.
"""

import os
from typing import Any

import pytest
import torch

import datasets
from autoloader import auto_loader
from autoloader.errors import ArgumentError
from loader.chosen import NEEDS_FORK

TWO_CPUS = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1

pytestmark = [
    NEEDS_FORK,
    pytest.mark.skipif(not TWO_CPUS, reason="needs two CPUs that processes can be bound to"),
]


class Where(datasets.Numbers):
    """
    A sample is the set of CPUs on which its process may run, as the sum of their powers of two.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(sum(1 << cpu for cpu in os.sched_getaffinity(0)))


@pytest.fixture
def last_cpu(host: Any) -> int:
    """
    Let the last CPU be on a node of its own, with the accelerator; return its number.
    """
    *others, last = sorted(os.sched_getaffinity(0))
    host.change("cpu", affinity=(*others, last), affinity_now=(*others, last))
    host.change("numa", nodes=2, cpu_nodes=2, node_cpus={"0": tuple(others), "1": (last,)})
    host.change("accelerator", numa_nodes=(1,))  # without a kind, so that no memory is pinned
    return last


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow_spawn)])
def test_workers_run_where_the_accelerator_is(last_cpu: int, method: str) -> None:
    """
    The training process does not move; the plan says what is done, and how to undo it.
    """
    before = os.sched_getaffinity(0)
    with auto_loader(Where(4), 2, num_workers=1, multiprocessing_context=method) as loader:
        assert [note.finding for note in loader.plan.notes] == ["host.numa-near"]
        assert loader.plan.notes[0].text.startswith("Workers run on the 1 CPUs of memory node 1, ")
        assert {mask for batch in loader for mask in batch.tolist()} == {1 << last_cpu}
    assert os.sched_getaffinity(0) == before


def test_workers_stay_everywhere_where_the_user_says_so_or_one_node_is_too_small(last_cpu: int) -> None:
    """
    Nothing is noted then.
    """
    everywhere = sum(1 << cpu for cpu in os.sched_getaffinity(0))
    for arguments in ({"num_workers": 1, "numa": "off"}, {"num_workers": 2}):
        with auto_loader(Where(4), 2, multiprocessing_context="fork", **arguments) as loader:
            assert {mask for batch in loader for mask in batch.tolist()} == {everywhere}
            assert loader.plan.notes == ()


def test_other_word_is_an_error() -> None:
    """
    The argument takes two.
    """
    with pytest.raises(ArgumentError, match=r"^numa='on' is not known: the argument takes 'auto' or 'off'\."):
        auto_loader(datasets.Numbers(4), numa="on")
