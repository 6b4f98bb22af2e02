"""
What a calibration found: the first batches, real runs under some settings, and the setting that is best.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .plan import Plan
from .records import from_json, number_text, seconds_text, to_json
from .traits import Profile

SCHEMA = 1
"""
The number of this layout of a calibration's JSON.
"""


NEAR = 0.9
"""
What reaches so much of a limit has reached it.
"""

FAR = 1.2
"""
What goes so far beyond a limit shows that the limit was worked out from other figures than hold now.
"""

_TOO_LONG = "over 5 % of a training of 3,000 batches (a budget of your own, of 20 seconds for instance, allows it)"

_ENDED = {
    "order clear": "when the order was clear",
    "budget": "when the budget was used up",
    "no gain": f"where more trials would have taken {_TOO_LONG}",
    "not worth a trial": f"without a trial, which would have taken {_TOO_LONG}",
    "interrupt": "by an interrupt",
    "death": "by the death of the process that measured",
    "no trial possible": "without a trial, so that the model alone decides",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """
    Real runs of a loader with one number of workers.
    """

    num_workers: int
    """Worker processes; 0 loads in the training process."""
    step_seconds: float
    """Seconds from one batch to the next once all workers have delivered, the training's own step included; the median
    of *runs*."""
    first_batch_seconds: float
    """Seconds from the start of the workers to the first batch, the median of *runs*."""
    runs: int
    """How often this setting ran, 1 or more."""
    batches: int
    """Batches that were timed in all runs together."""
    expected_seconds: float
    """What the model expected for *step_seconds*."""


INTERRUPT = "interrupt"
"""
That a calibration was ended by Ctrl-C.
"""

DEATH = "death"
"""
That a calibration was ended by the death of the process that measured.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """
    The outcome of :func:`autoloader.calibrate`.
    """

    plan: Plan
    """The settings to use, as in ``auto_loader(dataset, ..., plan=calibration.plan)``."""
    profile: Profile
    """What loading a batch takes in one process."""
    trials: tuple[Trial, ...] = ()
    """The settings that were tried, by number of workers; empty where the budget did not allow any."""
    cpus: float = 1.0
    """CPUs that this rank may use."""
    curve: tuple[tuple[int, float], ...] = ()
    """For each number of workers of the model's line, the seconds of a step that it expects."""
    seconds: float = 0.0
    """Seconds that the calibration took."""
    stopped_by: str = "order clear"
    """Why it ended, one of ``order clear``, ``budget``, ``no gain``, ``interrupt``, ``death``, ``no trial possible``
    and ``not worth a trial``."""
    schema: int = SCHEMA
    """The layout of this record, see :data:`SCHEMA`."""

    @property
    def num_workers(self) -> int:
        """
        Return the number of workers that the plan has.
        """
        return int(self.plan.value("num_workers"))

    def to_json(self) -> str:
        """
        Return this calibration as JSON text.
        """
        return json.dumps(to_json(self), indent=2)

    @classmethod
    def from_json(cls, data: Any) -> "Calibration":
        """
        Return the calibration that :meth:`to_json` made *data* of, as ``json.loads`` gives it.

        Raises:
            ValueError: It is none.
        """
        return from_json(cls, data)

    @property
    def cpu_limit(self) -> float | None:
        """
        Return the batches a second at which all CPUs would be busy, loading and training; ``None`` where nothing is.
        """
        profile = self.profile
        busy = profile.batch_cpu_seconds + (profile.step_cpu_seconds or 0.0) + 2 * (profile.transfer_seconds or 0.0)
        return self.cpus / busy if busy > 0 else None

    def __str__(self) -> str:
        return "\n".join(self._verdict())

    def _verdict(self) -> Iterator[str]:
        choice, samples = self.plan.choices["num_workers"], self.profile.batch_samples
        yield f"num_workers={choice.value}: {choice.because} [{choice.rule}]"
        rate = next((1 / trial.step_seconds for trial in self.trials if trial.num_workers == choice.value), None)
        if rate is not None:
            yield f"That is {number_text(rate)} batches a second, {number_text(rate * samples)} samples a second."
            yield from self._gains(rate)
        yield f"Measured in {seconds_text(self.seconds)}, ended {_ENDED.get(self.stopped_by, self.stopped_by)}."

    def _gains(self, rate: float) -> Iterator[str]:
        """
        Yield how far *rate* is from what the CPUs allow, and whether the training has to wait.
        """
        limit, cpus = self.cpu_limit, f"{number_text(self.cpus)} CPU{'' if self.cpus == 1 else 's'}"
        step = self.profile.step_seconds
        if step and rate * step >= NEAR:
            yield f"Training alone could take {number_text(1 / step)}: loading keeps up with it."
        elif limit is not None and rate > FAR * limit:
            yield "That is more than the CPUs should allow: the first batches were slower than those that followed."
        elif limit is not None and rate >= NEAR * limit:
            yield (
                f"The {cpus} allow about {number_text(limit)}: no setting gains much more, only cheaper samples or "
                "steps, or more CPUs."
            )
        elif limit is not None and self.num_workers:
            yield (
                f"The {cpus} would allow {number_text(limit)}: what is waited for is not CPU, or other programs use it."
            )
        if step and rate * step < NEAR:
            yield f"Training alone could take {number_text(1 / step)}: it waits for data."
