"""
One pass over a loader.
"""

import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from ..engine.inner import InnerLoader
from ..engine.watch import DeadWorker
from ..errors import AutoloaderError, LoaderClosedError, WorkerDiedError
from ..findings import describe
from ..profiling.inspect import length_of
from .deaths import Deaths
from .resume import Progress
from .silence import SilenceReport
from .statistics import EpochRecorder


class LoaderIterator:
    """
    Yields the batches of one epoch, in the sampler's order.

    After a batch that raised an error it goes on with the next one, as torch's iterators do. Dropping it early leaves
    no process behind; persistent workers stay with their loader.

    Args:
        inner: What loads the batches.
        source: Its iterator over the epoch.
        progress: Where to note what was served.
        record: Where to note how long it took.
        deaths: What to do when workers die.
        on_exhausted: Called when the epoch has come to its end.
    """

    def __init__(
        self,
        inner: InnerLoader,
        source: Any,
        *,
        progress: Progress,
        record: EpochRecorder,
        deaths: Deaths,
        on_exhausted: Callable[[], None],
    ) -> None:
        self.inner: InnerLoader | None = inner
        self._issued = inner.issued
        self._progress = progress
        self._record, self._note = record, record.note
        self._deaths: Deaths | None = deaths
        self._on_exhausted = on_exhausted
        self.source = source
        self._batches = None if inner.issued is None else length_of(inner.issued)
        self._is_complete = False
        self._listen(inner)
        self.is_running = True

    def __iter__(self) -> "LoaderIterator":
        return self

    def __len__(self) -> int:
        return len(self._issued)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        begun = perf_counter()
        while True:
            source = self.source
            try:
                batch = next(source)
                break
            except StopIteration as error:
                if not self._is_closed_since(source):
                    self._note_stopped(error)
                    raise
            except Exception as error:
                if not (self._is_closed_since(source) or self._survives(error)):
                    raise
            except BaseException as error:
                inner = self.inner
                if inner is not None:
                    inner.note_failed(error)
                raise
        inner, issued, samples, state = self.inner, self._issued, 0, None
        position: Any = self._arrival.position
        if self._delivers:
            batch, position, state, _ = batch
        if issued is not None:
            indices = issued.outstanding.pop(position, ())
            issued.last_served = position, indices
            samples = issued.samples_at(indices)
        elif inner is not None:
            inner.note_served(state)
        self._progress.served_batches += 1
        self._note(begun, perf_counter(), samples)
        if issued is not None and issued.count == self._batches and not issued.outstanding:
            self._complete()
        return batch

    def _note_stopped(self, error: StopIteration) -> None:
        """
        Note the end of the epoch, or an error of the dataset's that looks like it.
        """
        inner = self.inner
        if inner is not None and self.is_running and inner.has_stopped_early():
            inner.note_failed(error)
        else:
            self._finish()

    def _is_closed_since(self, source: Any) -> bool:
        """
        Return whether another thread has closed the loader while *source* was waited for: the one in its place says so.
        """
        return not self.is_running and self.source is not source

    def _survives(self, error: Exception) -> bool:
        """
        Return whether new workers go on, where it is a death of workers that was seen.

        Raises:
            WorkerDiedError: It is, and nothing goes on.
        """
        inner, deaths, silence = self.inner, self._deaths, self._silence
        if inner is None or deaths is None or silence is None or not self.is_running:
            return False
        dead = inner.dead_workers()
        if dead:
            self._go_on_after(inner, deaths, dead, error)
            return True
        inner.note_failed(error)
        deaths.explain(error, inner, silence)
        return False

    def _go_on_after(self, inner: InnerLoader, deaths: Deaths, dead: list[DeadWorker], error: Exception) -> None:
        """
        Go on with new workers, or raise the death of the old ones, now and whenever there is another ``next()``.
        """
        inner.has_failed = True
        with deaths.lock:
            if not self.is_running:  # another thread has closed the loader meanwhile
                return
            try:
                new, source = deaths.replace(inner, dead, error, self._progress)
            except WorkerDiedError as died:
                self.is_running = False
                self.source = _Ended(partial(WorkerDiedError, str(died)))
                raise
            self._record.restarts += 1
            self.continue_with(new, source, deaths)

    def draw_from(self, source: Any) -> None:
        """
        Draw what is left of the epoch from another iterator over the same inner loader.
        """
        self.source = source

    def continue_with(self, inner: InnerLoader, source: Any, deaths: Deaths) -> None:
        """
        Go on with another inner loader, to which the rest of the epoch was given, and its iterator.
        """
        self.inner, self.source, self._deaths = inner, source, deaths
        self._listen(inner)
        if not self.is_running:  # a signal's handler has closed the loader meanwhile
            self._end(inner, gives_error=True)

    def _listen(self, inner: InnerLoader) -> None:
        self._silence: SilenceReport | None = SilenceReport(inner, self._record)
        self._arrival, self._delivers = inner.arrival, inner.delivers
        inner.on_silence = weakref.WeakMethod(self._silence.note)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled or copied: its workers cannot")

    def _complete(self) -> None:
        """
        Note that all batches were served. Who knows their number may never ask for what comes after the last.
        """
        if self._is_complete or not self.is_running:
            return
        self._is_complete = self._record.is_exhausted = True
        self.is_running = False
        inner = self.inner
        if inner is not None and inner.keeps_workers:
            self._let_go()
        self._on_exhausted()

    def _let_go(self) -> None:
        """
        Let torch's iterator go, whose workers may serve another epoch, and the loader, which may be dropped now.
        """
        inner = self.inner
        if inner is not None:
            self.source = iter(())
            inner.end_epoch()
            self.inner = self._deaths = self._silence = None

    def _finish(self) -> None:
        """
        From now on answer as an exhausted iterator.
        """
        self._complete()
        if self._is_complete:
            self._progress.is_exhausted = True
            self._let_go()

    def close(self) -> None:
        """
        End the workers; an iterator that was not exhausted gives an error from now on.
        """
        was_running, self.is_running = self.is_running, False
        self._end(self.inner, gives_error=was_running)

    def _end(self, inner: InnerLoader | None, *, gives_error: bool) -> None:
        if gives_error:
            self.source = _Ended(partial(_closed, self._progress))
            if inner is not None:
                inner.refuse(_closed(self._progress))
        if inner is not None:
            inner.close()
            self.inner = self._deaths = self._silence = None


class _Ended:
    """
    What an iterator draws from that has come to a bad end: such an error each time.
    """

    def __init__(self, error: Callable[[], AutoloaderError]) -> None:
        self._error = error

    def __next__(self) -> Any:
        raise self._error()


def _closed(progress: Progress) -> LoaderClosedError:
    """
    Return the error of a loop whose loader was closed; a batch that was under way meanwhile has been served.
    """
    return LoaderClosedError(describe("loader.closed", served=progress.served_batches))
