"""
The private loaders of one AutoLoader: the one whose workers are kept, and those of the iterators that run.
"""

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from torch.utils.data import IterableDataset, default_collate, default_convert

from ..engine.inner import InnerLoader
from ..engine.issue import IssuedIndices
from ..engine.randomness import BaseSeed, DrawWatch
from ..engine.stream import Stream, has_own_state
from ..errors import LoaderClosedError
from ..findings import describe
from ..plan import Plan
from ..profiling import Fingerprint, is_in_memory
from .iterator import LoaderIterator
from .starting import is_users, without_workers

logger = logging.getLogger("autoloader")


class Parts(NamedTuple):
    """
    What a loader passes on to its inner loaders.
    """

    dataset: Any
    sampler: Iterable[Any]
    makes_batches: bool
    collate_fn: Any
    worker_init_fn: Callable[[int], None] | None
    generator: Any
    rest: Mapping[str, Any]
    """Other arguments of torch's DataLoader."""

    @property
    def is_iterable(self) -> bool:
        """
        Return whether the dataset is iterable-style.
        """
        return isinstance(self.dataset, IterableDataset)

    @property
    def cannot_draw(self) -> bool:
        """
        Return whether samples and batches are nothing but slices of something in memory.
        """
        is_torchs = self.collate_fn is default_collate or self.collate_fn is default_convert
        return is_torchs and is_in_memory(self.dataset)

    def fingerprint(self) -> Fingerprint:
        """
        Return what identifies the state of all that workers get a copy of.
        """
        return Fingerprint(self.dataset, self.collate_fn, self.worker_init_fn)

    def wanted(self, plan: Plan) -> dict[str, Any]:
        """
        Return the arguments that say how batches load, from the plan and from what the user set since.
        """
        settings = plan.as_kwargs()
        settings.update(worker_init_fn=self.worker_init_fn, generator=self.generator)
        if settings.get("num_workers"):
            settings["persistent_workers"] = plan.value("persistent_workers")
        if not is_users(plan.choices["multiprocessing_context"]):
            settings.pop("multiprocessing_context", None)
        return settings

    def settings(self, plan: Plan, timeout: float) -> dict[str, Any]:
        """
        Return these arguments as they are legal together in this moment.
        """
        settings, backend = self.wanted(plan), plan.value("backend")
        if settings["num_workers"] and backend == "process":
            settings["multiprocessing_context"] = plan.value("multiprocessing_context")
        elif backend == "thread":
            settings = {**without_workers(settings), "timeout": timeout}
        elif settings["num_workers"]:
            settings = without_workers(settings)
        return settings


class Inners:
    """
    Keeps the inner loader whose workers stay, and knows whose workers are in use.
    """

    live: ClassVar[weakref.WeakSet["Inners"]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._watch = DrawWatch()
        self.reset()
        Inners.live.add(self)

    def reset(self) -> None:
        """
        Keep nothing, and let nobody hold the lock.
        """
        self.lock = threading.RLock()
        self._closers: list[threading.Thread] = []
        self.kept: InnerLoader | None = None
        self._iterators: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()

    def add(self, iterator: LoaderIterator) -> None:
        """
        Take note of an iterator that runs.
        """
        self._iterators.add(iterator)

    def take_kept(self, parts: Parts, plan: Plan, *, after_break: bool) -> InnerLoader | None:
        """
        Return the workers kept from the last epoch if they are free and still as wanted.
        """
        kept = self.kept
        if kept is None or self._is_busy(kept):
            return None
        is_wanted = kept.wanted == parts.wanted(plan) and kept.may_serve_again(after_break=after_break)
        if is_wanted and not parts.fingerprint().differs_from(kept.held):
            return kept
        if is_wanted:
            logger.info("persistent_workers.dataset-changed: new workers, for what was changed since the last epoch")
        self.drop_kept()
        return None

    def make(
        self,
        parts: Parts,
        plan: Plan,
        settings: dict[str, Any],
        *,
        replaces: InnerLoader | None = None,
        resumed: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> InnerLoader:
        """
        Return a new inner loader; if its workers are to be kept and no kept ones are in use, it is the one to keep.

        Args:
            parts: What it loads.
            plan: What was chosen.
            settings: How it loads.
            replaces: One whose epoch it is to continue.
            resumed: Where an iterable-style dataset with its own state is to begin.
            how: Further arguments of :class:`InnerLoader`.
        """
        if replaces is not None and replaces is self.kept:
            self.kept = None
        keeps = bool(settings.get("persistent_workers")) and self.kept is None
        if not keeps and settings.get("persistent_workers"):
            settings = {**settings, "persistent_workers": False}
        stream = None
        if parts.is_iterable and has_own_state(parts.dataset):
            stream = Stream(parts.dataset, settings["num_workers"], resumed)
        if parts.is_iterable or replaces is not None:
            issued = None if replaces is None else replaces.issued
        else:
            issued = IssuedIndices(parts.sampler, BaseSeed(parts.generator), makes_batches=parts.makes_batches)
        inner = InnerLoader(
            parts.dataset,
            issued=issued,
            stream=stream,
            watch=None if parts.cannot_draw else self._watch,
            makes_batches=parts.makes_batches,
            collate_fn=parts.collate_fn,
            settings=settings,
            rest=parts.rest,
            held=parts.fingerprint() if keeps else None,
            **how,
        )
        if keeps:
            inner.wanted = parts.wanted(plan)
            self.kept = inner
        return inner

    @contextlib.contextmanager
    def knowing_changes(self, parts: Parts, *, has_news: bool) -> Iterator[None]:
        """
        For the time of a ``with`` block, know that what changes in the dataset is what kept workers will be told.
        """
        kept = self.kept if has_news else None
        if kept is not None and parts.fingerprint().differs_from(kept.held):
            kept = None  # the user has changed something, too
        try:
            yield
        finally:
            if kept is not None:
                kept.held = parts.fingerprint()

    def _is_busy(self, inner: InnerLoader) -> bool:
        if inner.group.is_inherited:
            return False
        return any(each.is_running and each.inner is inner for each in self._iterators)

    def drop_kept(self) -> None:
        """
        End the workers that are kept; those of a running iterator are left to it, and a parent's to the parent.
        """
        kept, self.kept = self.kept, None
        if kept is not None and not self._is_busy(kept):
            kept.close()

    def in_flight(self) -> tuple[int, list[int]]:
        """
        Return how many batches are asked for and not served yet, and the processes that run.
        """
        running = [each.inner for each in self._iterators if each.is_running and each.inner is not None]
        batches = sum(len(inner.issued.outstanding) for inner in running if inner.issued is not None)
        inners = {id(inner): inner for inner in (*running, self.kept) if inner is not None}
        processes = (process for inner in inners.values() for process in inner.group.processes)
        return batches, [process.pid for process in processes if process.pid is not None and process.is_alive()]

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """
        Hold the lock for the time of a ``with`` block; whoever measures, or waits for kept workers, gives way.
        """
        self._closers.append(threading.current_thread())
        try:
            if not self.lock.acquire(blocking=False):
                self._refuse_kept()
                self.lock.acquire()
            try:
                yield
            finally:
                self.lock.release()
        finally:
            self._closers.remove(threading.current_thread())

    def _refuse_kept(self) -> None:
        """
        Let a thread that holds the lock, and may wait for workers that are stuck in the last epoch, wait no longer.
        """
        kept = self.kept
        with contextlib.suppress(RuntimeError):  # that thread has just added an iterator: it does not wait
            if kept is not None and not self._is_busy(kept):
                kept.refuse(LoaderClosedError(describe("loader.closed", served=0)))

    def refuse_if_closing(self) -> None:
        """
        Give way to a thread that waits for the lock to close the loader.

        Raises:
            LoaderClosedError: There is one.
        """
        if self._closers:
            raise LoaderClosedError(describe("loader.closed", served=0))

    def close(self) -> None:
        """
        End all workers.
        """
        iterators = list(self._iterators)
        self._iterators.clear()
        for iterator in iterators:
            iterator.close()
        self.drop_kept()


def _renew_in_forked_process() -> None:
    """
    In a process that was just forked: give each loader a lock that nobody holds, and workers of its own.
    """
    for inners in list(Inners.live):
        inners.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_forked_process)
