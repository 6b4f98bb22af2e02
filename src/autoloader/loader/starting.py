"""
From a plan to what can start here and now: the start method, and where batches load if no worker may start.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..errors import MissingMainGuardError, WorkersCannotStartError
from ..facts import HostFacts
from ..findings import describe
from ..plan import NEEDS_WORKERS, Choice, LoaderRequest, Note, Plan
from ..policy import Obstacle, fallback, find_hazard, find_obstacle, find_obstacle_to, obstacle, start_candidates
from ..policy.limits import size_text
from ..policy.multiprocessing_context import method_name
from ..policy.numa import near_cpus
from ..start import main_guard, round_trip
from .warn import warn_once

logger = logging.getLogger("autoloader")

NUMA_NEAR = "host.numa-near"
GUARD = "missing-main-guard"
FEWER_AFTER_DEATHS = "num_workers.fewer-after-deaths"
STREAM_RESUMED = "num_workers.stream-resumed"
FORK_UNSAFE = frozenset({"multiprocessing_context.fork-unsafe", "multiprocessing_context.handle-opened"})
_NOTHING_TO_FIX = frozenset({"nested-worker", "daemonic"})


class Started(NamedTuple):
    """
    A plan for this moment, and why no worker starts, if that is so.
    """

    plan: Plan
    obstacle: Obstacle | None


def settle(
    plan: Plan,
    facts: HostFacts,
    parts: Mapping[str, Any],
    *,
    style: str,
    open_handle: str | None,
    has_opened: bool = False,
) -> Started:
    """
    Choose the start method and the backend of workers that are about to start.

    Args:
        plan: What was chosen before, and what the user set.
        facts: The host, and this process as it is now.
        parts: What a worker would get, by the names that the user knows it by.
        style: Whether the dataset is map-style or iterable-style.
        open_handle: The attribute of the dataset that holds an open file.
        has_opened: Whether fetching samples in this process has opened files that are still open.
    """
    context = plan.choices["multiprocessing_context"]
    fixed = {"multiprocessing_context": context.value} if is_users(context) else {}
    candidates = start_candidates(facts, LoaderRequest(fixed=fixed), open_handle, has_opened=has_opened)
    found = find_obstacle(facts, plan.value("num_workers") or 1)
    if not plan.value("num_workers"):
        found = found or find_obstacle_to(method_name(candidates[0].value), facts)
        return Started(_without_obstacle(plan) if found is None else with_fallback(plan, found, style), found)
    for candidate in candidates if found is None else ():
        problem = _problem_of(candidate, facts, parts, plan.value("num_workers"))
        if problem is None:
            return Started(_with_process(plan, candidate, found), None)
        found = found or _after(candidate, problem)
        if problem.rule == GUARD and candidate.rule not in FORK_UNSAFE:
            break  # torch's own start would end here, too, and the user has to know
    assert found is not None
    return Started(with_fallback(plan, found, style, candidates[0]), found)


def at_this_moment(facts: HostFacts, now: HostFacts) -> HostFacts:
    """
    Return what is known of the host, with the state of this process as it is now.
    """
    cpu = facts.cpu._replace(
        affinity=now.cpu.affinity, affinity_now=now.cpu.affinity_now, affinity_bound_by=now.cpu.affinity_bound_by
    )
    return facts._replace(start_methods=now.start_methods, job=now.job, process=now.process, cpu=cpu)


def is_users(choice: Choice[Any]) -> bool:
    """
    Return whether the user set it.
    """
    return choice.rule.endswith(".fixed")


def _problem_of(
    candidate: Choice[Any], facts: HostFacts, parts: Mapping[str, Any], num_workers: int
) -> Obstacle | None:
    """
    Return why workers cannot start by a method, the answer that costs least first.
    """
    method = method_name(candidate.value)
    if method in {None, "fork"}:
        return None
    known = find_obstacle_to(method, facts)
    if known is not None:
        return known
    place = main_guard.find_unguarded() if facts.process.reimported_main is not None else None
    if place is not None:
        stands = {"file": place.file, "line": place.line, "code": place.code, "fix": place.fix}
        return obstacle("process.missing-main-guard", method=method, **stands)
    try:
        unloadable = round_trip.find_unloadable(method or "", parts)
    except round_trip.ChildStartError as error:
        return start_failed(error)
    if unloadable is not None:
        part = {"path": unloadable.path, "reason": unloadable.reason, "fix": unloadable.fix}
        return obstacle("process.unloadable", method=method, **part)
    return _too_large(facts, parts, num_workers) if candidate.rule in FORK_UNSAFE else None


def _too_large(facts: HostFacts, parts: Mapping[str, Any], num_workers: int) -> Obstacle | None:
    """
    Return whether copies for all workers would not fit into half of the free memory; forked ones would share it.
    """
    copied, free = round_trip.copied_bytes(parts) * num_workers, facts.memory.headroom_bytes
    if free is None or copied <= free / 2:
        return None
    return obstacle("process.too-large", workers=num_workers, copied=size_text(copied), free=size_text(free))


def _after(candidate: Choice[Any], problem: Obstacle) -> Obstacle:
    """
    Return a problem together with the reason for which its start method was tried.
    """
    if candidate.rule not in FORK_UNSAFE:
        return problem
    fix = f"{problem.fix} Or pass multiprocessing_context='fork', if fork is safe here after all."
    return problem._replace(because=f"{candidate.because}, and {problem.because}", fix=fix)


def _without_obstacle(plan: Plan) -> Plan:
    """
    Return a plan that was made without workers, because of an obstacle that has gone since.
    """
    backend = Choice(value="inline", rule="backend.no-workers", because="there are no workers")
    return replace(plan, choices={**plan.choices, "backend": backend}, notes=_other_notes(plan))


def _with_process(plan: Plan, context: Choice[Any], tried: Obstacle | None) -> Plan:
    if tried is not None:
        context = replace(context, because=f"{context.because}, and {tried.because}")
    backend = Choice(value="process", rule="backend.workers", because="worker processes can start here")
    choices = {**plan.choices, "multiprocessing_context": context, "backend": backend}
    return replace(plan, choices=choices, notes=_other_notes(plan))


def _other_notes(plan: Plan) -> tuple[Note, ...]:
    """
    Return the notes of *plan* that do not tell why no worker starts.
    """
    return tuple(note for note in plan.notes if not note.finding.startswith("process."))


def with_fallback(plan: Plan, found: Obstacle, style: str, context: Choice[Any] | None = None) -> Plan:
    """
    Return *plan* without worker processes, because of *found*, which was met with the start method *context*.
    """
    choices = {**plan.choices, "backend": fallback(found, style)}
    if context is not None:
        choices["multiprocessing_context"] = context
    return replace(plan, choices=choices, notes=(*_other_notes(plan), found.note))


def with_inline(plan: Plan, because: str) -> Plan:
    """
    Return *plan* with batches that load inline, where a thread turned out not to do.
    """
    backend = Choice(value="inline", rule="backend.not-in-a-thread", because=because)
    return replace(plan, choices={**plan.choices, "backend": backend})


def with_fewer_workers(plan: Plan, num_workers: int) -> Plan:
    """
    Return *plan* with so many workers, as more of them died where memory was short.
    """
    because = "workers died where memory was short, and half as many go on"
    workers = Choice(value=num_workers, rule=FEWER_AFTER_DEATHS, because=because)
    return replace(plan, choices={**plan.choices, "num_workers": workers})


def with_workers_of_stream(plan: Plan, num_workers: int) -> Plan:
    """
    Return *plan* with so many workers, as so many have read the stream that goes on.
    """
    because = f"the epoch goes on where it was saved, and {num_workers} workers had read it"
    workers = Choice(value=num_workers, rule=STREAM_RESUMED, because=because)
    return replace(plan, choices={**plan.choices, "num_workers": workers})


def without_workers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the arguments of a DataLoader without those that need workers.
    """
    return {name: value for name, value in settings.items() if name not in NEEDS_WORKERS} | {"num_workers": 0}


def cpus_for_workers(facts: HostFacts, numa: str, num_workers: int) -> frozenset[int] | None:
    """
    Return the CPUs that workers shall have, ``None`` for those that they inherit.

    They are those near the accelerator, or all of this process's where OpenMP bound the thread that starts them.
    """
    cpu, near = facts.cpu, near_cpus(facts, num_workers) if numa == "auto" else None
    if near is not None:
        return frozenset(near.cpus)
    if cpu.affinity is None or cpu.affinity_now in {None, cpu.affinity}:
        return None
    return frozenset(cpu.affinity)


def with_numa_note(plan: Plan, facts: HostFacts, numa: str) -> Plan:
    """
    Return *plan* with a note where workers run near the accelerator, and without one where they do not.
    """
    others = tuple(note for note in plan.notes if note.finding != NUMA_NEAR)
    starts = numa == "auto" and plan.value("backend") == "process"
    near = near_cpus(facts, plan.value("num_workers")) if starts else None
    if near is None:
        return replace(plan, notes=others) if others != plan.notes else plan
    cpus = f"{len(near.cpus)} CPU{'' if len(near.cpus) == 1 else 's'}"
    note = Note(finding=NUMA_NEAR, text=describe("host.numa-near", node=near.node, cpus=cpus))
    return replace(plan, notes=(*others, note))


def start_failed(error: Exception) -> Obstacle:
    """
    Return the obstacle that only the attempt to start a worker showed.
    """
    return obstacle("process.start-failed", error=error)


def refuse_in_starting_worker() -> None:
    """
    Refuse to iterate where a worker imports the script again.

    Raises:
        MissingMainGuardError: This process is such a worker.
    """
    if main_guard.is_starting_worker():
        place = main_guard.find_in_starting_worker()
        iterates = {"file": place.file, "line": place.line, "code": place.code, "fix": place.fix}
        raise MissingMainGuardError(describe("process.importing-main", **iterates))


def report(
    plan: Plan, found: Obstacle, *, must_raise: bool, has_init: bool, local_rank: int | None, stacklevel: int
) -> None:
    """
    Say once that no worker starts, or raise it.

    Args:
        plan: The plan without worker processes.
        found: Why.
        must_raise: Whether the user wants an error.
        has_init: Whether the user gave a ``worker_init_fn``, which nobody will call.
        local_rank: Number of this process on its node.
        stacklevel: How many frames above the caller the user's own line is.

    Raises:
        MissingMainGuardError: The user asked for workers, and torch's own start would fail here, too.
        WorkersCannotStartError: The user asked for an error wherever no worker can start.
    """
    workers, asked = plan.value("num_workers"), plan.has_users_workers
    error = f"{f'num_workers={workers}' if workers else 'A worker process'} cannot start: {found.because}. {found.fix}"
    if found.rule == GUARD and (
        must_raise or (asked and plan.choices["multiprocessing_context"].rule not in FORK_UNSAFE)
    ):
        raise MissingMainGuardError(error)
    if must_raise:
        raise WorkersCannotStartError(error)
    rule = f"backend.{found.rule}"
    if not asked and found.rule in _NOTHING_TO_FIX:
        logger.info("%s: batches load in the training process, because %s", rule, found.because)
        return
    what = f"num_workers={workers} starts no process" if workers else "no worker process starts"
    where = "in the training process, where worker_init_fn is not called" if has_init else "in the training process"
    evidence = {"rule": rule, "what": what, "because": found.because, "where": where, "fix": found.fix}
    text = describe("process.workers-not-started", **evidence)
    logger.info("%s", text)
    warn_once(rule, text, local_rank=local_rank, stacklevel=stacklevel + 1)


def report_method(plan: Plan, facts: HostFacts, *, stacklevel: int) -> None:
    """
    Say once that the user forks from a process in which that is not safe, or that we do not fork where torch would.
    """
    context, hazard = plan.choices["multiprocessing_context"], find_hazard(facts)
    if context.rule in FORK_UNSAFE:
        unsafe = {"rule": context.rule, "method": context.value, "because": context.because}
        rule, text = context.rule, describe("process.not-forked", **unsafe)
    elif is_users(context) and method_name(context.value) == "fork" and hazard is not None and hazard.is_certain:
        rule, text = "backend.fork-unsafe", describe("process.fork-unsafe", because=hazard.because)
    else:
        return
    logger.info("%s", text)
    warn_once(rule, text, local_rank=facts.job.local_rank, stacklevel=stacklevel + 1)
