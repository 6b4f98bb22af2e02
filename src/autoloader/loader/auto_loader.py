"""
AutoLoader, the DataLoader that chooses its own settings.
"""

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from torch.utils.data import DataLoader, IterableDataset

from ..facts import HostFacts
from ..plan import Choice, LoaderRequest, Plan
from ..probe import probe_environment, probe_host
from ..processes import read_process
from ..profiling import BatchClock, inspect_dataset
from ..profiling.inspect import length_of
from ..start import main_guard
from ..store import open_store
from ..traits import DatasetTraits
from .beginning import begin_epoch
from .course import Course, warn_of_fast_forward, warn_of_no_place
from .epochs import samplers_of
from .first_batches import FirstBatches
from .frameworks import is_called_by_lightning
from .inners import Inners, Parts
from .node import choose_for_node
from .planning import (
    WORDS,
    batches_per_epoch,
    check_counts,
    check_dataset,
    check_epoch,
    check_word,
    is_switched_off,
    make_plan,
    switched_off_plan,
)
from .ranks import distributed_sampler, not_sharded
from .settling import settings_to_start
from .starting import is_users, refuse_in_starting_worker, with_inline, with_numa_note, without_workers
from .statistics import LoaderStats

if TYPE_CHECKING:
    from typing_extensions import Self

B_co = TypeVar("B_co", covariant=True)

logger = logging.getLogger("autoloader")

_DECIDED = {
    *("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "multiprocessing_context"),
    *("timeout", "in_order"),
}


class AutoLoader(DataLoader[B_co]):
    """
    A ``torch.utils.data.DataLoader`` whose settings fit this machine and this dataset, with a reason for each.

    Iterating yields what ``collate_fn`` makes of each batch, tensors of shape ``(N, *sample_shape)`` for instance: the
    samples that a plain DataLoader yields, in the same order. Each ``iter()`` is one epoch. Leaving the loop early is
    fine. Workers that are kept between epochs end with :meth:`close`, with the ``with`` block, or when
    the loader is dropped.

    Args:
        dataset: Anything that torch's DataLoader takes.
        batch_size: Samples a batch, as in torch; ``None`` where the dataset itself yields batches.
        shuffle: As in torch.
        sampler: As in torch.
        batch_sampler: As in torch.
        num_workers: Worker processes; ``None`` lets autoloader choose, for this argument and for *pin_memory*,
            *multiprocessing_context*, *prefetch_factor* and *persistent_workers*. Whatever you set stands.
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
        seed: What all random numbers come from, the order of ``shuffle=True`` included, in every epoch another;
            ``None`` for torch's global generator, or *generator*.
        distributed: Whether each rank of a process group loads its share, by torch's DistributedSampler.
        plan: A :class:`Plan`, or the path of a file that :meth:`Plan.save` wrote, to use instead of choosing.
        on_unsafe: What to do where no worker process may start: ``"fallback"`` loads in the training process and says
            so once, ``"raise"`` raises WorkersCannotStartError when the loader is iterated.
        on_worker_death: What to do when a worker process dies: ``"raise"`` raises WorkerDiedError, ``"restart"`` starts
            new workers, which go on with what was not served; with half as many where memory was short.
        calibrate: Whether to try settings for real before the first epoch, in up to 20 seconds, unless an earlier run
            has done so.
        numa: ``"auto"`` runs workers on the accelerator's memory node if it has CPUs for them, ``"off"`` on all CPUs.

    Raises:
        ArgumentError: A count makes no sense. It is a ValueError, too.
        PlanFileError: The file given as *plan* is not a plan of this version.
        ValueError: Arguments contradict each other; the error is torch's own.
    """

    plan: Plan
    """The settings that are used, each with its reason; after the first batches those that were measured."""
    _facts: HostFacts

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
        seed: int | None = None,
        calibrate: bool = False,
        plan: Plan | str | Path | None = None,
        distributed: bool = False,
        on_unsafe: str = "fallback",
        on_worker_death: str = "raise",
        numa: str = "auto",
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
        check_dataset(dataset, shuffle=shuffle)
        self.epochs, self.seed, self.calibrate = epochs, seed, calibrate
        self.on_unsafe, self.on_worker_death, self.numa = on_unsafe, on_worker_death, numa
        check_counts(fixed)
        request = LoaderRequest(
            fixed=fixed,
            batch_size=batch_size,
            epochs=epochs,
            drop_last=bool(drop_last),
            has_worker_init=worker_init_fn is not None,
        )
        self._is_copy = main_guard.is_starting_worker()  # which imports the script again: it neither looks nor speaks
        environment = probe_environment()
        self._is_off = is_switched_off(environment)
        self._has_given_plan = plan is not None
        shares = None
        if distributed and not self._is_copy:
            users = batch_sampler if sampler is None else sampler
            shares = distributed_sampler(dataset, users, shuffle=shuffle, seed=seed, environment=environment)
            sampler, shuffle = shares, shuffle if shares is None else None
        self._facts = HostFacts()
        self._traits = DatasetTraits(style=self._style_of(dataset))
        if self._is_off:
            self.plan = switched_off_plan(request)
        else:
            size = (batch_size, sampler, batch_sampler, drop_last)
            batches = None if self._is_copy else batches_per_epoch(dataset, *size)
            self._traits = traits = inspect_dataset(
                dataset, batches_per_epoch=batches, has_own_collate=collate_fn is not None
            )
            if not self._is_copy:
                self._facts = probe_host(path=None if traits.is_remote else traits.path)
            self.plan = make_plan(request, self._facts, traits, given=plan)
        self._course = Course(advances_ranks=shares is not None)
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
        self.plan = self._with_notes(self.plan)
        self._makes_order = sampler is None and batch_sampler is None and generator is None
        self._is_constructed = True
        if not self._is_copy:
            self._log_plan()
        if not self._is_copy and not self._is_off:
            choose_for_node(self, lambda: self._first.recall(self, open_store(environment)), environment)

    def _log_plan(self) -> None:
        logger.info("plan: %s", ", ".join(f"{name}={choice.value}" for name, choice in self.plan.choices.items()))

    def _with_notes(self, plan: Plan) -> Plan:
        """
        Return *plan* with what only a loader can note: that ranks share nothing, and where workers run.
        """
        notes = not_sharded(self.dataset, samplers_of(self.sampler, self.batch_sampler))
        new = tuple(note for note in notes if note not in plan.notes)
        noted = replace(plan, notes=(*plan.notes, *new)) if new else plan
        return with_numa_note(noted, self._facts, self.numa)

    def _take_plan(self, plan: Plan) -> None:
        """
        Go on with another plan of ours, and show its settings as torch's loader shows its own.
        """
        self.plan = self._with_notes(plan)
        self._show_plan()

    def _take_choices(self, choices: Mapping[str, Choice[Any]]) -> None:
        """
        Go on with what local rank 0 of this node has chosen.
        """
        self.plan = with_numa_note(replace(self.plan, choices=choices), self._facts, self.numa)
        self._show_plan()

    def _show_plan(self) -> None:
        shown = self.plan.as_kwargs()
        for name in ("num_workers", "prefetch_factor", "multiprocessing_context"):
            DataLoader.__setattr__(self, name, shown.get(name))
        self._log_plan()

    def _reset_live_state(self) -> None:
        self._inners = Inners()
        self._first = FirstBatches()
        self._torchs_iterator: Any = None

    def check_worker_number_rationality(self) -> None:
        """
        Leave torch's warning about many workers to numbers that the user set.
        """
        if is_users(self.plan.choices["num_workers"]):
            super().check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        check_counts({name: value})
        if name in WORDS:
            check_word(name, value, WORDS[name])
        super().__setattr__(name, value)
        if name in {*_DECIDED, "numa"} and self.__dict__.get("_is_constructed"):
            fixed = self.plan.with_fixed({name: value}, may_be_shown=False) if name in _DECIDED else self.plan
            self.plan = with_numa_note(fixed, self._facts, self.numa)

    @property
    def _iterator(self) -> Any:
        """
        Be where torch keeps its persistent workers, and where frameworks look for them: ours are elsewhere.
        """
        return self._torchs_iterator

    @_iterator.setter
    def _iterator(self, value: Any) -> None:
        """
        End the workers when a framework sets this to None, which is how Lightning ends those of a DataLoader.
        """
        if value is None and self.__dict__.get("_is_constructed"):
            self.close()
        self._torchs_iterator = value if self._is_off else None

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._is_off:
            self._course.begin_plain(self.dataset, samplers_of(self.sampler, self.batch_sampler))
            return super().__iter__()
        refuse_in_starting_worker()
        begun = perf_counter()
        with self._inners.lock:
            self._first.get_ready(self)
            keeps = is_users(self.plan.choices["persistent_workers"])
            kept = self._inners.take_kept(self._parts(), self.plan, after_break=keeps)
            course = self._course
            if kept is not None and kept.issued is None and (course.epochs.has_news or course.has_resumed):
                self._inners.drop_kept()  # only indices bring news to workers
                kept = None
            inline: BatchClock | int | None = None
            settings = None
            if kept is None:
                settings, inline = self._settings_for_epoch()
            iterator = begin_epoch(self, kept, settings, begun, inline)
            self._inners.add(iterator)
        return iterator

    def _settings_for_epoch(self) -> tuple[dict[str, Any], BatchClock | int | None]:
        """
        Return how a new epoch begins to load, and where that is inline for a while, what times it or for how long.
        """
        inline = self._first.clock_for_epoch(self) or self._first.batches_at_a_glance(self)
        if inline is None or self.on_unsafe == "raise":
            settings = settings_to_start(self, stacklevel=4)
        return (settings, None) if inline is None else (without_workers(self._parts().wanted(self.plan)), inline)

    @staticmethod
    def _style_of(dataset: Any) -> Literal["map", "iterable"]:
        return "iterable" if isinstance(dataset, IterableDataset) else "map"

    @property
    def _style(self) -> Literal["map", "iterable"]:
        return self._style_of(self.dataset)

    def _note_inline(self, because: str) -> None:
        """
        Note in the plan that batches load inline, where a thread turned out not to do.
        """
        logger.info("backend.not-in-a-thread: batches load inline, because %s", because)
        self.plan = with_inline(self.plan, because)

    def _parts(self) -> Parts:
        rest: dict[str, Any] = {"pin_memory_device": self.pin_memory_device} if self.pin_memory_device else {}
        if isinstance(self.dataset, IterableDataset):
            rest.update(batch_size=self.batch_size, drop_last=self.drop_last)
        return Parts(
            dataset=self.dataset,
            sampler=self.sampler if self.batch_sampler is None else self.batch_sampler,
            makes_batches=self.batch_sampler is not None,
            collate_fn=self.collate_fn,
            worker_init_fn=self.worker_init_fn,
            generator=self.generator if self.seed is None else self._course.seeded,
            rest=rest,
        )

    def set_epoch(self, epoch: int) -> None:
        """
        Tell the number of the next epoch to all that want to know it.

        These are the sampler, the batch sampler, the dataset and those within it, where they have a ``set_epoch`` of
        their own, and the copies in workers that are kept. It takes effect when the loader is iterated next: batches in
        flight stay as they are.

        Raises:
            ArgumentError: *epoch* is not a whole number of 0 or more.
        """
        self._course.epochs.set(check_epoch(epoch))

    def broadcast(self, **state: Any) -> None:
        """
        Set attributes of the dataset, or of those that it wraps, in this process and in all workers.

        It takes effect when the loader is iterated next, and workers that are kept stay. (A plain assignment works,
        too, but starts new workers.) Values have to be picklable where workers are.

        Raises:
            ArgumentError: No dataset has an attribute of this name.
        """
        self._course.epochs.broadcast(self.dataset, state)

    def state_dict(self) -> dict[str, Any]:
        """
        Return where the training stands in this loader, for a checkpoint: numbers, lists and tensors.
        """
        warn_of_no_place(is_off=self._is_off)
        return self._course.state(self.dataset, samplers_of(self.sampler, self.batch_sampler), length_of(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """
        Let the next iteration continue where :meth:`state_dict` was called, in this process or another one.

        Raises:
            ArgumentError: It is no state of a loader with as many batches. That the order is another one is seen, and
                raised, when the loader is iterated.
        """
        warn_of_no_place(is_off=self._is_off)
        samplers, rank = samplers_of(self.sampler, self.batch_sampler), self._facts.job.local_rank
        self._course.load(state, samplers, skips_empty=is_called_by_lightning(), batches=length_of(self))
        if not isinstance(self.dataset, IterableDataset):
            warn_of_fast_forward(state["served"], samplers, local_rank=rank, stacklevel=2)

    def stats(self, *, processes: bool = False) -> LoaderStats:
        """
        Return how long the training waited for batches, by epoch and in total.

        Args:
            processes: Whether to look also at what each worker uses: memory and open files, in some milliseconds.
        """
        in_flight, pids = self._inners.in_flight()
        uses = (read_process(pid) for pid in pids) if processes else ()
        return self._course.recorder.stats(in_flight, tuple(use for use in uses if use is not None))

    def close(self) -> None:
        """
        End every worker of this loader, within one deadline of 5 seconds for all of them.

        Iterators that were not exhausted raise LoaderClosedError afterwards, as does an ``iter()`` of another thread
        that calibrates. Iterating again starts new workers.
        """
        with self._inners.closing():
            self._inners.close()
            if self._torchs_iterator is not None:
                self._torchs_iterator._shutdown_workers()
                self._torchs_iterator = None

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self.__dict__.get("_is_constructed"):
            return object.__repr__(self)
        told = {"batch_size": self.batch_size, **self.plan.as_kwargs()}
        settings = ", ".join(f"{name}={value!r}" for name, value in told.items() if value is not None)
        return f"{type(self).__name__}({type(self.dataset).__name__}, {settings})"

    def __getstate__(self) -> dict[str, Any]:
        live = {"_inners", "_torchs_iterator", "_facts", "_first"}
        return {name: value for name, value in self.__dict__.items() if name not in live}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._course = copy.deepcopy(self._course)
        self._facts = HostFacts()
        self._reset_live_state()
