"""
The event by which workers are told to end, whose lock one of them may have taken along.
"""

import multiprocessing
import threading

import pytest

from autoloader.engine import events
from autoloader.engine.processes import WorkerGroup, recording_context


def test_event_is_set_and_seen_where_its_lock_is_never_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A process was killed just while it looked: nobody waits for it for ever.
    """
    monkeypatch.setattr(events, "LOCK_SECONDS", 0.05)
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    event = recording_context(method, WorkerGroup()).Event()
    assert not event.is_set()
    event._cond.acquire()
    seen: list[bool] = []

    def use() -> None:
        seen.append(event.is_set())
        event.set()
        seen.append(event.is_set())
        seen.append(event.is_set())

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(60)
    assert seen == [False, True, True]


def test_event_whose_lock_is_free_is_like_pythons() -> None:
    """
    Who waits for it goes on when it is set.
    """
    method = multiprocessing.get_all_start_methods()[0]
    event = recording_context(method, WorkerGroup()).Event()
    thread = threading.Thread(target=event.wait, daemon=True)
    thread.start()
    event.set()
    thread.join(60)
    assert event.is_set()
    assert not thread.is_alive()
