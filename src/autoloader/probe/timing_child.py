"""
The child that times reads: it is ended when its time is over, and left behind where even that does not end it.

Only :class:`~autoloader.probe.host_io.RealHost` asks here.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..records import from_json
from .questions import TimedReads

PATIENCE_SECONDS = 6.0
"""
Half as much again as the child takes where every file answers at once. A disk that sleeps may need longer to turn.
"""

_KILLED_SECONDS = 0.5

PROGRAM = os.path.join(os.path.dirname(__file__), "timed_reads.py")


def ask(
    interpreter: str, path: str, program: Sequence[str] = ("-I", "-S", PROGRAM), patience: float = PATIENCE_SECONDS
) -> TimedReads | None:
    """
    Return what the child found until its time was over; ``None`` where it could not start or said nothing.

    Args:
        interpreter: The Python that runs the child.
        path: The file or folder to read.
        program: The interpreter's arguments before *path*.
        patience: Seconds.
    """
    output = _run([interpreter, *program, path], patience)
    if output is None:
        return None
    lines, is_over = output
    found = dict(pair for line in lines.splitlines() for pair in _parse(line).items())
    if is_over:
        found["problem"] = f"no answer in {patience:g} s"
    with contextlib.suppress(ValueError):
        return from_json(TimedReads, found) if found else None
    return None


def _parse(line: bytes) -> Mapping[str, Any]:
    """
    Return what one line says; nothing where it was cut off.
    """
    try:
        return dict(json.loads(line))
    except (TypeError, ValueError):
        return {}


def _run(command: Sequence[str], patience: float) -> tuple[bytes, bool] | None:
    """
    Return what a child printed, and whether its time was over before it ended.

    A read that nobody answers may go on after the child was killed: it is not waited for.
    """
    import subprocess

    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError):
        return None
    try:
        return child.communicate(timeout=patience)[0], False
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            return child.communicate(timeout=_KILLED_SECONDS)[0], True
        except subprocess.TimeoutExpired as left:
            return left.output or b"", True
    finally:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_KILLED_SECONDS)
        if child.stdout is not None:
            child.stdout.close()
