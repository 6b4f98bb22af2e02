"""
The truth table of the backend.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.policy.backend import find_obstacle
from policy.baseline import FORKSERVER, NO_ACCELERATOR, SPAWN, decision, situation

MAIN = {"process.reimported_main": "train.py"}

ROWS = [
    pytest.param({}, "process", "backend.workers", id="baseline"),
    pytest.param(NO_ACCELERATOR, "process", "backend.workers", id="no-accelerator"),
    pytest.param({"traits.is_in_memory": True}, "inline", "backend.no-workers", id="in-memory"),
    pytest.param({"process.is_daemonic": True}, "inline", "backend.no-workers", id="daemonic"),
    pytest.param({"fixed.num_workers": 0}, "inline", "backend.no-workers", id="fixed-0"),
    pytest.param(
        {"fixed.num_workers": 2, "process.is_daemonic": True}, "inline", "backend.daemonic", id="fixed-2-in-a-daemon"
    ),
    pytest.param(
        {"fixed.num_workers": 2, "process.is_dataloader_worker": True},
        "inline",
        "backend.nested-worker",
        id="fixed-2-in-a-worker",
    ),
    pytest.param(
        {"fixed.num_workers": 2, **SPAWN, **MAIN}, "inline", "backend.reimports-main", id="fixed-2-imports-main"
    ),
    pytest.param({"fixed.num_workers": 2, **SPAWN}, "process", "backend.workers", id="fixed-2-spawned-without-main"),
    pytest.param({"fixed.num_workers": 2, **MAIN}, "process", "backend.workers", id="fixed-2-forked"),
    pytest.param({**FORKSERVER, **MAIN}, "process", "backend.workers", id="quiet-process-forks"),
    pytest.param(
        {"fixed.prefetch_factor": 2, "process.is_daemonic": True}, "inline", "backend.daemonic", id="needed-in-a-daemon"
    ),
]


@pytest.mark.parametrize(("changes", "value", "rule"), ROWS)
def test_backend_truth_table(changes: Mapping[str, Any], value: str, rule: str) -> None:
    """
    Batches load in worker processes where there are workers that may start, else in the training process.
    """
    assert decision(changes, "backend") == (value, rule)


@pytest.mark.parametrize(
    ("changes", "context", "obstacle"),
    [
        pytest.param({}, "fork", None, id="none"),
        pytest.param(MAIN, None, None, id="method-unknown"),
        pytest.param(
            {"process.is_dataloader_worker": True, "process.is_daemonic": True},
            "fork",
            ("nested-worker", "this process is itself a worker of a DataLoader", None),
            id="a-worker-is-daemonic-too",
        ),
        pytest.param(
            {"process.is_daemonic": True},
            "spawn",
            ("daemonic", "this process is daemonic and may not have children", None),
            id="daemonic",
        ),
        pytest.param(
            MAIN,
            "forkserver",
            ("reimports-main", "forkserver would import train.py again", "process.reimports-main"),
            id="imports-main",
        ),
        pytest.param(
            {"process.is_dataloader_worker": None, "process.is_daemonic": None}, "fork", None, id="state-unknown"
        ),
    ],
)
def test_obstacle_names_why_no_worker_may_start(
    changes: Mapping[str, Any], context: str | None, obstacle: tuple[str, str, str | None] | None
) -> None:
    """
    What keeps workers from starting has a rule, a reason and, where the user can act, a finding.
    """
    facts, _, _ = situation(changes)
    found = find_obstacle(facts, context)
    seen = None if found is None else (found.rule, found.because, found.note and found.note.finding)
    assert seen == obstacle
