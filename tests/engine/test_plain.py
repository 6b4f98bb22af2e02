"""
What keeps a loader that could not start from doing harm.
"""

import threading

from autoloader.engine.plain import disarm_half_started
from autoloader.engine.watch import WatchedIterator


class HalfStarted(WatchedIterator):
    """
    Fails when its thread for pinned memory runs already.
    """

    def __init__(self) -> None:
        self._pin_memory_thread_done_event = threading.Event()
        raise OSError("no more processes")

    def __del__(self) -> None:
        assert self._shutdown


def test_thread_for_pinned_memory_is_told_to_end() -> None:
    """
    The queue that it reads is closed.
    """
    try:
        HalfStarted()
    except OSError as error:
        disarm_half_started(error)
        iterator = error.__traceback__.tb_next.tb_frame.f_locals["self"]  # type: ignore[union-attr]
        assert iterator._pin_memory_thread_done_event.is_set()
