"""
The command line: one module for each command; the only place that prints.
"""

import argparse
import contextlib
import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__
from ..errors import AutoloaderError
from . import streams

COMMANDS = {
    "probe": "show what this host is, as far as loading data is concerned",
    "plan": "show the settings for a dataset, each with its reason",
    "calibrate": "measure a dataset, and find its best settings by trying them",
    "cache": "show or clear what is kept between runs",
    "check": "find in source what goes wrong in worker processes, without running it",
    "demo": "train on real JPEG files with three loaders, and show which was how fast",
}
"""
The module of each command, which is imported when the command is used, and what it does.
"""

_USAGE = 2
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """
    A parser whose errors end with 2 also where standard error takes nothing; those of Python 3.10 and 3.11 fail there.
    """

    def error(self, message: str) -> NoReturn:
        """
        Say how the command is used, and what is wrong.
        """
        streams.remark(f"{self.format_usage()}{self.prog}: error: {message}")
        raise SystemExit(_USAGE)


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit code.
    """
    words = sys.argv[1:] if argv is None else argv
    is_debug = "--debug" in words
    streams.prepare()
    try:
        return _run(words)
    except AutoloaderError as error:
        if is_debug:
            raise
        streams.remark(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):
            streams.flush()
        return INTERRUPTED
    except OSError as error:
        if is_debug:
            raise
        streams.silence(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return 0
        what = "The output cannot be written" if error.filename is None else f"{error.filename!r} cannot be used"
        streams.remark(f"error: {what}: {error.strerror or error}. Free some space, or write somewhere else.")
        return 1


def _run(words: Sequence[str]) -> int:
    """
    Run the command that *words* name, and write all that it printed; so, too, where the parser ends it.

    Without words the help goes to standard error.
    """
    try:
        parser = _parser(words)
        if not words:
            streams.remark(parser.format_help().rstrip())
            return _USAGE
        arguments = parser.parse_args(words)
        code = int(arguments.run(arguments))
    except SystemExit:
        streams.flush()
        raise
    streams.flush()
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """
    Return the parser, which knows the options of the commands that *words* name.
    """
    style: dict[str, Any] = {"formatter_class": functools.partial(argparse.HelpFormatter, width=100)}
    purpose = "DataLoader settings that fit this machine and this dataset."
    parser = _Parser(prog="python -m autoloader", description=purpose, **style)
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
