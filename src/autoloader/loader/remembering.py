"""
What a loader has measured is kept for the next run on the same machine with the same dataset.
"""

import logging
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..plan import LoaderRequest, plain
from ..policy import POLICY
from ..profiling import identify
from ..profiling.inspect import length_of
from ..records import NO_LIMIT, field_names, from_json, number_text, seconds_text, to_json
from ..store import Store
from ..traits import Profile

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

logger = logging.getLogger("autoloader")

KIND = "plan"
"""
The word for it in the names of files.
"""


class TrialStep(NamedTuple):
    """
    What trials of one number of workers saw.
    """

    num_workers: int
    step_seconds: float
    first_batch_seconds: float


class Remembered(NamedTuple):
    """
    What an earlier run has found.
    """

    profile: Profile
    best: int | None = None
    """The number of workers that trials found best; ``None`` where the model decided."""
    trials: str = ""
    """What a calibration saw, in a clause; empty where there was none."""
    steps: tuple[TrialStep, ...] = ()
    """What each trial saw; empty where there was none that ran."""
    failed: tuple[int, ...] = ()
    """Numbers of workers whose trial failed."""
    train_seconds: float = 0.0
    """The training's own step within the steps of the trials."""


def key_of(loader: "AutoLoader[Any]", request: LoaderRequest) -> dict[str, Any]:
    """
    Return all that a measurement depends on: the machine's limits, the dataset, what was asked, and the versions.
    """
    facts = loader._facts
    cpu, shared, storage, device = facts.cpu, facts.shared_memory, facts.storage, facts.accelerator
    fixed = {name: repr(plain(value)) for name, value in request.fixed.items()}
    return {
        "machine": [facts.system.platform, facts.system.architecture, facts.system.container, cpu.model, cpu.logical],
        "limits": [cpu.usable_cpus, cpu.bound_by, facts.memory.total_bytes, shared.size_bytes],
        "storage": [storage.kind, storage.filesystem, storage.mount_point],
        "accelerator": [device.kind, device.devices],
        "ranks": facts.job.local_world_size,
        "dataset": identify(loader.dataset, loader.collate_fn),
        "dataset_class": type(loader.dataset).__qualname__,
        "samples": length_of(loader.dataset),
        "batches": loader._traits.batches_per_epoch,
        "batch_size": request.batch_size,
        "drop_last": request.drop_last,
        "worker_init": request.has_worker_init,
        "samplers": [type(loader.sampler).__qualname__, type(loader.batch_sampler).__qualname__],
        "fixed": fixed,
        "epochs": request.epochs,
        "versions": [torch.__version__, ".".join(map(str, sys.version_info[:3])), POLICY],
    }


def recall(store: Store, key: dict[str, Any]) -> Remembered | None:
    """
    Return what is kept under a key; ``None`` where there is nothing, or nothing of this layout.
    """
    value = store.read(KIND, key)
    if store.problem is not None:
        logger.info("store: %s", store.problem)
    if not isinstance(value, dict):
        return None
    try:
        profile = from_json(Profile, value.get("profile"))
        best, trials = value.get("best"), value.get("trials")
        steps = tuple(TrialStep(*each) for each in value.get("steps", ()))
        failed, train = tuple(value.get("failed", ())), value.get("train_seconds", 0.0)
    except (TypeError, ValueError) as error:
        logger.info("store: what was kept is no profile: %s", error)
        return None
    counts = (0 if best is None else best, *(step.num_workers for step in steps), *failed)
    are_counts = all(type(each) is int and each >= 0 for each in counts)
    are_times = all(
        type(each) is float and 0 <= each < NO_LIMIT for each in (train, *(each for step in steps for each in step[1:]))
    )
    if not isinstance(trials, str) or not are_counts or not are_times or not _is_possible(profile):
        return None
    return Remembered(profile, best, trials, steps, failed, train)


def _is_possible(profile: Profile) -> bool:
    """
    Return whether a profile holds only numbers that can have been measured.
    """
    numbers = [value for name in field_names(profile) if (value := getattr(profile, name)) is not None]
    return profile.batch_samples > 0 and all(0 <= value < NO_LIMIT for value in numbers)  # NaN is neither


def remember(store: Store, key: dict[str, Any], found: Remembered) -> None:
    """
    Keep what was found, if the store keeps anything.
    """
    value = {**found._asdict(), "profile": to_json(found.profile)}
    store.write(KIND, key, value, about=_describe(key, found.profile))
    if store.problem is not None:
        logger.info("store: %s", store.problem)


def _describe(key: dict[str, Any], profile: Profile) -> str:
    """
    Return in a few words which dataset a key is for, and what was measured.
    """
    samples = key["samples"]
    size = "" if samples is None else f" of {samples:,} samples"
    batch = f"a batch of {number_text(profile.batch_samples)}"
    return f"{key['dataset_class']}{size}: {batch} takes {seconds_text(profile.batch_seconds)}"
