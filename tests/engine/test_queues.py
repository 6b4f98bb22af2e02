"""
What comes through the queues between the training process and its workers.
"""

import itertools
import multiprocessing
import pickle
import queue
import select
import threading
from collections.abc import Callable
from typing import Any

import pytest

from autoloader.engine.queues import WorkerQueue, make_patient

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


NEEDS_POLL = pytest.mark.skipif(not hasattr(select, "poll"), reason="pipes are of another kind here")


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
