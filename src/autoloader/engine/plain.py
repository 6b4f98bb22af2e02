"""
Torch's own loader, with the watched iterator, and how one that could not start is kept from doing harm.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from .issue import Unnumbered
from .watch import Silence, WatchedIterator


class PlainLoader(DataLoader[Any]):
    """
    A plain DataLoader whose iterator over workers is the watched one.
    """

    on_silence: Callable[[Silence], None]
    is_timed = False
    """Whether workers note when they begin a batch of an iterable-style dataset."""
    first_worker = 0
    ended: Sequence[bool] = ()

    def check_worker_number_rationality(self) -> None:
        """
        Say nothing: the AutoLoader in front has said it already where the number is the user's.
        """

    @property
    def _index_sampler(self) -> Any:
        sampler = super()._index_sampler
        is_timed = self.is_timed and self.num_workers and isinstance(self.dataset, IterableDataset)
        return Unnumbered(sampler) if is_timed else sampler

    def _get_iterator(self) -> Any:
        if not self.num_workers:
            return super()._get_iterator()
        return WatchedIterator(self, self.on_silence, self.first_worker, self.ended)


def held_weakly(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """
    Return a function that calls a bound method as long as its object is held by somebody else.
    """
    reference = weakref.WeakMethod(method)

    def call(argument: Any) -> None:
        held = reference()
        if held is not None:
            held(argument)

    return call


def disarm_half_started(error: BaseException) -> None:
    """
    Keep torch's iterator from its own clean-up, when it failed to start all workers.

    That stumbles over what it had not set yet, or needs a thread where there are no more. Nobody but the traceback
    knows the iterator.
    """
    trace = error.__traceback__
    while trace is not None:
        iterator: Any = trace.tb_frame.f_locals.get("self")
        if isinstance(iterator, WatchedIterator):
            iterator._shutdown = True
            if getattr(iterator, "_worker_pids_set", False):
                signals: Any = torch.utils.data._utils.signal_handling
                signals._remove_worker_pids(id(iterator))
                iterator._worker_pids_set = False
            if hasattr(iterator, "_pin_memory_thread_done_event"):
                iterator._pin_memory_thread_done_event.set()
            for each in (*getattr(iterator, "_index_queues", ()), getattr(iterator, "_worker_result_queue", None)):
                if each is not None:
                    each.cancel_join_thread()
                    each.close()
            return
        trace = trace.tb_next
