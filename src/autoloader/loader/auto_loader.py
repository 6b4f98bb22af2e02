"""
AutoLoader, the DataLoader that chooses its own settings.
"""

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from torch.utils.data import DataLoader, IterableDataset

from ..engine.inner import InnerLoader
from ..engine.processes import WorkerStartError
from ..facts import HostFacts
from ..plan import LoaderRequest, Plan
from ..policy import Obstacle, with_own_persistence
from ..probe import probe_host, probe_process
from ..profiling import Fingerprint, find_open_handle, inspect_dataset
from ..start import main_guard
from .iterator import LoaderIterator
from .planning import batches_per_epoch, check_counts, check_dataset, check_word, make_plan
from .starting import (
    Started,
    cpus_for_workers,
    is_users,
    refuse_in_starting_worker,
    report,
    report_method,
    settle,
    start_failed,
    with_fallback,
    with_inline,
    without_workers,
)

if TYPE_CHECKING:
    from typing_extensions import Self

B_co = TypeVar("B_co", covariant=True)

logger = logging.getLogger("autoloader")

_DECIDED = (
    "num_workers",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory",
    "multiprocessing_context",
    "timeout",
    "in_order",
)


class AutoLoader(DataLoader[B_co]):
    """
    A ``torch.utils.data.DataLoader`` whose settings fit this machine and this dataset, with a reason for each.

    Iterating yields what ``collate_fn`` makes of each batch, tensors of shape ``(N, *sample_shape)`` for instance, in
    the sampler's order: the same batches that a plain DataLoader yields. Each ``iter()`` is one epoch. Leaving the
    loop early is fine. Workers that are kept between epochs end with :meth:`close`, with the ``with`` block, or when
    the loader is dropped.

    Args:
        dataset: Anything that torch's DataLoader takes.
        batch_size: Samples a batch, as in torch; ``None`` where the dataset itself yields batches.
        shuffle: As in torch.
        sampler: As in torch.
        batch_sampler: As in torch.
        num_workers: Worker processes. ``None``, for this and the following arguments that have it as default: chosen
            by autoloader. Whatever you set stands.
        collate_fn: As in torch.
        pin_memory: As in torch.
        drop_last: As in torch.
        timeout: As in torch, in seconds.
        worker_init_fn: As in torch.
        multiprocessing_context: As in torch.
        generator: As in torch.
        prefetch_factor: Batches that each worker prepares ahead.
        persistent_workers: Whether workers stay between epochs.
        pin_memory_device: As in torch.
        in_order: As in torch.
        epochs: How often you expect to go through the dataset; ``None`` means many times.
        plan: A :class:`Plan`, or the path of a file that :meth:`Plan.save` wrote, to use instead of choosing.
        on_unsafe: What to do where no worker process may start: ``"fallback"`` loads in the training process and says
            so once, ``"raise"`` raises WorkersCannotStartError when the loader is iterated.

    Raises:
        ArgumentError: A count makes no sense. It is a ValueError, too.
        PlanFileError: The file given as *plan* is not a plan of this version.
        ValueError: Arguments contradict each other; the error is torch's own.
    """

    plan: Plan
    _live: ClassVar[weakref.WeakSet["AutoLoader[Any]"]] = weakref.WeakSet()
    _facts: HostFacts | None

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool | None = None,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool | None = None,
        pin_memory_device: str = "",
        in_order: bool = True,
        epochs: int | None = None,
        plan: Plan | str | Path | None = None,
        on_unsafe: str = "fallback",
    ) -> None:
        optional = {
            "num_workers": num_workers,
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "pin_memory": pin_memory,
            "multiprocessing_context": multiprocessing_context,
            "timeout": timeout or None,
            "in_order": None if in_order else False,
        }
        fixed = {name: value for name, value in optional.items() if value is not None}
        check_dataset(dataset)
        check_counts({**fixed, "epochs": epochs})
        request = LoaderRequest(fixed=fixed, batch_size=batch_size, epochs=epochs)
        check_word("on_unsafe", on_unsafe, ("fallback", "raise"))
        self._is_copy = main_guard.is_starting_worker()  # which imports the script again: it neither looks nor speaks
        batches = None if self._is_copy else batches_per_epoch(dataset, batch_size, sampler, batch_sampler, drop_last)
        traits = inspect_dataset(dataset, batches_per_epoch=batches, has_own_collate=collate_fn is not None)
        place = None if traits.is_remote else traits.path
        self._facts = HostFacts() if self._is_copy else probe_host(path=place)
        self.plan = make_plan(request, self._facts, traits, given=plan)
        self.on_unsafe = on_unsafe
        self.epochs = epochs
        self._reset_live_state()
        extra: dict[str, Any] = {"pin_memory_device": pin_memory_device} if pin_memory_device else {}
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            collate_fn=collate_fn,
            drop_last=drop_last,
            worker_init_fn=worker_init_fn,
            generator=generator,
            **extra,
            **self.plan.as_kwargs(),
        )
        self._is_constructed = True
        if not self._is_copy:
            logger.info("plan: %s", ", ".join(f"{name}={choice.value}" for name, choice in self.plan.choices.items()))

    def _reset_live_state(self) -> None:
        AutoLoader._live.add(self)
        self._lock = threading.RLock()
        self._kept: InnerLoader | None = None
        self._iterators: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()

    def check_worker_number_rationality(self) -> None:
        """
        Leave torch's warning about many workers to numbers that the user set.
        """
        if self.plan.choices["num_workers"].rule == "num_workers.fixed":
            super().check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        check_counts({name: value})
        super().__setattr__(name, value)
        if name in _DECIDED and self.__dict__.get("_is_constructed"):
            self.plan = self.plan.with_fixed({name: value})

    @property
    def _iterator(self) -> None:
        """
        Be where torch keeps its persistent workers, and where frameworks look for them: ours are elsewhere.
        """
        return None

    @_iterator.setter
    def _iterator(self, value: Any) -> None:
        """
        End the workers when a framework sets this to None, which is how Lightning ends those of a DataLoader.
        """
        if value is None and self.__dict__.get("_is_constructed"):
            self.close()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        refuse_in_starting_worker()
        is_users_persistence = is_users(self.plan.choices["persistent_workers"])
        with self._lock:
            inner = self._take_kept(after_break=is_users_persistence)
            if inner is None:
                inner = self._new_inner(self._settle())
            try:
                iterator = LoaderIterator(inner, draws_like_new=not is_users_persistence)
            except WorkerStartError as error:
                self._kept = None
                found = start_failed(error)
                self._fall_back(with_fallback(self.plan, found, self._style), found, stacklevel=2)
                iterator = LoaderIterator(self._new_inner(self._settings()), draws_like_new=False)
            self._iterators.add(iterator)
        return iterator

    @property
    def _style(self) -> Literal["map", "iterable"]:
        return "iterable" if isinstance(self.dataset, IterableDataset) else "map"

    def _settled(self) -> Started:
        """
        Make the plan right for this moment, as if workers were about to start, and return it.

        A child is started where only that can show whether a worker could load the dataset.
        """
        plan = with_own_persistence(self.plan)
        if self._is_copy or (not plan.value("num_workers") and plan.choices["backend"].rule == "backend.no-workers"):
            return Started(plan, None)
        now, facts = probe_process(), self._facts or probe_host()
        facts = facts._replace(start_methods=now.start_methods, job=now.job, process=now.process)
        self._facts = facts
        parts = {"dataset": self.dataset, "collate_fn": self.collate_fn, "worker_init_fn": self.worker_init_fn}
        return settle(plan, facts, parts, style=self._style, open_handle=find_open_handle(self.dataset))

    def _settle(self) -> dict[str, Any]:
        """
        Settle the plan, say what has to be said, and return the settings of workers that are about to start.
        """
        plan, found = self._settled()
        if found is not None:
            self._fall_back(plan, found, stacklevel=3)
        self.plan = plan
        if plan.value("backend") == "process" and self._facts is not None:
            report_method(plan, self._facts, stacklevel=3)
        return self._settings()

    def _fall_back(self, plan: Plan, found: Obstacle, *, stacklevel: int) -> None:
        """
        Take the plan that does without worker processes, and say so.
        """
        report(
            plan,
            found,
            must_raise=self.on_unsafe == "raise",
            has_init=self.worker_init_fn is not None,
            local_rank=None if self._facts is None else self._facts.job.local_rank,
            stacklevel=stacklevel + 1,
        )
        self.plan = plan

    def _take_kept(self, *, after_break: bool) -> InnerLoader | None:
        """
        Return the workers kept from the last epoch if they are free and still as wanted.
        """
        kept = self._kept
        if kept is None or self._kept_is_busy():
            return None
        is_wanted = kept.wanted == self._wanted() and kept.may_serve_again(after_break=after_break)
        if is_wanted and not self._fingerprint().differs_from(kept.held):
            return kept
        if is_wanted:
            logger.info("persistent_workers.dataset-changed: new workers, for what was changed since the last epoch")
        self._drop_kept()
        return None

    def _fingerprint(self) -> Fingerprint:
        return Fingerprint(self.dataset, self.collate_fn, self.worker_init_fn)

    def _kept_is_busy(self) -> bool:
        kept = self._kept
        if kept is None or kept.group.is_inherited:
            return False
        return any(each.is_running and each.uses(kept) for each in self._iterators)

    def _drop_kept(self) -> None:
        """
        End the workers that are kept; those of a running iterator are left to it, and a parent's to the parent.
        """
        is_busy, kept, self._kept = self._kept_is_busy(), self._kept, None
        if kept is not None and not is_busy:
            kept.close()

    def _wanted(self) -> dict[str, Any]:
        """
        Return the arguments that say how batches load, from the plan and from what was set since.
        """
        settings = self.plan.as_kwargs()
        settings.update(worker_init_fn=self.worker_init_fn, generator=self.generator)
        if settings.get("num_workers"):
            settings["persistent_workers"] = self.plan.value("persistent_workers")
        if not is_users(self.plan.choices["multiprocessing_context"]):
            settings.pop("multiprocessing_context", None)
        return settings

    def _settings(self) -> dict[str, Any]:
        """
        Return these arguments as they are legal together in this moment.
        """
        settings, backend = self._wanted(), self.plan.value("backend")
        if settings["num_workers"] and backend == "process":
            settings["multiprocessing_context"] = self.plan.value("multiprocessing_context")
        elif backend == "thread":
            settings = {**without_workers(settings), "timeout": self.timeout}
        elif settings["num_workers"]:
            settings = without_workers(settings)
        return settings

    def _new_inner(self, settings: dict[str, Any]) -> InnerLoader:
        """
        Return a new inner loader; if its workers are to be kept and no kept ones are in use, it is the one to keep.
        """
        keeps = bool(settings.get("persistent_workers")) and self._kept is None
        if not keeps and settings.get("persistent_workers"):
            settings = {**settings, "persistent_workers": False}
        inner = self._make_inner(settings, self._fingerprint() if keeps else None)
        if keeps:
            inner.wanted = self._wanted()
            self._kept = inner
        return inner

    def _note_inline(self, because: str) -> None:
        """
        Note in the plan that batches load inline, where a thread turned out not to do.
        """
        logger.info("backend.not-in-a-thread: batches load inline, because %s", because)
        self.plan = with_inline(self.plan, because)

    def _make_inner(self, settings: dict[str, Any], held: Fingerprint | None) -> InnerLoader:
        is_iterable = isinstance(self.dataset, IterableDataset)
        makes_batches = self.batch_sampler is not None
        rest: dict[str, Any] = {"pin_memory_device": self.pin_memory_device} if self.pin_memory_device else {}
        if is_iterable:
            rest.update(batch_size=self.batch_size, drop_last=self.drop_last)
        sampler = self.batch_sampler if makes_batches else self.sampler
        return InnerLoader(
            self.dataset,
            sampler=None if is_iterable else sampler,
            makes_batches=makes_batches,
            collate_fn=self.collate_fn,
            settings=settings,
            rest=rest,
            held=held,
            on_inline=self._note_inline if self.plan.value("backend") == "thread" else None,
            ahead=self.prefetch_factor or 2,
            cpus=cpus_for_workers(self._facts),
        )

    def close(self) -> None:
        """
        End every worker of this loader, within one deadline of 5 seconds for all of them.

        It may be called again. Iterators that were not exhausted raise LoaderClosedError afterwards; iterating over
        the loader again starts new workers.
        """
        with self._lock:
            iterators = list(self._iterators)
            self._iterators.clear()
            for iterator in iterators:
                iterator.close()
            self._drop_kept()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        live = {"_kept", "_iterators", "_lock", "_facts"}
        return {name: value for name, value in self.__dict__.items() if name not in live}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._facts = None
        self._reset_live_state()


def _renew_in_forked_process() -> None:
    """
    In a process that was just forked: give each loader a lock that nobody holds, and workers of its own.
    """
    for loader in list(AutoLoader._live):
        loader._reset_live_state()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_forked_process)
