"""
Settings by rule, as documents and frameworks give them, and by search, beside autoloader's own.

Each peer by rule is a function of a dataset, a batch size and :class:`Facts`, and returns the arguments for a
DataLoader. :mod:`benchmarks.paddle_rule` and :mod:`benchmarks.packages` tell of the others, which search or take over
the loop in the run that is timed. The documents, as read in November 2026:

- torch: the documentation of ``torch.utils.data.DataLoader`` (``num_workers=0``).
- tutorial: pytorch.org's "Transfer Learning for Computer Vision Tutorial" (``num_workers=4``).
- cpu-count: learnpytorch.io's ``data_setup.py`` (``NUM_WORKERS = os.cpu_count()``), which many copied.
- lightning: the warning "does not have many workers", ``_worker_check`` in
  ``lightning/pytorch/trainer/connectors/data_connector.py``, and ``suggested_max_num_workers`` in
  ``lightning/fabric/utilities/data.py``, of Lightning 2.6.
- table: what blog posts repeat, none of them first: no workers on Windows, else the smaller of four and the CPUs, and
  ``prefetch_factor=4``; a published one is ``config.py`` of s10bhavesh/faceSimilarity-FaceNet-PyTorch on GitHub (0
  on Windows, else 4).
"""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import paddle_rule
from .packages import EFFICIO, LOADTUNE, efficio_loop, loadtune_settings

if TYPE_CHECKING:
    from .child import Job
    from .workloads import Workload

Peer = Callable[[Any, int, "Facts"], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """
    What the rules ask of the machine.
    """

    cpus: int
    """What ``os.cpu_count()`` says; 1 or more."""
    usable_cpus: int
    """CPUs in the process's mask, all where the system has no masks; 1 or more."""
    platform: str
    """What ``sys.platform`` says."""
    devices: int = 1
    """Accelerators that the training uses, each with a process of its own; 1 or more."""


def read_facts() -> Facts:
    """
    Return the facts of this machine.
    """
    cpus = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else cpus
    return Facts(cpus=cpus, usable_cpus=usable, platform=sys.platform)


def torch_default(_dataset: Any, _batch_size: int, _facts: Facts) -> dict[str, Any]:
    """
    Return nothing: what torch does when it is not told otherwise.
    """
    return {}


def four_workers(_dataset: Any, _batch_size: int, _facts: Facts) -> dict[str, Any]:
    """
    Return the four workers of torch's tutorials.
    """
    return {"num_workers": 4}


def cpu_count(_dataset: Any, _batch_size: int, facts: Facts) -> dict[str, Any]:
    """
    Return a worker for each CPU of the machine.
    """
    return {"num_workers": facts.cpus}


def lightning(_dataset: Any, _batch_size: int, facts: Facts) -> dict[str, Any]:
    """
    Return what a user has who does what Lightning's warnings suggest, one after the other.

    Lightning warns of few workers only where its suggestion is above one, and then suggests the usable CPUs for each
    device less one; where workers are spawned (torch's default on Windows and macOS) it suggests persistent workers.
    """
    suggested = max(1, facts.usable_cpus // facts.devices - 1)
    if suggested == 1:
        return {}
    spawns = facts.platform in {"win32", "darwin"}
    return {"num_workers": suggested, **({"persistent_workers": True} if spawns else {})}


def fixed_table(_dataset: Any, _batch_size: int, facts: Facts) -> dict[str, Any]:
    """
    Return the table of the blog posts.
    """
    if facts.platform == "win32":
        return {"num_workers": 0}
    return {"num_workers": min(4, facts.cpus), "prefetch_factor": 4}


def policy_alone(dataset: Any, batch_size: int, _facts: Facts) -> dict[str, Any]:
    """
    Return what autoloader chooses, for a plain DataLoader.
    """
    from autoloader import plan_loader

    return plan_loader(dataset, batch_size).as_kwargs()


RULES: dict[str, Peer] = {
    "torch": torch_default,
    "tutorial": four_workers,
    "cpu-count": cpu_count,
    "lightning": lightning,
    "table": fixed_table,
}
"""
Peers whose settings follow from the facts alone.
"""

PADDLE, POLICY, OURS, CALIBRATED = "paddle", "policy", "auto_loader", "calibrated"
"""
Paddle's search, policy alone, and auto_loader as it comes: they choose in the run that is timed. And auto_loader where
a calibration has found settings in an earlier run.
"""

CHOOSING = (PADDLE, LOADTUNE, EFFICIO, POLICY, OURS, CALIBRATED)
"""
Peers whose settings are not known before the run.
"""

PEERS = (*RULES, *CHOOSING)


def make_loader(job: "Job", workload: "Workload", dataset: Any) -> Any:
    """
    Return a loader of *dataset* by the job's maker: ``torch`` for its settings, or one of :data:`CHOOSING`.
    """
    from torch.utils.data import DataLoader

    if job.maker in {OURS, CALIBRATED}:
        from autoloader import auto_loader

        return auto_loader(dataset, **workload.loader_arguments)
    return DataLoader(dataset, **workload.loader_arguments, **_settings(job, workload, dataset))


def _settings(job: "Job", workload: "Workload", dataset: Any) -> dict[str, Any]:
    if job.maker == POLICY:
        return policy_alone(dataset, workload.batch_size, read_facts())
    if job.maker == PADDLE:
        return paddle_rule.settings(dataset, workload.batch_size, read_facts())
    if job.maker == LOADTUNE:
        samples = job.batches * workload.batch_size
        make_dataset = partial(workload.make_dataset, samples, Path(job.folder))
        return loadtune_settings(make_dataset, workload.batch_size, workload.consumer())
    return job.settings


def make_loop(job: "Job") -> Callable[[Any, int], Iterable[Any]]:
    """
    Return what gives the batches of so many epochs of a loader; what the maker needs is imported then.
    """
    if job.maker == EFFICIO:
        return efficio_loop(job.folder)
    if job.maker == LOADTUNE:
        import loadtune  # noqa: F401
    return lambda loader, epochs: chain.from_iterable(repeat(loader, epochs))
