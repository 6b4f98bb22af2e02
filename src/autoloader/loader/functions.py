"""
auto_loader and plan_loader, which take the arguments of AutoLoader.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..calibration import Calibration
from ..plan import Plan
from .auto_loader import AutoLoader
from .calibrating import calibrate_loader
from .settling import settled_plan

P = ParamSpec("P")
T = TypeVar("T")


def _with_arguments_of(loader: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """
    Let a function take the arguments of *loader*, to type checkers as well as to ``inspect.signature``.
    """

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        call.__signature__ = inspect.signature(loader).replace(  # type: ignore[attr-defined]
            return_annotation=inspect.signature(function).return_annotation
        )
        return call

    return decorate


@_with_arguments_of(AutoLoader)
def auto_loader(*args: Any, **kwargs: Any) -> AutoLoader[Any]:
    """
    Return a DataLoader whose settings fit this machine and this dataset.

    It takes all arguments of torch's DataLoader, in torch's order; what you set stands, what you leave out is chosen.
    Beside them it has *epochs*, *seed*, *calibrate*, *plan*, *distributed*, *on_unsafe*, *on_worker_death* and *numa*:
    AutoLoader's own documentation tells what they do.
    """
    return AutoLoader(*args, **kwargs)


@_with_arguments_of(AutoLoader)
def plan_loader(*args: Any, **kwargs: Any) -> Plan:
    """
    Return only the settings: ``DataLoader(dataset, 64, **plan_loader(dataset, 64).as_kwargs())``.

    It takes the arguments of auto_loader.
    """
    return settled_plan(AutoLoader(*args, **kwargs)).plan


def calibrate(
    *args: Any, budget_seconds: float | None = None, step: Callable[[Any], object] | None = None, **kwargs: Any
) -> Calibration:
    """
    Measure a dataset, try settings for real, and return the best with all that was seen.

    It takes the arguments of auto_loader. Samples are fetched in a child process: random numbers, samplers and open
    files of this process stay as they are.

    Args:
        args: As for auto_loader.
        budget_seconds: Seconds that all of it may take; ``None`` for 20, and for no trial any more that would make it
            take over 5 % of a training of 3,000 batches, or of the expected epochs where these have more.
        step: What the training does with a batch, a function that takes one. It is called up to four times, in this
            process, and should not return before its work is done (``torch.cuda.synchronize()``). Without it the
            fastest loading is looked for.
        kwargs: As for auto_loader.

    Raises:
        ArgumentError: An argument makes no sense.
        CalibrationError: The dataset raised, gave no batch in time, no process could start, or AUTOLOADER_OFF is set.
        MissingMainGuardError: The process that measures would run the script again.
    """
    return calibrate_loader(AutoLoader(*args, **kwargs), budget_seconds=budget_seconds, step=step)
