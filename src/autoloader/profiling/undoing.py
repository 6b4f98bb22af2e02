"""
Notes what fetching samples in the training process leaves open, and undoes it before workers are forked.

Many datasets open their file when the first sample is fetched, so that each worker has one of its own. A worker that is
forked after that would share it with all others, and read each other's data.
"""

import contextlib
import gc
import sys
from itertools import islice
from typing import Any, NamedTuple

from ..processes import open_descriptors, positions_of_files
from .attributes import attributes_of
from .fingerprint import Fingerprint
from .parts import datasets_in

_MOST_DATASETS = 100
_MOST_ENTRIES = 64
"""
Dictionaries of more entries are data rather than a place for open files.
"""

_OUR_REFERENCES = 2
"""
The variable that a value is looked at by, and the argument of ``sys.getrefcount`` itself.
"""

_MISSING: Any = object()


class _Change(NamedTuple):
    """
    A name that stands for something else than before.
    """

    names: dict[Any, Any]
    """Where it stands: the attributes of a dataset, or a dictionary among them."""
    name: Any
    before: Any
    after: Any


class FetchTraces:
    """
    What fetching samples has left in a dataset, in those that it wraps, and in the table of open files.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: Any) -> None:
        self._datasets = list(islice(datasets_in(dataset), _MOST_DATASETS))
        self._changes: dict[tuple[int, Any], _Change] = {}
        self._opened: set[Any] = set()
        self._before: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._open_before: frozenset[Any] | None = None
        self._positions: dict[Any, int] = {}
        self._looks_at_positions = True
        self._dataset = dataset
        self._first_look: Fingerprint | None = None
        self._files_at_first: frozenset[Any] = frozenset()
        self.has_left_something = False
        """Whether anything was different after samples were fetched, whatever has become of it."""
        self.has_read_older_file = False
        """Whether samples were read through a file that was open before the first one."""

    def begin(self, *, looks_at_positions: bool = True) -> None:
        """
        Note how things stand before samples are fetched.

        Args:
            looks_at_positions: Whether to see, too, which files are read that were open before. That takes longer, by
                some ten microseconds a file.
        """
        self._looks_at_positions = looks_at_positions
        if self._first_look is None:
            self._first_look, self._files_at_first = Fingerprint(self._dataset), frozenset(positions_of_files())
        self._before = [(names, dict(names)) for dataset in self._datasets for names in _names_in(dataset)]
        self._open_before = open_descriptors()
        self._positions = positions_of_files() if looks_at_positions else {}

    def end(self) -> None:
        """
        Note what has changed.
        """
        for names, before in self._before:
            for name in {**before, **names}:
                was, now = before.get(name, _MISSING), names.get(name, _MISSING)
                if was is not now:
                    key = id(names), name
                    known = self._changes.get(key)
                    is_ours = known is not None and known.after is was  # and nobody has set it since
                    self._changes[key] = _Change(names, name, known.before if known and is_ours else was, now)
        self._before = []
        now_open = open_descriptors()
        if self._open_before is not None and now_open is not None:
            self._opened |= now_open - self._open_before
        # A file whose position moved is read through a handle that was there before.
        now_at = positions_of_files() if self._looks_at_positions else {}
        moved = {key for key, place in now_at.items() if self._positions.get(key, place) != place}
        self.has_read_older_file |= bool(moved & self._files_at_first)
        self._opened |= moved
        self.has_left_something |= bool(self._changes or self._opened)

    def suspect_new_files(self) -> None:
        """
        Count every file that was opened since the first samples, by whomever: later ones were not looked at.
        """
        self._opened |= positions_of_files().keys() - self._files_at_first

    @property
    def has_open_files(self) -> bool:
        """
        Return whether a file is open that was opened meanwhile, or read; not where the system does not tell.
        """
        return bool(self._opened & (open_descriptors() or frozenset()))

    def undo(self) -> None:
        """
        Let the dataset be as if no sample had been fetched here: what it has opened since is closed with its last user.

        Where that is not all that has changed in it, nothing is undone: what was opened may be half of something. What
        somebody else has set since then stays.
        """
        changes = [each for each in self._changes.values() if each.names.get(each.name, _MISSING) is each.after]
        self._changes.clear()
        for names, name, before, _ in changes:
            _put(names, name, before)
        if self._first_look is None or Fingerprint(self._dataset).differs_from(self._first_look):
            for names, name, _, after in changes:
                _put(names, name, after)
            return
        while changes:
            *_, after = changes.pop()
            if sys.getrefcount(after) <= _OUR_REFERENCES:
                _close(after)
            del after
        if self.has_open_files:
            gc.collect()


def _put(names: dict[Any, Any], name: Any, value: Any) -> None:
    if value is _MISSING:
        del names[name]
    else:
        names[name] = value


def _close(value: Any) -> None:
    """
    Close what nobody refers to any more: Python warns of files that are dropped while they are open.
    """
    close = getattr(value, "close", None)
    if callable(close):
        with contextlib.suppress(Exception):
            close()


def _names_in(dataset: Any) -> list[dict[Any, Any]]:
    """
    Return the attributes of a dataset, and the small dictionaries among them.
    """
    try:
        attributes = object.__getattribute__(dataset, "__dict__")
    except AttributeError:
        return []
    if type(attributes) is not dict:
        return []
    values = attributes_of(dataset).values()
    return [attributes, *(each for each in values if type(each) is dict and len(each) <= _MOST_ENTRIES)]
