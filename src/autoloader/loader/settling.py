"""
A loader's plan, made right for the moment at which its workers start.
"""

from typing import TYPE_CHECKING, Any

from ..facts import HostFacts
from ..plan import Plan
from ..policy import Obstacle, with_own_persistence
from ..probe import probe_host, probe_process
from ..profiling import find_open_handle
from .starting import Started, at_this_moment, report, report_method, settle, with_numa_note

if TYPE_CHECKING:
    from .auto_loader import AutoLoader


def settled_plan(loader: "AutoLoader[Any]", plan: Plan | None = None) -> Started:
    """
    Make a plan, the loader's own by default, right for this moment, as if workers were about to start.

    A child is started where only that can show whether a worker could load the dataset.
    """
    plan = with_own_persistence(loader.plan if plan is None else plan)
    if loader._is_copy or (not plan.value("num_workers") and plan.choices["backend"].rule == "backend.no-workers"):
        return Started(plan, None)
    facts = look_again(loader)
    parts = {"dataset": loader.dataset, "collate_fn": loader.collate_fn, "worker_init_fn": loader.worker_init_fn}
    has_opened = loader._first.undo_traces(plan)
    handle = find_open_handle(loader.dataset)
    return settle(plan, facts, parts, style=loader._style, open_handle=handle, has_opened=has_opened)


def look_again(loader: "AutoLoader[Any]") -> HostFacts:
    """
    Return what the loader knows of the host, with the state of this process as it is now.
    """
    facts = probe_host() if loader._facts == HostFacts() else loader._facts
    loader._facts = at_this_moment(facts, probe_process())
    return loader._facts


def settings_to_start(loader: "AutoLoader[Any]", *, stacklevel: int) -> dict[str, Any]:
    """
    Settle the loader's plan, say what has to be said, and return the settings of workers that are about to start.

    Args:
        loader: The loader.
        stacklevel: How many frames above this one the user's own line is.
    """
    plan, found = settled_plan(loader)
    if found is not None:
        fall_back(loader, plan, found, stacklevel=stacklevel)
    loader.plan = plan = with_numa_note(plan, loader._facts, loader.numa)
    if plan.value("backend") == "process":
        report_method(plan, loader._facts, stacklevel=stacklevel)
    return loader._parts().settings(plan, loader.timeout)


def fall_back(loader: "AutoLoader[Any]", plan: Plan, found: Obstacle, *, stacklevel: int) -> None:
    """
    Let the loader take the plan that does without worker processes, and say so.
    """
    report(
        plan,
        found,
        must_raise=loader.on_unsafe == "raise",
        has_init=loader.worker_init_fn is not None,
        local_rank=loader._facts.job.local_rank,
        stacklevel=stacklevel + 1,
    )
    loader.plan = plan
