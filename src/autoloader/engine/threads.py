"""
The thread backend: one thread of the training process that loads batches ahead, where no worker process may start.
"""

import atexit
import contextlib
import contextvars
import queue
import reprlib
import threading
import weakref
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NamedTuple

import torch

from .issue import IssuedIndices
from .processes import CLOSE_SECONDS
from .randomness import InlineStreams, have_moved, random_states, restore_random_states

POLL_SECONDS = 1.0
"""
How long a wait lasts before it looks around: Python on Windows notices Ctrl-C between two waits only.
"""

EXIT_SECONDS = 1.0
"""
What threads that are still drawing get when Python ends: who pressed Ctrl-C does not want to wait for a sample.
"""

_DRAWS = "the dataset draws from the global random number generators, which threads share"
_AUTOCAST = ("cpu", "cuda", "xpu")


class _Outcome(NamedTuple):
    """
    What one call of the source's ``next()`` did.
    """

    item: Any = None
    error: BaseException | None = None


class _Shared:
    """
    What the thread and the iterator in front of it have in common.

    The thread holds nothing else, so that an iterator which nobody holds any more is dropped, and stops its thread.
    """

    def __init__(self, source: Iterator[Any]) -> None:
        self.source = source
        self.outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self.allowed = threading.Semaphore(0)
        self.is_stopped = False

    def stop(self) -> None:
        """
        Let the thread end after the item that it is drawing.
        """
        self.is_stopped = True
        self.allowed.release()


class ThreadIterator:
    """
    Draws from an iterator in a thread, ahead of whoever asks, and gives what it draws in the same order.

    The first item is drawn inline, so that what a dataset opens when it is first asked belongs to the asking thread, as
    without a thread; then one is drawn in the thread alone. If that fails, or either draws from the global random
    number generators, which threads share and would draw from in no certain order, all others are drawn inline.

    Args:
        source: What to draw from; it may be asked again after it raised an error.
        ahead: Items that are drawn and not yet asked for, at most.
        timeout: Seconds that one ``next()`` may take; 0 for any time.
        issued: The indices that the source draws from, which can be handed out again.
        streams: What seeds the global generators for each item and gives them back; ``None`` where nothing does.
        on_inline: Called with the reason when drawing goes on inline.
    """

    def __init__(
        self,
        source: Iterator[Any],
        *,
        ahead: int,
        timeout: float,
        issued: IssuedIndices,
        on_inline: Callable[[str], None],
        streams: InlineStreams | None = None,
    ) -> None:
        self._shared = _Shared(source)
        self._streams = streams
        self._ahead = ahead
        self._timeout = timeout
        self._issued = issued
        self._on_inline = on_inline
        self._draw: Callable[[ThreadIterator], Any] = ThreadIterator._draw_first  # a method of self would be a cycle
        self._thread: threading.Thread | None = None
        self.has_failed_item = False

    def __iter__(self) -> "ThreadIterator":
        return self

    def __next__(self) -> Any:
        self.has_failed_item = False
        return self._draw(self)

    def _draw_first(self) -> Any:
        """
        Draw the first item inline, and see whether that draws random numbers.
        """
        self._issued.draw_first()
        before = random_states()
        self._draw = ThreadIterator._draw_second
        try:
            return self._draw_inline()
        finally:
            if self._draws(before):
                self._go_inline(_DRAWS)
            elif any(map(torch.is_autocast_enabled, _AUTOCAST)):
                self._go_inline("torch.autocast is on, which holds for the thread that switched it on only")

    def _draw_second(self) -> Any:
        """
        Draw one item in the thread alone, and see whether the others can be drawn there, too.
        """
        before = random_states()
        try:
            self._thread = _start_thread(self._shared)
        except RuntimeError as error:  # no more threads are allowed
            return self._go_on_inline(f"no thread could be started ({error})")
        self._shared.allowed.release()
        self._draw = ThreadIterator._draw_ahead
        outcome = self._receive()
        if self._is_samples(outcome.error):
            restore_random_states(before)
            return self._draw_again_inline(outcome)
        if self._draws(before):
            self._go_inline(_DRAWS)
        else:
            if self._streams is not None:
                self._streams.leaves_global_alone = True
            self._shared.allowed.release(self._ahead)
        return self._give(outcome)

    def _draws(self, before: tuple[Any, ...]) -> bool:
        """
        Return whether an item drew from the global generators, whose states were *before*.
        """
        return have_moved(before) or (self._streams is not None and self._streams.has_seen_draws)

    def _draw_ahead(self) -> Any:
        """
        Take the next item that the thread has drawn, and let it draw another one.
        """
        self._shared.allowed.release()
        outcome = self._receive()
        return self._draw_again_inline(outcome) if self._is_samples(outcome.error) else self._give(outcome)

    def _is_samples(self, error: BaseException | None) -> bool:
        """
        Return whether an error is that of an item, and not of the sampler, which cannot be asked again.
        """
        is_error = isinstance(error, Exception) and not isinstance(error, StopIteration)
        return is_error and bool(self._issued.outstanding)

    def _draw_again_inline(self, outcome: _Outcome) -> Any:
        """
        Draw inline what failed in the thread, and all others: it may be the thread that the dataset does not bear.

        What the thread has drawn beyond is drawn once more, in its order.
        """
        kind = type(outcome.error).__name__
        self._shared.stop()
        if self._thread is not None:
            self._thread.join()
        self._issued.put_back()
        return self._go_on_inline(f"a batch could not be loaded in a thread ({kind})")

    def _draw_inline(self) -> Any:
        try:
            return next(self._shared.source)
        except Exception as error:
            self.has_failed_item = True
            _note_place(error, self._issued)
            raise

    def _go_inline(self, because: str) -> None:
        self._shared.stop()
        self._draw = ThreadIterator._draw_inline
        if self._streams is not None:
            self._streams.leaves_global_alone = False
        self._on_inline(because)

    def _go_on_inline(self, because: str) -> Any:
        self._go_inline(because)
        return self._draw_inline()

    def _receive(self) -> _Outcome:
        """
        Wait for the next outcome.

        Raises:
            RuntimeError: It takes longer than the time-out, this iterator was closed meanwhile, or the thread is not
                in this process.
        """
        deadline = monotonic() + self._timeout if self._timeout else float("inf")
        while True:
            wait = min(POLL_SECONDS, max(0.0, deadline - monotonic()))
            with contextlib.suppress(queue.Empty):
                return self._shared.outcomes.get(timeout=wait)
            if self._shared.is_stopped:
                raise RuntimeError("DataLoader was closed while a batch was waited for")
            if monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            if self._thread is not None and not self._thread.is_alive() and self._shared.outcomes.empty():
                raise RuntimeError("DataLoader thread is gone: this process was forked from the one that started it")

    def _give(self, outcome: _Outcome) -> Any:
        self.has_failed_item = outcome.error is not None
        if isinstance(outcome.error, StopIteration):
            self._draw = ThreadIterator._draw_inline
        elif isinstance(outcome.error, Exception):
            _note_place(outcome.error, self._issued)
        if outcome.error is not None:
            try:
                raise outcome.error
            finally:
                del outcome  # or the error would hold the frame that holds the error
        return outcome.item

    def close(self) -> None:
        """
        End the thread; one that is still drawing after 5 seconds is left to end by itself.
        """
        self._shared.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)

    def __del__(self) -> None:
        self._shared.stop()


def _note_place(error: Exception, issued: IssuedIndices) -> None:
    """
    Note with an error which batch and sample it comes from; Python 3.10 has no notes.
    """
    position = min(issued.outstanding, default=None)
    if position is None or isinstance(error, StopIteration) or not hasattr(error, "add_note"):
        return
    sample = _sample_of(error, issued.outstanding[position])
    error.__notes__ = [note for note in getattr(error, "__notes__", ()) if not note.startswith("autoloader: ")]
    error.add_note(f"autoloader: this is from sample {sample}, in batch {position} of the epoch")


def _sample_of(error: Exception, indices: Any) -> str:
    """
    Return the index of the sample that raised an error, as torch's fetcher held it; all of the batch without that.
    """
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__") == "torch.utils.data._utils.fetch" and "idx" in frame.f_locals:
            return repr(frame.f_locals["idx"])
        trace = trace.tb_next
    return reprlib.repr(indices)


_running: weakref.WeakKeyDictionary[threading.Thread, _Shared] = weakref.WeakKeyDictionary()


def _start_thread(shared: _Shared) -> threading.Thread:
    """
    Start the thread, with the caller's context and autograd modes: torch keeps these for each thread.
    """
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(_draw, shared, *modes), name="autoloader", daemon=True)
    thread.start()
    _running[thread] = shared
    return thread


def _draw(shared: _Shared, has_grad: bool, is_inference: bool) -> None:
    """
    Draw an item for each one that is allowed, until the source is exhausted or nobody wants more.
    """
    with torch.inference_mode(is_inference), torch.set_grad_enabled(has_grad):
        while True:
            shared.allowed.acquire()
            if shared.is_stopped:
                return
            try:
                outcome = _Outcome(next(shared.source))
            except BaseException as error:  # noqa: BLE001 (it is raised again where the item is asked for)
                outcome = _Outcome(error=error)
            is_end = isinstance(outcome.error, StopIteration)
            shared.outcomes.put(outcome)
            del outcome
            if is_end:
                return


def _end_threads() -> None:
    """
    Wait for threads that are still drawing when Python ends: one that runs torch's code then can end it badly.
    """
    running, deadline = list(_running.items()), monotonic() + EXIT_SECONDS
    for _, shared in running:
        shared.stop()
    for thread, _ in running:
        thread.join(max(0.0, deadline - monotonic()))


atexit.register(_end_threads)
