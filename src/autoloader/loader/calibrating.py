"""
calibrate: measure a dataset in a process of its own, try settings for real, and return the best with all that was seen.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, perf_counter, process_time
from typing import Any

from ..calibration import Calibration, Trial
from ..errors import ArgumentError, CalibrationError, MissingMainGuardError
from ..findings import describe
from ..plan import Plan
from ..policy import Measured, Outlook, cpus_of_rank, expected_epochs_left, most_measured, recommend
from ..policy.multiprocessing_context import method_name
from ..profiling.inspect import length_of
from ..records import number_text
from ..traits import Profile
from ..tuning.assistant import Assistant, AssistantError, OutOfTimeError
from ..tuning.candidates import Situation, choose
from ..tuning.laboratory import Subject
from ..tuning.trials import Outcome, run_trials
from .auto_loader import AutoLoader
from .opening import request_of, shared_bytes
from .starting import GUARD

logger = logging.getLogger("autoloader")

STEP_RUNS = 3
MOST_CURVE = 1.3
"""
The curve goes on to so many times the largest number of workers that was tried.
"""


def calibrate_loader(
    loader: AutoLoader[Any],
    *,
    budget_seconds: float = 20.0,
    step: Callable[[Any], object] | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Calibration:
    """
    Measure what *loader* loads; the loader itself stays as it is.

    Args:
        loader: What is measured.
        budget_seconds: Seconds that all of it may take.
        step: What the training does with a batch.
        progress: Told what is being done.

    Raises:
        ArgumentError: The budget is not a number above 0.
        CalibrationError: The dataset raised, gave no batch in time, or no process could start.
        MissingMainGuardError: The process that measures would run the script again.
    """
    if not _is_time(budget_seconds):
        raise ArgumentError(describe("calibration.budget", value=budget_seconds))
    begun = monotonic()
    deadline = begun + budget_seconds
    context = _context_for(loader)
    subject = _subject_of(loader)
    try:
        progress("first batches")
        with Assistant(method_name(context) or "spawn", subject, deadline) as assistant:
            profile = assistant.ask("profile", shared_bytes(loader._facts))
            profile = _with_step(assistant, profile, step, progress)
            situation = _situation(loader, profile, context)
            outcome = _try(assistant, loader, situation, context, deadline, progress)
    except OutOfTimeError as error:
        text = describe("calibration.out-of-time", what=error, seconds=number_text(budget_seconds))
        raise CalibrationError(text) from None
    except AssistantError as error:
        raise CalibrationError(_failed(str(error).strip())) from None
    return _calibration(loader, situation, outcome, monotonic() - begun)


def _failed(told: str) -> str:
    """
    Return that loading failed and why: the last line of what the child told, and all of it if that is a traceback.
    """
    *rest, last = told.splitlines()
    text = describe("calibration.failed", error=last.rstrip("."))
    return f"{text}\n\n{told}" if rest else text


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 < value < float("inf")


def _context_for(loader: AutoLoader[Any]) -> Any:
    """
    Return the start method by which a process can measure the dataset.

    Raises:
        CalibrationError: There is none.
        MissingMainGuardError: It would run the script again.
    """
    plan = loader.plan
    workers = replace(plan.choices["num_workers"], value=max(1, plan.value("num_workers") or 0))
    backend = replace(plan.choices["backend"], value="process", rule="backend.workers")
    started = loader._settled(replace(plan, choices={**plan.choices, "num_workers": workers, "backend": backend}))
    found = started.obstacle
    if found is not None:
        text = describe("calibration.no-process", because=found.because, fix=found.fix)
        raise (MissingMainGuardError if found.rule == GUARD else CalibrationError)(text)
    return started.plan.value("multiprocessing_context")


def _subject_of(loader: AutoLoader[Any]) -> Subject:
    parts = loader._parts()
    sampler = range(0) if parts.is_iterable else parts.sampler
    return Subject(
        parts.dataset, sampler, parts.makes_batches, parts.collate_fn, parts.worker_init_fn, dict(parts.rest)
    )


def _with_step(
    assistant: Assistant, profile: Profile, step: Callable[[Any], object] | None, progress: Callable[[str], object]
) -> Profile:
    """
    Return *profile* with what the training does, in this process; without it a batch is taken at once.
    """
    if step is None:
        return replace(profile, step_seconds=0.0, step_cpu_seconds=0.0)
    progress("training steps")
    batch = assistant.batch()
    step(batch)  # the first one allocates, compiles and chooses
    seconds = []
    for _ in range(STEP_RUNS):
        wall, cpu = perf_counter(), process_time()
        step(batch)
        seconds.append((perf_counter() - wall, process_time() - cpu))
    wall, cpu = min(seconds)
    return replace(profile, step_seconds=wall, step_cpu_seconds=cpu)


def _situation(loader: AutoLoader[Any], profile: Profile, context: Any) -> Situation:
    batches = length_of(loader)
    outlook = Outlook(batches, batches, expected_epochs_left(loader.epochs, 0))
    most = most_measured(loader._facts, loader._traits, request_of(loader), context, profile)
    if profile.transfer_seconds is None or _must_be_inline(loader):
        most = 0
    return Situation(profile, cpus_of_rank(loader._facts), most, outlook, method_name(context) == "fork")


def _must_be_inline(loader: AutoLoader[Any]) -> bool:
    return loader.plan.choices["num_workers"].rule == "num_workers.iterable-not-sharded"


def _try(
    assistant: Assistant,
    loader: AutoLoader[Any],
    situation: Situation,
    context: Any,
    deadline: float,
    progress: Callable[[str], object],
) -> Outcome:
    plan = loader.plan

    def settings(workers: int) -> dict[str, Any]:
        if not workers:
            return {"num_workers": 0}
        factor = plan.value("prefetch_factor")
        prefetch = {} if factor is None else {"prefetch_factor": factor}
        return {"num_workers": workers, "multiprocessing_context": context, **prefetch}

    fixed = plan.value("num_workers") if plan.choices["num_workers"].rule == "num_workers.fixed" else None
    return run_trials(assistant, situation, settings, deadline, only=fixed, progress=progress)


def _calibration(loader: AutoLoader[Any], situation: Situation, outcome: Outcome, seconds: float) -> Calibration:
    trials = outcome.trials(situation)
    best = None
    if trials:
        steps = {trial.num_workers: trial.step_seconds for trial in trials}
        best = choose(situation, steps, {trial.num_workers: trial.first_batch_seconds for trial in trials})
    most = max([situation.best(), *(trial.num_workers for trial in trials)])
    counts = range(min(situation.most, max(2, int(MOST_CURVE * most))) + 1)
    return Calibration(
        plan=_plan(loader, situation, best, trials),
        profile=situation.profile,
        trials=trials,
        cpus=situation.cpus,
        curve=tuple((workers, situation.step(workers)) for workers in counts),
        seconds=seconds,
        stopped_by=outcome.stopped_by,
    )


def _plan(loader: AutoLoader[Any], situation: Situation, best: int | None, trials: tuple[Trial, ...]) -> Plan:
    measured = Measured(situation.profile, situation.outlook, best, trials_text(trials))
    return loader._with_notes(recommend(loader._facts, loader._traits, request_of(loader), measured))


def trials_text(trials: tuple[Trial, ...]) -> str:
    """
    Return what trials saw, the fastest first.
    """
    ordered = sorted(trials, key=lambda trial: trial.step_seconds)
    rates = (f"{trial.num_workers}: {number_text(1 / trial.step_seconds)}" for trial in ordered[:4])
    return f"batches a second in trials, by number of workers: {', '.join(rates)}"
