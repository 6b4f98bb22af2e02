"""
Hands out the user's batches of indices, numbered, and remembers which of them were not served yet.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from operator import length_hint
from time import perf_counter, process_time
from typing import Any

from torch.utils.data import get_worker_info

from ..profiling import BatchClock, generators_in
from .news import News, hear
from .randomness import BaseSeed, DrawWatch, HeldGenerators, InlineStreams, Key, seed_global


class Arrival:
    """
    The batch that is being loaded, and what its random numbers come from.

    There is one for each loader that loads inline, and one for each worker, which is pickled by its name.
    """

    __slots__ = ("_collate", "_held", "_unheard", "_version", "begun", "clock", "failure", "key", "position", "samples")

    def __init__(self) -> None:
        self.clock: BatchClock | None = None
        self.start(0, None)

    def start(self, version: int, collate: Any) -> None:
        """
        Begin the life of a worker, whose copies of dataset and collate function have heard the news of a version.
        """
        self.position: int | None = None
        self.begun = 0.0, 0.0
        self.key: Key | None = None
        self.failure: Exception | None = None
        self.samples: dict[str, Any] = {}
        self._held: HeldGenerators | None = None
        self._version, self._collate = version, collate
        self._unheard: Exception | None = None

    def __reduce__(self) -> str:
        return "IN_WORKER"

    def begin_in_worker(self, position: int, key: tuple[Any, ...] | None, news: tuple[int, bytes] | None) -> None:
        """
        Get this worker ready for a batch: hear what is new, and seed its generators.

        An error is kept for when the batch would be made: raised here, torch's loop would end with it.
        """
        self.position, self.samples, self.begun = position, {}, (perf_counter(), process_time())
        if key != self.key:
            self.key = None if key is None else Key(*key)
        if news is not None and news[0] != self._version:
            self._hear(*news)
        self.failure = self._unheard
        try:
            if self.key is not None and self.key.salts is not None:
                seed_global(self.key, position)
                self._seed_held(self.key, position)
        except Exception as error:  # noqa: BLE001 (a generator may be one of the user's classes)
            self.failure = error

    def _hear(self, version: int, pickled: bytes) -> None:
        """
        Hear what is new. Until that works, each batch is an error: it would be one of the old state.
        """
        try:
            hear(pickled, _copy_of_dataset())
        except Exception as error:  # noqa: BLE001 (the user's set_epoch may raise anything)
            self._unheard = error
        else:
            self._unheard, self._version, self._held = None, version, None

    def _seed_held(self, key: Key, position: int) -> None:
        if self._held is None:
            self._held = HeldGenerators(generators_in(_copy_of_dataset(), self._collate))
        self._held.seed(key, position)


def _copy_of_dataset() -> Any:
    info = get_worker_info()
    return None if info is None else info.dataset


IN_WORKER = Arrival()


def arrive(indices: Any, position: int, key: tuple[Any, ...] | None, news: tuple[int, bytes] | None) -> Any:
    """
    Begin in a worker the batch whose indices these are, and return them as the user's sampler made them.
    """
    IN_WORKER.begin_in_worker(position, key, news)
    return indices


def begin_unnumbered(indices: Any) -> Any:
    """
    Begin in a worker a batch of an iterable-style dataset, and return what torch's sampler made for it.
    """
    IN_WORKER.begun = perf_counter(), process_time()
    return indices


class _Unnumbered(tuple[Any, ...]):
    """
    What torch's sampler made for a batch of an iterable-style dataset, on its way to a worker, where the batch begins.

    It is the argument of :func:`begin_unnumbered`.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return begin_unnumbered, tuple(self)


class Unnumbered:
    """
    The sampler that torch makes for an iterable-style dataset, whose batches begin where they arrive.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        return (_Unnumbered((indices,)) for indices in self._sampler)


class OtherOrderError(Exception):
    """
    Say that an epoch which is to be continued has another order than where it began.
    """


def digest(indices: Any) -> str | None:
    """
    Return a short text that differs for other indices; ``None`` for indices that are not numbers or text.
    """
    try:
        return blake2b(json.dumps(indices, default=int).encode(), digest_size=8).hexdigest()
    except (TypeError, ValueError):
        return None


class _Numbered(tuple[Any, ...]):
    """
    Indices on their way to a worker. What comes out there is the sampler's own object, and the batch has begun.

    They are the arguments of :func:`arrive`.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return arrive, tuple(self)


class IssuedIndices:
    """
    A sampler over the user's sampler or batch sampler.

    torch calls ``iter()`` on a sampler twice when it starts workers. As with torch alone, the user's sampler is asked
    again then, unless batches are to be the same with any number of workers, as they are without. But once a batch was
    handed out, ``iter()`` goes on with the running iterator, so that another DataLoader can continue an epoch.

    ``count`` is the number of batches that were issued, those served elsewhere included. ``outstanding`` has the
    indices of each batch that is issued and that the training loop does not have yet, by
    position; whoever hands the batch over removes it.

    Args:
        sampler: What the user gave or torch made: it yields indices, or lists of them.
        base: Where the base of an epoch's random numbers is drawn.
        makes_batches: Whether it yields the indices of whole batches, and not what the dataset itself takes for one.
    """

    def __init__(self, sampler: Iterable[Any], base: BaseSeed, *, makes_batches: bool = True) -> None:
        self._sampler, self._makes_batches = sampler, makes_batches
        self._inline: Arrival | None = None
        self.base = base
        self.begin_epoch(0)

    def begin_epoch(
        self,
        epoch: int,
        *,
        salts: Mapping[str, int] | None = None,
        skip: int = 0,
        served: Iterable[int] = (),
        last: tuple[int, str] | None = None,
        keeps_base: bool = False,
    ) -> None:
        """
        Forget the running iterator: the next ``iter()`` begins an epoch.

        Args:
            epoch: Its number.
            salts: A number for each generator that the dataset holds; ``None`` to leave all random numbers alone.
            skip: Batches at its begin that were served already, elsewhere.
            served: Positions of others that were.
            last: The position of the batch that was served last, and the :func:`digest` of its indices.
            keeps_base: Whether the workers go on with the base that they have.
        """
        self._first, self._served = skip, frozenset(served)
        self._expected = last
        self.last_served: tuple[int, Any] | None = None
        self._ask_anew()
        self._epoch, self._salts = epoch, salts
        self._has_base = keeps_base
        self._set_key(Key(self.base.value, epoch, salts) if keeps_base else None)
        self.news: News | None = None
        self.news_left = 0

    def _set_key(self, key: Key | None) -> None:
        self.key = key
        self._key_to_send = None if key is None else tuple(key)  # which travels lighter than a named one

    def _ask_anew(self) -> None:
        """
        Forget the running iterator and what it gave: the next ``iter()`` asks the sampler.
        """
        self._iterator: Iterator[Any] = iter(())
        self._is_asked = self._has_begun = False
        self.count = self._skip = self._first
        self.again: list[int] = []
        self.outstanding: dict[int, Any] = {}

    def begin_again(self) -> None:
        """
        Begin the epoch once more, of which nothing was served yet, with the base that was drawn for it.

        If its sampler has given something, it is asked anew: it may be the sampler that has raised an error.
        """
        if self._has_begun:
            self._ask_anew()

    def tell(self, news: News | None, count: int) -> None:
        """
        Send news along with the next indices, so many that each worker gets some.
        """
        self.news, self.news_left = news, count

    def load_inline(self, arrival: Arrival | None) -> None:
        """
        Note each batch that begins in *arrival*, where batches load in this process; for workers the note travels.
        """
        self._inline = arrival
        self.streams: InlineStreams | None = None

    def seed_inline(self, held: HeldGenerators, watch: DrawWatch) -> InlineStreams | None:
        """
        Return what seeds each batch that loads inline, once the base is drawn; ``None`` to leave all as it is.
        """
        self.streams = None if self.key is None or self._salts is None else InlineStreams(self.key, held, watch)
        return self.streams

    @property
    def begins_early(self) -> bool:
        """
        Return whether the first indices are to be drawn when the epoch begins, as they would be for workers.
        """
        return self._salts is not None or bool(self._skip or self._served)

    def samples_at(self, indices: Any) -> int:
        """
        Return how many samples a batch of these indices has: a name, or a tuple, may be the index of a single one.
        """
        is_one = not self._makes_batches and isinstance(indices, (str, bytes, tuple))
        return 1 if is_one else length_hint(indices, 1)

    def failed(self, position: int | None = None) -> None:
        """
        Note that a batch raised an error, which the training loop has; ``None`` for the one that was due next.
        """
        self.outstanding.pop(min(self.outstanding, default=-1) if position is None else position, None)

    def put_back(self) -> None:
        """
        Hand out once more, and first, what was not served.
        """
        self.again = sorted(self.outstanding, reverse=True)

    def draw_first(self) -> None:
        """
        Ask the running iterator for its first indices now, which is when samplers draw random numbers.
        """
        if not self._has_begun:
            with contextlib.suppress(StopIteration):
                self.next_position()
            self.put_back()

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        asks_once = self._salts is not None
        if not self._has_begun and not (asks_once and self._is_asked):
            self._iterator, self._is_asked = iter(self._sampler), True
        if not self._has_base:
            self.base.draw()
            self._has_base = True
            self._set_key(Key(self.base.value, self._epoch, self._salts))
        return _HandingOut(self, self._inline)

    def next_position(self) -> int:
        """
        Return the position of the batch to hand out next, whose indices are outstanding.

        Raises:
            StopIteration: There are no more.
        """
        if self.again:
            return self.again.pop()
        self._has_begun = True
        if self._skip:
            skipped, self._skip = self._skip, 0
            for position, indices in enumerate(islice(self._iterator, skipped)):
                self._check(position, indices)
        while True:
            indices = next(self._iterator)
            position = self.count
            self.count = position + 1
            if position in self._served:
                self._check(position, indices)
            else:
                self.outstanding[position] = indices
                return position

    def _check(self, position: int, indices: Any) -> None:
        """
        See that a batch which was served elsewhere is the one that it was there.

        Raises:
            OtherOrderError: It is not.
        """
        if self._expected is not None and self._expected[0] == position and self._expected[1] != digest(indices):
            raise OtherOrderError

    def number(self, position: int) -> Any:
        """
        Return the indices of a batch for a worker, with all that is to travel with them.
        """
        news = None
        if self.news_left and self.news is not None:
            self.news_left -= 1
            news = self.news.wire
        return _Numbered((self.outstanding[position], position, self._key_to_send, news))

    def served(self) -> tuple[int, list[int]]:
        """
        Return how many batches at the begin of the epoch are served, and the positions of the others that are.
        """
        first = min(self.outstanding, default=self.count)
        others = (position for position in range(first, self.count) if position not in self.outstanding)
        return first, [*others, *sorted(position for position in self._served if position >= self.count)]


class _HandingOut:
    """
    The iterator over what is left of an epoch. It goes on after an error of the sampler's, as the sampler's own may.
    """

    __slots__ = ("_inline", "_issued")

    def __init__(self, issued: IssuedIndices, inline: Arrival | None) -> None:
        self._issued = issued
        self._inline = inline

    def __iter__(self) -> "_HandingOut":
        return self

    def __next__(self) -> Any:
        issued, inline = self._issued, self._inline
        position = issued.next_position()
        if inline is None:
            return issued.number(position)
        inline.position, inline.key, inline.samples = position, issued.key, {}
        if issued.streams is not None:
            issued.streams.begin(position)
        indices = issued.outstanding[position]
        return indices if inline.clock is None else inline.clock.begin(indices)
