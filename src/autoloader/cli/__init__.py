"""
The command line: one module for each command; the only place that prints.
"""

import argparse
import functools
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..errors import AutoloaderError

COMMANDS = {
    "probe": "show what this host is, as far as loading data is concerned",
    "plan": "show the settings for a dataset, each with its reason",
    "check": "find in source what goes wrong in worker processes, without running it",
    "demo": "train on real JPEG files with three loaders, and show which was how fast",
}
"""
The module of each command, which is imported when the command is used, and what it does.
"""

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit code.
    """
    words = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the stream cannot show is no reason to fail
    arguments = _parser(words).parse_args(words)
    try:
        code = int(arguments.run(arguments))
        print(end="", flush=True)
    except AutoloaderError as error:
        if arguments.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if arguments.debug:
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # what is left cannot be written at the end, either
        if isinstance(error, BrokenPipeError):
            return 0
        print(f"error: {error}. Free some space, or write somewhere else.", file=sys.stderr)
        return 1
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """
    Return the parser, which knows the options of the commands that *words* name.
    """
    style: dict[str, Any] = {"formatter_class": functools.partial(argparse.HelpFormatter, width=100)}
    purpose = "DataLoader settings that fit this machine and this dataset."
    parser = argparse.ArgumentParser(prog="python -m autoloader", description=purpose, **style)
    parser.add_argument("--version", action="version", version=f"torch-autoloader {__version__}")
    traceback = "show the traceback of an error"
    parser.add_argument("--debug", action="store_true", help=traceback)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", prog=parser.prog)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", **style)
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=traceback)
        if name in words:
            command = importlib.import_module(f".{name}", __name__)
            command.add_arguments(sub)
            sub.set_defaults(run=command.run)
    return parser
