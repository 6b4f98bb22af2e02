"""
What the user asked of a loader, and what that leaves to choose.
"""

from typing import TYPE_CHECKING, Any

from ..plan import LoaderRequest
from ..policy import can_be_measured
from .starting import FEWER_AFTER_DEATHS, is_users

if TYPE_CHECKING:
    from .auto_loader import AutoLoader


def request_of(loader: "AutoLoader[Any]") -> LoaderRequest:
    """
    Return what the user asked of a loader, up to now.
    """
    fixed = {name: choice.value for name, choice in loader.plan.choices.items() if is_users(choice)}
    return LoaderRequest(
        fixed=fixed,
        batch_size=loader.batch_size,
        epochs=loader.epochs,
        drop_last=bool(loader.drop_last),
        has_worker_init=loader.worker_init_fn is not None,
    )


def may_choose(loader: "AutoLoader[Any]") -> bool:
    """
    Return whether the number of workers is ours, and neither a given plan nor a rule alone decides it.

    Fewer of them after deaths stay fewer: memory is as short as before.
    """
    context = loader.plan.value("multiprocessing_context")
    is_given = loader._has_given_plan or loader.plan.choices["num_workers"].rule == FEWER_AFTER_DEATHS
    return not is_given and can_be_measured(loader._facts, loader._traits, request_of(loader), context)


def may_load_here(loader: "AutoLoader[Any]") -> bool:
    """
    Return whether batches may load in this process for a while, and elsewhere then.
    """
    return loader.worker_init_fn is None and loader._style == "map" and may_choose(loader)


def keeps_order(loader: "AutoLoader[Any]") -> bool:
    """
    Return whether the number of workers had better be what rules say, in each run the same.

    The order of an iterable-style dataset depends on it, and the user wants one that comes again.
    """
    return loader._style == "iterable" and loader.seed is not None and not loader.calibrate
