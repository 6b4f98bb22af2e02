"""
Where a loader's first batches come from: loaded inline and timed, or from workers that tell how long they took.
"""

import weakref
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from ..engine.delivery import Delivery
from ..engine.inner import InnerLoader
from ..engine.pools import AtOneThread
from ..profiling import BatchClock
from ..profiling.inspect import length_of
from ..profiling.timing import Moment
from .deaths import Deaths
from .iterator import LoaderIterator
from .settling import settings_to_start

if TYPE_CHECKING:
    from .auto_loader import AutoLoader


class _Source:
    """
    The source of an epoch's first batches, which gives its iterator another one after them.

    Args:
        loader: Whose epoch it is.
        inner: What loads these batches.
        source: Its iterator.
        continue_elsewhere: Gives the rest of the epoch to another inner loader.
    """

    def __init__(
        self,
        loader: "AutoLoader[Any]",
        inner: InnerLoader,
        source: Any,
        *,
        continue_elsewhere: Callable[..., tuple[InnerLoader, Any, Deaths]],
    ) -> None:
        self._iterator: weakref.ref[LoaderIterator] | None = None
        self._loader, self._inner, self._source = loader, inner, source
        self._continue_elsewhere = continue_elsewhere

    def serve(self, iterator: LoaderIterator) -> None:
        """
        Serve *iterator*, which draws from this object.
        """
        self._iterator = weakref.ref(iterator)

    @property
    def iterator(self) -> LoaderIterator:
        """
        Return the iterator that is served.
        """
        iterator = None if self._iterator is None else self._iterator()
        assert iterator is not None  # it is the one that asks
        return iterator

    def _continue(self, settings: dict[str, Any]) -> Any:
        """
        Return what the rest of the epoch comes from, loaded by other settings, and give it to the iterator, too.
        """
        iterator = self.iterator
        if iterator.is_running:  # what chooses may have closed the loader
            iterator.continue_with(*self._continue_elsewhere(self._loader, self._inner, settings))
        return iterator.source

    def _stay(self, source: Any) -> Any:
        """
        Return what the rest of the epoch comes from, loaded as before, and give it to the iterator, too.
        """
        iterator = self.iterator
        if iterator.is_running:
            iterator.draw_from(source)
        return iterator.source


def batches_left(inner: InnerLoader) -> int | None:
    """
    Return how many batches of the epoch are left; ``None`` where that is not known.
    """
    issued = inner.issued
    total = None if issued is None else length_of(issued)
    if issued is None or total is None:
        return None
    return max(0, total - issued.count + len(issued.outstanding))


class _Inline(_Source):
    """
    Serves batches that load inline, and at some time lets the rest load as the loader chooses.

    Its arguments are those of any source of first batches.
    """

    def __init__(self, loader: "AutoLoader[Any]", inner: InnerLoader, source: Any, **others: Any) -> None:
        super().__init__(loader, inner, source, **others)
        self._at_one_thread = AtOneThread(source)
        self._fetch_seconds = 0.0

    def _fetch(self, *, is_at_one_thread: bool, looks_at_positions: bool = True) -> Any:
        """
        Return the next batch, and take note of what fetching it leaves behind.
        """
        with self._loader._first.noting_traces(self._loader, looks_at_positions=looks_at_positions):
            begun = perf_counter()
            batch = next(self._at_one_thread if is_at_one_thread else self._source)
            self._fetch_seconds = perf_counter() - begun
            return batch

    def _go_on(self) -> Any:
        """
        Return what the rest of the epoch comes from, and give it to the iterator, too.
        """
        loader = self._loader
        with loader._inners.lock:
            if not self.iterator.is_running:  # another thread has closed the loader meanwhile
                return self.iterator.source
            self._choose()
            settings = settings_to_start(loader, stacklevel=5)
            if not settings.get("num_workers") and loader.plan.value("backend") != "thread":
                loader._first.note_unseen(loader)
                is_single = loader._first.loads_at_one_thread(loader.plan)
                return self._stay(self._at_one_thread if is_single else self._source)
            return self._continue(settings)

    def _choose(self) -> None:
        """
        Choose how the rest loads.
        """


class Opening(_Inline):
    """
    Loads inline until enough batches were timed.

    Args:
        clock: What times them.
        inline: As for any epoch that begins inline.
    """

    def __init__(self, *inline: Any, clock: BatchClock, **more: Any) -> None:
        super().__init__(*inline, **more)
        self._clock = clock

    def __next__(self) -> Any:
        clock = self._clock
        clock.note_asked()
        if clock.has_seen_enough and batches_left(self._inner) != 0:
            return next(self._go_on())
        # The first batch as in a worker, the second one as without any.
        clock.is_at_one_thread = not clock.count % 2 or torch.get_num_threads() == 1
        batch = self._fetch(is_at_one_thread=clock.is_at_one_thread)
        self._loader._first.note_batch(self._loader)
        clock.note_served()
        return batch

    def _choose(self) -> None:
        self._inner.stop_timing()
        self._loader._first.choose(self._loader, batches_left(self._inner))


class Glance(_Inline):
    """
    Loads inline for as many batches as the last epochs had before they were left: workers would start in vain.

    Args:
        most: So many batches.
        inline: As for any epoch that begins inline.
    """

    def __init__(self, *inline: Any, most: int, **more: Any) -> None:
        super().__init__(*inline, **more)
        self._left, self._served = most, 0.0

    def __next__(self) -> Any:
        if not self._left and batches_left(self._inner) != 0:
            return next(self._go_on())
        first, begun = self._loader._first, perf_counter()
        batch = self._fetch(
            is_at_one_thread=first.loads_at_one_thread(self._loader.plan),
            looks_at_positions=not self._served,  # the first batches of all have shown that none is read on
        )
        if first.workers.is_to_confirm:
            step = begun - self._served if self._served else None
            first.workers.note_seen(self._loader, self._fetch_seconds, step, is_here=True)
        self._left -= 1
        self._served = perf_counter()
        return batch


class FromWorkers(_Source):
    """
    Serves batches from workers until enough of them were timed.

    Either the workers were chosen by what an earlier run has found, and it is seen whether that holds, or nothing is
    known of the dataset. Then other workers may serve the rest, but for iterable-style data. Its arguments are those
    of any source of first batches.
    """

    def __init__(self, *source: Any, **others: Any) -> None:
        super().__init__(*source, **others)
        self._served: Moment | None = None
        self._settings: dict[str, Any] | None = None

    def __next__(self) -> Any:
        workers, asked = self._loader._first.workers, Moment.now()
        if self._settings is not None or (workers.has_found and self._inner.issued is not None):
            return next(self._go_on())
        delivery = next(self._source)
        step = None if self._served is None else asked.since(self._served)
        is_over = not workers.note_fetched(self._loader, delivery, self._samples(delivery), step)
        if is_over and not (workers.has_found and self._inner.issued is not None):
            self._stay(self._source)
        self._served = Moment.now()
        return delivery

    def _samples(self, delivery: Delivery) -> int:
        """
        Return how many samples a batch has; of one of an iterable-style dataset, how many it is meant to have.
        """
        if self._inner.issued is None or delivery.position is None:
            return self._loader.batch_size or 1
        issued = self._inner.issued
        return issued.samples_at(issued.outstanding.get(delivery.position))

    def _go_on(self) -> Any:
        """
        Return what the rest of the epoch comes from, and give it to the iterator, too; again after an interrupt.
        """
        loader, inner = self._loader, self._inner
        with loader._inners.lock:
            if not self.iterator.is_running:
                return self.iterator.source
            if self._settings is None:
                if not loader._first.choose_by_found(loader, batches_left(inner)):
                    return self._stay(self._source)
                self._settings = settings_to_start(loader, stacklevel=5)
            inner.close()
            return self._continue(self._settings)
