"""
The private plain DataLoader that does the work behind an AutoLoader.
"""

import logging
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch

from ..errors import LoaderClosedError
from ..findings import describe
from ..profiling import BatchClock, generators_in
from .delivery import Collate, InlineCollate
from .issue import IN_WORKER, Arrival, IssuedIndices
from .news import News
from .plain import PlainLoader, disarm_half_started, held_weakly
from .processes import WorkerGroup, WorkerStartError, disown, recording_context
from .randomness import DrawWatch, HeldGenerators, SeededInline
from .stacks import StackPipe
from .stream import CopyState, Stream
from .threads import ThreadIterator
from .turns import in_turns, in_turns_with_threads
from .watch import DeadWorker, Silence, WatchedIterator
from .worker import WorkerInit

logger = logging.getLogger("autoloader")


_inherited: list[Any] = []
"""
What a forked process got from its parent. It lives on until that process ends: torch would end the parent's workers
together with it.
"""


class Epoch(NamedTuple):
    """
    One epoch that begins, or goes on, in an inner loader.
    """

    number: int = 0
    """Its number, from which the random numbers come, too."""
    seeds_batches: bool = False
    """Whether each batch gets random numbers that do not depend on who loads it."""
    skip: int = 0
    """Batches at its begin that were served already, elsewhere."""
    served: tuple[int, ...] = ()
    """Positions of others that were."""
    last: tuple[int, str] | None = None
    """The position of the batch that was served last, and the digest of its indices."""
    news: News | None = None
    """What the dataset has become; ``None`` for what it always was."""
    draws_like_new: bool = False
    """Whether kept workers draw from the generators what starting new ones would."""


_FIRST_EPOCH = Epoch()


class KeptWorkersDiedError(Exception):
    """
    Say that workers of the last epoch died before they began another one.
    """


class InnerLoader:
    """
    One plain DataLoader with all that belongs to its life: its indices, its processes, its iterator.

    Args:
        dataset: The user's dataset, passed on as it is.
        issued: The indices of the epochs that it loads; ``None`` for iterable-style data.
        makes_batches: Whether they are whole batches.
        collate_fn: The user's collate function.
        settings: The arguments of ``DataLoader`` that say how to load, legal together.
        rest: Its other arguments.
        held: What identifies the state of the dataset that workers got a copy of.
        version: The news that the dataset has heard already.
        on_inline: Given where batches load in a thread: a method that is called with the reason why they load inline
            after all; its object is held weakly.
        watch: What is known of the dataset's draws from global generators; ``None`` if it is known not to draw.
        stream: Where an iterable-style dataset stands that keeps its own state; ``None`` for any other.
        ahead: Batches that such a thread loads before they are asked for.
        cpus: CPUs for the workers, where they would inherit fewer than the user meant.
        clock: What times the batches, where they load inline.
        is_timed: Whether workers say how long each batch takes them.
    """

    live: ClassVar[weakref.WeakSet["InnerLoader"]] = weakref.WeakSet()

    def __init__(
        self,
        dataset: Any,
        *,
        issued: IssuedIndices | None,
        makes_batches: bool,
        collate_fn: Any,
        settings: Mapping[str, Any],
        rest: Mapping[str, Any],
        held: Any = None,
        version: int = 0,
        on_inline: Callable[[str], None] | None = None,
        watch: DrawWatch | None = None,
        stream: Stream | None = None,
        ahead: int = 2,
        cpus: frozenset[int] | None = None,
        clock: BatchClock | None = None,
        is_timed: bool = False,
    ) -> None:
        self.settings = dict(settings)
        self._clock, self._is_timed = clock, is_timed
        self.held, self.version = held, version
        self.wanted: Mapping[str, Any] | None = None
        self.memory: Any = None
        """Memory when its workers started."""
        self.was_exhausted = False
        self.has_failed = False
        self.group = WorkerGroup()
        self.issued, self.stream = issued, stream
        self.stacks = StackPipe() if settings.get("num_workers") else None
        self._watch = watch
        self._holders = dataset, collate_fn
        self._held_generators = HeldGenerators({})
        self._on_inline, self._ahead = on_inline and held_weakly(on_inline), ahead
        self._timeout = settings.get("timeout", 0)
        self._loader = self._make_plain(dataset, makes_batches, collate_fn, rest, cpus)
        self._loader.on_silence = held_weakly(self._tell_of_silence)
        if stream is not None and stream.workers:
            self._loader.first_worker, self._loader.ended = stream.turn, list(stream.ended)
        self.on_silence: Callable[[], Callable[[Silence], None] | None] | None = None
        self._source: Any = None
        self._watched: WatchedIterator | None = None
        InnerLoader.live.add(self)

    def _make_plain(
        self, dataset: Any, makes_batches: bool, collate_fn: Any, rest: Mapping[str, Any], cpus: frozenset[int] | None
    ) -> PlainLoader:
        settings, arrival = self.settings, IN_WORKER if self.has_workers else Arrival()
        collate: Any
        if self.delivers:
            collate = Collate(collate_fn, arrival, is_timed=self._is_timed)
        else:
            collate = InlineCollate(collate_fn if self._clock is None else self._clock.collating(collate_fn))
            collate.arrival, arrival.clock = arrival, self._clock
        arguments = {**rest, **settings, "collate_fn": collate}
        if self._on_inline is not None:
            arguments["timeout"] = 0  # torch has none without workers; the thread has
        if self.has_workers:
            arguments["multiprocessing_context"] = recording_context(
                settings.get("multiprocessing_context"), self.group
            )
            arguments["worker_init_fn"] = WorkerInit(
                settings.get("worker_init_fn"),
                cpus,
                collate_fn=collate_fn,
                version=self.version,
                stacks=self.stacks,
                states=None if self.stream is None else self.stream.first,
            )
        self.arrival = arrival
        if self.issued is not None:
            arguments["generator"] = self.issued.base.twin
            arguments.update(
                {"batch_sampler": self.issued} if makes_batches else {"batch_size": None, "sampler": self.issued}
            )
        loader = PlainLoader(dataset, **arguments)
        loader.is_timed = self._is_timed
        return loader

    def _tell_of_silence(self, silence: Silence) -> None:
        """
        Pass on that the batch that is due does not come, to whoever iterates now.
        """
        listener = None if self.on_silence is None else self.on_silence()
        if listener is not None:
            listener(silence)

    @property
    def has_workers(self) -> bool:
        """
        Return whether batches load in worker processes.
        """
        return bool(self.settings.get("num_workers"))

    @property
    def delivers(self) -> bool:
        """
        Return whether each batch comes as a :class:`Delivery`; otherwise :attr:`arrival` says which one it is.
        """
        return self.has_workers or self._on_inline is not None

    @property
    def keeps_workers(self) -> bool:
        """
        Return whether the workers stay when an epoch has ended.
        """
        return bool(self.settings.get("persistent_workers"))

    def start_epoch(self, epoch: Epoch = _FIRST_EPOCH) -> Any:
        """
        Return an iterator over the batches or deliveries of a new epoch; workers start where none are kept.

        Raises:
            WorkerStartError: The system does not let a worker start; none is left.
            KeptWorkersDiedError: A worker died that was kept; nothing was served yet.
        """
        is_kept, issued = self._loader._iterator is not None, self.issued
        if issued is None and is_kept and epoch.draws_like_new:
            torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
        if issued is not None:
            self._note_heard(issued)
            self._held_generators = HeldGenerators(generators_in(*self._holders))
            issued.begin_epoch(
                epoch.number,
                salts=self._held_generators.salts() if epoch.seeds_batches else None,
                skip=epoch.skip,
                served=epoch.served,
                last=epoch.last,
                keeps_base=is_kept and not epoch.draws_like_new,
            )
            if is_kept and epoch.draws_like_new:
                iter(issued)
            if epoch.news is not None and epoch.news.version != self.version:
                issued.tell(epoch.news, self._most_ahead())
        return self._open()

    def _most_ahead(self) -> int:
        """
        Return how many batches torch asks of the workers at once: the first ones of an epoch reach all of them.
        """
        return int(self.settings.get("num_workers", 0) * (self.settings.get("prefetch_factor") or 2))

    def _note_heard(self, issued: IssuedIndices) -> None:
        """
        Note that every worker has heard the last news, if the last epoch had a batch for each.
        """
        if issued.news is not None and self._most_ahead() - issued.news_left >= self.settings["num_workers"]:
            self.version = issued.news.version

    def continue_epoch(self) -> Any:
        """
        Return an iterator over what another inner loader has left of an epoch.

        Raises:
            WorkerStartError: The system does not let a worker start; none is left.
        """
        self._held_generators = HeldGenerators(generators_in(*self._holders))
        if self.issued is not None:
            self.issued.put_back()
            self.issued.tell(None, 0)
            self.issued.base.repeat()
        return self._open()

    def _open(self) -> Any:
        self.was_exhausted, self.has_failed = False, True
        issued = self.issued
        if self.stream is not None:
            self.stream.begin()
        if issued is not None:
            issued.load_inline(None if self.has_workers else self.arrival)
        self._source = self._start()
        if issued is not None and not self.has_workers:
            streams = None if self._watch is None else issued.seed_inline(self._held_generators, self._watch)
            if issued.begins_early:
                issued.draw_first()  # as early as with workers, whatever the caller draws next
            if streams is not None:
                self._source = SeededInline(self._source, streams)
            if self._on_inline is None:
                self._source = in_turns_with_threads(self._source, self._holders[0])
            else:
                self._source = ThreadIterator(
                    in_turns(self._source, self._holders[0]),
                    ahead=self._ahead,
                    timeout=self._timeout,
                    issued=issued,
                    streams=streams,
                    on_inline=self._on_inline,
                )
        if self.stream is not None and not self.stream.workers and all(self.stream.ended):
            self._source = iter(())
        self.has_failed = False
        self._watched = self._source if isinstance(self._source, WatchedIterator) else None
        return self._source

    def refuse(self, error: Exception) -> None:
        """
        Let whoever waits for a batch of the workers, in another thread, get this error instead.
        """
        source = self._loader._iterator if self._source is None else self._source
        if isinstance(source, WatchedIterator):
            source.refuse(error)

    def stop_timing(self) -> None:
        """
        Load on without the clock.
        """
        self.arrival.clock = None
        if self._clock is not None:
            self._clock.is_stopped = True

    def note_served(self, state: CopyState | None) -> None:
        """
        Note where an iterable-style dataset stands after a batch that was served.
        """
        if self.stream is None:
            return
        if self._watched is not None:  # also where another thread has closed this loader meanwhile
            self.stream.note(state, self._watched.next_worker())
        elif self._source is not None:
            self.stream.note_inline(is_ended=self._source._dataset_fetcher.ended)

    def note_failed(self, error: BaseException) -> None:
        """
        Note that ``next()`` raised an error, and drop the batch that it came in the place of.

        After an interrupt, a time-out or an error in receiving, the batch that was due is not served.
        """
        self.has_failed = True
        issued, source = self.issued, self._source
        if isinstance(source, WatchedIterator):
            source.was_interrupted = True
        if issued is None:
            return
        if isinstance(source, WatchedIterator):
            position, source.failed_position = source.failed_position, None
            if position is not None:
                issued.failed(position)
            if not isinstance(error, Exception) and not source.knows(issued.outstanding):
                source.refuse(LoaderClosedError(describe("loader.interrupted")))
        elif not isinstance(error, Exception):
            issued.put_back()
        elif not isinstance(source, ThreadIterator) or source.has_failed_item:
            issued.failed()

    def has_stopped_early(self) -> bool:
        """
        Return whether a StopIteration is not the end of the epoch but an error of the dataset's.
        """
        if isinstance(self._source, WatchedIterator):
            return self._source.failed_position is not None
        return self.issued is not None and bool(self.issued.outstanding)

    def dead_workers(self) -> list[DeadWorker]:
        """
        Return the workers that ended although more was asked of them.
        """
        source = self._loader._iterator if self._source is None else self._source
        if self.group.is_inherited:
            return []
        return source.dead_workers() if isinstance(source, WatchedIterator) else []

    def _start(self) -> Any:
        try:
            return iter(self._loader)
        except Exception as error:
            if self.dead_workers():
                raise KeptWorkersDiedError from error
            if not self.has_workers:
                raise
            disarm_half_started(error)
            self.group.end(at_once=True)
            is_thread = isinstance(error, RuntimeError) and "new thread" in str(error)
            if isinstance(error, WorkerStartError) or not (is_thread or isinstance(error, OSError)):
                raise  # a sampler's or dataset's own, if not ours already
            raise WorkerStartError(f"{type(error).__name__}: {error}") from error
        except BaseException as error:
            if self.has_workers:
                disarm_half_started(error)
                self.group.end(at_once=True)
            raise

    def end_epoch(self) -> None:
        """
        Let go of an iterator that is exhausted; persistent workers stay, and may serve another epoch.
        """
        self._source = self._watched = None
        self.was_exhausted, self.has_failed = True, False

    def may_serve_again(self, *, after_break: bool) -> bool:
        """
        Return whether kept workers may begin another epoch: all are alive, and none has anything left from the last.

        Args:
            after_break: Whether they may also where the last epoch was left early. Torch lets them load all that was
                asked for, and throws it away.
        """
        is_clean = self.was_exhausted or (after_break and not self.has_failed)
        return is_clean and all(process.is_alive() for process in self.group.processes)

    def close(self) -> None:
        """
        End all workers, by one deadline. Nothing happens the second time, nor in a process forked from their parent.
        """
        if self.group.is_inherited:
            return
        source, self._source = self._source, None
        if source is None:
            source = self._loader._iterator
        self._loader._iterator = None
        shut_down = source.close if isinstance(source, ThreadIterator) else getattr(source, "_shutdown_workers", None)
        try:
            if shut_down is not None:
                shut_down()
        except RuntimeError as error:
            # Torch's SIGCHLD handler speaks up wherever the training process is: a worker has died that we end anyhow.
            logger.debug("while workers were ended: %s", error)
        finally:
            self.group.end()
            if self.stacks is not None:
                self.stacks.close()


def _keep_what_was_inherited() -> None:
    """
    In a process that was just forked: hold what is its parent's, so that nothing ends the parent's workers.
    """
    for inner in InnerLoader.live:
        for source in (inner._source, inner._loader._iterator):
            if isinstance(source, WatchedIterator):
                source.refuse(LoaderClosedError(describe("loader.inherited")))
                source._shutdown = True  # with pinned memory torch would end the workers when this process exits
    _inherited.extend(InnerLoader.live)
    InnerLoader.live.clear()
    disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_what_was_inherited)
