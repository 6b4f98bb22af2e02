"""
Show what this host is, as far as loading data is concerned.
"""

import argparse
import json
import sys
from typing import Any

from ..errors import ArgumentError
from ..findings import describe
from ..probe import HostIO, RealHost, probe_host
from ..records import to_json
from ..report import render_every_fact, render_facts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    parser.add_argument("--json", action="store_true", help="print every fact with its source, as JSON")
    parser.add_argument("--path", metavar="DIR", help="where the data is (default: the current folder)")
    parser.add_argument(
        "--full", action="store_true", help="show every fact with its source, and those that take seconds to find out"
    )
    host = parser.add_mutually_exclusive_group()
    host.add_argument("--record", metavar="FILE", help="write what this host answered, to send with a bug report")
    host.add_argument("--replay", metavar="FILE", help="show the host whose answers such a file holds")


def run(arguments: argparse.Namespace) -> int:
    """
    Print the facts.
    """
    if arguments.record is not None:
        facts = _record(arguments.record, arguments.path, full=arguments.full)
    else:
        io = RealHost() if arguments.replay is None else _replayed(arguments.replay)
        facts = probe_host(io=io, path=arguments.path, full=arguments.full)
    render = render_every_fact if arguments.full else render_facts
    print(json.dumps(to_json(facts), indent=2) if arguments.json else render(facts))
    return 0


def _record(file: str, path: str | None, *, full: bool) -> Any:
    from ..probe.host_io import private_names
    from ..probe.recording import Recorder

    recorder = Recorder(RealHost())
    facts = probe_host(io=recorder, path=path, full=full)
    text = json.dumps(recorder.document(private_names()), indent=1, sort_keys=True)
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArgumentError(describe("record.unwritable", path=file, reason=reason)) from None
    print(f"Recorded in {file}. It holds paths of this machine; look through it before you send it.", file=sys.stderr)
    return facts


def _replayed(file: str) -> HostIO:
    from ..probe.recording import ReplayedHost

    try:
        with open(file, encoding="utf-8") as stream:
            return ReplayedHost(json.load(stream))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArgumentError(describe("record.unreadable", path=file, reason=reason)) from None
