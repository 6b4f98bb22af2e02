"""
Workers run on the memory node of the accelerator.
"""

import os
from pathlib import Path
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
        assert loader.plan.notes[0].text.startswith("Workers run on the 1 CPU of memory node 1, ")
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


def test_workers_stay_where_the_user_has_put_this_process_since(last_cpu: int, host: Any) -> None:
    """
    The mask counts that the process has when workers start, and not the one that it had when the loader was made.
    """
    before, first = os.sched_getaffinity(0), min(os.sched_getaffinity(0))
    with auto_loader(Where(4), 2, num_workers=1, multiprocessing_context="fork") as loader:
        try:
            os.sched_setaffinity(0, {first})
            host.change("cpu", affinity=(first,), affinity_now=(first,))
            assert {mask for batch in loader for mask in batch.tolist()} == {1 << first}
        finally:
            os.sched_setaffinity(0, before)
        assert loader.plan.notes == ()


def findings(loader: Any) -> list[str]:
    """
    Return the findings that a loader's plan notes.
    """
    return [note.finding for note in loader.plan.notes]


def test_note_is_there_as_long_as_it_is_true(last_cpu: int) -> None:
    """
    Setting an attribute later changes where workers will run, and with it the note.
    """
    loader = auto_loader(Where(4), 2, num_workers=1, multiprocessing_context="fork")
    seen = [findings(loader)]
    for name, value in (("numa", "off"), ("numa", "auto"), ("num_workers", 2), ("num_workers", 1)):
        setattr(loader, name, value)
        seen.append(findings(loader))
    near = ["host.numa-near"]
    assert seen == [near, [], near, [], near]


@pytest.mark.parametrize(
    ("group", "values"),
    [
        pytest.param("process", {"is_torch_built_for_accelerator": False}, id="torch-without-accelerators"),
        pytest.param("process", {"is_daemonic": True}, id="no-process-may-start"),
    ],
)
@pytest.mark.filterwarnings("ignore::autoloader.AutoloaderWarning")
def test_nothing_is_noted_where_no_worker_runs_near_an_accelerator(
    last_cpu: int, host: Any, group: str, values: dict[str, Any]
) -> None:
    """
    A torch that knows no accelerator has none nearby, and a thread of this process stays where that is.
    """
    host.change(group, **values)
    with auto_loader(Where(4), 2, num_workers=1, multiprocessing_context="fork") as loader:
        assert len(list(loader)) == 2
        assert "host.numa-near" not in findings(loader)


def test_note_of_another_host_does_not_come_with_its_plan(last_cpu: int, host: Any, tmp_path: Path) -> None:
    """
    A plan file says where workers ran when it was made; it is noted anew, once, or not at all.
    """
    plan = auto_loader(Where(4), 2, num_workers=1, multiprocessing_context="fork").plan
    plan.save(tmp_path / "plan.json")
    assert findings(auto_loader(Where(4), 2, plan=tmp_path / "plan.json")) == ["host.numa-near"]
    assert findings(auto_loader(Where(4), 2, plan=tmp_path / "plan.json", numa="off")) == []
    host.change("accelerator", numa_nodes=())
    assert findings(auto_loader(Where(4), 2, plan=tmp_path / "plan.json")) == []


@pytest.mark.parametrize("word", ["on", None, 1, ["off"], torch.tensor(1)])
def test_other_word_is_an_error(word: Any) -> None:
    """
    The argument takes two texts.
    """
    with pytest.raises(ArgumentError, match=r"^numa=.* is not known: the argument takes 'auto' or 'off'\."):
        auto_loader(datasets.Numbers(4), numa=word)
