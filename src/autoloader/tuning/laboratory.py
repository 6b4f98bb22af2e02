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
import stat
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Any, NamedTuple

import torch
from torch.utils.data import IterableDataset

from ..engine.inner import InnerLoader
from ..engine.issue import IssuedIndices
from ..engine.pools import AtOneThread
from ..engine.randomness import BaseSeed
from ..engine.sending import try_to_send
from ..policy.model import is_at_one_thread
from ..profiling import BatchClock, FetchTraces
from ..start.interrupts import let_through

PROFILE_BATCHES = 8
PROFILE_SECONDS = 1.0
"""
A profile ends after so many batches or so many seconds of loading, whichever comes first,
"""

LEAST_PROFILE_SECONDS = 0.1
MOST_PROFILE_BATCHES = 1000
"""
but goes on where batches are quick: what else happens on the machine would be most of what is seen of them.
"""


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
    Say that the dataset gives no batch.
    """


class SharedFileError(Exception):
    """
    Say that no worker may load the dataset, as they would read through one open file.
    """


class DismissedError(SystemExit):
    """
    Say that nobody waits for an answer any more.
    """


def _dismiss(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise DismissedError


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
        self._batch: Any = None
        self._is_at_one_thread = True

    def _draw(self) -> Iterator[Any]:
        yield from itertools.cycle(self._subject.sampler)

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

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[None]:
        """
        Let workers find the dataset as if nothing had been loaded here: neither files open nor caches filled.
        """
        traces = FetchTraces(self._subject.dataset)
        traces.begin()
        try:
            yield
        finally:
            traces.end()
            traces.undo()
        if traces.has_read_older_file:
            text = "samples are read from a file that was open before, and workers would share its position"
            raise SharedFileError(text)

    def profile(self, most_shared_bytes: int) -> Any:
        """
        Return the profile of batches that load in this process, first as in a worker and then as without any.
        """
        clock = BatchClock(PROFILE_BATCHES, PROFILE_SECONDS)
        inner = self._loader({"num_workers": 0}, clock)
        source = inner.start_epoch()
        single = AtOneThread(source)
        is_stream = isinstance(self._subject.dataset, IterableDataset)
        with self._untouched():
            while not _is_enough(clock):
                if is_stream:
                    clock.begin([None] * (self._subject.rest.get("batch_size") or 1))
                clock.is_at_one_thread = _is_half_left(clock) or torch.get_num_threads() == 1
                if _next(inner, single if clock.is_at_one_thread else source) is _END:
                    break
        self._batch = clock.last_batch
        if self._batch is None:
            raise NothingToLoadError
        profile = clock.profile(try_to_send(self._batch, most_shared_bytes))
        self._is_at_one_thread = is_at_one_thread(profile)
        return profile

    def batch(self) -> bytes:
        """
        Return the last batch of the profile as ``torch.save`` writes it.
        """
        stream = io.BytesIO()
        torch.save(self._batch, stream)
        return stream.getvalue()

    def run(self, settings: Mapping[str, Any], rounds: int, step_seconds: float, *, is_busy: bool) -> Run:
        """
        Load until each worker has delivered what it prepares ahead, and go on for so many rounds, which are timed.

        Args:
            settings: The arguments of the DataLoader.
            rounds: Batches a worker that are timed.
            step_seconds: What the training does with each batch.
            is_busy: Whether it needs the CPU for that.
        """
        workers = settings["num_workers"]
        ahead = workers * (settings.get("prefetch_factor") or 2) if workers else 1
        wanted = ahead + max(1, workers) * rounds
        users = {"worker_init_fn": self._subject.worker_init_fn} if workers else {}
        inner = self._loader({**settings, **users})
        stamps: list[float] = []
        with self._untouched():
            begun = time.perf_counter()
            try:
                source = inner.start_epoch()
                if not workers and self._is_at_one_thread:
                    source = AtOneThread(source)
                while len(stamps) < wanted and _next(inner, source) is not _END:
                    stamps.append(time.perf_counter())
                    _train(step_seconds, is_busy=is_busy)
            finally:
                inner.group.end(at_once=True)
                inner.close()
        if not stamps:
            raise NothingToLoadError
        return _timed(begun, stamps, ahead if len(stamps) == wanted else max(1, workers))


def _is_enough(clock: BatchClock) -> bool:
    if clock.loading_seconds < LEAST_PROFILE_SECONDS:
        return clock.count >= MOST_PROFILE_BATCHES
    return clock.has_enough_batches


def _is_half_left(clock: BatchClock) -> bool:
    """
    Return whether the first half of a profile goes on. Threads that wait for more to do use the CPUs for a while.
    """
    seconds, count = clock.loading_seconds, clock.count
    has_half = count >= PROFILE_BATCHES / 2 and (
        seconds >= LEAST_PROFILE_SECONDS / 2 or count >= MOST_PROFILE_BATCHES / 2
    )
    return not (has_half or seconds >= PROFILE_SECONDS / 2)


def _timed(begun: float, stamps: list[float], ahead: int) -> Run:
    """
    Return what the moments tell at which batches came, the first of which were prepared *ahead*.

    Of a stream that ends before all of these have come nothing can be told apart: all of it counts.
    """
    timed = len(stamps) - ahead
    if timed < 1:
        return Run(stamps[0] - begun, (stamps[-1] - begun) / len(stamps), len(stamps))
    return Run(stamps[0] - begun, (stamps[-1] - stamps[ahead - 1]) / timed, timed)


class _Rest:
    """
    A sampler of what another iterator still gives.
    """

    def __init__(self, indices: Iterator[Any]) -> None:
        self._indices = indices

    def __iter__(self) -> Iterator[Any]:
        return self._indices


_END = object()


def _next(inner: InnerLoader, source: Any) -> Any:
    """
    Return the next batch, and :data:`_END` after the last one; a StopIteration of the dataset's own is an error.
    """
    try:
        return next(source)
    except StopIteration:
        if inner.has_stopped_early():
            raise
        return _END


def _train(seconds: float, *, is_busy: bool) -> None:
    if not is_busy:
        time.sleep(seconds)
        return
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _told(error: BaseException) -> str:
    """
    Return an error with its traceback, without the calls that are ours.
    """
    ours = os.path.dirname(os.path.dirname(__file__))
    told = traceback.TracebackException.from_exception(error)
    each: traceback.TracebackException | None = told
    while each is not None:
        theirs = [frame for frame in each.stack if not frame.filename.startswith(ours)]
        each.stack = traceback.StackSummary.from_list(theirs)
        each = each.__cause__ or each.__context__
    return "".join(told.format())


def _end_with_parent() -> None:
    """
    End this process and its workers when the one that started it has ended, whatever the dataset does.
    """
    starter = parent_process()
    assert starter is not None
    wait([starter.sentinel])
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _reopen_files() -> None:
    """
    Open once more what is open for reading, where this process was forked: it reads on without moving its parent.
    """
    if sys.platform != "linux":
        return
    import fcntl

    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # it was the one of the listing, or may not be opened again
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            if flags & os.O_ACCMODE != os.O_RDONLY or not stat.S_ISREG(os.fstat(descriptor).st_mode):
                continue
            own = os.open(f"/proc/self/fd/{descriptor}", flags)
            os.lseek(own, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
            os.dup2(own, descriptor, os.get_inheritable(descriptor))
            os.close(own)


def serve(connection: Any, subject: Subject, inherited: Any = None) -> None:
    """
    Answer questions until the other side goes: each is a method of :class:`Laboratory` and its arguments.

    Args:
        connection: Where questions come from.
        subject: What is measured.
        inherited: The other end of the connection, where this process was forked and has it, too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)  # a forked process would wake the event loop of its parent
    signal.signal(signal.SIGTERM, _dismiss)
    let_through()
    if sys.platform != "win32":
        os.setsid()
    if inherited is not None:
        inherited.close()
        _reopen_files()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    laboratory = Laboratory(subject)
    with contextlib.suppress(EOFError, OSError), connection:
        connection.send((True, None))
        while True:
            name, positional, named = connection.recv()
            try:
                answer = True, getattr(laboratory, name)(*positional, **named)
            except DismissedError:
                raise
            except NothingToLoadError:
                answer = False, None
            except BaseException as error:  # noqa: BLE001 (the dataset may raise anything)
                answer = False, _told(error)
            connection.send(answer)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process ends already
