"""
AutoLoader, the DataLoader that chooses its own settings.
"""

import functools
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from torch.utils.data import DataLoader, IterableDataset

from ..engine.inner import InnerLoader
from ..findings import describe
from ..plan import NEEDS_WORKERS, LoaderRequest, Plan
from ..probe import probe_process
from ..profiling import Fingerprint
from .iterator import LoaderIterator
from .planning import batches_per_epoch, check_counts, check_dataset, make_plan, revised
from .warn import warn_once

if TYPE_CHECKING:
    from typing_extensions import Self

P = ParamSpec("P")
T = TypeVar("T")
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

    Raises:
        ArgumentError: A count makes no sense. It is a ValueError, too.
        PlanFileError: The file given as *plan* is not a plan of this version.
        ValueError: Arguments contradict each other; the error is torch's own.
    """

    plan: Plan

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
        batches = batches_per_epoch(dataset, batch_size, sampler, batch_sampler, drop_last)
        self.plan = make_plan(dataset, request, batches=batches, has_own_collate=collate_fn is not None, given=plan)
        self.plan = revised(self.plan)
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
        logger.info("plan: %s", ", ".join(f"{name}={choice.value}" for name, choice in self.plan.choices.items()))

    def _reset_live_state(self) -> None:
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
        self.plan = revised(self.plan)
        self._warn_of_workers_not_started()
        is_users_persistence = self.plan.choices["persistent_workers"].rule == "persistent_workers.fixed"
        with self._lock:
            inner = self._take_inner(after_break=is_users_persistence)
            iterator = LoaderIterator(inner, draws_like_new=not is_users_persistence)
            self._iterators.add(iterator)
        return iterator

    def _warn_of_workers_not_started(self) -> None:
        """
        Say so where workers that the user asked for cannot start; where we chose them, the plan says it.
        """
        workers, backend = self.plan.choices["num_workers"], self.plan.choices.get("backend")
        is_users = workers.rule in {"num_workers.fixed", "num_workers.needed"}
        if backend is None or backend.value != "inline" or not workers.value or not is_users:
            return
        evidence = {"rule": backend.rule, "workers": workers.value, "because": backend.because}
        text = describe("process.workers-not-started", **evidence)
        warn_once(backend.rule, text, local_rank=probe_process().job.local_rank, stacklevel=3)

    def _take_inner(self, *, after_break: bool) -> InnerLoader:
        """
        Return the workers kept from the last epoch if they are free and still as wanted, else new ones.
        """
        settings = self._settings()
        if not settings.get("persistent_workers"):
            self._drop_kept()
            return self._new_inner(settings)
        if self._kept_is_busy():
            return self._new_inner({**settings, "persistent_workers": False})
        held = Fingerprint(self.dataset, self.collate_fn, self.worker_init_fn)
        if self._kept is not None and not self._kept.may_serve_again(after_break=after_break):
            self._drop_kept()
        if self._kept is not None and (self._kept.settings != settings or held.differs_from(self._kept.held)):
            logger.info("persistent_workers.dataset-changed: new workers, for what was changed since the last epoch")
            self._drop_kept()
        if self._kept is None:
            self._kept = self._new_inner(settings, held)
        return self._kept

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

    def _settings(self) -> dict[str, Any]:
        """
        Return the arguments that say how batches load, from the plan and from what was set since.
        """
        settings = self.plan.as_kwargs()
        settings.update(worker_init_fn=self.worker_init_fn, generator=self.generator)
        if settings.get("num_workers"):
            settings["persistent_workers"] = self.plan.value("persistent_workers")
        if self.plan.value("backend") == "inline" and settings.get("num_workers"):
            settings = {name: value for name, value in settings.items() if name not in NEEDS_WORKERS}
            settings["num_workers"] = 0
        return settings

    def _new_inner(self, settings: dict[str, Any], held: Fingerprint | None = None) -> InnerLoader:
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
        return {name: value for name, value in self.__dict__.items() if name not in {"_kept", "_iterators", "_lock"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_live_state()


def _with_arguments_of(loader: Callable[P, Any]) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """
    Let a function take the arguments of *loader*, to type checkers as well as to ``inspect.signature``.
    """

    def decorate(function: Callable[..., T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **kwargs)

        call.__signature__ = inspect.signature(loader).replace(  # type: ignore[attr-defined]
            return_annotation=inspect.signature(function).return_annotation
        )
        return call

    return decorate


@_with_arguments_of(AutoLoader)
def auto_loader(*args: Any, **kwargs: Any) -> AutoLoader[Any]:
    """
    Return a DataLoader whose settings fit this machine and this dataset.

    It takes all arguments of torch's DataLoader, in torch's order; what you set stands, what you leave out is chosen.
    Beside them: *epochs*, how often you expect to go through the dataset, and *plan*, a Plan or the path of one, to
    use instead of choosing. AutoLoader's own documentation tells all of them.
    """
    return AutoLoader(*args, **kwargs)


@_with_arguments_of(AutoLoader)
def plan_loader(*args: Any, **kwargs: Any) -> Plan:
    """
    Return only the settings: ``DataLoader(dataset, 64, **plan_loader(dataset, 64).as_kwargs())``.

    It takes the arguments of auto_loader.
    """
    return AutoLoader(*args, **kwargs).plan
