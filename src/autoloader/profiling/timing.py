"""
Times the first batches where they are loaded for training, and makes a profile of what it saw.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter, process_time
from typing import Any, NamedTuple

from ..traits import Profile

ENOUGH_BATCHES = 2
ENOUGH_SECONDS = 0.3
"""
A profile ends after so many batches or so many seconds of loading, whichever comes first.
"""

_FIRST_STANDS_OUT = 3.0
_LEAST_FIRST_SECONDS = 0.001
"""
A first access counts as one of its own from three times the middle of the others on, and from a millisecond.
"""

LEAST_CPU_SECONDS = 0.05
"""
In less time some systems' clocks of CPU seconds may not have moved at all.
"""

_MOST_OF_A_FETCH = 0.9
"""
Samples that were fetched one after the other take nearly all the time of fetching a batch.
"""

SHORT_STEP = 0.1
"""
The first step is longer than later ones. So it says something only if it is short beside loading a batch.
"""


class Sent(NamedTuple):
    """
    What sending a batch from one process to another costs each of them.
    """

    bytes: int
    seconds: float
    """CPU seconds."""


class Moment(NamedTuple):
    """
    A moment on two clocks, in seconds; also a difference of two moments.
    """

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> "Moment":
        """
        Return this moment, with the CPU seconds of this process.
        """
        return cls(perf_counter(), process_time())

    def since(self, earlier: "Moment") -> "Moment":
        """
        Return what has passed since an earlier one.
        """
        return Moment(self.wall - earlier.wall, self.cpu - earlier.cpu)


class _TimedIndices(list[Any]):
    """
    The indices of a batch, which note when each of them is asked for: torch fetches a sample for each in turn.
    """

    def __init__(self, indices: Sequence[Any], clock: "BatchClock") -> None:
        super().__init__(indices)
        self._clock = clock

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(list.__iter__(self)),)  # whoever keeps or copies them has the sampler's own

    def __iter__(self) -> Iterator[Any]:
        note = self._clock.note_sample
        for index in list.__iter__(self):
            note()
            yield index
        note()


class _Batch(NamedTuple):
    """
    How long one batch took.
    """

    size: int
    """Samples in it."""
    samples: list[Moment]
    """Each of them; empty where they were fetched together."""
    fetch: Moment
    collate_seconds: float
    is_at_one_thread: bool
    """Whether torch computed in the calling thread alone, as in a worker."""

    @property
    def seconds(self) -> float:
        """
        Return what all of it took.
        """
        return self.fetch.wall + self.collate_seconds


class BatchClock:
    """
    Times batches that load in the training process, and the training's own steps between them.

    Args:
        enough_batches: After so many batches there is enough for a profile,
        enough_seconds: and after so many seconds of loading, too.
        goes_one_by_one: Whether a sample is fetched for each of the indices in a list.
    """

    def __init__(
        self,
        enough_batches: int = ENOUGH_BATCHES,
        enough_seconds: float = ENOUGH_SECONDS,
        *,
        goes_one_by_one: bool = True,
    ) -> None:
        self._enough_batches, self._enough_seconds = enough_batches, enough_seconds
        self._goes_one_by_one = goes_one_by_one
        self.is_at_one_thread = True
        """Whether the next batch is loaded with torch at one thread."""
        self._batches: list[_Batch] = []
        self._steps: list[Moment] = []
        self._loading_seconds = 0.0
        self.is_stopped = False
        """Whether batches that still come this way are of no interest."""
        self.last_batch: Any = None
        self._count = 0
        self._stamps: list[Moment] = []
        self._begun = self._collating = Moment()
        self._served: Moment | None = None

    @property
    def has_seen_enough(self) -> bool:
        """
        Return whether a profile can be made. The training's own step belongs to it, unless that does not come for long.
        """
        is_known = bool(self._steps) or len(self._batches) >= 2 * self._enough_batches
        return self.has_enough_batches and is_known

    @property
    def has_enough_batches(self) -> bool:
        """
        Return whether enough batches were timed.
        """
        return len(self._batches) >= self._enough_batches or self._loading_seconds >= self._enough_seconds

    @property
    def loading_seconds(self) -> float:
        """
        Return how long loading them took.
        """
        return self._loading_seconds

    @property
    def count(self) -> int:
        """
        Return how many batches were timed.
        """
        return len(self._batches)

    def begin(self, indices: Any) -> Any:
        """
        Note that a batch begins to load, and return the indices to load it by.
        """
        self._stamps, self._begun = [], Moment.now()
        is_list = type(indices) is list
        self._count = len(indices) if is_list else 1
        return _TimedIndices(indices, self) if is_list and self._goes_one_by_one else indices

    def note_sample(self) -> None:
        """
        Note that a sample is about to be fetched, or that the last one was.
        """
        self._stamps.append(Moment.now())

    def collating(self, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """
        Return a collate function around the user's, which times it.
        """

        def timed(samples: Any) -> Any:
            if self.is_stopped:
                return collate(samples)
            self._collating = Moment.now()
            self.last_batch = batch = collate(samples)
            self._note_batch()
            return batch

        return timed

    def _note_batch(self) -> None:
        if not self._count:
            return  # an empty batch says nothing of others
        ended = Moment.now()
        fetch = self._collating.since(self._begun)
        samples = [later.since(earlier) for earlier, later in zip(self._stamps, self._stamps[1:], strict=False)]
        seen = sum(sample.wall for sample in samples)
        if len(samples) != self._count or seen < _MOST_OF_A_FETCH * fetch.wall:
            samples = []  # whoever went through the indices did not fetch a sample for each in turn
        collate_seconds = ended.wall - self._collating.wall
        self._batches.append(_Batch(self._count, samples, fetch, collate_seconds, self.is_at_one_thread))
        self._loading_seconds += ended.wall - self._begun.wall

    def begin_epoch(self) -> None:
        """
        Note that what the training loop did before is no step between two batches.
        """
        self._served = None

    def note_served(self) -> None:
        """
        Note that the training loop has a batch.
        """
        self._served = Moment.now()

    def note_asked(self) -> None:
        """
        Note that the training loop wants another one.
        """
        if self._served is not None:
            self._steps.append(Moment.now().since(self._served))
            self._served = None

    def profile(self, sent: Sent | None) -> Profile:
        """
        Return what was seen.

        Args:
            sent: What sending the last batch costs; ``None`` where it cannot be pickled.
        """
        own = [batch.seconds for batch in self._batches if not batch.is_at_one_thread]
        batches, first_access = [batch for batch in self._batches if batch.is_at_one_thread] or self._batches, 0.0
        each = [sample for batch in batches for sample in batch.samples]
        has_each = bool(each) and all(batch.samples for batch in batches)
        if not has_each:
            each = [_divided(batch.fetch, batch.size) for batch in batches]
        if len(each) > 1 and stands_out(each[0], each[1:]):
            first, *each = each
            beyond = first.wall - statistics.median(one.wall for one in each)
            first_access = beyond if has_each else beyond * batches[0].size
        wall = statistics.fmean(one.wall for one in each)
        cpu = statistics.fmean(one.cpu for one in each)
        if cpu <= 0 and wall * len(each) < LEAST_CPU_SECONDS:
            cpu = wall
        step = self._step(batches[-1])
        return Profile(
            batches=len(self._batches),
            batch_samples=statistics.fmean(batch.size for batch in batches),
            sample_seconds=wall,
            sample_cpu_seconds=max(0.0, cpu),
            sample_deviation_seconds=statistics.pstdev(one.wall for one in each) if has_each else None,
            first_access_seconds=first_access,
            collate_seconds=min(batch.collate_seconds for batch in batches),
            inline_batch_seconds=min(own, default=None),
            batch_bytes=None if sent is None else sent.bytes,
            transfer_seconds=None if sent is None else sent.seconds,
            step_seconds=None if step is None else step.wall,
            step_cpu_seconds=None if step is None else max(0.0, step.cpu),
        )

    def _step(self, batch: _Batch) -> Moment | None:
        """
        Return the training's own step: the latest, or the first if it is short.
        """
        if len(self._steps) > 1:
            return self._steps[-1]
        is_short = bool(self._steps) and self._steps[0].wall < SHORT_STEP * (batch.fetch.wall + batch.collate_seconds)
        return self._steps[0] if is_short else None


def _divided(moment: Moment, count: int) -> Moment:
    return Moment(moment.wall / max(1, count), moment.cpu / max(1, count))


def stands_out(first: Moment, others: Sequence[Moment]) -> bool:
    """
    Return whether the first of several took so much longer than the others that it did something once.
    """
    usual = statistics.median(one.wall for one in others)
    return first.wall > _FIRST_STANDS_OUT * usual and first.wall > usual + _LEAST_FIRST_SECONDS
