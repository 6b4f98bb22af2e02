"""
The command line: one module for each command; the only place that prints.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import AutoloaderError
from . import demo, plan, probe

COMMANDS = (probe, plan, demo)
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit code.
    """
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except AutoloaderError as error:
        if arguments.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m autoloader", description="DataLoader settings that fit this machine and this dataset."
    )
    parser.add_argument("--version", action="version", version=f"torch-autoloader {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        summary = (command.__doc__ or "").strip().partition("\n")[0]
        sub = commands.add_parser(command.NAME, parents=[common], help=summary, description=summary)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser
