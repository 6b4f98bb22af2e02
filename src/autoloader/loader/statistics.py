"""
How fast batches came, and how long the training loop waited for them.

A *step* lasts from the end of one ``next(iterator)`` to the end of the following one; the *wait* is the part of it that
``next(iterator)`` took. Both are known from the second batch of an epoch on: the time to the first one is start-up.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

from ..processes import ProcessUse
from ..records import number_text, to_json

KEPT_EPOCHS = 100
"""
How many epochs have a record of their own; earlier ones are part of the total only.
"""

KEPT_BATCHES = 1000
"""
How many waits and steps are kept for percentiles.
"""

PERCENTS = (50, 90, 99)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchStats:
    """
    What an epoch and the total of all epochs have in common.
    """

    batches: int
    """Batches that were served; one that raised an error is none."""
    samples: int
    """Samples in these batches; a batch whose size is not known counts as 0."""
    first_batch_seconds: float | None
    """Seconds from the begin of the epoch to its first batch, the start of workers included. In the total the mean
    over the epochs that served a batch. ``None`` before that."""
    wait_seconds: float
    """Seconds spent in ``next(iterator)``, all batches but the first of each epoch together."""
    step_seconds: float
    """Seconds of all steps together, from the first batch of each epoch to its latest one."""
    wait_fraction: float | None
    """*wait_seconds* / *step_seconds*, 0 to 1. ``None`` before the second batch, and where the clock stood still."""
    batches_per_second: float | None
    """Steps in a second of *step_seconds*. ``None`` where *wait_fraction* is."""
    samples_per_second: float | None
    """Samples of these steps in a second. ``None`` where *wait_fraction* is, and where no batch's size is known."""
    wait_percentiles_seconds: Mapping[str, float]
    """For ``p50``, ``p90`` and ``p99`` the wait, in seconds, that so many percent of the last 1,000 batches did not
    exceed, by nearest rank. Empty before the second batch."""
    step_percentiles_seconds: Mapping[str, float]
    """The same of the steps."""
    restarts: int
    """How often workers were started anew within an epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochStats(BatchStats):
    """
    One pass over a loader, up to now.
    """

    epoch: int
    """The epoch's number, from 0 on."""
    is_exhausted: bool
    """Whether it served all its batches; not yet, or never after an early break."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TotalStats(BatchStats):
    """
    All passes over a loader, also those without a record of their own any more.

    Percentiles are over the last 1,000 batches, epoch after epoch in the order in which the epochs began.
    """

    epochs: int
    """Epochs that were begun."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderStats:
    """
    What a loader did, up to now.
    """

    epochs: tuple[EpochStats, ...]
    """The last 100 epochs that began, oldest first."""
    total: TotalStats
    """All epochs together."""
    in_flight: int
    """Batches that were asked of the workers and are not served yet, 0 or more."""
    workers: tuple[ProcessUse, ...] = ()
    """What each running worker uses; empty where that was not asked for."""

    def to_json(self) -> str:
        """
        Return these statistics as JSON text.
        """
        return json.dumps(to_json(self), indent=2)

    def __str__(self) -> str:
        if not self.total.epochs:
            return "no epochs yet"
        total = self.total
        parts = [*_pace(total), *_first_batch(total), *_wait_percentiles(total)]
        parts += [f"{self.in_flight} in flight", _counted(total.restarts, "restart")]
        return f"{_counted(total.epochs, 'epoch')}, {_counted(total.batches, 'batch', 'es')}: {', '.join(parts)}"


def _pace(total: TotalStats) -> list[str]:
    if total.wait_fraction is None or total.batches_per_second is None:
        return ["waiting and rate not known yet"]
    samples = total.samples_per_second
    detail = "" if samples is None else f" ({number_text(samples)} samples/s)"
    return [
        f"waiting {100 * total.wait_fraction:.0f} % of the time",
        f"{number_text(total.batches_per_second)} batches/s{detail}",
    ]


def _first_batch(total: TotalStats) -> list[str]:
    if total.first_batch_seconds is None:
        return []
    return [f"first batch {total.first_batch_seconds:.2f} s{' (mean)' if total.epochs > 1 else ''}"]


def _wait_percentiles(total: TotalStats) -> list[str]:
    waits = total.wait_percentiles_seconds
    if not waits:
        return []
    milliseconds = [f"{1000 * seconds:.1f}" for seconds in waits.values()]
    return [f"wait {'/'.join(waits)} {'/'.join(milliseconds)} ms"]


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"


class _Sums(NamedTuple):
    """
    What is added up over epochs; *timed* is what belongs to a step.
    """

    epochs: int = 0
    started_epochs: int = 0
    batches: int = 0
    samples: int = 0
    first_batch_seconds: float = 0.0
    timed_batches: int = 0
    timed_samples: int = 0
    wait_seconds: float = 0.0
    step_seconds: float = 0.0
    restarts: int = 0

    def plus(self, other: "_Sums") -> "_Sums":
        return _Sums._make(map(add, self, other))

    def common(self, waits: Iterable[float], steps: Iterable[float]) -> dict[str, Any]:
        """
        Return the fields of :class:`BatchStats`, with percentiles of *waits* and *steps*.
        """
        seconds = self.step_seconds
        return {
            "batches": self.batches,
            "samples": self.samples,
            "first_batch_seconds": self.first_batch_seconds / self.started_epochs if self.started_epochs else None,
            "wait_seconds": self.wait_seconds,
            "step_seconds": seconds,
            "wait_fraction": min(1.0, self.wait_seconds / seconds) if seconds else None,
            "batches_per_second": self.timed_batches / seconds if seconds else None,
            "samples_per_second": self.timed_samples / seconds if seconds and self.timed_samples else None,
            "wait_percentiles_seconds": _percentiles(waits),
            "step_percentiles_seconds": _percentiles(steps),
            "restarts": self.restarts,
        }


def _percentiles(values: Iterable[float]) -> dict[str, float]:
    """
    Return the smallest value that at least so many percent of *values* do not exceed, for each of the percents.
    """
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{percent}": ordered[-(-percent * len(ordered) // 100) - 1] for percent in PERCENTS}


class EpochRecorder:
    """
    Notes the batches of one epoch. The iterator that serves them holds it.

    ``note`` runs once a batch in the training process, so it only adds up; what can be worked out later is. Another
    thread may ask for :meth:`stats` meanwhile.
    """

    __slots__ = (
        "_batches",
        "_begun",
        "_first_ended",
        "_first_samples",
        "_known",
        "_last_ended",
        "_samples",
        "_steps",
        "_wait_seconds",
        "_waits",
        "epoch",
        "is_exhausted",
        "restarts",
    )

    def __init__(self, epoch: int, begun: float) -> None:
        self.epoch = epoch
        self.restarts = 0
        self.is_exhausted = False
        self._begun = self._first_ended = self._last_ended = begun
        self._batches = self._samples = self._first_samples = 0
        self._wait_seconds = 0.0
        self._waits: deque[float] = deque(maxlen=KEPT_BATCHES)
        self._steps: deque[float] = deque(maxlen=KEPT_BATCHES)
        self._known: EpochStats | None = None

    def note(self, begun: float, ended: float, samples: int) -> None:
        """
        Note a batch that was served.

        Args:
            begun: ``perf_counter()`` when ``next(iterator)`` was entered.
            ended: ``perf_counter()`` when it returned.
            samples: Samples in the batch; 0 where its size is not known.
        """
        if self._batches:
            wait = ended - begun
            self._wait_seconds += wait
            self._waits.append(wait)
            self._steps.append(ended - self._last_ended)
        else:
            self._first_ended = ended
            self._first_samples = samples
        self._last_ended = ended
        self._samples += samples
        self._batches += 1

    @property
    def batches(self) -> int:
        """
        Return how many batches were served.
        """
        return self._batches

    def sums(self) -> _Sums:
        """
        Return what this epoch adds to the total.
        """
        batches = self._batches
        return _Sums(
            epochs=1,
            started_epochs=min(1, batches),
            batches=batches,
            samples=self._samples,
            first_batch_seconds=self._first_ended - self._begun,
            timed_batches=max(0, batches - 1),
            timed_samples=self._samples - self._first_samples,
            wait_seconds=self._wait_seconds,
            step_seconds=self._last_ended - self._first_ended,
            restarts=self.restarts,
        )

    def recent(self) -> tuple[list[float], list[float]]:
        """
        Return the last waits and steps, of 1,000 batches at most.
        """
        # copy() is one step to other threads; going through a deque fails when it grows meanwhile.
        return list(self._waits.copy()), list(self._steps.copy())

    def stats(self) -> EpochStats:
        """
        Return what is known of this epoch.
        """
        sums, known = self.sums(), self._known
        state = (sums.batches, sums.restarts, self.is_exhausted)
        if known is None or (known.batches, known.restarts, known.is_exhausted) != state:
            common = sums.common(*self.recent())
            self._known = known = EpochStats(epoch=self.epoch, is_exhausted=self.is_exhausted, **common)
        return known


class Recorder:
    """
    Notes the epochs of one loader, for as long as the loader lives; a copy of it has noted nothing yet.

    However many epochs there were, it holds the last 100 and the sums of those before. Epochs may overlap. Of one that
    is still running when 100 later ones have begun, what it does from then on is not counted.
    """

    def __init__(self) -> None:
        # One value, replaced as a whole: a thread that asks for stats() sees each epoch once, without a lock.
        self._state: tuple[_Sums, tuple[EpochRecorder, ...]] = (_Sums(), ())

    def begin(self, epoch: int, begun: float) -> EpochRecorder:
        """
        Begin an epoch; one thread at a time.

        Args:
            epoch: Its number, from 0 on.
            begun: ``perf_counter()`` when ``iter(loader)`` was entered.

        Returns:
            What its iterator notes each batch with.
        """
        recorder = EpochRecorder(epoch, begun)
        earlier, kept = self._state
        if len(kept) == KEPT_EPOCHS:
            earlier, kept = earlier.plus(kept[0].sums()), kept[1:]
        self._state = (earlier, (*kept, recorder))
        return recorder

    @property
    def most_batches(self) -> int | None:
        """
        Return the most batches that a recent epoch had which was not left early; ``None`` where all were.
        """
        return max((each.batches for each in self._state[1] if each.is_exhausted), default=None)

    @property
    def last_times(self) -> tuple[float, float] | None:
        """
        Return how many seconds the last epoch took that has begun, and how many of them the loop waited for batches.

        ``None`` where there was none, or it was left early.
        """
        last = self._state[1][-1:]
        if not last or not last[0].is_exhausted:
            return None
        sums = last[0].sums()
        first = sums.first_batch_seconds
        return first + sums.step_seconds, first + sums.wait_seconds

    def most_before_leaving(self, epochs: int) -> int | None:
        """
        Return the most batches that one of the last epochs had; ``None`` where not all of so many were left early.
        """
        last = self._state[1][-epochs:]
        if len(last) < epochs or any(each.is_exhausted for each in last):
            return None
        return max(each.batches for each in last)

    def stats(self, in_flight: int, workers: tuple[ProcessUse, ...] = ()) -> LoaderStats:
        """
        Return what is known of all epochs.

        Args:
            in_flight: Batches that were asked of the workers and are not served yet.
            workers: What each worker uses, where that was asked for.
        """
        sums, kept = self._state
        for recorder in kept:
            sums = sums.plus(recorder.sums())
        total = TotalStats(epochs=sums.epochs, **sums.common(*_last_batches(kept)))
        return LoaderStats(
            epochs=tuple(recorder.stats() for recorder in kept), total=total, in_flight=in_flight, workers=workers
        )

    def __reduce__(self) -> tuple[type["Recorder"], tuple[()]]:
        return Recorder, ()


def _last_batches(kept: tuple[EpochRecorder, ...]) -> tuple[list[float], list[float]]:
    """
    Return waits and steps of the last 1,000 batches, going back from the newest epoch for as long as it takes.
    """
    waits: list[float] = []
    steps: list[float] = []
    for recorder in reversed(kept):
        if len(waits) >= KEPT_BATCHES:
            break
        more_waits, more_steps = recorder.recent()
        waits[:0], steps[:0] = more_waits, more_steps
    return waits[-KEPT_BATCHES:], steps[-KEPT_BATCHES:]
