"""
Show what this host is, as far as loading data is concerned.
"""

import argparse
import contextlib
import json
import os
import re
from typing import Any

from ..errors import ArgumentError
from ..findings import describe
from ..probe import HostIO, RealHost, probe_host
from ..records import printable, shortened, to_json
from ..report import render_every_fact, render_facts
from .streams import remark

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    parser.add_argument("--json", action="store_true", help="print every fact with its source, as JSON")
    parser.add_argument("--path", metavar="DIR", help="where the data is (default: the current folder)")
    parser.add_argument(
        "--full", action="store_true", help="show every fact with its source, and those that take seconds to find out"
    )
    parser.add_argument(
        "--measure", action="store_true", help="read files in DIR for some seconds, to see what its storage is like"
    )
    host = parser.add_mutually_exclusive_group()
    host.add_argument("--record", metavar="FILE", help="write what this host answered, to send with a bug report")
    host.add_argument("--replay", metavar="FILE", help="show the host whose answers such a file holds")


def run(arguments: argparse.Namespace) -> int:
    """
    Print the facts.
    """
    path = _path(arguments)
    if arguments.record is not None:
        facts = _record(arguments.record, path, full=arguments.full, measure=arguments.measure)
    elif arguments.replay is not None:
        facts = _replay(arguments.replay, path, full=arguments.full)
    else:
        facts = probe_host(io=RealHost(), path=path, full=arguments.full, measure=arguments.measure)
    render = render_every_fact if arguments.full else render_facts
    print(json.dumps(to_json(facts), indent=2, allow_nan=False) if arguments.json else render(facts))
    return 0


def _path(arguments: argparse.Namespace) -> str | None:
    """
    Return the path whose storage is to be shown, ``None`` for the current folder. What is measured is not looked at.

    Raises:
        ArgumentError: It is none, or cannot be measured.
    """
    if arguments.measure and arguments.path is None:
        raise ArgumentError(describe("argument.measure-where"))
    if arguments.measure and arguments.replay is not None:
        raise ArgumentError(describe("argument.measure-replayed", path=arguments.replay))
    is_here = arguments.replay is None and not arguments.measure
    return None if arguments.path is None else checked_path(arguments.path, is_here=is_here)


def checked_path(path: str, *, is_here: bool) -> str:
    """
    Return the path whose storage can be shown: that of *path*, or of the nearest folder above it that can be reached.

    Args:
        path: What the user wrote.
        is_here: Whether to look whether it can be reached, on this machine.

    Raises:
        ArgumentError: It is empty or a URL.
    """
    if not path.strip():
        raise ArgumentError(describe("argument.not-a-folder", path=path, reason="it is empty"))
    if _URL.match(path):
        reason = "a URL names a place that is not a folder of this machine"
        raise ArgumentError(describe("argument.not-a-folder", path=path, reason=reason))
    unreachable = _reason_unreachable(path) if is_here else None
    if unreachable is None:
        return path
    nearest = _nearest(path)
    remark(f"{shortened(path)} cannot be reached: {unreachable}. The storage shown is that of {shortened(nearest)}.")
    return nearest


def _reason_unreachable(path: str) -> str | None:
    """
    Return why a path cannot be reached; ``None`` where it can, and where asking might take for ever.
    """
    try:
        if not RealHost().may_wait(path):
            os.stat(path)
    except OSError as error:
        return printable(error.strerror or str(error))
    except ValueError:  # in other words with each Python
        return "it has a character that no path has"
    return None


def _nearest(path: str) -> str:
    """
    Return the nearest folder above a path, its links followed, that can be reached.
    """
    folder = os.sep
    for absolute in (os.path.abspath, os.path.realpath):
        with contextlib.suppress(OSError, ValueError):  # of a working directory that is gone, of a zero byte
            folder = absolute(path)
    while _reason_unreachable(folder) is not None and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder if os.path.isdir(folder) else os.path.dirname(folder)


def _record(file: str, path: str | None, *, full: bool, measure: bool) -> Any:
    from ..probe.private_names import private_names
    from ..probe.recording import Recorder
    from .record_file import write_record

    recorder = Recorder(RealHost())
    facts = probe_host(io=recorder, path=path, full=full, measure=measure)
    document, common = recorder.document(private_names(), path)
    write_record(file, json.dumps(document, indent=1, sort_keys=True) + "\n")
    why = "as it is a common word or short" if len(common) == 1 else "as they are common words or short"
    left = f", and {', '.join(map(shortened, common))} in home folders only, {why}" if common else ""
    remark(
        f"Recorded in {printable(file, None)}. Replaced are the names of this user and of this host{left}; folders of "
        "homes; servers of mounts; ids of containers, GPUs and file systems. Other words and paths are not: look "
        "through it before you send it."
    )
    return facts


def _replay(file: str, path: str | None, *, full: bool) -> Any:
    from ..probe.recording import ReplayedHost
    from .record_file import read_record, replay_error

    try:
        host = ReplayedHost(read_record(file))
    except (OSError, ValueError) as error:
        raise replay_error(file, error) from None
    place = host.path if path is None else path
    replayed: HostIO = host
    facts = probe_host(io=replayed, path=place, full=full, measure=("timed_reads", place) in host.unused)
    if path is not None and ("real_path", path) in host.unanswered:
        recorded = "the folder it ran in" if host.path is None else shortened(host.path)
        remark(
            f"{shortened(path)} is not in {shortened(file)}: its storage is unknown. Recorded was that of {recorded}."
        )
    return facts
