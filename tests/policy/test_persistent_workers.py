"""
The truth table of persistent_workers.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from policy.baseline import NETWORK, SPAWN, decision, plan_for

ROWS = [
    pytest.param({}, True, "persistent_workers.many-epochs", id="baseline"),
    pytest.param(
        {**SPAWN, "fixed.multiprocessing_context": "spawn"}, True, "persistent_workers.many-epochs", id="spawn"
    ),
    pytest.param(NETWORK, True, "persistent_workers.many-epochs", id="network"),
    pytest.param({"request.epochs": 2}, True, "persistent_workers.many-epochs", id="two-epochs"),
    pytest.param({"request.epochs": 1}, False, "persistent_workers.one-epoch", id="one-epoch"),
    pytest.param(
        {"traits.batches_per_epoch": 3, "request.epochs": 3},
        False,
        "persistent_workers.few-iterations",
        id="9-batches-in-all",
    ),
    pytest.param(
        {"traits.batches_per_epoch": 5, "request.epochs": 2},
        True,
        "persistent_workers.many-epochs",
        id="10-batches-in-all",
    ),
    pytest.param(
        {"traits.batches_per_epoch": 3}, True, "persistent_workers.many-epochs", id="short-epochs-but-many-of-them"
    ),
    pytest.param(
        {"traits.batches_per_epoch": None, "request.epochs": 2},
        True,
        "persistent_workers.many-epochs",
        id="batches-unknown",
    ),
    pytest.param({"traits.is_in_memory": True}, False, "persistent_workers.no-workers", id="no-workers"),
    pytest.param(
        {"traits.is_in_memory": True, "fixed.prefetch_factor": 2},
        True,
        "persistent_workers.many-epochs",
        id="one-worker-that-is-needed",
    ),
    pytest.param({"fixed.num_workers": 4}, False, "persistent_workers.torchs-own", id="workers-fixed"),
    pytest.param({"fixed.num_workers": 0}, False, "persistent_workers.no-workers", id="no-workers-fixed"),
    pytest.param({"fixed.persistent_workers": False}, False, "persistent_workers.fixed", id="fixed-off"),
    pytest.param(
        {"fixed.persistent_workers": True, "request.epochs": 1}, True, "persistent_workers.fixed", id="fixed-on"
    ),
    pytest.param(
        {"fixed.persistent_workers": True, "fixed.num_workers": 0},
        True,
        "persistent_workers.fixed",
        id="fixed-without-workers",
    ),
]


@pytest.mark.parametrize(("changes", "value", "rule"), ROWS)
def test_persistent_workers_truth_table(changes: Mapping[str, Any], value: bool, rule: str) -> None:
    """
    Workers stay where there are some and more than one epoch is expected.
    """
    assert decision(changes, "persistent_workers") == (value, rule)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "many epochs are expected", id="many"),
        pytest.param({"request.epochs": 2}, "you expect 2 epochs", id="two"),
        pytest.param({"request.epochs": 1}, "you expect one epoch", id="one"),
        pytest.param({"traits.batches_per_epoch": 3, "request.epochs": 3}, "9 batches in all", id="few-iterations"),
    ],
)
def test_persistent_workers_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names what the user expects.
    """
    assert plan_for(changes).choices["persistent_workers"].because == because
