"""
The private plain DataLoader that does the work behind an AutoLoader.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch.utils.data import DataLoader

from .delivery import Collate
from .issue import IN_WORKER, Arrival, IssuedIndices
from .processes import WorkerGroup, recording_context
from .seeding import draw_base_seed


class _PlainLoader(DataLoader[Any]):
    def check_worker_number_rationality(self) -> None:
        """
        Say nothing: the AutoLoader in front has said it already where the number is the user's.
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
        held: What identifies the state of the dataset that workers get a copy of.
        is_reseeded: Whether workers that stay get the seeds that new ones would get.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        sampler: Iterable[Any] | None,
        makes_batches: bool,
        collate_fn: Any,
        settings: Mapping[str, Any],
        rest: Mapping[str, Any],
        held: int | None = None,
        is_reseeded: bool = False,
    ) -> None:
        self.settings = dict(settings)
        self.held = held
        self._is_reseeded = is_reseeded
        self.group = WorkerGroup()
        is_inline = not settings.get("num_workers")
        arrival = Arrival() if is_inline else IN_WORKER
        self.issued = None if sampler is None else IssuedIndices(sampler, inline=arrival if is_inline else None)
        arguments = {**rest, **settings, "collate_fn": Collate(collate_fn, arrival)}
        if not is_inline:
            wanted = settings.get("multiprocessing_context")
            arguments["multiprocessing_context"] = recording_context(wanted, self.group)
        if self.issued is not None and makes_batches:
            arguments["batch_sampler"] = self.issued
        elif self.issued is not None:
            arguments.update(batch_size=None, sampler=self.issued)
        self._loader = _PlainLoader(dataset, **arguments)
        self._source: Any = None

    def start_epoch(self) -> Any:
        """
        Return torch's iterator over a new epoch, which starts workers where none are kept.

        Where workers were kept without the user's asking for it, the draws from random number generators are those
        that starting new ones would make: the sampler is asked twice, and a base seed is drawn between.
        """
        base_seed = None
        if self._loader._iterator is not None and self._is_reseeded:
            if self.issued is not None:
                self.issued.ask_sampler()
            base_seed = draw_base_seed(self._loader.generator)
        if self.issued is not None:
            self.issued.begin_epoch(None if self._loader.worker_init_fn is not None else base_seed)
        self._source = iter(self._loader)
        return self._source

    def end_epoch(self) -> None:
        """
        Let go of an iterator that is exhausted; persistent workers stay.
        """
        self._source = None

    def close(self) -> None:
        """
        End all workers, by one deadline. Nothing happens the second time.
        """
        source, self._source = self._source, None
        if source is None:
            source = self._loader._iterator
        self._loader._iterator = None
        shut_down = getattr(source, "_shutdown_workers", None)
        try:
            if shut_down is not None:
                shut_down()
        finally:
            self.group.end()
