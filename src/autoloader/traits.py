"""
What is known of a dataset: before any of its samples is fetched, and from the first batches.
"""

from dataclasses import dataclass
from typing import Literal

Style = Literal["map", "iterable"]
SampleKind = Literal["image", "text"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetTraits:
    """
    One dataset, seen from outside: no sample was fetched and no iterator was made.
    """

    style: Style
    """``iterable`` for an IterableDataset, ``map`` for all else, as torch decides it."""
    samples: int | None = None
    """What ``len(dataset)`` gave; ``None`` where it has no length."""
    batches_per_epoch: int | None = None
    """Batches in one pass; ``None`` where that cannot be known beforehand."""
    is_in_memory: bool = False
    """Whether every sample is a slice of an array, tensor, list or range that is in memory already."""
    num_shards: int | None = None
    """Shards that an iterable-style dataset declares (``num_shards`` or ``n_shards``)."""
    is_worker_aware: bool = False
    """Whether an iterable-style dataset's own code refers to ``get_worker_info``, so that it can share out its data."""
    path: str | None = None
    """A folder, file or URL that the dataset holds as an attribute, as far as one can be seen."""
    is_remote: bool = False
    """Whether *path* is a URL of another machine."""
    open_handle: str | None = None
    """The attribute that holds an open file, database or archive, whose position forked workers would share."""
    reads_open_file: bool = False
    """Whether fetching samples was seen to read a file that was open before, through whatever holds it."""
    sample_kind: SampleKind | None = None
    """What the ending of *path* says that a sample is."""
    sample_bytes: int | None = None
    """Bytes of one sample where array shapes tell them; ``None`` for whatever would have to be fetched first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """
    The first batches of a dataset, timed where they were loaded: in the training process, one sample after the other.

    Seconds are wall-clock time unless they are called CPU seconds, which count all threads of the process.
    """

    batches: int
    """Batches that were timed, 1 or more."""
    batch_samples: float
    """Samples a batch, the mean; 1 where the loader makes no batches."""
    sample_seconds: float
    """Seconds that fetching a sample takes, the mean without the first access."""
    sample_cpu_seconds: float
    """CPU seconds of the same, never more than *sample_seconds* where one thread does all the work."""
    sample_deviation_seconds: float | None = None
    """Standard deviation of *sample_seconds* among samples; ``None`` where only whole batches could be timed."""
    first_access_seconds: float = 0.0
    """What the very first sample took beyond an ordinary one, as far as it stands out, as by opening files."""
    collate_seconds: float = 0.0
    """Seconds that ``collate_fn`` takes to make a batch, all of them CPU seconds."""
    inline_batch_seconds: float | None = None
    """Seconds that loading a batch took where torch computed at all its threads, as it does not in a worker; ``None``
    where none was loaded so."""
    batch_bytes: int | None = None
    """Bytes of a batch as it travels from a worker; ``None`` where it cannot be pickled."""
    transfer_seconds: float | None = None
    """CPU seconds that handing a batch over to another process takes on either side, by a copy of one and by what torch
    takes for the handles of tensors; ``None`` where it cannot be pickled."""
    step_seconds: float | None = None
    """Seconds between batches that the training loop kept for itself; ``None`` while it has not come back."""
    step_cpu_seconds: float | None = None
    """CPU seconds of the same; ``None`` where that is."""

    @property
    def batch_seconds(self) -> float:
        """
        Return the seconds that loading a batch takes, with torch at one thread.
        """
        return self.batch_samples * self.sample_seconds + self.collate_seconds

    @property
    def batch_cpu_seconds(self) -> float:
        """
        Return the CPU seconds of the same.
        """
        return self.batch_samples * self.sample_cpu_seconds + self.collate_seconds
