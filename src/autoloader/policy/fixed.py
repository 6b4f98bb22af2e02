"""
What the user set, as choices.
"""

from typing import Any

from ..plan import Choice, LoaderRequest


def fixed_choice(name: str, request: LoaderRequest) -> Choice[Any] | None:
    """
    Return the user's own value for the argument *name*, ``None`` where it is autoloader's to choose.
    """
    if name not in request.fixed:
        return None
    return Choice(value=request.fixed[name], rule=f"{name}.fixed", because="you set it")


def needs_workers(request: LoaderRequest) -> tuple[str, ...]:
    """
    Return the arguments of the user's that torch accepts only with worker processes.
    """
    fixed = request.fixed
    given = ("prefetch_factor", "multiprocessing_context")
    return tuple(
        name for name in (*given, "persistent_workers", "timeout") if name in fixed and (name in given or fixed[name])
    )
