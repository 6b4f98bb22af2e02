"""
Where a loader's first batches come from: loaded inline and timed, or from workers that confirm what is remembered.
"""

import weakref
from collections.abc import Callable
from operator import length_hint
from typing import TYPE_CHECKING, Any

from ..engine.inner import InnerLoader
from ..engine.pools import AtOneThread
from ..profiling import BatchClock
from ..profiling.inspect import length_of
from .deaths import Deaths
from .first_batches import SEEN_ROUNDS
from .iterator import LoaderIterator

if TYPE_CHECKING:
    from .auto_loader import AutoLoader


class _Source:
    """
    The source of an epoch's first batches, which gives its iterator another one after them.
    """

    def __init__(self) -> None:
        self._iterator: weakref.ref[LoaderIterator] | None = None

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


class Opening(_Source):
    """
    Serves batches that load inline until enough of them were timed, and then lets the rest load as the loader chooses.

    Args:
        loader: Whose epoch it is.
        inner: What loads the first batches inline.
        source: Its iterator.
        clock: What times them.
        continue_elsewhere: Gives the rest of the epoch to another inner loader.
    """

    def __init__(
        self,
        loader: "AutoLoader[Any]",
        inner: InnerLoader,
        source: Any,
        *,
        clock: BatchClock,
        continue_elsewhere: Callable[..., tuple[InnerLoader, Any, Deaths]],
    ) -> None:
        super().__init__()
        self._loader, self._inner, self._source = loader, inner, AtOneThread(source)
        self._clock, self._continue_elsewhere = clock, continue_elsewhere

    def __next__(self) -> Any:
        clock, traces = self._clock, self._loader._first.traces
        clock.note_asked()
        if clock.has_seen_enough:
            return next(self._go_on())
        assert traces is not None
        traces.begin()
        try:
            batch = next(self._source)
        finally:
            traces.end()
        clock.note_served()
        return batch

    def _go_on(self) -> Any:
        """
        Return what the rest of the epoch comes from, and give it to the iterator, too.
        """
        loader, inner, iterator = self._loader, self._inner, self.iterator
        assert inner.issued is not None
        inner.stop_timing()
        total = length_of(inner.issued)
        with loader._inners.lock:
            left = None if total is None else max(0, total - inner.issued.count + len(inner.issued.outstanding))
            loader._first.choose(loader, left)
            settings = loader._settle(stacklevel=5)
            if not settings.get("num_workers") and loader.plan.value("backend") != "thread":
                iterator.draw_from(self._source)
                return self._source
            new, source, deaths = self._continue_elsewhere(loader, inner, settings)
            iterator.continue_with(new, source, deaths)
            return source


class Confirmation(_Source):
    """
    Serves batches from workers that were chosen by what an earlier run has found, until it is seen whether that holds.

    Args:
        loader: Whose epoch it is.
        inner: What loads the batches.
        source: Its iterator over deliveries.
    """

    def __init__(self, loader: "AutoLoader[Any]", inner: InnerLoader, source: Any) -> None:
        super().__init__()
        self._loader, self._inner, self._source = loader, inner, source
        self._workers = inner.settings["num_workers"]
        self._seen: list[float] = []

    def __next__(self) -> Any:
        delivery = next(self._source)
        if delivery.seconds is not None:
            self._seen.append(delivery.seconds / self._samples_of(delivery.position))
        if len(self._seen) == SEEN_ROUNDS * self._workers:
            self._loader._first.confirm(self._loader, self._seen[self._workers :])
            self.iterator.draw_from(self._source)
        return delivery

    def _samples_of(self, position: int | None) -> int:
        if self._inner.issued is None:
            return self._loader.batch_size or 1
        return max(1, length_hint(self._inner.issued.outstanding.get(position or 0, ()), 1))
