"""
The private plain DataLoader that does the work behind an AutoLoader.
"""

import logging
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch.utils.data import DataLoader

from .delivery import Collate
from .issue import IN_WORKER, Arrival, IssuedIndices
from .processes import WorkerGroup, recording_context

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
    ) -> None:
        self.settings = dict(settings)
        self.held = held
        self.was_exhausted = False
        self.has_failed = False
        self.group = WorkerGroup()
        self._sampler = sampler
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
        InnerLoader.live.add(self)

    def start_epoch(self, *, draws_like_new: bool) -> Any:
        """
        Return torch's iterator over a new epoch, which starts workers where none are kept.

        Args:
            draws_like_new: Whether the draws from random number generators are to be those that starting new workers
                would make, where some are kept: the sampler is asked twice, and a base seed is drawn between.
        """
        is_kept = self._loader._iterator is not None
        self.was_exhausted, self.has_failed = False, True
        if is_kept and draws_like_new:
            if self._sampler is not None:
                iter(self._sampler)
            torch.empty((), dtype=torch.int64).random_(generator=self._loader.generator)
        if self.issued is not None:
            self.issued.begin_epoch()
        self._source = iter(self._loader)
        self.has_failed = False
        return self._source

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
        shut_down = getattr(source, "_shutdown_workers", None)
        try:
            if shut_down is not None:
                shut_down()
        except RuntimeError as error:
            # Torch's SIGCHLD handler speaks up wherever the training process is: a worker has died that we end anyhow.
            logger.debug("while workers were ended: %s", error)
        finally:
            self.group.end()


def _keep_what_was_inherited() -> None:
    """
    In a process that was just forked: hold what is its parent's, so that nothing ends the parent's workers.
    """
    _inherited.extend(InnerLoader.live)
    InnerLoader.live.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_what_was_inherited)
