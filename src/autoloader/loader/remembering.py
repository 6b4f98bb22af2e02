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
from ..records import NO_LIMIT, field_names, from_json, to_json
from ..store import Store
from ..traits import Profile

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

logger = logging.getLogger("autoloader")

KIND = "plan"
"""
The word for it in the names of files.
"""


class Remembered(NamedTuple):
    """
    What an earlier run has found.
    """

    profile: Profile
    best: int | None
    """The number of workers that trials found best; ``None`` where the model decided."""
    trials: str
    """What a calibration saw, in a clause; empty where there was none."""


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
    except ValueError as error:
        logger.info("store: what was kept is no profile: %s", error)
        return None
    is_count = best is None or (type(best) is int and best >= 0)
    if not isinstance(trials, str) or not is_count or not _is_possible(profile):
        return None
    return Remembered(profile, best, trials)


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
    store.write(KIND, key, {"profile": to_json(found.profile), "best": found.best, "trials": found.trials})
    if store.problem is not None:
        logger.info("store: %s", store.problem)
