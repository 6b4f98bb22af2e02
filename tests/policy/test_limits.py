"""
The budgets, by themselves.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.plan import LoaderRequest
from autoloader.policy.limits import (
    bytes_of_batch,
    cpu_budget,
    cpus_of_rank,
    cpus_text,
    prefetch_limits,
    ranks_sharing,
    size_text,
    worker_limits,
)
from autoloader.traits import DatasetTraits
from policy.baseline import GIB, KIB, MIB, NO_LIMIT, cpus, own_mask, situation


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        pytest.param({}, 1, id="single-process"),
        pytest.param({"job.local_world_size": None}, 1, id="unknown"),
        pytest.param({"job.local_world_size": 4}, 4, id="ranks-that-see-every-cpu"),
        pytest.param({"job.local_world_size": 4, **own_mask(16)}, 1, id="ranks-with-own-masks"),
        pytest.param({"job.local_world_size": 4, **own_mask(17)}, 4, id="masks-that-overlap"),
        pytest.param(
            {"job.local_world_size": 4, **own_mask(16), "cpu.quota_cpus": 8.0},
            4,
            id="ranks-with-own-masks-share-a-quota",
        ),
        pytest.param(
            {"job.local_world_size": 4, **own_mask(16), "cpu.cpuset": tuple(range(32))},
            4,
            id="masks-that-overlap-in-their-cpuset",
        ),
        pytest.param(
            {"job.local_world_size": 4, **own_mask(4), "cpu.launcher_affinity": tuple(range(4))},
            4,
            id="mask-of-the-launcher",
        ),
        pytest.param(
            {"job.local_world_size": 4, **own_mask(4), "cpu.launcher_affinity": (0, 1, 2, 4)},
            1,
            id="other-mask-of-the-same-size",
        ),
        pytest.param(
            {"job.local_world_size": 4, **own_mask(4), "cpu.launcher_affinity": (5,)},
            1,
            id="launcher-bound-to-a-cpu-of-its-own",
        ),
        pytest.param(
            {"job.local_world_size": 4, **own_mask(4), "cpu.launcher_affinity": None},
            4,
            id="mask-of-the-launcher-unknown",
        ),
        pytest.param({"job.local_world_size": 4, "cpu.affinity": None}, 4, id="mask-unknown"),
        pytest.param(
            {"job.local_world_size": 4, "cpu.affinity": (0,), "cpu.cpuset": None, "cpu.logical": None},
            4,
            id="host-unknown",
        ),
    ],
)
def test_ranks_sharing_counts_those_on_the_same_cpus(changes: Mapping[str, Any], ranks: int) -> None:
    """
    Ranks that were given masks of their own, which fit side by side, do not share their CPUs; all others do.
    """
    facts, _, _ = situation(changes)
    assert ranks_sharing(facts) == ranks


@pytest.mark.parametrize(
    ("changes", "of_rank", "budget"),
    [
        pytest.param({}, 64, 57.6, id="a-tenth-is-kept-of-many"),
        pytest.param(cpus(20), 20, 18, id="two-are-kept-of-20"),
        pytest.param(cpus(4), 4, 2, id="two-are-kept-of-4"),
        pytest.param(cpus(3), 3, 3, id="none-is-kept-of-3"),
        pytest.param({"cpu.quota_cpus": 3.5}, 3.5, 3.5, id="none-is-kept-of-3.5"),
        pytest.param({"cpu.quota_cpus": 0.5}, 0.5, 1, id="one-worker-has-half-a-cpu"),
        pytest.param({"job.local_world_size": 3, **cpus(16)}, 16 / 3, 16 / 3 - 2, id="a-third"),
    ],
)
def test_cpu_budget_leaves_the_training_process_its_own(
    changes: Mapping[str, Any], of_rank: float, budget: float
) -> None:
    """
    The main and the pin thread are kept from 4 CPUs on, and a tenth where that is more.
    """
    facts, _, _ = situation(changes)
    assert (cpus_of_rank(facts), cpu_budget(facts).value) == (pytest.approx(of_rank), pytest.approx(budget))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({}, "16 usable CPUs (affinity), of this rank alone", id="own"),
        pytest.param(
            {"cpu.launcher_affinity": tuple(range(16))},
            "16 usable CPUs (affinity), shared by 4 ranks, with the mask of what started them",
            id="inherited",
        ),
        pytest.param(
            {"cpu.launcher_affinity": None},
            "16 usable CPUs (affinity), shared by 4 ranks, as nothing tells whether each has its own",
            id="unknown",
        ),
        pytest.param(
            {"cpu.affinity": tuple(range(17))}, "17 usable CPUs (affinity), shared by 4 ranks", id="too-wide-for-4"
        ),
        pytest.param({"cpu.quota_cpus": 8.0}, "8 usable CPUs (quota_cpus), shared by 4 ranks", id="quota"),
        pytest.param({"cpu.python_cpu_count": 2}, "2 usable CPUs (python_cpu_count)", id="python"),
        pytest.param({"job.local_world_size": 1}, "16 usable CPUs (affinity)", id="single-process"),
    ],
)
def test_cpus_text_says_whose_the_mask_is(changes: Mapping[str, Any], text: str) -> None:
    """
    A mask that would fit as often as there are ranks is this rank's own, inherited, or one of which that is unknown.
    """
    facts, _, _ = situation({"job.local_world_size": 4, **own_mask(16), **changes})
    assert cpus_text(facts) == text


@pytest.mark.parametrize(
    ("sample_bytes", "batch_size", "expected"),
    [
        pytest.param(100, 64, 6400, id="known"),
        pytest.param(None, 64, None, id="sample-unknown"),
        pytest.param(100, None, None, id="batch-size-unknown"),
    ],
)
def test_bytes_of_batch_needs_both_sizes(
    sample_bytes: int | None, batch_size: int | None, expected: int | None
) -> None:
    """
    A batch has a known size if its samples have, and their number.
    """
    traits = DatasetTraits(style="map", sample_bytes=sample_bytes)
    assert bytes_of_batch(traits, LoaderRequest(batch_size=batch_size)) == expected


def test_worker_limits_of_an_unknown_host_allow_anything() -> None:
    """
    What is unknown sets no limit.
    """
    unknown = {
        "memory.headroom_bytes": None,
        "shared_memory.path": None,
        "shared_memory.free_bytes": None,
        "shared_memory.is_writable": None,
        "limits.open_files_soft": None,
        "limits.processes_soft": None,
        "limits.pids_headroom": None,
    }
    facts, _, _ = situation(unknown)
    limits = [*worker_limits(facts, None, 2, 1, is_forked=False), *prefetch_limits(facts, None, 4)]
    assert [(limit.rule, limit.value, limit.because) for limit in limits] == [
        ("num_workers.memory", NO_LIMIT, "free memory is unknown"),
        ("num_workers.shared-memory", NO_LIMIT, "shared memory is unknown"),
        ("num_workers.open-files", NO_LIMIT, "open files are not limited"),
        ("num_workers.processes", NO_LIMIT, "processes are not limited"),
        ("prefetch_factor.shared-memory", NO_LIMIT, "shared memory is unknown"),
        ("prefetch_factor.open-files", NO_LIMIT, "open files are not limited"),
    ]


def test_worker_limits_of_a_tight_host_are_halves_of_what_is_free() -> None:
    """
    Half of what is free is shared by the ranks, memory by the usual batches and the others by the least.
    """
    tight = {
        "memory.headroom_bytes": 16 * GIB,
        "shared_memory.free_bytes": 8 * GIB,
        "limits.open_files_soft": 1024,
        "limits.open_files_now": 24,
        "limits.pids_headroom": 400.0,
        "job.local_world_size": 2,
    }
    facts, _, _ = situation(tight)
    limits = list(worker_limits(facts, 128 * MIB, 2, 1, is_forked=False))
    assert [(limit.value, limit.because) for limit in limits] == [
        (8, "half of 16 GiB free (available_bytes), about 512 MiB a worker"),
        (16, "half of 8 GiB free in /dev/shm, 128 MiB a batch"),
        (58, "1024 open files allowed, 88 kept for training, 16 a worker"),
        (25, "half of 400 more processes and threads allowed, 4 a worker"),
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(0, "0 bytes", id="nothing"),
        pytest.param(1023, "1023 bytes", id="bytes"),
        pytest.param(1.5 * KIB, "1.5 KiB", id="kib"),
        pytest.param(64 * MIB, "64 MiB", id="mib"),
        pytest.param(1023 * MIB, "1023 MiB", id="no-exponent-below-a-gib"),
        pytest.param(31.37 * GIB, "31.4 GiB", id="gib"),
        pytest.param(2048 * GIB, "2048 GiB", id="no-exponent-for-2-tib"),
    ],
)
def test_size_text_has_the_unit_that_people_use(size: float, text: str) -> None:
    """
    Sizes have three digits, whole numbers from 1000 on, and never an exponent.
    """
    assert size_text(size) == text
