"""
What comes through the queues between the training process and its workers.
"""

import multiprocessing
import queue
import select
import time

import pytest

from autoloader.engine.queues import WorkerQueue, make_patient

CONTEXT = multiprocessing.get_context("spawn")


def test_queue_gives_what_was_put_and_is_empty_after_its_time() -> None:
    """
    With no time, some time, and any time.
    """
    wanted = WorkerQueue(ctx=CONTEXT)
    for block, timeout in ((False, None), (True, 0.05)):
        begun = time.monotonic()
        with pytest.raises(queue.Empty):
            wanted.get(block, timeout)
        assert time.monotonic() - begun >= (timeout or 0.0)
    for number in range(3):
        wanted.put((number, "batch"))
    assert [wanted.get(timeout=30), wanted.get(), wanted.get(timeout=30)] == [(each, "batch") for each in range(3)]
    wanted.close()
    wanted.join_thread()


@pytest.mark.skipif(not hasattr(select, "poll"), reason="pipes are of another kind here")
def test_message_whose_writer_is_gone_ends_the_wait_for_the_rest_of_it() -> None:
    """
    Others may hold the pipe open: it does not end.
    """
    reader, writer = multiprocessing.Pipe(duplex=False)
    asked: list[bool] = []

    def gives_up() -> bool:
        asked.append(True)
        return len(asked) == 2

    patient = make_patient(reader, gives_up)
    assert patient is reader
    writer._send((8).to_bytes(4, "big") + b"half")  # type: ignore[attr-defined]
    with pytest.raises(EOFError, match="in the middle of a message"):
        reader.recv_bytes()
    assert len(asked) == 2
    writer.close()
    with pytest.raises(EOFError, match="all workers have closed the pipe"):
        reader.recv_bytes()
    reader.close()
