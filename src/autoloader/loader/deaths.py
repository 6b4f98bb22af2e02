"""
What happens when a worker dies: one error that tells why, or new workers that go on.
"""

import logging
import reprlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..engine.inner import InnerLoader
from ..engine.processes import WorkerStartError
from ..engine.watch import DeadWorker
from ..errors import WorkerDiedError
from ..facts import MemoryFacts
from ..findings import describe
from ..probe import probe_memory
from .diagnosis import Death, explain_deaths, explain_error
from .resume import Progress
from .silence import SilenceReport

logger = logging.getLogger("autoloader")

_TIMED_OUT = "DataLoader timed out"  # torch's words
MOST_FRUITLESS = 3
"""
How often workers are started anew for the same batch.
"""


class Deaths:
    """
    Deals with the deaths of one epoch's workers.

    Args:
        restart: Returns a new inner loader for the rest of an epoch, given the old one and settings that change.
        goes_on: Whether an epoch goes on with new workers when some died.
        lock: Held while workers are replaced, so that another thread that closes the loader comes before or after it.
        before: Memory when the workers started.
        method: The start method.
    """

    def __init__(
        self,
        restart: Callable[[InnerLoader, dict[str, Any]], InnerLoader],
        *,
        goes_on: bool,
        lock: AbstractContextManager[object],
        before: MemoryFacts | None,
        method: str | None,
    ) -> None:
        self._restart = restart
        self._goes_on = goes_on
        self.lock = lock
        self._before = before
        self._method = method
        self._fruitless = 0
        self._last_due: int | None = None

    def replace(
        self, inner: InnerLoader, dead: list[DeadWorker], error: Exception, progress: Progress
    ) -> tuple[InnerLoader, Any]:
        """
        Return what goes on with the epoch.

        Raises:
            WorkerDiedError: Nothing does: the user did not ask for it, iterable-style data cannot be continued, or new
                workers have died over the same batch again and again.
        """
        workers, due = inner.settings["num_workers"], _due(inner)
        indices = "" if inner.issued is None or due is None else reprlib.repr(inner.issued.outstanding[due])
        found = explain_deaths(
            [Death(each.pid, each.exit_code, progress.served_batches > 0) for each in dead],
            num_workers=workers,
            method=self._method,
            indices=indices,
            before=self._before,
            now=probe_memory(),
        )
        text = found.text + _also(inner, dead)
        if inner.issued is None and self._goes_on:
            text = f"{text} {describe('worker.stream-not-restarted')}"
        if inner.issued is None or not self._goes_on:
            raise WorkerDiedError(text) from error
        self._fruitless = self._fruitless + 1 if due == self._last_due else 1
        self._last_due = due
        if self._fruitless > MOST_FRUITLESS:
            again = describe("worker.keeps-dying", restarts=MOST_FRUITLESS, indices=indices or "not known")
            raise WorkerDiedError(f"{again} {text}") from error
        logger.warning("on_worker_death: new workers go on with what was not served. %s", text)
        inner.close()
        changes: dict[str, Any] = {"num_workers": max(1, workers // 2)} if found.is_memory else {}
        if self._fruitless > 1:
            # So that the batch that is due is the one that they die of; these are not to stay.
            changes.update(prefetch_factor=1, persistent_workers=False)
        new = self._restart(inner, changes)
        try:
            return new, new.continue_epoch()
        except WorkerStartError as failed:
            raise WorkerDiedError(f"{text} {describe('process.start-failed', error=failed)}") from error

    def renew(self, inner: InnerLoader) -> tuple[InnerLoader, Any]:
        """
        Return what begins an epoch in place of kept workers that died before it, and its iterator.

        Raises:
            WorkerStartError: The system does not let a worker start.
        """
        logger.warning("workers that were kept have died since the last epoch: new ones begin this one")
        inner.close()
        new = self._restart(inner, {})
        return new, new.continue_epoch()

    def explain(self, error: Exception, inner: InnerLoader, silence: SilenceReport) -> None:
        """
        Add to an error that has to do with the host what the host says of it, and to a time-out where the worker is.
        """
        if not isinstance(error, (OSError, EOFError, RuntimeError)) or not inner.has_workers:
            return
        if str(error).startswith(_TIMED_OUT):
            text = silence.describe_last()
        else:
            text = explain_error(error, probe_memory(), num_workers=inner.settings["num_workers"])
        if text is not None:
            _add(error, text)


def _due(inner: InnerLoader) -> int | None:
    return None if inner.issued is None else min(inner.issued.outstanding, default=None)


def _also(inner: InnerLoader, dead: list[DeadWorker]) -> str:
    """
    Return what dead workers had to load, beside what was due, and where one was that could still say it.
    """
    batches = [reprlib.repr(indices) for each in dead for indices in each.had_to_load]
    text = f" Of what was asked of it, this was not delivered: samples {', '.join(batches)}." if batches else ""
    stack = None if inner.stacks is None else inner.stacks.last_words()
    return text if stack is None else f"{text}\n\nIt was here, the innermost call first:\n\n{stack}\n"


def _add(error: Exception, text: str) -> None:
    """
    Add a sentence to an error: to its own text, or as a note where that is made of other parts, as an OSError's is.
    """
    if len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\nautoloader: {text}",)
    elif hasattr(error, "add_note"):
        error.add_note(f"autoloader: {text}")
