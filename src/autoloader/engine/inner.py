"""
The private plain DataLoader that does the work behind an AutoLoader.
"""

import logging
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch.utils.data import DataLoader

from .delivery import Collate
from .issue import IN_WORKER, Arrival, IssuedIndices
from .processes import WorkerGroup, WorkerStartError, recording_context
from .threads import ThreadIterator
from .worker import WorkerInit

logger = logging.getLogger("autoloader")


class _PlainLoader(DataLoader[Any]):
    def check_worker_number_rationality(self) -> None:
        """
        Say nothing: the AutoLoader in front has said it already where the number is the user's.
        """


_inherited: list[Any] = []
"""
What a forked process got from its parent. It lives on until that process ends: torch would end the parent's workers
together with it.
"""


class InnerLoader:
    """
    One plain DataLoader with all that belongs to its life: its indices, its processes, its iterator.

    Args:
        dataset: The user's dataset, passed on as it is.
        sampler: The user's batch sampler, or sampler where no batches are made; ``None`` for iterable-style data.
        makes_batches: Whether *sampler* yields whole batches.
        collate_fn: The user's collate function.
        settings: The arguments of ``DataLoader`` that say how to load, legal together.
        rest: Its other arguments.
        held: What identifies the state of the dataset that workers got a copy of.
        on_inline: Given where batches load in a thread: a method that is called with the reason why they load inline
            after all; its object is held weakly.
        ahead: Batches that such a thread loads before they are asked for.
        cpus: CPUs for the workers, where they would inherit fewer than the user meant.
    """

    live: ClassVar[weakref.WeakSet["InnerLoader"]] = weakref.WeakSet()

    def __init__(
        self,
        dataset: Any,
        *,
        sampler: Iterable[Any] | None,
        makes_batches: bool,
        collate_fn: Any,
        settings: Mapping[str, Any],
        rest: Mapping[str, Any],
        held: Any = None,
        on_inline: Callable[[str], None] | None = None,
        ahead: int = 2,
        cpus: frozenset[int] | None = None,
    ) -> None:
        self.settings = dict(settings)
        self.held = held
        self.wanted: Mapping[str, Any] | None = None
        self.was_exhausted = False
        self.has_failed = False
        self.group = WorkerGroup()
        self._sampler = sampler
        self._on_inline, self._ahead = on_inline and _held_weakly(on_inline), ahead
        self._timeout = settings.get("timeout", 0)
        is_inline = not settings.get("num_workers")
        arrival = Arrival() if is_inline else IN_WORKER
        self.issued = None if sampler is None else IssuedIndices(sampler, inline=arrival if is_inline else None)
        arguments = {**rest, **settings, "collate_fn": Collate(collate_fn, arrival)}
        if on_inline is not None:
            arguments["timeout"] = 0  # torch has none without workers; the thread has
        if not is_inline:
            wanted = settings.get("multiprocessing_context")
            arguments["multiprocessing_context"] = recording_context(wanted, self.group)
            arguments["worker_init_fn"] = WorkerInit(settings.get("worker_init_fn"), cpus)
        if self.issued is not None and makes_batches:
            arguments["batch_sampler"] = self.issued
        elif self.issued is not None:
            arguments.update(batch_size=None, sampler=self.issued)
        self._loader = _PlainLoader(dataset, **arguments)
        self._source: Any = None
        InnerLoader.live.add(self)

    def start_epoch(self, *, draws_like_new: bool) -> Any:
        """
        Return torch's iterator over a new epoch, which starts workers where none are kept.

        Args:
            draws_like_new: Whether the draws from random number generators are to be those that starting new workers
                would make, where some are kept: the sampler is asked twice, and a base seed is drawn between.

        Raises:
            WorkerStartError: The system does not let a worker start; none is left.
        """
        is_kept = self._loader._iterator is not None
        self.was_exhausted, self.has_failed = False, True
        if is_kept and draws_like_new:
            if self._sampler is not None:
                iter(self._sampler)
            torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
        if self.issued is not None:
            self.issued.begin_epoch()
        self._source = self._start()
        if self._on_inline is not None and self.issued is not None:
            self._source = ThreadIterator(
                self._source, ahead=self._ahead, timeout=self._timeout, issued=self.issued, on_inline=self._on_inline
            )
        self.has_failed = False
        return self._source

    def _start(self) -> Any:
        try:
            return iter(self._loader)
        except (OSError, RuntimeError, WorkerStartError) as error:
            is_inline = not self.settings.get("num_workers")
            if is_inline or (isinstance(error, RuntimeError) and "new thread" not in str(error)):
                raise  # a sampler's or dataset's own
            _disarm_half_started(error)
            self.group.end(at_once=True)
            if isinstance(error, WorkerStartError):
                raise
            raise WorkerStartError(f"{type(error).__name__}: {error}") from error

    def end_epoch(self) -> None:
        """
        Let go of an iterator that is exhausted; persistent workers stay, and may serve another epoch.
        """
        self._source = None
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


def _held_weakly(method: Callable[[str], None]) -> Callable[[str], None]:
    """
    Return a function that calls a bound method as long as its object is held by somebody else.
    """
    reference = weakref.WeakMethod(method)

    def call(argument: str) -> None:
        held = reference()
        if held is not None:
            held(argument)

    return call


def _disarm_half_started(error: BaseException) -> None:
    """
    Keep torch's iterator from its own clean-up, when it failed to start all workers.

    That stumbles over what it had not set yet, or needs a thread where there are no more. Nobody but the traceback
    knows the iterator.
    """
    trace = error.__traceback__
    while trace is not None:
        iterator: Any = trace.tb_frame.f_locals.get("self")
        if type(iterator).__name__ == "_MultiProcessingDataLoaderIter":
            iterator._shutdown = True
            if getattr(iterator, "_worker_pids_set", False):
                signals: Any = torch.utils.data._utils.signal_handling
                signals._remove_worker_pids(id(iterator))
                iterator._worker_pids_set = False
            for each in (*getattr(iterator, "_index_queues", ()), getattr(iterator, "_worker_result_queue", None)):
                if each is not None:
                    each.cancel_join_thread()
                    each.close()
            return
        trace = trace.tb_next


def _keep_what_was_inherited() -> None:
    """
    In a process that was just forked: hold what is its parent's, so that nothing ends the parent's workers.
    """
    _inherited.extend(InnerLoader.live)
    InnerLoader.live.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_what_was_inherited)
