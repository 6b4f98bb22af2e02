"""
The truth table of multiprocessing_context.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.facts import ProcessFacts
from autoloader.policy.multiprocessing_context import is_quiet, method_name
from policy.baseline import FORKSERVER, SPAWN, decision, plan_for

WORKERS = {"fixed.num_workers": 4}
"""
Workers of the user's, so that a start method is wanted in every row: ours start by fork only.
"""

MACOS = {"system.platform": "macos", "start_methods.available": ("spawn", "fork", "forkserver")}

ROWS = [
    pytest.param({}, "fork", "multiprocessing_context.process-default", id="baseline"),
    pytest.param(SPAWN, "spawn", "multiprocessing_context.process-default", id="windows"),
    pytest.param(FORKSERVER, "fork", "multiprocessing_context.quiet-process", id="python-3.14-in-a-quiet-process"),
    pytest.param(
        {**FORKSERVER, "process.other_threads": 1},
        "forkserver",
        "multiprocessing_context.process-default",
        id="python-3.14-beside-a-thread",
    ),
    pytest.param(
        {**FORKSERVER, "process.is_accelerator_initialised": True},
        "forkserver",
        "multiprocessing_context.process-default",
        id="python-3.14-with-the-accelerator-in-use",
    ),
    pytest.param(
        {**FORKSERVER, "process.other_threads": None},
        "forkserver",
        "multiprocessing_context.process-default",
        id="python-3.14-with-threads-unknown",
    ),
    pytest.param(
        {**FORKSERVER, "process.is_accelerator_initialised": None},
        "forkserver",
        "multiprocessing_context.process-default",
        id="python-3.14-with-the-accelerator-unknown",
    ),
    pytest.param(
        {**MACOS, "start_methods.default": "spawn"},
        "spawn",
        "multiprocessing_context.process-default",
        id="macos-is-never-forked",
    ),
    pytest.param(
        {**FORKSERVER, "start_methods.in_force": "spawn"},
        "spawn",
        "multiprocessing_context.set-by-process",
        id="set-by-the-process",
    ),
    pytest.param(
        {"start_methods.in_force": "fork", "process.other_threads": 3},
        "fork",
        "multiprocessing_context.set-by-process",
        id="fork-set-by-the-process",
    ),
    pytest.param(
        {"start_methods.available": (), "start_methods.default": None},
        None,
        "multiprocessing_context.process-default",
        id="methods-unknown",
    ),
    pytest.param({"fixed.num_workers": 0}, None, "multiprocessing_context.no-workers", id="no-workers"),
    pytest.param({"fixed.multiprocessing_context": "spawn"}, "spawn", "multiprocessing_context.fixed", id="fixed"),
    pytest.param(
        {"fixed.multiprocessing_context": "spawn", "fixed.num_workers": 0},
        "spawn",
        "multiprocessing_context.fixed",
        id="fixed-without-workers",
    ),
]


@pytest.mark.parametrize(("changes", "value", "rule"), ROWS)
def test_multiprocessing_context_truth_table(changes: Mapping[str, Any], value: str | None, rule: str) -> None:
    """
    The process's own method stands; fork is chosen only where nothing was started that it could break.
    """
    assert decision(WORKERS | changes, "multiprocessing_context") == (value, rule)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "Python's default on this system is fork", id="default"),
        pytest.param(
            {"start_methods.default": None, "start_methods.available": ()},
            "Python's default on this system is not known",
            id="unknown",
        ),
        pytest.param(FORKSERVER, "no thread and no accelerator is in use in this process, so fork is safe", id="quiet"),
        pytest.param(
            {"start_methods.in_force": "spawn"},
            "the start method of this process is set to spawn already",
            id="set-by-process",
        ),
        pytest.param({"fixed.num_workers": 0}, "no process is started", id="no-workers"),
    ],
)
def test_multiprocessing_context_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names the state of the process.
    """
    assert plan_for(WORKERS | changes).choices["multiprocessing_context"].because == because


class Context:
    def get_start_method(self) -> str:
        return "forkserver"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("spawn", "spawn", id="name"),
        pytest.param(Context(), "forkserver", id="context"),
    ],
)
def test_method_name_of_a_name_or_a_context_is_the_method(value: Any, name: str | None) -> None:
    """
    A context object stands for the method that it starts processes with.
    """
    assert method_name(value) == name


def test_multiprocessing_context_of_the_user_counts_by_its_method() -> None:
    """
    Workers of a spawn context of the user's cost what spawned workers cost.
    """
    plan = plan_for({"fixed.multiprocessing_context": Context(), "process.reimported_main": "train.py"})
    assert plan.choices["num_workers"].rule == "num_workers.needed"
    assert plan.choices["backend"].rule == "backend.reimports-main"


@pytest.mark.parametrize(
    ("process", "quiet"),
    [
        pytest.param(ProcessFacts(other_threads=0, is_accelerator_initialised=False), True, id="nothing-started"),
        pytest.param(ProcessFacts(other_threads=1, is_accelerator_initialised=False), False, id="a-thread"),
        pytest.param(ProcessFacts(other_threads=0, is_accelerator_initialised=True), False, id="an-accelerator"),
        pytest.param(ProcessFacts(), False, id="unknown"),
    ],
)
def test_is_quiet_needs_both_to_be_known(process: ProcessFacts, quiet: bool) -> None:
    """
    A process is quiet only if it is known to be.
    """
    assert is_quiet(process) is quiet
