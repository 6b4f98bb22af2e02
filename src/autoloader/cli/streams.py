"""
Standard output and standard error, which may be closed, full, or a pipe that nobody reads.
"""

import contextlib
import io
import os
import sys
from typing import Any


def prepare() -> None:
    """
    Let both streams show any name: one that a stream cannot show is no reason to fail.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def remark(text: str) -> None:
    """
    Write a line to standard error; where it takes none, nothing is wrong with what the command does.
    """
    if sys.stderr is not None:
        try:
            print(text, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            silence(sys.stderr)


def silence(stream: Any) -> None:
    """
    Lead a stream nowhere: what it still holds cannot be written at the end, either.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        target = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, target)
        os.close(nowhere)


def flush() -> None:
    """
    Write what standard output still holds, and what standard error does where it takes it.

    Raises:
        OSError: Standard output does not take it.
    """
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            silence(sys.stderr)
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            silence(sys.stdout)
            raise
