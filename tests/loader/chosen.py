"""
Loaders for which autoloader itself has chosen a number of workers that the test wants.
"""

import random
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from autoloader import AutoLoader, auto_loader

NEEDS_FORK = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")

WAYS = [
    pytest.param("inline", id="inline"),
    pytest.param("thread", id="thread"),
    pytest.param("fork", id="fork", marks=NEEDS_FORK),
    pytest.param("forkserver", id="forkserver", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
    pytest.param("spawn", id="spawn", marks=pytest.mark.slow_spawn),
]
"""
Where batches load: in the training process, in a thread of it, or in workers that start by a method.
"""

HERE = ["inline", "thread", pytest.param("process", marks=pytest.mark.slow_spawn)]
"""
The same, for tests to which the start method makes no difference: workers start as on this system by default.
"""


def chosen(
    dataset: Any, num_workers: int, *, prefetch_factor: int = 2, stay: bool = True, **arguments: Any
) -> AutoLoader[Any]:
    """
    Return a loader with so many workers, a number whose rule is not the user's.

    Args:
        dataset: As for ``auto_loader``.
        num_workers: How many workers.
        prefetch_factor: Batches that each prepares ahead.
        stay: Whether they stay between epochs.
        arguments: Further arguments of ``auto_loader``, which are the user's.
    """
    plan = auto_loader(dataset, **arguments).plan
    values = {
        "num_workers": num_workers,
        "prefetch_factor": prefetch_factor if num_workers else None,
        "persistent_workers": stay and bool(num_workers),
    }
    choices = {name: replace(choice, value=values.get(name, choice.value)) for name, choice in plan.choices.items()}
    if not num_workers:
        choices["backend"] = replace(choices["backend"], value="inline", rule="backend.no-workers")
    loader = auto_loader(dataset, plan=replace(plan, choices=choices), **arguments)
    assert not loader.plan.choices["num_workers"].rule.endswith(".fixed")
    return loader


def chosen_way(way: str, host: Any, dataset: Any, num_workers: int = 2, **arguments: Any) -> AutoLoader[Any]:
    """
    Return a loader whose batches load in one of :data:`WAYS`, or in workers (``process``) that start by default.
    """
    host.change("process", is_daemonic=way == "thread")
    method = {} if way in {"inline", "thread", "process"} else {"multiprocessing_context": way}
    return chosen(dataset, 0 if way == "inline" else num_workers, **method, **arguments)


def seed_all(seed: int = 7) -> None:
    """
    Seed every global generator.
    """
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def global_states() -> tuple[Any, ...]:
    """
    Return the states of the global generators, in a form that compares by value.
    """
    name, keys, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), (name, keys.tolist(), *rest), random.getstate()


def plain(value: Any) -> Any:
    """
    Return a batch, or several, as lists, which compare by value.
    """
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def epochs_of(loader: Any, epochs: int = 1) -> list[list[Any]]:
    """
    Return the batches of so many epochs.
    """
    return [[plain(batch) for batch in loader] for _ in range(epochs)]
