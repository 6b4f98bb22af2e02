"""
No test leaves a process behind: neither a child nor a worker of a child, which the fork server may have started.
"""

import multiprocessing
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    """
    Fail a test that leaves a child behind.
    """
    yield
    deadline = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert multiprocessing.active_children() == []
