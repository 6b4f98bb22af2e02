"""
Puts the choices of all arguments together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..facts import HostFacts, SharedMemoryFacts
from ..findings import describe
from ..plan import PASSED_ON, Choice, LoaderRequest, Note, Plan
from ..records import number_text
from ..traits import DatasetTraits
from .backend import choose_backend, find_obstacle
from .fixed import fixed_choice
from .limits import size_text
from .multiprocessing_context import choose_multiprocessing_context
from .num_workers import choose_num_workers, repeats_in_workers
from .persistent_workers import choose_persistent_workers, torchs_own
from .pin_memory import choose_pin_memory
from .prefetch_factor import choose_prefetch_factor, crosses_network


def recommend(facts: HostFacts, traits: DatasetTraits, request: LoaderRequest) -> Plan:
    """
    Choose every argument that autoloader decides.

    Args:
        facts: The host.
        traits: The dataset.
        request: What the caller fixed; it stands as it is.

    Returns:
        One choice for each argument. Its :meth:`~autoloader.Plan.as_kwargs` are legal for a DataLoader unless the
        user's own values contradict each other.
    """
    context = choose_multiprocessing_context(facts, request)
    workers = choose_num_workers(facts, traits, request, context.value)
    if not workers.value and "multiprocessing_context" not in request.fixed:
        because = "no process is started"
        context_shown = Choice(value=None, rule="multiprocessing_context.no-workers", because=because)
    else:
        context_shown = context
    choices: dict[str, Choice[Any]] = {
        "num_workers": workers,
        "prefetch_factor": choose_prefetch_factor(facts, traits, request, workers.value),
        "persistent_workers": choose_persistent_workers(traits, request, workers),
        "pin_memory": choose_pin_memory(facts, request),
        "multiprocessing_context": context_shown,
        "backend": choose_backend(facts, workers.value, context.value),
    }
    for name in PASSED_ON:
        given = fixed_choice(name, request)
        if given is not None:
            choices[name] = given
    plan = Plan(choices=choices, notes=tuple(_notes(facts, traits, choices, context.value)))
    return with_repetition_note(plan, traits)


def with_repetition_note(plan: Plan, traits: DatasetTraits) -> Plan:
    """
    Return *plan* with a note where several workers would each yield the whole dataset, whoever set their number.
    """
    workers = plan.value("num_workers")
    if not repeats_in_workers(traits) or workers < 2:
        return plan
    return replace(plan, notes=(*plan.notes, _note("dataset.iterable-repeated", workers=workers)))


def revise(plan: Plan, facts: HostFacts) -> Plan:
    """
    Return *plan* with the choices made anew that depend on what can change after a loader was made.

    Args:
        plan: What was chosen, and what the user set since.
        facts: The host and this process, as they are now.
    """
    choices = dict(plan.choices)
    in_force, context = facts.start_methods.in_force, choices["multiprocessing_context"]
    if context.rule == "multiprocessing_context.process-default" and in_force not in {None, context.value}:
        choices["multiprocessing_context"] = choose_multiprocessing_context(facts, LoaderRequest())
    method = choices["multiprocessing_context"].value or in_force or facts.start_methods.default
    choices["backend"] = choose_backend(facts, plan.value("num_workers"), method)
    persistent = choices["persistent_workers"]
    if choices["num_workers"].rule == "num_workers.fixed" and persistent.rule == "persistent_workers.many-epochs":
        choices["persistent_workers"] = torchs_own()
    return plan if choices == plan.choices else replace(plan, choices=choices)


def _notes(facts: HostFacts, traits: DatasetTraits, choices: Mapping[str, Choice[Any]], context: Any) -> Iterator[Note]:
    """
    Yield what the user could change on the host or in the dataset, where it decided a choice.
    """
    rules = {choice.rule for choice in choices.values()}
    if rules & {"num_workers.shared-memory", "prefetch_factor.shared-memory"}:
        yield _shared_memory_note(facts.shared_memory)
    if rules & {"num_workers.open-files", "prefetch_factor.open-files"}:
        yield _note("host.open-files-low", limit=f"{facts.limits.open_files_soft:.0f}")
    if facts.cpu.bound_by == "quota_cpus" and facts.cpu.quota_cpus is not None and facts.cpu.logical is not None:
        quota = number_text(facts.cpu.quota_cpus)
        yield _note("host.cpu-quota", quota=quota, logical=facts.cpu.logical)
    if "num_workers.iterable-not-sharded" in rules:
        yield _note("dataset.iterable-not-sharded")
    if traits.open_handle is not None and (choices["num_workers"].value or "num_workers.open-handle" in rules):
        yield _note("dataset.open-handle", name=traits.open_handle)
    if "num_workers.no-batches" in rules:
        yield _note("dataset.empty")
    obstacle = find_obstacle(facts, context)
    is_inline_for_it = bool(rules & {"num_workers.reimports-main", "backend.reimports-main"})
    if obstacle is not None and obstacle.note is not None and is_inline_for_it and not traits.is_in_memory:
        yield obstacle.note
    if crosses_network(facts, traits):
        yield _note("storage.network", path=traits.path, filesystem=facts.storage.filesystem or "another machine")
    if "num_workers.storage-hdd" in rules:
        yield _note("storage.hdd", path=traits.path)


def _shared_memory_note(shared: SharedMemoryFacts) -> Note:
    if shared.is_writable is False:
        return _note("host.shared-memory-read-only", path=shared.path)
    return _note("host.shared-memory-small", path=shared.path, free=size_text(shared.free_bytes or 0))


def _note(finding: str, **evidence: object) -> Note:
    return Note(finding=finding, text=describe(finding, **evidence))
