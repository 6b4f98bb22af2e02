"""
Hands out the user's batches of indices, numbered, and remembers which of them were not served yet.
"""

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

from .seeding import seed_worker


class Arrival:
    """
    The batch that is being loaded: its position in the epoch, and when its indices arrived.

    There is one for each loader that loads inline, and one for each worker, which is pickled by its name.
    """

    __slots__ = ("position", "seconds")

    def __init__(self) -> None:
        self.position: int | None = None
        self.seconds = 0.0

    def __reduce__(self) -> str:
        return "IN_WORKER"


IN_WORKER = Arrival()


class _Seeded:
    """
    The base seed by which this worker's generators were seeded last, if not by torch.
    """

    by: int | None = None


def arrive(indices: Any, position: int, base_seed: int | None = None) -> Any:
    """
    Note in a worker the batch that begins here, and return its indices as the user's sampler made them.

    The first batch of an epoch in a worker that stayed brings the seed that torch would have started a new one with.
    """
    if base_seed is not None and base_seed != _Seeded.by:
        _Seeded.by = base_seed
        seed_worker(base_seed)
    IN_WORKER.position = position
    IN_WORKER.seconds = perf_counter()
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
        return arrive, (self.indices, self.position, self.base_seed)


class IssuedIndices:
    """
    A sampler over the user's sampler or batch sampler.

    torch calls ``iter()`` on a sampler twice when it starts workers. As with torch alone, the user's sampler is asked
    again then; but once a batch was handed out, ``iter()`` goes on with the running iterator, so that another
    DataLoader can continue an epoch.

    ``outstanding`` has the indices of each batch that is issued and that the training loop does not have yet, by
    position; whoever hands the batch over removes it.

    Args:
        sampler: What the user gave or torch made: it yields indices, or lists of them.
        inline: Where to note a batch that begins, if batches load in this process; for workers the note travels.
    """

    def __init__(self, sampler: Iterable[Any], *, inline: Arrival | None) -> None:
        self._sampler = sampler
        self._inline = inline
        self.begin_epoch()

    def begin_epoch(self, base_seed: int | None = None) -> None:
        """
        Forget the running iterator: the next ``iter()`` begins an epoch.

        Args:
            base_seed: What workers seed their generators by, once, before their first batch; ``None`` to leave them.
        """
        self._base_seed = base_seed
        self._iterator: Iterator[Any] = iter(())
        self._issued = 0
        self.outstanding: dict[int, Any] = {}

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
        return self._hand_out()

    def _hand_out(self) -> Iterator[Any]:
        """
        Yield what the running iterator still has, each batch with its number.
        """
        for indices in self._iterator:
            position = self._issued
            self._issued += 1
            self.outstanding[position] = indices
            if self._inline is None:
                yield _Numbered(indices, position, self._base_seed)
            else:
                self._inline.position = position
                self._inline.seconds = perf_counter()
                yield indices
