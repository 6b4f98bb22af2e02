"""
Runs trials of the settings that the model cannot tell apart, until the order is clear or the time is up.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from math import ceil
from time import monotonic
from typing import Any, NamedTuple

from ..calibration import DEATH, INTERRUPT, Trial
from ..policy.model import UNKNOWN_BATCHES
from .assistant import Assistant, AssistantError, ChildDiedError, NoBatchError, OutOfTimeError
from .candidates import Situation, first_candidates, median, next_candidate, still_open, totals_of

logger = logging.getLogger("autoloader")

TIMED_SECONDS = 0.4
"""
How long the timed part of a trial shall take, by the model.
"""

MOST_ROUNDS = 200
ENOUGH_RUNS = 3
"""
So often a setting runs that the user has set.
"""

LONG_RUN_BATCHES = 3000
WORTH = 0.05
"""
Where nobody says what a calibration may take, it takes no more than this part of a training of so many batches, or of
the one that is expected, if that is longer.
"""

CAUTION = 1.5
"""
A trial begins only if so many times what the model expects of it is left.
"""


_STOPPED = {
    (True, True): "budget",
    (True, False): "no gain",
    (False, True): "no trial possible",
    (False, False): "not worth a trial",
}
"""
Why no further trial begins, by whether there was one, and whether it would be worth its time.
"""


class Outcome(NamedTuple):
    """
    What the trials saw, and why there were no more.
    """

    runs: dict[int, list[Any]]
    """For each number of workers what :meth:`Laboratory.run` returned."""
    failed: dict[int, str]
    """For each number of workers whose trial failed, why."""
    stopped_by: str

    def trials(self, situation: Situation) -> tuple[Trial, ...]:
        """
        Return a record of each number of workers.
        """
        return tuple(
            Trial(
                num_workers=workers,
                step_seconds=median(run.step_seconds for run in runs),
                first_batch_seconds=median(run.first_batch_seconds for run in runs),
                runs=len(runs),
                batches=sum(run.batches for run in runs),
                expected_seconds=situation.step(workers),
            )
            for workers, runs in sorted(self.runs.items())
        )


def rounds_for(situation: Situation, workers: int) -> tuple[int, float]:
    """
    Return how many batches a worker a trial shall time, and the seconds that the model expects of the whole trial.
    """
    load = situation.step(1) if workers else situation.step(0)
    turn = max(load, max(1, workers) * situation.step(workers), 1e-6)
    rounds = max(1, min(MOST_ROUNDS, ceil(TIMED_SECONDS / turn)))
    return rounds, situation.start(workers) + (rounds + 3) * turn


def run_trials(
    assistant: Assistant,
    situation: Situation,
    settings: Callable[[int], Mapping[str, Any]],
    deadline: float,
    *,
    only: int | None = None,
    begun: float | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """
    Try numbers of workers in turn, so that what else happens on the machine meets all of them.

    A number whose trial fails is not tried again. Where all have failed, loading inline is tried. Ctrl-C ends the
    trials, and so does the death of the child; what they saw counts.

    Args:
        assistant: Who runs them.
        situation: What the model knows.
        settings: The arguments of the DataLoader for a number of workers.
        deadline: When to have finished, on the clock of ``time.monotonic``.
        only: The number of workers to try, where the user has set it.
        begun: When the calibration began, on the same clock, where it may take a part of the training only; ``None``
            where it may take all the time that there is.
        progress: Told what is being tried.

    Raises:
        AssistantError: The number that the user has set failed.
        ChildDiedError: The child died before there was anything to see.
    """
    runs: dict[int, list[Any]] = {}
    failed: dict[int, str] = {}
    workers = 0
    waiting: Iterable[int] = first_candidates(situation) if only is None else [only]
    try:
        while True:
            for workers in waiting:
                rounds, expected = rounds_for(situation, workers)
                ended = monotonic() + CAUTION * expected
                is_worth = begun is None or ended - begun <= WORTH * training_seconds(situation, runs)
                if ended > deadline or not is_worth:
                    return Outcome(runs, failed, _STOPPED[bool(runs), is_worth])
                progress("inline" if not workers else f"{workers} worker{'s' if workers > 1 else ''}")
                run = _attempt(assistant, situation, settings(workers), rounds, must=only is not None)
                if isinstance(run, str):
                    logger.info("calibration: a trial with num_workers=%d failed: %s", workers, run)
                    failed[workers] = run.splitlines()[-1]
                    runs.pop(workers, None)
                else:
                    runs.setdefault(workers, []).append(run)
            waiting = _more(situation, runs, failed, only)
            if not waiting:
                return Outcome(runs, failed, "order clear" if runs else "no trial possible")
    except (OutOfTimeError, ChildDiedError) as error:
        is_death = isinstance(error, ChildDiedError)
        if not runs and (is_death or only is not None):
            raise
        failed = failed if workers in runs else {**failed, workers: str(error)}
        return Outcome(runs, failed, DEATH if is_death else "budget")
    except KeyboardInterrupt:
        return Outcome(runs, failed, INTERRUPT)


def training_seconds(situation: Situation, runs: Mapping[int, list[Any]]) -> float:
    """
    Return how long the training takes with the best of the settings that were tried, before that by the model.
    """
    outlook = situation.outlook
    expected = (outlook.batches or UNKNOWN_BATCHES) * (1 + outlook.epochs_left)
    tried = [median(run.step_seconds for run in each) for each in runs.values()]
    step = min(tried, default=situation.step(situation.best()))
    return max(LONG_RUN_BATCHES, expected) * step


def _attempt(
    assistant: Assistant, situation: Situation, settings: Mapping[str, Any], rounds: int, *, must: bool
) -> Any:
    """
    Return a run with some settings, or as text why it failed.

    Raises:
        AssistantError: It failed, and *must* not.
        ChildDiedError: The child has ended.
        OutOfTimeError: The time is up.
    """
    step, cpu = situation.profile.step_seconds or 0.0, situation.profile.step_cpu_seconds or 0.0
    try:
        return assistant.ask("run", settings, rounds, step, is_busy=cpu > step / 2)
    except (OutOfTimeError, ChildDiedError):
        raise
    except AssistantError as error:
        if must and not isinstance(error, NoBatchError):
            raise
        return str(error)


def _more(
    situation: Situation, runs: Mapping[int, list[Any]], failed: Mapping[int, str], only: int | None
) -> list[int]:
    """
    Return the numbers of workers to run next; none where the order is clear.
    """
    if not runs:
        return [0] if only is None and 0 not in failed else []
    steps = {workers: median(run.step_seconds for run in each) for workers, each in runs.items()}
    starts = {workers: median(run.first_batch_seconds for run in each) for workers, each in runs.items()}
    another = next_candidate(situation, steps, starts, failed) if only is None else None
    if another is not None:
        return [another]
    if only is not None:
        return [only] if len(runs[only]) < ENOUGH_RUNS else []
    return still_open(totals_of(situation, steps, starts), {workers: len(each) for workers, each in runs.items()})
