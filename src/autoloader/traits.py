"""
What is known of a dataset before any of its samples is fetched.
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
    sample_kind: SampleKind | None = None
    """What the ending of *path* says that a sample is."""
    sample_bytes: int | None = None
    """Bytes of one sample where array shapes tell them; ``None`` for whatever would have to be fetched first."""
