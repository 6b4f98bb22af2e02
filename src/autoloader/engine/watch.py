"""
Torch's iterator over workers, which tells who died, and who is silent.
"""

import queue
import threading
from collections.abc import Callable, Collection, Sequence
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch.utils.data import dataloader

from ..errors import LoaderClosedError
from ..findings import describe
from .processes import kill, wait_for_an_end
from .queues import make_patient, position_of, wait_for_threads

_signals: Any = torch.utils.data._utils.signal_handling

LOOK_SECONDS = 1.0
"""
How often a wait for a batch looks around. Torch looks every 5 seconds.
"""


QUICK_SECONDS = 0.02
"""
How long a wait for a batch lasts before anything else is done, which most of them do not live to see.
"""


DYING_SECONDS = 0.5
"""
How long a worker that was seen to have closed what a batch travels through may take to be gone.
"""


class DeadWorker(NamedTuple):
    """
    A worker that has ended, and its exit code as multiprocessing gives it: negative for a signal, ``None`` if lost.
    """

    pid: int
    exit_code: int | None
    had_to_load: tuple[Any, ...] = ()
    """The indices of the batches that it was given and did not deliver; empty where they are not known."""


class Silence(NamedTuple):
    """
    The worker from which the batch that is due has not come, and for how long it is waited for.
    """

    pid: int
    seconds: float


class WatchedIterator(dataloader._MultiProcessingDataLoaderIter):
    """
    Torch's iterator, with two differences while it waits for a batch.

    That a worker died is an error of ``next()`` only: torch's handler of SIGCHLD, which raises it wherever the training
    process is, knows the workers while ``next()`` waits. And a wait that takes long is told of, and goes on.

    Args:
        loader: Torch's loader.
        on_silence: Called each time that the wait for a batch has lasted another :data:`LOOK_SECONDS`.
        first_worker: The worker whose turn is first.
        ended: Whether each worker's copy of an iterable-style dataset has come to its end already.
    """

    def __init__(
        self,
        loader: Any,
        on_silence: Callable[[Silence], None],
        first_worker: int = 0,
        ended: Sequence[bool] = (),
    ) -> None:
        self._first_worker, self._have_ended = first_worker, tuple(ended)
        self._on_silence = on_silence
        self._waiting_since: float | None = None
        self._broken_by: tuple[type[Exception], tuple[Any, ...]] | None = None
        self._died: list[DeadWorker] = []
        self._due_at_the_end: int | None = None
        self.failed_position: int | None = None
        self.was_interrupted = False
        self._left: dict[int, int] = {}
        if first_worker or ended:
            self._try_put_index = self._put_first_index  # type: ignore[method-assign]
        try:
            super().__init__(loader)
        except RuntimeError:
            workers = getattr(self, "_workers", ())
            if len(workers) < self._num_workers or all(worker.is_alive() for worker in workers):
                raise
            # Torch's handler of SIGCHLD knows them until they are asked for something: next() tells of the death.
            self._worker_pids_set = True
            self._reset(loader, first_iter=True)
        self._patient = None if self._pin_memory else make_patient(self._worker_result_queue)
        self._taken_before = 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._pids = tuple(worker.pid or 0 for worker in self._workers)
        self._set_known(is_known=False)
        self.was_interrupted, self._waiting_since = False, None
        if not first_iter:
            self._have_ended = ()
            left = ((number, info[0]) for number, info in self._task_info.items() if len(info) == 1)
            self._left = {number: worker for number, worker in left if self._workers_status[worker]}
            self._get_data = self._get_left  # type: ignore[method-assign]
        super()._reset(loader, first_iter)
        if not first_iter:
            del self._get_data
            self._left = {}
            self._taken_before = 0 if self._patient is None else self._patient.taken

    def _get_left(self) -> Any:
        """
        Wait for what kept workers still load of the last epoch, or for word that they begin another one.
        """
        found = super()._get_data()  # type: ignore[no-untyped-call]
        self._left.pop(found[0], None)
        return found

    def _put_first_index(self) -> None:
        """
        Begin where the iterator before this one was.
        """
        del self._try_put_index
        for _ in range(self._first_worker):
            next(self._worker_queue_idx_cycle)
        self._workers_status = [not has_ended for has_ended in self._have_ended] or self._workers_status
        self._try_put_index()

    def _shutdown_workers(self) -> None:
        if self._due_at_the_end is None and hasattr(self, "_task_info"):
            self._due_at_the_end = self.next_worker()
        for worker, has_ended in enumerate(self._have_ended):
            if has_ended:
                self._workers_status[worker] = True  # it was asked for nothing, and waits for its end
        try:
            super()._shutdown_workers()
        finally:
            if getattr(self, "_shutdown", False):  # otherwise Python is ending, which ends them
                kill(getattr(self, "_workers", ()))  # one that could not start has none
                wait_for_threads(getattr(self, "_index_queues", ()))

    def _process_data(self, data: Any, *rest: Any) -> Any:
        try:
            return super()._process_data(data, *rest)  # type: ignore[no-untyped-call]
        except Exception:
            self.failed_position = position_of(data)
            if self.failed_position is None:  # the sampler's own error: torch drops the batch that came just then
                self.failed_position = getattr(data, "position", None)
            raise

    def knows(self, outstanding: Collection[Any]) -> bool:
        """
        Return whether torch counts as many batches as under way as there are.

        An interrupt may come between two of its steps: a batch was drawn or sent and not noted, or is taken already.
        """
        return len(outstanding) == len(self._task_info)

    def refuse(self, error: Exception) -> None:
        """
        Give nothing but this error from now on, to a thread that waits for a batch already, too.
        """
        self._broken_by = type(error), error.args

        def give() -> Any:
            raise _made_anew(type(error), error.args)

        self._next_data = give  # type: ignore[method-assign]

    def next_worker(self) -> int:
        """
        Return the worker whose batch is due next, or was when the workers were ended.
        """
        if self._due_at_the_end is not None:
            return self._due_at_the_end
        due = (info[0] for info in self._task_info.values() if len(info) == 2 or self._workers_status[info[0]])
        return next(due, 0)

    def dead_workers(self) -> list[DeadWorker]:
        """
        Return the workers that ended although more was asked of them.
        """
        known = {dead.pid for dead in self._died}
        self._died += [each for each in self._ended(self._workers_status) if each.pid not in known]
        return self._died

    def _ended(self, was_active: list[bool]) -> list[DeadWorker]:
        asked = (place for place, is_active in enumerate(was_active) if is_active and place < len(self._workers))
        ended = [place for place in asked if not self._workers[place].is_alive()]
        for place in ended:
            BaseProcess.join(self._workers[place], DYING_SECONDS)  # it closes a pipe before it has an exit code
        workers = ((place, self._workers[place]) for place in ended)
        return [DeadWorker(worker.pid or 0, worker.exitcode, self._had_to_load(place)) for place, worker in workers]

    def _had_to_load(self, worker: int) -> tuple[Any, ...]:
        """
        Return the indices of what a worker was given and did not deliver; both lists are in the order of handing out.
        """
        outstanding, tasks = getattr(self._index_sampler, "outstanding", {}), sorted(self._task_info.items())
        if len(outstanding) != len(tasks):
            return ()
        given = zip(tasks, sorted(outstanding.items()), strict=True)
        return tuple(indices for (_, info), (_, indices) in given if tuple(info) == (worker,))

    def _set_known(self, *, is_known: bool) -> None:
        """
        Let torch's handler of SIGCHLD know these workers, or forget them.
        """
        if is_known == self._worker_pids_set:
            return
        if is_known:
            _signals._set_worker_pids(id(self), self._pids)
        else:
            _signals._remove_worker_pids(id(self))
        self._worker_pids_set = is_known

    def _try_get_data(self, timeout: float | None = None) -> tuple[bool, Any]:
        """
        Wait for a batch: until it comes or the user's time is over, and without such a limit for one look.
        """
        if self._broken_by is not None:
            raise _made_anew(*self._broken_by)
        seconds = LOOK_SECONDS if timeout is None else timeout
        try:
            found = True, self._data_queue.get(timeout=min(QUICK_SECONDS, seconds))
        except queue.Empty:
            return self._look_around(seconds)
        except Exception as error:
            self._note_error(error)
            raise
        self._waiting_since = None
        return found

    def _look_around(self, seconds: float) -> tuple[bool, Any]:
        """
        Wait for a batch for so long, and see what has become of the workers meanwhile.
        """
        if self.was_interrupted and self._has_lost():
            self._broken_by = LoaderClosedError, (describe("loader.interrupted"),)
            raise _made_anew(*self._broken_by)
        begun = monotonic() - QUICK_SECONDS
        if self._waiting_since is None:
            self._waiting_since = begun
        deadline = begun + seconds
        while True:
            found = self._look(min(LOOK_SECONDS, max(0.0, deadline - monotonic())))
            if found[0] or monotonic() >= deadline:
                return found

    def _look(self, seconds: float) -> tuple[bool, Any]:
        """
        Wait for a batch for a moment.
        """
        try:
            found = True, self._receive(seconds)
        except queue.Empty:
            if self._broken_by is not None:
                raise _made_anew(*self._broken_by) from None
            self._raise_deaths(None)
            self._tell_of_silence()
            return False, None
        except Exception as error:
            self._note_error(error)
            raise
        self._waiting_since = None
        return found

    def _note_error(self, error: Exception) -> None:
        """
        Note an error in waiting or receiving: it leaves nothing to go on with if a batch is lost.

        What a signal's handler raises loses none.

        Raises:
            RuntimeError: It came because a worker has ended.
        """
        if isinstance(error, (ConnectionError, FileNotFoundError, EOFError)):
            wait_for_an_end(self._workers, DYING_SECONDS)
        self._raise_deaths(error)
        if isinstance(error, MemoryError) or self._has_lost():
            self._broken_by = type(error), error.args

    def _has_lost(self) -> bool:
        """
        Return whether a message came of which torch has not heard; true where nobody counts them.
        """
        if self._patient is None:
            return not self._pin_memory  # with it, the batch waits in a queue of this process
        return self._patient.taken - self._taken_before != self._send_idx - self._tasks_outstanding

    def _receive(self, seconds: float) -> Any:
        """
        Take a batch out of the queue, and listen to deaths meanwhile; but not, if possible, while it is read.
        """
        self._listen(is_waiting=True)
        try:
            if self._patient is None:
                return self._data_queue.get(timeout=seconds)
            self._patient.poll(seconds)
        finally:
            self._listen(is_waiting=False)
        return self._data_queue.get(block=False)

    def _listen(self, *, is_waiting: bool) -> None:
        """
        Let torch's handler of SIGCHLD end a wait in the main thread, which it raises its errors in.
        """
        if threading.current_thread() is threading.main_thread():
            self._set_known(is_known=is_waiting)
            if is_waiting:
                torch._C._error_if_any_worker_fails()

    def _raise_deaths(self, error: Exception | None) -> None:
        """
        Raise an error like torch's if a worker has ended that was asked for more.
        """
        self._died += self._ended(self._workers_status)
        if self._died:
            pids = ", ".join(str(dead.pid) for dead in self._died)
            text = f"DataLoader worker (pid(s) {pids}) exited unexpectedly"
            self._broken_by = RuntimeError, (text,)
            raise RuntimeError(text) from error

    def _tell_of_silence(self) -> None:
        due = self._task_info.get(self._rcvd_idx, tuple(self._left.values()))
        if due and self._waiting_since is not None:
            self._on_silence(Silence(self._pids[due[0]], monotonic() - self._waiting_since))


def _made_anew(kind: type[Exception], arguments: tuple[Any, ...]) -> Exception:
    """
    Return an error like one that was raised, which is not kept: its traceback holds all iterators that it went through.
    """
    try:
        return kind(*arguments)
    except Exception:  # noqa: BLE001 (a class of the user's may want other arguments)
        return RuntimeError(*map(str, arguments))
