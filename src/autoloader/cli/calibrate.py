"""
Measure a dataset, try settings for real, and show which is best, how far it is from what is possible, and why.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from ..findings import describe
from . import streams
from .plan import add_loader_arguments, check_batch_size, order_for
from .target import load_dataset, require_torch

if TYPE_CHECKING:
    from ..calibration import Calibration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    add_loader_arguments(parser)
    parser.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="what all of it may take (default: 20, and 5 %% of a training of 3,000 batches)",
    )
    parser.add_argument("--json", action="store_true", help="print all that was measured, and the plan, as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the curve into FILE.png or FILE.svg")


def run(arguments: argparse.Namespace) -> int:
    """
    Print what was found for the dataset that TARGET returns.
    """
    require_torch("'calibrate'")
    from ..loader import AutoLoader
    from ..loader.calibrating import calibrate_loader
    from ..report.calibration import render_calibration

    check_batch_size(arguments.batch_size)
    if arguments.plot is not None:
        _check_plot(arguments.plot)
    with _prints_on_stderr():
        dataset = load_dataset(arguments.target)
        loader: AutoLoader[Any] = AutoLoader(
            dataset, arguments.batch_size, **order_for(dataset), epochs=arguments.epochs
        )
        with _progress() as progress:
            found = calibrate_loader(loader, budget_seconds=arguments.budget, progress=progress)
    print(found.to_json() if arguments.json else render_calibration(found))
    if arguments.plot is not None:
        _plot(found, arguments.plot)
    return 0


@contextlib.contextmanager
def _prints_on_stderr() -> Iterator[None]:
    """
    Lead to stderr what a dataset prints, in this process and in those that it starts: stdout is for the answer.
    """
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as ending:
        with contextlib.suppress(OSError):  # one of them is closed
            kept = os.dup(1)
            ending.callback(os.close, kept)
            os.dup2(2, 1)
            ending.callback(os.dup2, kept, 1)
        yield


def _check_plot(path: Path) -> None:
    """
    Refuse, before anything is measured, what could not be drawn.

    Raises:
        ArgumentError: The file has another ending, or matplotlib is missing.
        OSError: It cannot be written.
    """
    if path.suffix.lower() not in {".png", ".svg"}:
        raise ArgumentError(describe("calibration.plot-ending", path=str(path)))
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise ArgumentError(describe("calibration.plot-missing", reason=error, python=sys.executable)) from None
    was_there = path.exists()
    path.open("ab").close()
    if not was_there:
        path.unlink()


def _plot(found: "Calibration", path: Path) -> None:
    from ..report.plot import plot_calibration

    plot_calibration(found, path)
    streams.remark(f"drawn: {path}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """
    Show what is being measured on stderr, if that is a terminal.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("measuring") as status:
        yield lambda what: status.update(f"measuring: {what} (Ctrl-C ends with what is known)")
