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
from .backend import choose_backend, find_obstacle, find_obstacle_to
from .fixed import fixed_choice
from .limits import size_text
from .multiprocessing_context import choose_multiprocessing_context, method_name
from .num_workers import Measured, choose_num_workers, repeats_in_workers
from .persistent_workers import choose_persistent_workers, torchs_own
from .pin_memory import choose_pin_memory
from .prefetch_factor import choose_prefetch_factor, crosses_network


def recommend(
    facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, measured: Measured | None = None
) -> Plan:
    """
    Choose every argument that autoloader decides.

    Args:
        facts: The host.
        traits: The dataset.
        request: What the caller fixed; it stands as it is.
        measured: What the first batches took, and what is left to load; ``None`` before anything was loaded.

    Returns:
        One choice for each argument. Its :meth:`~autoloader.Plan.as_kwargs` are legal for a DataLoader unless the
        user's own values contradict each other.
    """
    context = choose_multiprocessing_context(facts, request)
    workers = choose_num_workers(facts, traits, request, context.value, measured)
    profile = None if measured is None else measured.profile
    if not workers.value and "multiprocessing_context" not in request.fixed:
        because = "no process is started"
        context_shown = Choice(value=None, rule="multiprocessing_context.no-workers", because=because)
    else:
        context_shown = context
    choices: dict[str, Choice[Any]] = {
        "num_workers": workers,
        "prefetch_factor": choose_prefetch_factor(facts, traits, request, workers.value, profile),
        "persistent_workers": choose_persistent_workers(traits, request, workers),
        "pin_memory": choose_pin_memory(facts, request),
        "multiprocessing_context": context_shown,
        "backend": choose_backend(facts, workers, method_name(context.value), traits.style),
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


def with_own_persistence(plan: Plan) -> Plan:
    """
    Return *plan* with torch's own persistence of workers, if the user set their number after it was made.
    """
    workers, persistent = plan.choices["num_workers"], plan.choices["persistent_workers"]
    if workers.rule != "num_workers.fixed" or persistent.rule != "persistent_workers.many-epochs":
        return plan
    return replace(plan, choices={**plan.choices, "persistent_workers": torchs_own()})


def _notes(facts: HostFacts, traits: DatasetTraits, choices: Mapping[str, Choice[Any]], context: Any) -> Iterator[Note]:
    """
    Yield what the user could change on the host or in the dataset, where it decided a choice.
    """
    rules = {choice.rule for choice in choices.values()}
    is_short = bool(rules & {"num_workers.shared-memory", "prefetch_factor.shared-memory"})
    if is_short and facts.shared_memory.is_writable is not False:
        yield _shared_memory_note(facts.shared_memory)
    if "num_workers.commit" in rules:
        yield _note("host.commit-limit")
    if rules & {"num_workers.open-files", "prefetch_factor.open-files"}:
        yield _note("host.open-files-low", limit=f"{facts.limits.open_files_soft:.0f}")
    if facts.cpu.bound_by == "quota_cpus" and facts.cpu.quota_cpus is not None and facts.cpu.logical is not None:
        quota = number_text(facts.cpu.quota_cpus)
        yield _note("host.cpu-quota", quota=quota, logical=facts.cpu.logical)
    cpu = facts.cpu
    if cpu.affinity_bound_by is not None and cpu.affinity is not None and cpu.affinity_now == cpu.affinity:
        yield _note("host.openmp-binding", variable=cpu.affinity_bound_by, cpus=len(cpu.affinity))
    if "num_workers.iterable-not-sharded" in rules:
        yield _note("dataset.iterable-not-sharded")
    if traits.open_handle is not None and (choices["num_workers"].value or "num_workers.open-handle" in rules):
        yield _note("dataset.open-handle", name=traits.open_handle)
    if traits.batches_per_epoch == 0:
        yield _note("dataset.empty")
    found = find_obstacle(facts, choices["num_workers"].value or 1) or find_obstacle_to(method_name(context), facts)
    if found is not None and choices["backend"].rule == f"backend.{found.rule}":
        yield found.note
    if crosses_network(facts, traits):
        yield _note("storage.network", path=traits.path, filesystem=facts.storage.filesystem or "another machine")
    if "num_workers.storage-hdd" in rules:
        yield _note("storage.hdd", path=traits.path)


def _shared_memory_note(shared: SharedMemoryFacts) -> Note:
    return _note("host.shared-memory-small", path=shared.path, free=size_text(shared.free_bytes or 0))


def _note(finding: str, **evidence: object) -> Note:
    return Note(finding=finding, text=describe(finding, **evidence))
