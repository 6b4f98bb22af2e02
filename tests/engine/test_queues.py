"""
What comes through the queues between the training process and its workers.
"""

import itertools
import multiprocessing
import os
import pickle
import queue
import select
import threading
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

import pytest
from torch.utils.data._utils.worker import _ResumeIteration

from autoloader.engine import queues
from autoloader.engine.issue import _Numbered
from autoloader.engine.queues import WorkerQueue, make_patient, wait_for_threads
from autoloader.errors import CannotSendError

CONTEXT = multiprocessing.get_context("spawn")


def test_queue_gives_what_was_put_and_is_empty_after_its_time() -> None:
    """
    With no time, some time, and any time.
    """
    wanted = WorkerQueue(ctx=CONTEXT)
    for block, timeout in ((False, None), (True, 0.05)):
        with pytest.raises(queue.Empty):
            wanted.get(block, timeout)
    for number in range(3):
        wanted.put((number, "batch"))
    assert [wanted.get(timeout=30), wanted.get(), wanted.get(timeout=30)] == [(each, "batch") for each in range(3)]
    wanted.close()
    wanted.join_thread()


def queue_to_a_worker() -> tuple[Any, Any]:
    """
    Return a queue for indices, and the one on which the training process waits.
    """
    results, indices = WorkerQueue(ctx=CONTEXT), WorkerQueue(ctx=CONTEXT)
    indices.results = weakref.ref(results)
    return indices, results


class Own:
    """
    An index of the user's own kind, which knows in which thread it was pickled.
    """

    def __reduce__(self) -> Any:
        return str, (threading.current_thread().name,)


class Awaited:
    """
    A batch whose pickling takes until it may go on.
    """

    def __init__(self, may_go_on: threading.Event) -> None:
        self.may_go_on = may_go_on

    def __reduce__(self) -> Any:
        assert self.may_go_on.wait(30)
        return str, ("batch",)


def unpicklable() -> None:
    """
    Be an index that cannot be pickled when it is hidden from its module.
    """


NEEDS_POLL = pytest.mark.skipif(not hasattr(select, "poll"), reason="pipes are of another kind here")


@NEEDS_POLL
@pytest.mark.parametrize(
    ("pair", "has_thread"),
    [
        pytest.param((0, _Numbered(([3, 1, 2], 0, (7, 0, {"": 1}), None))), False, id="numbers"),
        pytest.param((0, _Numbered((5, 0, None, None))), False, id="number"),
        pytest.param((0, _Numbered((["a", "b"], 0, None, None))), False, id="texts"),
        pytest.param((0, [None] * 64), False, id="iterable-style"),
        pytest.param(None, False, id="end"),
        pytest.param(_ResumeIteration(), False, id="another-epoch"),
        pytest.param((0, _Numbered(([*range(5000)], 0, None, None))), True, id="long"),
        pytest.param((0, _Numbered(([(1, 2)], 0, None, None))), True, id="pairs"),
        pytest.param((0, _Numbered(([True], 0, None, None))), True, id="no-numbers"),
    ],
)
def test_indices_that_are_numbers_or_text_and_short_go_without_the_thread(pair: Any, has_thread: bool) -> None:
    """
    They come out like those that it sends, and in order.
    """
    indices, _ = queue_to_a_worker()
    for each in (pair, None, pair):
        indices.put(each)
    expected = (pair[0], pair[1][0]) if isinstance(pair, tuple) and isinstance(pair[1], _Numbered) else pair
    assert [within_time(lambda: indices.get(timeout=30)) for _ in range(3)] == [expected, None, expected]
    assert (indices._thread is not None) is has_thread
    indices.close()
    indices.join_thread()


@NEEDS_POLL
def test_indices_of_the_users_own_kind_are_pickled_in_the_thread_only() -> None:
    """
    What the user's code does then, or a signal's handler meanwhile, is nothing that ``put`` could raise.
    """
    indices, _ = queue_to_a_worker()
    indices.put((0, _Numbered(([Own()], 0, None, None))))
    assert within_time(lambda: indices.get(timeout=30)) == (0, ["QueueFeederThread"])
    indices.close()
    indices.join_thread()


def test_indices_that_cannot_be_pickled_come_back_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The training process waits for that batch.
    """
    indices, results = queue_to_a_worker()
    hidden = unpicklable
    monkeypatch.delitem(globals(), "unpicklable")
    indices.put((3, _Numbered(([hidden], 0, None, None))))
    number, error = within_time(lambda: results.get(timeout=30))
    assert (number, error.exc_type) == (3, CannotSendError)
    for each in (indices, results):
        each.close()
        each.join_thread()


@NEEDS_POLL
def test_indices_for_a_worker_that_reads_none_keep_nobody_waiting() -> None:
    """
    A pipe holds some 64 KiB: what does not fit in waits in the thread.
    """
    indices, _ = queue_to_a_worker()
    pairs = [(number, [*range(1000)]) for number in range(100)]
    assert within_time(lambda: [indices.put(pair) for pair in pairs]) == [None] * len(pairs)
    assert [within_time(lambda: indices.get(timeout=30)) for _ in pairs] == pairs
    indices.close()
    indices.join_thread()


@NEEDS_POLL
@pytest.mark.parametrize("pair", [(0, [1]), (0, [1.5])])
def test_closed_queue_to_a_worker_closes_its_pipe_and_takes_nothing(pair: Any) -> None:
    """
    Whether the thread has run or not.
    """
    indices, _ = queue_to_a_worker()
    indices.put(pair)
    indices.close()
    indices.join_thread()
    assert indices._writer.closed
    assert indices._reader.closed
    with pytest.raises(ValueError, match="is closed"):
        indices.put(pair)


def within_time(call: Callable[[], Any]) -> Any:
    """
    Return what a call returns, or the error that it raises, or fail where it would wait for ever.
    """
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 (a KeyboardInterrupt is wanted, too)
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it still waits"
    return found[0]


def a_queue(kind: str) -> Any:
    """
    Return one of ours, or Python's own, as a context of the user's making has.
    """
    return WorkerQueue(ctx=CONTEXT) if kind == "ours" else CONTEXT.Queue()


@NEEDS_POLL
@pytest.mark.parametrize("kind", ["ours", "pythons"])
def test_message_whose_rest_does_not_come_is_none_until_it_comes(kind: str) -> None:
    """
    Its writer may be gone or stopped; what has come is kept, its length and itself in any pieces.
    """
    wanted = a_queue(kind)
    patient = make_patient(wanted)
    assert patient is not None
    assert make_patient(wanted) is patient
    body = pickle.dumps((7, "batch" * 50_000))
    message = len(body).to_bytes(4, "big") + body
    wanted._sem.acquire()  # as put() does, which would write the whole message
    for begin, end in ((0, 2), (2, 4), (4, 9), (9, 60_000)):
        wanted._writer._send(message[begin:end])
        for arguments in ((False,), (True, 0.05)):
            assert type(within_time(lambda arguments=arguments: wanted.get(*arguments))) is queue.Empty
    assert patient.taken == 0
    rest = threading.Thread(target=wanted._writer._send, args=(message[60_000:],), daemon=True)
    rest.start()
    assert within_time(lambda: wanted.get(timeout=30)) == (7, "batch" * 50_000)
    wanted.put((8, "next"))
    assert within_time(lambda: wanted.get(timeout=30)) == (8, "next")
    assert patient.taken == 2
    wanted.close()
    wanted.join_thread()


@NEEDS_POLL
def test_interrupt_in_the_middle_of_a_message_loses_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    As by Ctrl-C, after each piece of it.
    """
    wanted = WorkerQueue(ctx=CONTEXT)
    patient = make_patient(wanted)
    waits = patient._poll_here  # type: ignore[union-attr]
    interrupts = itertools.cycle([True, False])

    def interrupted(seconds: float) -> bool:
        if next(interrupts):
            raise KeyboardInterrupt
        return waits(seconds)

    monkeypatch.setattr(patient, "_poll_here", interrupted)
    pairs = [(number, bytes([number]) * 300_000) for number in range(3)]
    for pair in pairs:
        wanted.put(pair)
    found: list[Any] = []
    while len(found) < len(pairs):
        got = within_time(lambda: wanted.get(timeout=30))
        assert isinstance(got, (tuple, KeyboardInterrupt)), got
        found += [got] if isinstance(got, tuple) else []
    assert found == pairs
    wanted.close()
    wanted.join_thread()


def test_threads_of_closed_queues_are_waited_for() -> None:
    """
    They end when what they were given is sent; a queue that had no thread is no matter.
    """
    slow, unused = WorkerQueue(ctx=CONTEXT), WorkerQueue(ctx=CONTEXT)
    may_go_on = threading.Event()
    slow.put((0, Awaited(may_go_on)))
    thread = slow._thread  # type: ignore[attr-defined]
    for each in (slow, unused):
        each.cancel_join_thread()
        each.close()
    threading.Timer(0.1, may_go_on.set).start()
    wait_for_threads([unused, slow])
    assert not thread.is_alive()


def test_thread_that_the_system_did_not_let_start_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its queue knows it all the same.
    """
    monkeypatch.setattr(threading, "_start_new_thread", lambda *arguments, **more: exec("raise RuntimeError('no')"))
    wanted = WorkerQueue(ctx=CONTEXT)
    with pytest.raises(RuntimeError):
        wanted.put((0, "batch"))
    wait_for_threads([wanted])


@NEEDS_POLL
def test_thread_that_cannot_send_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nobody reads, and the pipe is full: the time is up for all of them together.
    """
    monkeypatch.setattr(queues, "THREAD_SECONDS", 0.05)
    full = [WorkerQueue(ctx=CONTEXT) for _ in range(2)]
    readers = [Connection(os.dup(each._reader.fileno())) for each in full]  # type: ignore[attr-defined]
    for each in full:
        each.put((0, b"x" * (4 << 20)))
        each.cancel_join_thread()
        each.close()
    begun = monotonic()
    wait_for_threads(full)
    threads = [each._thread for each in full]  # type: ignore[attr-defined]
    assert [thread.is_alive() for thread in threads] == [True, True]
    assert monotonic() - begun < 30
    for reader in readers:
        reader.recv_bytes()
        reader.close()
    for thread in threads:
        thread.join(30)
    assert [thread.is_alive() for thread in threads] == [False, False]


@NEEDS_POLL
def test_end_of_the_pipe_is_an_error() -> None:
    """
    There is one where no process holds the end to write to any more.
    """
    wanted = WorkerQueue(ctx=CONTEXT)
    wanted._writer.close()  # type: ignore[attr-defined]
    assert isinstance(within_time(lambda: wanted.get(timeout=30)), EOFError)
    wanted.close()


@NEEDS_POLL
def test_queue_works_where_poll_was_taken_out_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    As eventlet does, which leaves Python's own connections alone.
    """
    monkeypatch.delattr(select, "poll")
    wanted = WorkerQueue(ctx=CONTEXT)
    wanted.put((0, "batch"))
    assert within_time(lambda: wanted.get(timeout=30)) == (0, "batch")
    wanted.close()
    wanted.join_thread()
