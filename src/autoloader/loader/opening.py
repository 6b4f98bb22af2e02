"""
The first batches of a loader: they load inline, are timed and served, and then decide how the rest loads.
"""

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..engine.inner import InnerLoader
from ..engine.pools import AtOneThread
from ..engine.sending import try_to_send
from ..facts import HostFacts
from ..plan import LoaderRequest, Plan
from ..policy import Measured, Outlook, can_be_measured, expected_epochs_left, recommend
from ..policy.multiprocessing_context import method_name
from ..profiling import BatchClock, FetchTraces
from ..profiling.inspect import length_of
from ..records import NO_LIMIT
from ..traits import Profile
from .deaths import Deaths
from .iterator import LoaderIterator
from .ranks import world_size
from .starting import is_users

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

logger = logging.getLogger("autoloader")

SHARED_FRACTION = 8
"""
Of the free shared memory, no more than this part is used to see what sending a batch costs.
"""


class FirstBatches:
    """
    What is known of one loader's first batches.
    """

    def __init__(self) -> None:
        self.profile: Profile | None = None
        self.traces: FetchTraces | None = None
        self._clock: BatchClock | None = None
        self._epochs_begun = 0

    def clock_for_epoch(self, loader: "AutoLoader[Any]") -> BatchClock | None:
        """
        Return what is to time the next batches; ``None`` where nothing is to be measured, or all has been.

        If enough was seen in earlier epochs, *loader* has another plan afterwards.

        Not with ``worker_init_fn``, without which samples may not be what the user wants, nor in a process group, whose
        ranks had better load alike, nor for iterable-style data, which cannot change horses in mid-stream.
        """
        self._epochs_begun += 1
        if self._is_choice_due(loader.plan):
            self.choose(loader, length_of(loader))
        is_possible = (
            self.profile is None
            and loader.worker_init_fn is None
            and loader._style == "map"
            and world_size() == 1
            and _may_choose(loader)
        )
        if not is_possible:
            return None
        if self._clock is None:
            self._clock, self.traces = BatchClock(), FetchTraces(loader.dataset)
        self._clock.begin_epoch()
        return self._clock

    def choose(self, loader: "AutoLoader[Any]", batches_left: int | None) -> None:
        """
        Choose anew for *loader*, by what was measured, where batches load inline and as far as the user has not chosen.

        Args:
            loader: The loader.
            batches_left: Batches left of the epoch; ``None`` where that is not known.
        """
        clock, self._clock = self._clock, None
        if clock is not None and clock.has_seen_enough:
            self.profile = clock.profile(try_to_send(clock.last_batch, shared_bytes(loader._facts)))
        elif self.profile is None:
            self._clock = clock
            return
        if not _may_choose(loader):
            return
        left = expected_epochs_left(loader.epochs, self._epochs_begun - 1)
        outlook = Outlook(batches_left, length_of(loader), left)
        measured = Measured(self.profile, outlook)
        loader._take_plan(recommend(loader._look_again(), loader._traits, request_of(loader), measured))

    def undo_traces(self, plan: Plan) -> bool:
        """
        Let workers find the dataset as if nothing had been fetched in this process, where that matters to them.

        A forked worker may well find what was loaded already, but not what is open; another one gets it pickled.

        Returns:
            Whether files are open all the same.
        """
        if self.traces is None:
            return False
        if self.traces.has_open_files or method_name(plan.value("multiprocessing_context")) != "fork":
            self.traces.undo()
        return self.traces.has_open_files

    def _is_choice_due(self, plan: Plan) -> bool:
        """
        Return whether to choose before an epoch: after a measurement, and again as long as workers did not pay yet.
        """
        if self.profile is not None:
            return not plan.value("num_workers")
        return self._clock is not None and self._clock.has_seen_enough


def request_of(loader: "AutoLoader[Any]") -> LoaderRequest:
    """
    Return what the user asked of a loader, up to now.
    """
    fixed = {name: choice.value for name, choice in loader.plan.choices.items() if is_users(choice)}
    return LoaderRequest(fixed=fixed, batch_size=loader.batch_size, epochs=loader.epochs)


def _may_choose(loader: "AutoLoader[Any]") -> bool:
    """
    Return whether the number of workers is ours, and neither a given plan nor a rule alone decides it.
    """
    plan, context = loader.plan, loader.plan.value("multiprocessing_context")
    if loader._has_given_plan or plan.has_users_workers:
        return False
    return can_be_measured(loader._facts, loader._traits, request_of(loader), context)


def shared_bytes(facts: HostFacts) -> int:
    """
    Return how much shared memory may be used for a moment, to see what sending a batch costs.
    """
    free = facts.shared_memory.free_bytes
    return 0 if free is None or free == NO_LIMIT else int(free / SHARED_FRACTION)


class Opening:
    """
    The source of an epoch's batches until enough of them were timed; then it gives its iterator another one.

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
        self._loader, self._inner, self._source = loader, inner, AtOneThread(source)
        self._clock, self._continue_elsewhere = clock, continue_elsewhere
        self._iterator: weakref.ref[LoaderIterator] | None = None

    def serve(self, iterator: LoaderIterator) -> None:
        """
        Serve *iterator*, which draws from this object.
        """
        self._iterator = weakref.ref(iterator)

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
        loader, inner = self._loader, self._inner
        iterator = None if self._iterator is None else self._iterator()
        assert iterator is not None
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
