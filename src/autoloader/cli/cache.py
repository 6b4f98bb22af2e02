"""
Show or clear what is kept between runs.
"""

import argparse
import json
from datetime import datetime, timezone
from typing import Any

from ..errors import CacheError
from ..findings import describe
from ..probe import probe_environment
from ..records import number_text, printable
from ..store import Entry, Store, open_store
from . import streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    parser.add_argument("action", choices=("show", "clear"), help="show what is kept, or delete it")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(arguments: argparse.Namespace) -> int:
    """
    Print what is kept, or delete it and print how much it was.
    """
    store = open_store(probe_environment())
    if store.folder is None:
        raise CacheError(describe("cache.off"))
    entries = [_Shown(entry) for entry in store.entries()]
    if arguments.action == "clear":
        _clear(store)
    told: dict[str, Any] = {"folder": str(store.folder), "entries": [entry.as_json() for entry in entries]}
    if arguments.json:
        print(json.dumps(told, indent=2))
        return 0
    verb = "deleted" if arguments.action == "clear" else "kept"
    for entry in entries:
        print(entry.line)
    size = sum(entry.entry.bytes for entry in entries)
    streams.remark(f"{len(entries)} {verb} in {store.folder}, {number_text(size / 1024)} KiB")
    return 0


class _Shown:
    """
    One file of the store, as it is shown.
    """

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.about, self.problem = Store.about(entry)
        self.when = datetime.fromtimestamp(entry.written, timezone.utc).isoformat(timespec="seconds")

    def as_json(self) -> dict[str, Any]:
        """
        Return it for JSON; its time is UTC.
        """
        told = {"file": self.entry.path.name, "kind": self.entry.kind, "about": self.about}
        return {**told, "written": self.when, "bytes": self.entry.bytes, "problem": self.problem}

    @property
    def line(self) -> str:
        """
        Return it as a line.
        """
        line = f"{self.when}  {self.entry.kind:<10} {self.entry.bytes:>8} bytes  {self.entry.path.name}"
        return "  ".join([line, *(printable(text) for text in (self.about, self.problem) if text)])


def _clear(store: Store) -> None:
    if not store.is_ours():
        raise CacheError(describe("cache.not-ours", folder=store.folder))
    if not store.clear():
        raise CacheError(describe("cache.unusable", reason=store.problem))
