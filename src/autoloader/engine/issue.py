"""
Hands out the user's batches of indices, numbered, and remembers which of them were not served yet.
"""

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

from .seeding import seed_worker


class Arrival(NamedTuple):
    """
    The batch that this process is loading: its position in the epoch, and when its indices arrived.
    """

    position: int
    seconds: float


class _Worker:
    """
    What this process, a worker or the training process itself, is loading.
    """

    arrival: Arrival | None = None
    seeded_by: int | None = None


def arrival() -> Arrival | None:
    """
    Return the batch that this process is loading; ``None`` for data whose indices carry no position.
    """
    return _Worker.arrival


def _arrive(indices: Any, position: int, base_seed: int | None = None) -> Any:
    """
    Note the batch that begins here, and return its indices as the user's sampler made them.

    The first batch of an epoch in a worker that stayed brings the seed that torch would have started a new one with.
    """
    if base_seed is not None and base_seed != _Worker.seeded_by:
        _Worker.seeded_by = base_seed
        seed_worker(base_seed)
    _Worker.arrival = Arrival(position, perf_counter())
    return indices


class _Numbered:
    """
    Indices on their way to a worker. What comes out there is the sampler's own object, and its position is noted.
    """

    __slots__ = ("base_seed", "indices", "position")

    def __init__(self, indices: Any, position: int, base_seed: int | None) -> None:
        self.indices = indices
        self.position = position
        self.base_seed = base_seed

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.indices, self.position, self.base_seed)


class IssuedIndices:
    """
    A sampler over the user's sampler or batch sampler.

    torch calls ``iter()`` on a sampler twice when it starts workers. As with torch alone, the user's sampler is asked
    again then; but once a batch was handed out, ``iter()`` goes on with the running iterator, so that another
    DataLoader can continue an epoch.

    Args:
        sampler: What the user gave or torch made: it yields indices, or lists of them.
        is_inline: Whether batches load in this process, and indices need not be packed for a journey.
    """

    def __init__(self, sampler: Iterable[Any], *, is_inline: bool) -> None:
        self._sampler = sampler
        self._is_inline = is_inline
        self.begin_epoch()

    def begin_epoch(self, base_seed: int | None = None) -> None:
        """
        Forget the running iterator: the next ``iter()`` begins an epoch.

        Args:
            base_seed: What workers seed their generators by, once, before their first batch; ``None`` to leave them.
        """
        self._base_seed = base_seed
        self._iterator: Iterator[Any] | None = None
        self._issued = 0
        self.outstanding: dict[int, Any] = {}

    def served(self, position: int) -> None:
        """
        Note that the training loop has the batch of that position.
        """
        self.outstanding.pop(position, None)

    def failed(self) -> None:
        """
        Note that the batch that was due next raised an error, which the training loop has.
        """
        self.outstanding.pop(min(self.outstanding, default=-1), None)

    def ask_sampler(self) -> None:
        """
        Ask the user's sampler for an iterator and drop it, as torch does once more than it needs.
        """
        iter(self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if not self._issued:
            self._iterator = iter(self._sampler)
        return _Issue(self)

    def next_indices(self) -> Any:
        """
        Hand out the next batch.
        """
        assert self._iterator is not None
        indices = next(self._iterator)
        position = self._issued
        self._issued += 1
        self.outstanding[position] = indices
        return _arrive(indices, position) if self._is_inline else _Numbered(indices, position, self._base_seed)


class _Issue:
    """
    The iterator that torch's loader draws from.
    """

    def __init__(self, issued: IssuedIndices) -> None:
        self._issued = issued

    def __iter__(self) -> "_Issue":
        return self

    def __next__(self) -> Any:
        return self._issued.next_indices()
