"""
Chooses the start method of worker processes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..facts import HostFacts
from ..plan import Choice, LoaderRequest
from .backend import find_obstacle_to
from .fixed import fixed_choice
from .model import forking_seconds

NAME = "multiprocessing_context"
FORK_AFTER_ALL = "fork is safe enough here"


class Hazard(NamedTuple):
    """
    What a forked child could find half-done.
    """

    because: str
    is_certain: bool = True
    """False for an accelerator: a forked worker is harmed only if it touches it, and few do."""
    rule: str = "fork-unsafe"
    """The last part of the rule id of the method that is taken instead."""


def choose_multiprocessing_context(facts: HostFacts, request: LoaderRequest) -> Choice[Any]:
    """
    Choose how workers start, as far as facts tell; that a worker can load the dataset is seen when one starts.
    """
    candidates = start_candidates(facts, request)
    possible = (each for each in candidates if find_obstacle_to(method_name(each.value), facts) is None)
    return next(possible, candidates[0])


def start_candidates(
    facts: HostFacts, request: LoaderRequest, open_handle: str | None = None, *, has_opened: bool = False
) -> tuple[Choice[Any], ...]:
    """
    Return the start methods that are worth trying, the best first.

    A quiet process forks: that needs no import of the main module, takes datasets that cannot be pickled and shares
    their memory. It does so unless it has set another method, and then still for a dataset that this other one cannot
    load. A process in which fork is not safe uses the fork server where there is one. macOS is never forked: its system
    libraries do not survive it (CPython issue 77906).

    Args:
        facts: The host and this process.
        request: What the caller fixed: a method of the user's is the only candidate.
        open_handle: The attribute of the dataset that holds an open file, whose position forked workers would share.
        has_opened: Whether fetching samples in this process has opened files that are still open.
    """
    fixed = fixed_choice(NAME, request)
    if fixed is not None:
        return (fixed,)
    methods, hazard = facts.start_methods, find_hazard(facts, open_handle, has_opened=has_opened)
    has_fork = "fork" in methods.available and facts.system.platform != "macos"
    if hazard is None and has_fork and _in_force(facts) in {None, "fork"}:
        return (_safe_fork(facts),)
    other = _other_than_fork(facts, hazard)
    may_fork = has_fork and (hazard is None or not hazard.is_certain) and other.value != "fork"
    return (other, Choice(value="fork", rule=f"{NAME}.unloadable", because=FORK_AFTER_ALL)) if may_fork else (other,)


def _in_force(facts: HostFacts) -> str | None:
    """
    Return the method that this process has set, if it is one of Python's own: workers of joblib set ``loky``.
    """
    methods = facts.start_methods
    return methods.in_force if methods.in_force in methods.available else None


def _safe_fork(facts: HostFacts) -> Choice[Any]:
    if _in_force(facts) == "fork":
        return _set_by_process("fork")
    if facts.start_methods.default == "fork":
        return _process_default("fork")
    because = "no thread and no accelerator is in use in this process, so fork is safe"
    return Choice(value="fork", rule=f"{NAME}.quiet-process", because=because)


def _other_than_fork(facts: HostFacts, hazard: Hazard | None) -> Choice[Any]:
    methods, in_force = facts.start_methods, _in_force(facts)
    usual = in_force or methods.default
    if usual == "fork" and hazard is not None:
        spare = "spawn" if "forkserver" not in methods.available or facts.system.platform == "macos" else "forkserver"
        return Choice(value=spare, rule=f"{NAME}.{hazard.rule}", because=f"fork is not safe: {hazard.because}")
    return _process_default(usual) if in_force is None else _set_by_process(usual)


def _set_by_process(method: Any) -> Choice[Any]:
    because = f"the start method of this process is set to {method} already"
    return Choice(value=method, rule=f"{NAME}.set-by-process", because=because)


def _process_default(method: Any) -> Choice[Any]:
    because = f"Python's default on this system is {method or 'not known'}"
    return Choice(value=method, rule=f"{NAME}.process-default", because=because)


def find_hazard(facts: HostFacts, open_handle: str | None = None, *, has_opened: bool = False) -> Hazard | None:
    """
    Return why fork is not safe in this process; ``None`` where nothing is known that speaks against it.
    """
    return next(_hazards(facts, open_handle, has_opened), None)


def _hazards(facts: HostFacts, open_handle: str | None, has_opened: bool) -> Iterator[Hazard]:
    process = facts.process
    if facts.system.platform == "macos":
        yield Hazard("the system libraries of macOS do not survive it")
    if process.other_threads:
        names = ", ".join(repr(name) for name in process.other_threads[:3])
        yield Hazard(f"other threads run in this process ({names}), and a lock that one holds would never be released")
    if process.fork_unsafe_modules:
        yield Hazard(f"{process.fork_unsafe_modules[0]} is loaded, which does not survive it")
    if open_handle is not None:
        yield Hazard(f"dataset.{open_handle} is open, and forked workers would share its position")
    if has_opened:
        because = "fetching samples has opened files that are still open, and forked workers would share them"
        yield Hazard(because, rule="handle-opened")
    if process.is_accelerator_initialised:
        yield Hazard("an accelerator is in use in this process", is_certain=False)
    elif process.native_threads:
        yield Hazard(f"{process.native_threads} threads of libraries run in this process")


def method_name(value: Any) -> str | None:
    """
    Return the start method behind the value of ``multiprocessing_context``: its name, or a context object's.
    """
    return value if value is None or isinstance(value, str) else value.get_start_method()


def fork_seconds(facts: HostFacts, context: Any) -> float | None:
    """
    Return how long forking one more worker takes; ``None`` where workers start otherwise.
    """
    return forking_seconds(facts.process.anonymous_bytes) if method_name(context) == "fork" else None
