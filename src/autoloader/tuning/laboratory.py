"""
What runs in the child of a calibration: the dataset is loaded there, as often as it takes, and nothing of it here.

The child is asked for one measurement after the other. It leads a process group, so that it can be ended together with
its workers, whatever the dataset does.
"""

import contextlib
import io
import itertools
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils.data import IterableDataset

from ..engine.inner import InnerLoader
from ..engine.issue import IssuedIndices
from ..engine.pools import AtOneThread
from ..engine.randomness import BaseSeed
from ..engine.sending import try_to_send
from ..profiling import BatchClock
from ..start.interrupts import let_through

PROFILE_BATCHES = 8
PROFILE_SECONDS = 1.0


class Subject(NamedTuple):
    """
    What is measured: the parts of a loader.
    """

    dataset: Any
    sampler: Any
    makes_batches: bool
    collate_fn: Any
    worker_init_fn: Any
    rest: Mapping[str, Any]
    """Other arguments of torch's DataLoader."""


class Run(NamedTuple):
    """
    One run of a loader.
    """

    first_batch_seconds: float
    step_seconds: float
    batches: int


class NothingToLoadError(Exception):
    """
    Say that the sampler gives no batch.
    """


class Laboratory:
    """
    Measures a subject.

    Args:
        subject: What is measured; its sampler is drawn from on and on, so that no measurement finds what another one
            has warmed up, as long as the samples last.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._indices = self._draw()

    def _draw(self) -> Iterator[Any]:
        while True:
            is_empty = True
            for indices in self._subject.sampler:
                is_empty = False
                yield indices
            if is_empty:
                return

    def _loader(self, settings: Mapping[str, Any], clock: BatchClock | None = None) -> InnerLoader:
        """
        Return a loader of batches without end, so that workers have something to do until they are ended.
        """
        subject, issued = self._subject, None
        if not isinstance(subject.dataset, IterableDataset):
            issued = IssuedIndices(_Rest(self._indices), BaseSeed(None))
        return InnerLoader(
            subject.dataset,
            issued=issued,
            makes_batches=subject.makes_batches,
            collate_fn=subject.collate_fn,
            settings=settings,
            rest=subject.rest,
            clock=clock,
        )

    def profile(self, most_shared_bytes: int) -> Any:
        """
        Return the profile of batches that load in this process.
        """
        clock = BatchClock(PROFILE_BATCHES, PROFILE_SECONDS)
        source = AtOneThread(self._loader({"num_workers": 0}, clock).start_epoch())
        is_stream = isinstance(self._subject.dataset, IterableDataset)
        while not clock.has_seen_enough:
            if is_stream:
                clock.begin([None] * (self._subject.rest.get("batch_size") or 1))
            try:
                next(source)
            except StopIteration:
                break
        if clock.last_batch is None:
            raise NothingToLoadError
        return clock.profile(try_to_send(clock.last_batch, most_shared_bytes))

    def batch(self) -> bytes:
        """
        Return a batch as ``torch.save`` writes it.
        """
        stream = io.BytesIO()
        for batch in _batches(self._loader({"num_workers": 0}).start_epoch()):
            torch.save(batch, stream)
            return stream.getvalue()
        raise NothingToLoadError

    def run(self, settings: Mapping[str, Any], rounds: int, step_seconds: float, *, is_busy: bool) -> Run:
        """
        Load until each worker has delivered what it prepares ahead, and go on for so many rounds, which are timed.

        Args:
            settings: The arguments of the DataLoader.
            rounds: Batches a worker that are timed.
            step_seconds: What the training does with each batch.
            is_busy: Whether it needs the CPU for that.
        """
        workers = max(1, settings["num_workers"])
        ahead = workers * (settings.get("prefetch_factor") or 2) if settings["num_workers"] else 1
        wanted = ahead + workers * rounds
        users = {} if self._subject.worker_init_fn is None else {"worker_init_fn": self._subject.worker_init_fn}
        inner = self._loader({**settings, **(users if settings["num_workers"] else {})})
        begun, stamps = time.perf_counter(), []
        try:
            source = inner.start_epoch()
            if not settings["num_workers"]:
                source = AtOneThread(source)
            for batch in itertools.islice(_batches(source), wanted):
                stamps.append(time.perf_counter())
                del batch
                _train(step_seconds, is_busy=is_busy)
        finally:
            inner.group.end(at_once=True)
            inner.close()
        if len(stamps) < 2:
            raise NothingToLoadError
        ahead = min(ahead, len(stamps) - 1)  # a stream may end before
        timed = len(stamps) - ahead
        return Run(stamps[0] - begun, (stamps[-1] - stamps[ahead - 1]) / timed, timed)


class _Rest:
    """
    A sampler of what another iterator still gives.
    """

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices

    def __iter__(self) -> Iterator[Any]:
        return self._indices


def _batches(source: Any) -> Iterator[Any]:
    with contextlib.suppress(StopIteration):
        while True:
            yield next(source)


def _train(seconds: float, *, is_busy: bool) -> None:
    if not is_busy:
        time.sleep(seconds)
        return
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _below_us(error: BaseException) -> Any:
    """
    Return an error's traceback from where our own calls have ended.
    """
    here, below = os.path.dirname(os.path.dirname(__file__)), error.__traceback__
    while below is not None and below.tb_frame.f_code.co_filename.startswith(here):
        below = below.tb_next
    return below or error.__traceback__


def serve(connection: Any, subject: Subject) -> None:
    """
    Answer questions until the other side goes: each is a method of :class:`Laboratory` and its arguments.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    let_through()
    if sys.platform != "win32":
        os.setsid()
    laboratory = Laboratory(subject)
    with contextlib.suppress(EOFError, OSError), connection:
        connection.send((True, None))
        while True:
            name, positional, named = connection.recv()
            try:
                answer = True, getattr(laboratory, name)(*positional, **named)
            except NothingToLoadError:
                answer = False, None
            except BaseException as error:  # noqa: BLE001 (the dataset may raise anything)
                answer = False, "".join(traceback.format_exception(error.with_traceback(_below_us(error))))
            connection.send(answer)
