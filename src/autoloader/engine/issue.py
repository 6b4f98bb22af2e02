"""
Hands out the user's batches of indices, numbered, and remembers which of them were not served yet.
"""

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any


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


def arrive(indices: Any, position: int) -> Any:
    """
    Note in a worker the batch that begins here, and return its indices as the user's sampler made them.
    """
    IN_WORKER.position = position
    IN_WORKER.seconds = perf_counter()
    return indices


class _Numbered:
    """
    Indices on their way to a worker. What comes out there is the sampler's own object, and its position is noted.
    """

    __slots__ = ("indices", "position")

    def __init__(self, indices: Any, position: int) -> None:
        self.indices = indices
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        return arrive, (self.indices, self.position)


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

    def begin_epoch(self) -> None:
        """
        Forget the running iterator: the next ``iter()`` begins an epoch.
        """
        self._iterator: Iterator[Any] = iter(())
        self._issued = 0
        self._again: list[int] = []
        self.outstanding: dict[int, Any] = {}

    def failed(self) -> None:
        """
        Note that the batch that was due next raised an error, which the training loop has.
        """
        self.outstanding.pop(min(self.outstanding, default=-1), None)

    def put_back(self) -> None:
        """
        Hand out once more, and first, what was not served.
        """
        self._again = sorted(self.outstanding, reverse=True)

    def draw_first(self) -> None:
        """
        Ask the running iterator for its first indices now, which is when samplers draw random numbers.
        """
        if not self._issued:
            self._next_new()
            self.put_back()

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if not self._issued:
            self._iterator = iter(self._sampler)
        return _HandingOut(self)

    def hand_out(self) -> Any:
        """
        Return the next indices, with their number.

        Raises:
            StopIteration: There are no more.
        """
        position = self._again.pop() if self._again else self._next_new()
        if position is None:
            raise StopIteration
        indices = self.outstanding[position]
        if self._inline is None:
            return _Numbered(indices, position)
        self._inline.position = position
        self._inline.seconds = perf_counter()
        return indices

    def _next_new(self) -> int | None:
        """
        Take the next indices from the running iterator and return their position, None where there are no more.
        """
        for indices in self._iterator:
            position = self._issued
            self._issued += 1
            self.outstanding[position] = indices
            return position
        return None


class _HandingOut:
    """
    The iterator over what is left of an epoch. It goes on after an error of the sampler's, as the sampler's own may.
    """

    def __init__(self, issued: IssuedIndices) -> None:
        self._issued = issued

    def __iter__(self) -> "_HandingOut":
        return self

    def __next__(self) -> Any:
        return self._issued.hand_out()
