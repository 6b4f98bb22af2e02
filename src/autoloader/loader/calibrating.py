"""
calibrate: measure a dataset in a process of its own, try settings for real, and return the best with all that was seen.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic, perf_counter, process_time
from typing import Any

from ..calibration import INTERRUPT, Calibration, Trial
from ..errors import ArgumentError, CalibrationError, MissingMainGuardError
from ..findings import describe, describe_parts
from ..plan import Plan
from ..policy import Measured, Outlook, cpus_of_rank, expected_epochs_left, fork_seconds, most_measured, recommend
from ..policy.multiprocessing_context import method_name
from ..policy.prefetch_factor import choose_prefetch_factor
from ..profiling import find_open_handle
from ..profiling.inspect import length_of
from ..records import number_text, printable
from ..traits import Profile
from ..tuning.assistant import Assistant, AssistantError, CannotStartError, NoBatchError, OutOfTimeError
from ..tuning.candidates import Situation, choose
from ..tuning.laboratory import Subject
from ..tuning.trials import Outcome, run_trials
from .auto_loader import AutoLoader
from .knowledge import shared_bytes
from .request import request_of
from .settling import settled_plan
from .starting import GUARD, refuse_in_starting_worker

logger = logging.getLogger("autoloader")

BUDGET_SECONDS = 20.0
"""
What a calibration may take where nobody says.
"""

STEP_RUNS = 3
STEP_FRACTION = 0.25
"""
Of the time that is left, no more than this part goes to timing the training's own step, unless one step takes longer.
"""

MOST_CURVE = 1.3
"""
The curve goes on to so many times the largest number of workers that was tried.
"""


def calibrate_loader(
    loader: AutoLoader[Any],
    *,
    budget_seconds: float | None = None,
    step: Callable[[Any], object] | None = None,
    progress: Callable[[str], object] = lambda _: None,
    while_waiting: Callable[[], object] = lambda: None,
) -> Calibration:
    """
    Measure what *loader* loads; the loader itself stays as it is.

    Args:
        loader: What is measured.
        budget_seconds: Seconds that all of it may take; ``None`` for some, and no more than it is worth.
        step: What the training does with a batch.
        progress: Told what is being done.
        while_waiting: Called several times a second; what it raises ends the calibration.

    Raises:
        ArgumentError: The budget is not a number above 0.
        CalibrationError: The dataset raised, gave no batch in time, no process could start, or AUTOLOADER_OFF is set.
        MissingMainGuardError: The process that measures would run the script again.
    """
    seconds = BUDGET_SECONDS if budget_seconds is None else budget_seconds
    if not _is_time(seconds):
        raise ArgumentError(describe("calibration.budget", value=budget_seconds))
    if loader._is_off:
        raise CalibrationError(describe("calibration.switched-off"))
    refuse_in_starting_worker()
    begun = monotonic()
    deadline = begun + seconds
    method = _method_for(loader)
    outcome = None
    try:
        progress("first batches")
        with Assistant(method, _subject_of(loader), deadline, while_waiting) as assistant:
            profile = assistant.ask("profile", shared_bytes(loader._facts))
            profile = _with_step(assistant, profile, step, deadline, progress)
            situation = _situation(loader, profile, method)
            outcome = _try(
                assistant,
                loader,
                situation,
                method,
                deadline=deadline,
                begun=begun if budget_seconds is None else None,
                progress=progress,
            )
    except AssistantError as error:
        raise CalibrationError(_text_of(error, loader, seconds)) from None
    except KeyboardInterrupt:
        if outcome is None:
            raise
        outcome = outcome._replace(stopped_by=INTERRUPT)
    assert outcome is not None
    found = _calibration(loader, situation, outcome, monotonic() - begun)
    if found.stopped_by != INTERRUPT:
        was_cut_off = not found.trials and found.stopped_by == "budget"  # another run may be luckier
        loader._first.known.keep_calibration(loader, found, outcome.failed, lasts=not was_cut_off)
    return found


def _text_of(error: AssistantError, loader: AutoLoader[Any], budget_seconds: float) -> str:
    """
    Return what went wrong; of the dataset's own error the last line, and all of it below.
    """
    told = str(error)
    if isinstance(error, OutOfTimeError):
        return describe("calibration.out-of-time", what=told, seconds=number_text(budget_seconds))
    if isinstance(error, NoBatchError):
        return describe("calibration.no-batch")
    if isinstance(error, CannotStartError):
        return describe("calibration.not-started", reason=told)
    *rest, last = told.splitlines()
    text = describe("calibration.failed", error=last.rstrip("."), workers=_fixed_workers(loader) or 0)
    return f"{text}\n\n{told}" if rest else text


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 < value < float("inf")


def _method_for(loader: AutoLoader[Any]) -> str:
    """
    Return the start method by which a process can measure the dataset.

    Raises:
        CalibrationError: There is none.
        MissingMainGuardError: It would run the script again.
    """
    plan = loader.plan
    workers = replace(plan.choices["num_workers"], value=max(1, plan.value("num_workers") or 0))
    backend = replace(plan.choices["backend"], value="process", rule="backend.workers")
    started = settled_plan(loader, replace(plan, choices={**plan.choices, "num_workers": workers, "backend": backend}))
    found = started.obstacle
    if found is not None:
        text = describe("calibration.no-process", because=found.because, fix=found.fix)
        raise (MissingMainGuardError if found.rule == GUARD else CalibrationError)(text)
    method = method_name(started.plan.value("multiprocessing_context")) or "spawn"
    handle = find_open_handle(loader.dataset) if method == "fork" else None
    if handle is not None:
        because, fix = describe_parts("dataset.open-handle", name=handle)
        raise CalibrationError(describe("calibration.no-process", because=because.rstrip("."), fix=fix))
    return method


def _subject_of(loader: AutoLoader[Any]) -> Subject:
    parts = loader._parts()
    sampler = range(0) if parts.is_iterable else parts.sampler
    return Subject(
        parts.dataset, sampler, parts.makes_batches, parts.collate_fn, parts.worker_init_fn, dict(parts.rest)
    )


def _with_step(
    assistant: Assistant,
    profile: Profile,
    step: Callable[[Any], object] | None,
    deadline: float,
    progress: Callable[[str], object],
) -> Profile:
    """
    Return *profile* with what the training does, in this process; without it a batch is taken at once.

    Raises:
        CalibrationError: No batch comes to this process.
    """
    if step is None:
        return replace(profile, step_seconds=0.0, step_cpu_seconds=0.0)
    if profile.transfer_seconds is None:
        raise CalibrationError(describe("calibration.step-without-batch"))
    progress("training steps")
    batch = assistant.batch()
    seconds: list[tuple[float, float]] = []
    enough = monotonic() + STEP_FRACTION * (deadline - monotonic())
    while not seconds or (len(seconds) <= STEP_RUNS and monotonic() < enough):
        wall, cpu = perf_counter(), process_time()
        step(batch)
        seconds.append((perf_counter() - wall, process_time() - cpu))
    wall, cpu = min(seconds[1:] or seconds)  # the first one allocates, compiles and chooses
    return replace(profile, step_seconds=wall, step_cpu_seconds=cpu)


def _situation(loader: AutoLoader[Any], profile: Profile, method: str) -> Situation:
    batches = length_of(loader)
    outlook = Outlook(batches, batches, expected_epochs_left(loader.epochs, 0))
    most = most_measured(loader._facts, loader._traits, request_of(loader), method, profile)
    if profile.transfer_seconds is None or _must_be_inline(loader):
        most = 0
    elif batches is not None:
        most = min(most, batches)
    return Situation(profile, cpus_of_rank(loader._facts), most, outlook, fork_seconds(loader._facts, method))


def _must_be_inline(loader: AutoLoader[Any]) -> bool:
    return loader.plan.choices["num_workers"].rule == "num_workers.iterable-not-sharded"


def _fixed_workers(loader: AutoLoader[Any]) -> int | None:
    """
    Return the number of workers that the user has set.
    """
    choice = loader.plan.choices["num_workers"]
    return int(choice.value) if choice.rule == "num_workers.fixed" else None


def _try(
    assistant: Assistant,
    loader: AutoLoader[Any],
    situation: Situation,
    method: str,
    **limits: Any,
) -> Outcome:
    request = request_of(loader)

    def settings(workers: int) -> dict[str, Any]:
        if not workers:
            return {"num_workers": 0}
        factor = choose_prefetch_factor(loader._facts, loader._traits, request, workers, situation.profile).value
        ordered = {"in_order": False} if loader.plan.value("in_order") is False else {}
        return {"num_workers": workers, "multiprocessing_context": method, "prefetch_factor": factor, **ordered}

    return run_trials(assistant, situation, settings, only=_fixed_workers(loader), **limits)


def _calibration(loader: AutoLoader[Any], situation: Situation, outcome: Outcome, seconds: float) -> Calibration:
    trials = outcome.trials(situation)
    best = None
    if trials:
        steps = {trial.num_workers: trial.step_seconds for trial in trials}
        best = choose(situation, steps, {trial.num_workers: trial.first_batch_seconds for trial in trials})
    elif outcome.failed:
        best = 0
    most = max([situation.best(), *(trial.num_workers for trial in trials)])
    counts = range(min(situation.most, max(2, int(MOST_CURVE * most))) + 1)
    return Calibration(
        plan=_plan(loader, situation, best, trials_text(trials, outcome.failed)),
        profile=situation.profile,
        trials=trials,
        cpus=situation.cpus,
        curve=tuple((workers, situation.step(workers)) for workers in counts),
        seconds=seconds,
        stopped_by=outcome.stopped_by,
    )


def _plan(loader: AutoLoader[Any], situation: Situation, best: int | None, tried: str) -> Plan:
    measured = Measured(situation.profile, situation.outlook, best, tried)
    return loader._with_notes(recommend(loader._facts, loader._traits, request_of(loader), measured))


def trials_text(trials: Iterable[Trial], failed: Mapping[int, str]) -> str:
    """
    Return what trials saw, the fastest first, and why those failed that saw nothing.
    """
    ordered = sorted(trials, key=lambda trial: trial.step_seconds)
    rates = ", ".join(f"{trial.num_workers}: {number_text(1 / trial.step_seconds)}" for trial in ordered[:4])
    seen = [f"batches a second in trials, by number of workers: {rates}"] if rates else []
    reasons = [f"with {workers} it failed ({printable(why)})" for workers, why in sorted(failed.items())]
    return "; ".join([*seen, *reasons[:1]])
