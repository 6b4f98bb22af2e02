"""
The one place where anything is kept between runs: JSON, one file for each key, in a folder of the user's own.

Many processes may read and write at once. A file is written beside its place and then moved there, so that a reader
sees the old one or the new one and never half of one. What cannot be read or was not written by this layout is a miss;
what cannot be written is not kept. Nothing here raises for the sake of a cache.
"""

import contextlib
import hashlib
import json
import operator
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .records import says_yes

T = TypeVar("T")

SCHEMA = 1
"""
The number of this layout of files; those of another layout are misses.
"""

TAG = "CACHEDIR.TAG"
_TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# What autoloader measured on this machine; it may be deleted at any time.\n"
    "# See https://bford.info/cachedir/ for this file.\n"
)

DIGEST_LENGTH = 32
"""
Hexadecimal digits of a key's digest in the name of its file.
"""

FOLDER_VARIABLE = "AUTOLOADER_CACHE_DIR"
OFF_VARIABLE = "AUTOLOADER_NO_CACHE"


def open_store(environment: Mapping[str, str]) -> "Store":
    """
    Return the store of this user: at ``AUTOLOADER_CACHE_DIR``, or where the system keeps caches.

    Args:
        environment: The environment variables. ``AUTOLOADER_NO_CACHE`` turns it off, set to anything but ``0``, ``no``
            and ``false``.
    """
    if _is_off(environment):
        return Store(None)
    chosen = environment.get(FOLDER_VARIABLE)
    try:
        if chosen:
            return Store(Path(os.path.expanduser(chosen)))
        import platformdirs

        return Store(Path(platformdirs.user_cache_dir("autoloader", appauthor=False)))
    except Exception:  # noqa: BLE001 (no home, or a platformdirs that is missing or broken: there is nowhere to keep it)
        return Store(None)


def open_node_store(environment: Mapping[str, str]) -> "Store":
    """
    Return the store for what the processes of one run tell each other: among the temporary files of this node.

    It is nobody's but this user's; where somebody else made the folder, nothing is kept.

    Args:
        environment: The environment variables. ``AUTOLOADER_NO_CACHE`` turns it off, set to anything but ``0``, ``no``
            and ``false``.
    """
    if _is_off(environment):
        return Store(None)
    user = getattr(os, "getuid", lambda: None)()
    try:
        folder = Path(tempfile.gettempdir()) / ("autoloader" if user is None else f"autoloader-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return Store(None)
    is_safe = user is None or (status.st_uid == user and not status.st_mode & _WRITABLE_BY_OTHERS)
    return Store(folder if stat.S_ISDIR(status.st_mode) and is_safe else None)


_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _is_off(environment: Mapping[str, str]) -> bool:
    return says_yes(environment.get(OFF_VARIABLE))


class Entry(NamedTuple):
    """
    One file of a store.
    """

    path: Path
    kind: str
    """A word for what is kept."""
    bytes: int
    written: float
    """When it was written, in seconds since 1970."""


class Store:
    """
    Values by kind and key in one folder.

    Args:
        folder: Where the files lie; it need not exist. ``None`` keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.problem: str | None = None
        """Why the last call found or kept nothing, where something is wrong; ``None`` after an ordinary miss."""

    def read(self, kind: str, key: Mapping[str, Any]) -> Any:
        """
        Return the value that is kept under a key; ``None`` where there is none, or none that can be read.

        Args:
            kind: A word for what is kept, part of the file's name.
            key: All that the value depends on, as JSON takes it. Another key that falls on the same file is a miss.
        """
        self.problem = None
        if self.folder is None:
            return None
        path = self._path(kind, key)
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                self.problem = f"{path} is not a file"
                return None
            document = json.loads(_patiently(path.read_bytes))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.problem = f"{path} cannot be read: {_reason(error)}"
            return None
        expected = {"schema": SCHEMA, "kind": kind, "key": _plain(key)}
        if not isinstance(document, dict) or any(document.get(name) != value for name, value in expected.items()):
            self.problem = f"{path} was not written by this version"
            return None
        return document.get("value")

    def write(self, kind: str, key: Mapping[str, Any], value: Any, *, about: str = "") -> bool:
        """
        Keep a value under a key, in place of an older one.

        Args:
            kind: As in :meth:`read`.
            key: As in :meth:`read`.
            value: What JSON can hold.
            about: What it is, in a few words for people.

        Returns:
            Whether it is kept; *problem* says why not.
        """
        self.problem = None
        if self.folder is None:
            return False
        document = {"schema": SCHEMA, "kind": kind, "about": about, "key": _plain(key), "value": value}
        path = self._path(kind, key)
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            self._make_folder(self.folder)
            _write_privately(temporary, json.dumps(document, indent=1, allow_nan=False))
            _patiently(lambda: temporary.replace(path))
        except (OSError, ValueError) as error:
            self.problem = f"{path} cannot be written: {_reason(error)}"
            with contextlib.suppress(OSError, ValueError):
                temporary.unlink()
            return False
        return True

    def discard(self, kind: str, key: Mapping[str, Any]) -> None:
        """
        Keep nothing under a key any more, if that can be had.
        """
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self._path(kind, key).unlink()

    def entries(self) -> list["Entry"]:
        """
        Return what is kept, the oldest first; files that are not ours, or are half written, are left out.
        """
        found = []
        for path in [] if self.folder is None else sorted(self.folder.glob("*.json")):
            kind, _, digest = path.stem.rpartition("-")
            with contextlib.suppress(OSError):
                status = path.stat()
                if kind and len(digest) == DIGEST_LENGTH and stat.S_ISREG(status.st_mode):
                    found.append(Entry(path, kind, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry.written)

    @staticmethod
    def about(entry: "Entry") -> tuple[str, str | None]:
        """
        Return what a file says that it is, empty where it does not, and why it cannot be used, where it cannot.
        """
        try:
            document = json.loads(_patiently(entry.path.read_bytes))
        except (OSError, ValueError, RecursionError) as error:
            return "", f"cannot be read: {_reason(error)}"
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            return "", "was not written by this version"
        about = document.get("about")
        return about if isinstance(about, str) else "", None

    def is_ours(self) -> bool:
        """
        Return whether the folder carries our tag, or does not exist: only then may it be cleared.
        """
        if self.folder is None or not self.folder.exists():
            return True
        try:
            return (self.folder / TAG).read_text(encoding="utf-8") == _TAG_TEXT
        except (OSError, ValueError):
            return False

    def clear(self) -> bool:
        """
        Delete what is kept, and what is left of writes that were killed; nothing else in the folder is touched.

        Returns:
            Whether all of it is gone; *problem* says why not.
        """
        self.problem = None
        left = [] if self.folder is None else list(self.folder.glob(".*.json.*"))
        for path in [*(entry.path for entry in self.entries()), *left]:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                self.problem = f"{path} cannot be deleted: {_reason(error)}"
        return self.problem is None

    def _path(self, kind: str, key: Mapping[str, Any]) -> Path:
        text = json.dumps(_plain(key), sort_keys=True)
        assert self.folder is not None
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]}.json"

    @staticmethod
    def _make_folder(folder: Path) -> None:
        """
        Make the folder, for this user alone, and mark it as a cache; a folder that was there is left as it is.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tag = folder / TAG
        if not tag.exists():
            try:
                _write_privately(tag, _TAG_TEXT)
            except OSError:
                tag.unlink(missing_ok=True)  # half a tag would stand for somebody else's folder ever after
                raise


_SHARING_VIOLATIONS = frozenset({5, 32, None})
"""
How Windows says that another process has the file open, which cannot be replaced while it is read, nor read meanwhile;
Python's ``open`` passes no number on. Other systems have no such numbers.

Source: Microsoft, System Error Codes, ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION.
"""

PATIENCE_SECONDS = 1.0


def _patiently(act: Callable[[], T]) -> T:
    """
    Do what Windows refuses while another process has the file open, which takes moments.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return act()
        except PermissionError as error:
            if getattr(error, "winerror", 0) not in _SHARING_VIOLATIONS or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _write_privately(path: Path, text: str) -> None:
    """
    Write a file that only this user may read.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)


def _plain(key: Mapping[str, Any]) -> Any:
    """
    Return a key as it is read back: tuples become lists.
    """
    return json.loads(json.dumps(key, default=operator.index))  # numbers of numpy are none to JSON


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
