"""
The truth table of prefetch_factor.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from policy.baseline import BATCHES_OF_64_MIB, GIB, HDD, MIB, NETWORK, decision, plan_for

SHM_FOR_12_BATCHES = {"shared_memory.free_bytes": 1536 * MIB, **BATCHES_OF_64_MIB}

ROWS = [
    pytest.param({}, 2, "prefetch_factor.default", id="baseline"),
    pytest.param({"traits.is_in_memory": True}, None, "prefetch_factor.no-workers", id="no-workers"),
    pytest.param(NETWORK, 4, "prefetch_factor.latency", id="network"),
    pytest.param({**NETWORK, "traits.path": None}, 2, "prefetch_factor.default", id="network-but-no-path-known"),
    pytest.param(
        {"traits.path": "s3://bucket/train", "traits.is_remote": True}, 4, "prefetch_factor.latency", id="url"
    ),
    pytest.param(HDD, 4, "prefetch_factor.latency", id="spinning-disk"),
    pytest.param({**HDD, "traits.path": None}, 2, "prefetch_factor.default", id="spinning-disk-but-no-path-known"),
    pytest.param(SHM_FOR_12_BATCHES, 1, "prefetch_factor.shared-memory", id="shm-holds-a-batch-for-each-of-12"),
    pytest.param(
        {**SHM_FOR_12_BATCHES, "fixed.num_workers": 6}, 2, "prefetch_factor.default", id="shm-holds-2-for-each-of-6"
    ),
    pytest.param(
        {**SHM_FOR_12_BATCHES, **NETWORK, "fixed.num_workers": 4},
        3,
        "prefetch_factor.shared-memory",
        id="shm-holds-3-for-each-of-4",
    ),
    pytest.param(
        {**SHM_FOR_12_BATCHES, "job.local_world_size": 2, "fixed.num_workers": 6},
        1,
        "prefetch_factor.shared-memory",
        id="shm-holds-6-for-each-of-2-ranks",
    ),
    pytest.param(
        {**SHM_FOR_12_BATCHES, "fixed.num_workers": 32},
        1,
        "prefetch_factor.shared-memory",
        id="shm-holds-too-little-for-the-user's-32",
    ),
    pytest.param(
        {"shared_memory.free_bytes": 64 * MIB, "fixed.num_workers": 4},
        1,
        "prefetch_factor.shared-memory",
        id="docker's-64-mib-and-unknown-batches",
    ),
    pytest.param({"limits.open_files_soft": 380}, 1, "prefetch_factor.open-files", id="300-files-for-16-workers"),
    pytest.param({"limits.open_files_soft": 400}, 2, "prefetch_factor.default", id="320-files-for-16-workers"),
    pytest.param(
        {"limits.open_files_soft": 64, "fixed.num_workers": 4}, 1, "prefetch_factor.open-files", id="no-files-at-all"
    ),
    pytest.param({"profile.batches": 2}, 2, "prefetch_factor.default", id="even-batches"),
    pytest.param({"profile.sample_deviation_seconds": 0.1}, 4, "prefetch_factor.uneven", id="uneven-batches"),
    pytest.param(
        {"profile.sample_deviation_seconds": 0.05}, 2, "prefetch_factor.default", id="samples-that-make-even-batches"
    ),
    pytest.param(
        {"profile.sample_deviation_seconds": None}, 2, "prefetch_factor.default", id="samples-that-come-together"
    ),
    pytest.param({"fixed.prefetch_factor": 8}, 8, "prefetch_factor.fixed", id="fixed"),
    pytest.param(
        {"fixed.prefetch_factor": 8, **SHM_FOR_12_BATCHES}, 8, "prefetch_factor.fixed", id="fixed-in-small-shm"
    ),
    pytest.param(
        {"fixed.prefetch_factor": 2, "fixed.num_workers": 0}, 2, "prefetch_factor.fixed", id="fixed-without-workers"
    ),
]


@pytest.mark.parametrize(("changes", "value", "rule"), ROWS)
def test_prefetch_factor_truth_table(changes: Mapping[str, Any], value: int | None, rule: str) -> None:
    """
    Each situation has its number of batches ahead, for its reason.
    """
    assert decision(changes, "prefetch_factor") == (value, rule)


def test_prefetch_factor_is_lowered_before_workers_are() -> None:
    """
    Where shared memory is short, each worker prepares one batch only, and as many workers start as it then holds.
    """
    plan = plan_for({"shared_memory.free_bytes": 2 * GIB, **BATCHES_OF_64_MIB})
    assert (plan.value("num_workers"), plan.value("prefetch_factor")) == (16, 1)
    assert plan.choices["prefetch_factor"].because == "half of 2 GiB free in /dev/shm, 64 MiB a batch, 16 workers"


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "torch's default, nothing was measured", id="default"),
        pytest.param(NETWORK, "batches that cross a network arrive unevenly", id="network"),
        pytest.param(HDD, "reads from a spinning disk take unevenly long", id="hdd"),
        pytest.param(
            {"limits.open_files_soft": 64, "fixed.num_workers": 1},
            "64 open files allowed, 80 kept for training, 1 worker",
            id="files",
        ),
    ],
)
def test_prefetch_factor_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names the fact that decided.
    """
    assert plan_for(changes).choices["prefetch_factor"].because == because
