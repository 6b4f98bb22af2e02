"""
The situation from which the rows of the truth tables differ, and plans for what differs.

The baseline: Linux with 64 CPUs, one CUDA device, NVMe, 256 GiB of memory, 64 GiB of shared memory and no limit on
files or processes; a quiet process that forks, of an ordinary Python; a map-style dataset of 100,000 samples in files,
read in batches of 64 for many epochs.

A row names what differs as ``record.field``: ``cpu.quota_cpus`` and the other groups of facts, ``traits.path``,
``request.epochs``, and ``fixed.num_workers`` for an argument of the user's. One that names ``profile.step_seconds`` or
``outlook.batches_left`` was measured: it takes a second of CPU to load a batch of 50 samples, and a quarter of one to
train on it; ``measured.best`` is what trials found.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoloader.facts import (
    AcceleratorFacts,
    CpuFacts,
    HostFacts,
    JobFacts,
    LimitFacts,
    MemoryFacts,
    ProcessFacts,
    SharedMemoryFacts,
    StartMethodFacts,
    StorageFacts,
    SystemFacts,
)
from autoloader.plan import LoaderRequest, Plan
from autoloader.policy import Measured, Outlook, recommend
from autoloader.traits import DatasetTraits, Profile

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
NO_LIMIT = float("inf")

FACTS = HostFacts(
    system=SystemFacts(platform="linux", wsl_version=0),
    start_methods=StartMethodFacts(available=("fork", "spawn", "forkserver"), default="fork"),
    cpu=CpuFacts(logical=64, affinity=tuple(range(64)), cpuset=tuple(range(64)), quota_cpus=NO_LIMIT),
    memory=MemoryFacts(headroom_bytes=256 * GIB, bound_by="available_bytes"),
    shared_memory=SharedMemoryFacts(path="/dev/shm", size_bytes=64 * GIB, free_bytes=64 * GIB, is_writable=True),
    limits=LimitFacts(
        open_files_soft=NO_LIMIT,
        open_files_now=16,
        processes_soft=NO_LIMIT,
        pids_headroom=NO_LIMIT,
        temp_dir="/tmp",
    ),
    storage=StorageFacts(path="/data/train", filesystem="ext4", kind="nvme"),
    accelerator=AcceleratorFacts(kind="cuda", devices=1),
    job=JobFacts(local_world_size=1),
    process=ProcessFacts(
        other_threads=(),
        native_threads=0,
        fork_unsafe_modules=(),
        is_daemonic=False,
        is_dataloader_worker=False,
        is_accelerator_initialised=False,
        is_torch_built_for_accelerator=True,
        is_main_missing=False,
        interpreter="/usr/bin/python3",
        is_interpreter_python=True,
        has_semaphores=True,
    ),
)
TRAITS = DatasetTraits(style="map", samples=100_000, batches_per_epoch=1563, path="/data/train")
REQUEST = LoaderRequest(batch_size=64)
PROFILE = Profile(
    batches=2,
    batch_samples=50,
    sample_seconds=0.02,
    sample_cpu_seconds=0.02,
    sample_deviation_seconds=0.001,
    batch_bytes=MIB,
    transfer_seconds=0.001,
    step_seconds=0.25,
    step_cpu_seconds=0.25,
)
OUTLOOK = Outlook(batches_left=1561, batches=1563, epochs_left=1)

ITERABLE = {"traits.style": "iterable", "traits.samples": None, "traits.batches_per_epoch": None}
NO_ACCELERATOR = {"accelerator.kind": None, "accelerator.devices": 0}
NETWORK = {"storage.kind": "network", "storage.filesystem": "nfs4"}
HDD = {"storage.kind": "hdd"}
SPAWN = {"start_methods.available": ("spawn",), "start_methods.default": "spawn"}
FORKSERVER = {"start_methods.available": ("forkserver", "spawn", "fork"), "start_methods.default": "forkserver"}
MACOS = {
    "system.platform": "macos",
    "start_methods.available": ("spawn", "fork", "forkserver"),
    "start_methods.default": "spawn",
}
WINDOWS = {"system.platform": "windows", "memory.commit_headroom_bytes": 256 * GIB, **SPAWN}
ACCELERATOR_IN_USE = {"process.is_accelerator_initialised": True}
THREADS = {"process.other_threads": ("Thread-1 (watch)",)}
BATCHES_OF_64_MIB = {"traits.sample_bytes": MIB}


def cpus(count: int) -> dict[str, Any]:
    """
    Return what differs on a host that has no more CPUs than *count*.
    """
    numbers = tuple(range(count))
    return {"cpu.logical": count, "cpu.affinity": numbers, "cpu.cpuset": numbers}


def own_mask(count: int) -> dict[str, Any]:
    """
    Return what differs where this rank was put on *count* CPUs by a launcher that may use all of the baseline's.
    """
    return {"cpu.affinity": tuple(range(count)), "cpu.launcher_affinity": tuple(range(64))}


def bound_cpu(cpu: CpuFacts) -> CpuFacts:
    """
    Return *cpu* with the smallest of its limits as the usable CPUs, the first of equal ones.
    """
    limits = {
        "logical": cpu.logical,
        "affinity": None if cpu.affinity is None else len(cpu.affinity),
        "cpuset": None if cpu.cpuset is None else len(cpu.cpuset),
        "quota_cpus": cpu.quota_cpus,
        "scheduler_cpus": cpu.scheduler_cpus,
        "python_cpu_count": cpu.python_cpu_count,
    }
    known = {name: float(limit) for name, limit in limits.items() if limit is not None}
    name = min(known, key=lambda each: known[each], default=None)
    return cpu if name is None else cpu._replace(usable_cpus=known[name], bound_by=name)


def situation(changes: Mapping[str, Any]) -> tuple[HostFacts, DatasetTraits, LoaderRequest]:
    """
    Return the baseline with *changes*.
    """
    groups: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        record, _, field = key.partition(".")
        if record not in {"profile", "outlook", "measured"}:
            groups.setdefault(record, {})[field] = value
    traits = replace(TRAITS, **groups.pop("traits", {}))
    request = replace(REQUEST, fixed=groups.pop("fixed", {}), **groups.pop("request", {}))
    facts = FACTS._replace(**{name: getattr(FACTS, name)._replace(**fields) for name, fields in groups.items()})
    return facts._replace(cpu=bound_cpu(facts.cpu)), traits, request


def measured(changes: Mapping[str, Any]) -> Measured | None:
    """
    Return what was measured, with *changes*; ``None`` where they name nothing of it.
    """
    fields = [key.partition(".") for key in changes]
    profile = {field: changes[f"profile.{field}"] for record, _, field in fields if record == "profile"}
    outlook = {field: changes[f"outlook.{field}"] for record, _, field in fields if record == "outlook"}
    if not profile and not outlook:
        return None
    return Measured(replace(PROFILE, **profile), OUTLOOK._replace(**outlook), changes.get("measured.best"))


def plan_for(changes: Mapping[str, Any]) -> Plan:
    """
    Return the plan for the baseline with *changes*.
    """
    return recommend(*situation(changes), measured(changes))


def decision(changes: Mapping[str, Any], name: str) -> tuple[Any, str]:
    """
    Return the value and the rule id for the argument *name*.
    """
    choice = plan_for(changes).choices[name]
    return choice.value, choice.rule
