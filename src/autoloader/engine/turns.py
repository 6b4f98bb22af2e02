"""
Lets only one thread of the training process fetch from a dataset at a time.

A thread that loads ahead goes on with its batch when its iterator is dropped, and two iterators of one dataset, or of
parts of it, have two threads: where samples are read through one open file, each would move the other's position.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..profiling.parts import datasets_in

_MOST_DATASETS = 100


class _Lock:
    """
    A lock that can be referred to weakly; a dataset may ask for its own samples.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()


_locks: weakref.WeakValueDictionary[int, _Lock] = weakref.WeakValueDictionary()
"""
The lock of each dataset that a thread fetches from, by its id, for as long as something fetches from it in turns.
"""


def _renew_in_forked_process() -> None:
    """
    In a process that was just forked: let nobody wait for threads that are not there.
    """
    for each in _locks.values():
        each.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_forked_process)


class InTurns:
    """
    An iterator that fetches from a dataset while nobody else does who takes turns, too.

    Args:
        source: The iterator.
        locks: The locks of the dataset, and of those that it wraps.
    """

    def __init__(self, source: Any, locks: list[_Lock]) -> None:
        self._source, self._locks = source, locks

    def __iter__(self) -> "InTurns":
        return self

    def __next__(self) -> Any:
        with contextlib.ExitStack() as held:
            for each in self._locks:
                held.enter_context(each.lock)
            return next(self._source)


def in_turns(source: Any, dataset: Any) -> InTurns:
    """
    Return an iterator that takes turns with all others over the dataset, or over what it wraps.
    """
    return InTurns(source, [_locks.setdefault(key, _Lock()) for key in _keys_of(dataset)])


def in_turns_with_threads(source: Any, dataset: Any) -> Any:
    """
    Return an iterator that takes turns with those that do so already; *source* itself where there are none.
    """
    known = [lock for key in _keys_of(dataset) if (lock := _locks.get(key)) is not None] if _locks else []
    return InTurns(source, known) if known else source


def _keys_of(dataset: Any) -> Iterator[int]:
    """
    Yield what stands for a dataset and those that it wraps, in one order for all, so that nobody waits for each other.
    """
    yield from sorted(id(each) for each in islice(datasets_in(dataset), _MOST_DATASETS))
