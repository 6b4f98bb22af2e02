"""
Plans as a whole: every argument, the notes, and what changes after a loader was made.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.plan import ALWAYS_DECIDED, Plan
from autoloader.policy import RULES, with_own_persistence
from policy.baseline import (
    BATCHES_OF_64_MIB,
    FORKSERVER,
    GIB,
    HDD,
    ITERABLE,
    MIB,
    NETWORK,
    SPAWN,
    WINDOWS,
    cpus,
    plan_for,
)

SHM_FIX = "Start the container with --shm-size=1g (Kubernetes: an emptyDir with medium: Memory at /dev/shm)."
FILES_NOTE = (
    "Few files may be open: the limit is 256, and each worker and each prefetched batch needs some. "
    "Raise it before training with 'ulimit -n 8192' (Docker: --ulimit nofile=8192)."
)
COMMIT_NOTE = (
    "Windows promises no more than memory and page file hold, and each worker that imports torch has it promise a part "
    "of that, used or not: with CUDA's libraries up to 2.5 GiB. Enlarge the page file (System, Advanced, Performance, "
    "Virtual memory) if loading is too slow."
)
EIGHT_CPUS = """\
num_workers=6                 8 usable CPUs (logical), less 2 for the training process [num_workers.cpu-count]
prefetch_factor=2             torch's default, nothing was measured [prefetch_factor.default]
persistent_workers=True       many epochs are expected [persistent_workers.many-epochs]
pin_memory=True               1 cuda device found [pin_memory.accelerator]
multiprocessing_context=fork  Python's default on this system is fork [multiprocessing_context.process-default]
backend=process               worker processes can start here [backend.workers]
"""
MAIN_MISSING_NOTE = (
    "No worker process starts: each worker that spawn starts would import <stdin>, which does not exist. "
    "Save the code as a file and run that, or pass num_workers=0."
)
DAEMONIC_NOTE = (
    "No worker process starts: this process is daemonic, and Python lets it have no children. Iterate in a process "
    "that is not daemonic (multiprocessing.Process(daemon=False), concurrent.futures), or pass num_workers=0."
)
READ_ONLY_NOTE = (
    "No worker process starts: this process may not write to /dev/shm, through which batches travel. "
    "Mount a writable tmpfs there (Docker: --tmpfs /dev/shm:size=1g), or pass num_workers=0."
)
MAIN_MISSING = {"process.reimported_main": "<stdin>", "process.is_main_missing": True}
DAEMONIC = {"process.is_daemonic": True}

PASSED_ON_ROWS = [
    pytest.param("in_order", False, "in_order.fixed", id="in-order"),
    pytest.param("timeout", 30, "timeout.fixed", id="timeout"),
]


def test_recommend_baseline_decides_every_argument() -> None:
    """
    A plan has one choice for each argument, in the order of its text.
    """
    plan = plan_for({})
    assert tuple(plan.choices) == ALWAYS_DECIDED
    assert plan.notes == ()
    assert plan.as_kwargs() == {
        "num_workers": 16,
        "prefetch_factor": 2,
        "pin_memory": True,
        "multiprocessing_context": "fork",
    }


def test_recommend_without_workers_leaves_out_what_torch_refuses() -> None:
    """
    At 0 workers only arguments are passed that torch accepts then.
    """
    assert plan_for({"traits.is_in_memory": True}).as_kwargs() == {"num_workers": 0, "pin_memory": True}


@pytest.mark.parametrize(("name", "value", "rule"), PASSED_ON_ROWS)
def test_recommend_passes_on_what_only_the_user_sets(name: str, value: Any, rule: str) -> None:
    """
    Arguments that autoloader never chooses are part of a plan when given, and only then.
    """
    assert name not in plan_for({}).choices
    choice = plan_for({f"fixed.{name}": value}).choices[name]
    assert (choice.value, choice.rule) == (value, rule)


@pytest.mark.parametrize(
    ("changes", "kwargs"),
    [
        pytest.param(
            {"fixed.num_workers": 0, "fixed.prefetch_factor": 2},
            {"num_workers": 0, "prefetch_factor": 2, "pin_memory": True},
            id="prefetch-without-workers",
        ),
        pytest.param(
            {"fixed.num_workers": 0, "fixed.persistent_workers": True},
            {"num_workers": 0, "persistent_workers": True, "pin_memory": True},
            id="persist-without-workers",
        ),
        pytest.param(
            {"fixed.num_workers": 0, "fixed.multiprocessing_context": "spawn"},
            {"num_workers": 0, "multiprocessing_context": "spawn", "pin_memory": True},
            id="context-without-workers",
        ),
        pytest.param(
            {"fixed.num_workers": 0, "fixed.timeout": 5},
            {"num_workers": 0, "timeout": 5, "pin_memory": True},
            id="timeout-without-workers",
        ),
    ],
)
def test_recommend_leaves_contradictions_of_the_user_to_torch(
    changes: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> None:
    """
    The user's values are all passed, also those that contradict each other: the error is torch's own.
    """
    assert plan_for(changes).as_kwargs() == kwargs


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        pytest.param({}, {}, id="baseline"),
        pytest.param(
            {"shared_memory.free_bytes": 64 * MIB},
            {
                "host.shared-memory-small": "Shared memory is small: /dev/shm has 64 MiB free, and batches travel "
                f"through it. {SHM_FIX}"
            },
            id="shm-too-small-for-workers",
        ),
        pytest.param(
            {"shared_memory.free_bytes": 2 * GIB, **BATCHES_OF_64_MIB},
            {
                "host.shared-memory-small": "Shared memory is small: /dev/shm has 2 GiB free, and batches travel "
                f"through it. {SHM_FIX}"
            },
            id="shm-too-small-to-prefetch",
        ),
        pytest.param(
            {"shared_memory.is_writable": False},
            {"process.shared-memory-read-only": READ_ONLY_NOTE},
            id="shm-read-only",
        ),
        pytest.param({"limits.open_files_soft": 256}, {"host.open-files-low": FILES_NOTE}, id="few-files-for-workers"),
        pytest.param(
            {**WINDOWS, "memory.commit_headroom_bytes": 6 * GIB},
            {"host.commit-limit": COMMIT_NOTE},
            id="small-page-file",
        ),
        pytest.param(
            {"limits.open_files_soft": 256, "fixed.num_workers": 10},
            {"host.open-files-low": FILES_NOTE},
            id="few-files-to-prefetch",
        ),
        pytest.param(
            {"cpu.quota_cpus": 2.5},
            {
                "host.cpu-quota": "A quota grants 2.5 CPUs of the 64 that the host shows. Start the container with "
                "more --cpus (Kubernetes: a higher cpu limit) if loading is too slow."
            },
            id="quota",
        ),
        pytest.param({"cpu.quota_cpus": 2.0, "cpu.logical": None}, {}, id="quota-of-an-unknown-host"),
        pytest.param(
            ITERABLE,
            {
                "dataset.iterable-not-sharded": "No workers load it, because each would yield the whole dataset: its "
                "code does not name get_worker_info. Yield each worker its share "
                "(torch.utils.data.get_worker_info()). Set num_workers yourself only if the samples are shared out "
                "elsewhere, in worker_init_fn for one: otherwise they repeat."
            },
            id="iterable-not-sharded",
        ),
        pytest.param(
            {**ITERABLE, "fixed.num_workers": 2},
            {
                "dataset.iterable-repeated": "Each of 2 workers yields the whole dataset: its code does not name "
                "get_worker_info. Yield each worker its share (torch.utils.data.get_worker_info()), or pass "
                "num_workers=0. All is well if the samples are shared out elsewhere, in worker_init_fn for one."
            },
            id="iterable-with-the-user's-workers",
        ),
        pytest.param(
            {"traits.open_handle": "file", "fixed.num_workers": 2},
            {
                "dataset.open-handle": "dataset.file is open: forked workers would share its position and read each "
                "other's data. Open it in __getitem__, when it is first needed, so that each worker has its own."
            },
            id="open-file-with-the-user's-workers",
        ),
        pytest.param({"traits.open_handle": "file", "fixed.num_workers": 0}, {}, id="open-file-without-workers"),
        pytest.param({**ITERABLE, "fixed.num_workers": 1}, {}, id="iterable-with-one-worker-of-the-user's"),
        pytest.param(
            {"traits.batches_per_epoch": 0},
            {
                "dataset.empty": "An epoch has no batches: the dataset or its sampler is empty, or drop_last drops the "
                "only batch. Check the path or pattern that it reads, and batch_size."
            },
            id="empty",
        ),
        pytest.param(
            {"traits.batches_per_epoch": 0, "fixed.num_workers": 2},
            {
                "dataset.empty": "An epoch has no batches: the dataset or its sampler is empty, or drop_last drops the "
                "only batch. Check the path or pattern that it reads, and batch_size."
            },
            id="empty-with-the-user's-workers",
        ),
        pytest.param({**SPAWN, "process.reimported_main": "train.py"}, {}, id="imports-main"),
        pytest.param({**SPAWN, **MAIN_MISSING}, {"process.main-missing": MAIN_MISSING_NOTE}, id="main-missing"),
        pytest.param(
            {**SPAWN, **MAIN_MISSING, "fixed.num_workers": 2},
            {"process.main-missing": MAIN_MISSING_NOTE},
            id="main-missing-for-the-user's-workers",
        ),
        pytest.param({**SPAWN, **MAIN_MISSING, "traits.is_in_memory": True}, {}, id="in-memory-needs-no-workers"),
        pytest.param({**SPAWN, **MAIN_MISSING, "fixed.num_workers": 0}, {}, id="the-user-wants-no-workers"),
        pytest.param(DAEMONIC, {"process.daemonic": DAEMONIC_NOTE}, id="daemonic"),
        pytest.param(
            {**DAEMONIC, "fixed.prefetch_factor": 2}, {"process.daemonic": DAEMONIC_NOTE}, id="daemonic-and-needed"
        ),
        pytest.param(
            {"limits.pids_headroom": 15.0, "fixed.num_workers": 4},
            {
                "process.few-processes": "No worker process starts: num_workers=4 needs about 16 processes and "
                "threads, and 15 more are allowed. Raise the limit (ulimit -u; Docker --pids-limit; Kubernetes "
                "podPidsLimit), or pass fewer num_workers."
            },
            id="few-processes-for-the-user's-workers",
        ),
        pytest.param(
            NETWORK,
            {
                "storage.network": "/data/train lies on nfs4: each read waits for the network. Copy the data to a "
                "local disk if it fits."
            },
            id="network",
        ),
        pytest.param(
            {"traits.path": "s3://bucket/train", "traits.is_remote": True, "storage.filesystem": None},
            {
                "storage.network": "s3://bucket/train lies on another machine: each read waits for the network. Copy "
                "the data to a local disk if it fits."
            },
            id="url",
        ),
        pytest.param(
            HDD,
            {
                "storage.hdd": "/data/train lies on a spinning disk, which slows down when many workers read at once. "
                "Pack small files into few large ones, or copy the data to an SSD."
            },
            id="hdd",
        ),
        pytest.param({**HDD, "fixed.num_workers": 8}, {}, id="hdd-with-the-user's-workers"),
    ],
)
def test_recommend_notes_what_the_user_could_change(changes: Mapping[str, Any], notes: Mapping[str, str]) -> None:
    """
    What decided a choice and can be changed is noted, with the exact fix.
    """
    assert {note.finding: note.text for note in plan_for(changes).notes} == notes


def test_recommend_twice_gives_equal_plans() -> None:
    """
    The policy is pure: the same situation has the same plan.
    """
    assert plan_for(NETWORK) == plan_for(NETWORK)


PERSISTENCE_ROWS = [
    pytest.param({}, {}, True, "persistent_workers.many-epochs", id="number-of-ours"),
    pytest.param({}, {"num_workers": 2}, False, "persistent_workers.torchs-own", id="number-set-later"),
    pytest.param({}, {"num_workers": 16}, True, "persistent_workers.many-epochs", id="the-plan's-own-number-set-later"),
    pytest.param({}, {"num_workers": 0}, False, "persistent_workers.torchs-own", id="no-workers-set-later"),
    pytest.param({}, {"prefetch_factor": 4}, True, "persistent_workers.many-epochs", id="prefetching-set-later"),
    pytest.param(
        {"traits.is_in_memory": True},
        {"num_workers": 2},
        False,
        "persistent_workers.no-workers",
        id="workers-added-later",
    ),
    pytest.param(
        {"fixed.persistent_workers": True}, {"num_workers": 2}, True, "persistent_workers.fixed", id="both-the-user's"
    ),
    pytest.param(
        {}, {"num_workers": 2, "persistent_workers": True}, False, "persistent_workers.torchs-own", id="as-chosen-later"
    ),
    pytest.param(
        {"request.epochs": 1}, {"num_workers": 2}, False, "persistent_workers.one-epoch", id="not-persistent-anyhow"
    ),
]


@pytest.mark.parametrize(("before", "set_later", "value", "rule"), PERSISTENCE_ROWS)
def test_own_persistence_truth_table(
    before: Mapping[str, Any], set_later: Mapping[str, Any], value: bool, rule: str
) -> None:
    """
    Workers whose number the user set, also after the plan was made, are new in each epoch, as torch's are.
    """
    choice = with_own_persistence(plan_for(before).with_fixed(set_later)).choices["persistent_workers"]
    assert (choice.value, choice.rule) == (value, rule)


def test_own_persistence_of_an_unchanged_plan_gives_the_plan_itself() -> None:
    """
    A plan that still holds is not copied.
    """
    plan = plan_for({})
    assert with_own_persistence(plan) is plan


def test_own_persistence_keeps_all_other_choices_and_notes() -> None:
    """
    Only the persistence of workers changes.
    """
    plan = plan_for(NETWORK).with_fixed({"num_workers": 2})
    own = with_own_persistence(plan)
    assert {name for name in plan.choices if plan.choices[name] != own.choices[name]} == {"persistent_workers"}
    assert own.notes == plan.notes


def test_plan_that_is_kept_from_workers_is_one_for_torch_without_them() -> None:
    """
    Where no worker may start, a DataLoader made of the plan starts none, and one that the user asked for does.
    """
    assert plan_for(DAEMONIC).as_kwargs() == {"num_workers": 0, "pin_memory": True}
    assert plan_for({**DAEMONIC, "fixed.num_workers": 2}).as_kwargs() == {
        "num_workers": 2,
        "prefetch_factor": 2,
        "pin_memory": True,
        "multiprocessing_context": "fork",
    }


def test_recommend_reads_as_a_table() -> None:
    """
    The text of a plan has one line for each choice.
    """
    assert f"{plan_for(cpus(8))}\n" == EIGHT_CPUS


def test_every_choice_of_these_plans_has_a_rule_of_its_own_argument() -> None:
    """
    Rule ids start with the argument's name and stand in the catalogue of rules.
    """
    plans: list[Plan] = [plan_for(changes) for changes in ({}, NETWORK, HDD, ITERABLE, SPAWN, FORKSERVER)]
    choices = [(name, choice.rule) for plan in plans for name, choice in plan.choices.items()]
    assert [rule for name, rule in choices if rule not in RULES or not rule.startswith(f"{name}.")] == []
