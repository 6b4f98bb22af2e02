"""
Runs the full matrix and writes its page: ``python -m tests.matrix``, some twenty minutes on two CPUs.
"""

import argparse
import datetime as dt
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path

import torch

from .expected import DATASETS, METHODS, SITUATIONS, VARIANTS, Cell, Variant
from .page import ABOUT, tables
from .running import Run, run_cells, why_not

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "start-matrix.md"
PROCESSES = min(2, os.cpu_count() or 1)

Runs = dict[tuple[Cell, Variant], Run]


def main() -> int:
    """
    Run what is asked for, and write the page where that is everything. Return 1 where a cell is not as expected.
    """
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.matrix")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--situations", nargs="+", choices=SITUATIONS, default=SITUATIONS)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    asked = parser.parse_args()
    begun, runs = time.monotonic(), _run(asked.methods, asked.situations, asked.datasets, begun=time.monotonic())
    failed = {key: run for key, run in runs.items() if run.complaints}
    for (cell, variant), run in failed.items():
        print(f"\n=== {cell.id} ({variant}): {run.complaints}\n{run.output}")
    print(f"{len(runs)} runs, {len(failed)} not as expected, {time.monotonic() - begun:.0f} s in all")
    if len(runs) == len(METHODS) * len(SITUATIONS) * len(DATASETS) * len(VARIANTS):
        PAGE.write_text(f"{ABOUT}\n{_where(len(runs))}\n\n{tables(lambda *key: runs[key].shown)}", encoding="utf-8")
        print(f"written: {PAGE}")
    return 1 if failed else 0


def _run(methods: list[str], situations: list[str], datasets: list[str], *, begun: float) -> Runs:
    """
    Run each method in each situation, two at a time, with a line for each one that is done.
    """
    groups, runs = list(product(methods, situations)), Runs()
    with ThreadPoolExecutor(PROCESSES) as pool:
        waiting = {}
        for method, situation in groups:
            reason = why_not(situation)
            if reason is None:
                waiting[pool.submit(run_cells, method, situation, datasets, VARIANTS)] = method, situation
            else:
                print(f"left out: {method}, {situation}: {reason}", flush=True)
        for number, future in enumerate(as_completed(waiting), 1):
            method, situation = waiting[future]
            done = {
                (Cell(method, dataset, situation), variant): run for (dataset, variant), run in future.result().items()
            }
            runs.update(done)
            failed = [f"{cell.dataset} ({variant})" for (cell, variant), run in done.items() if run.complaints]
            verdict = f"not as expected: {', '.join(failed)}" if failed else "as expected"
            spent = f"{time.monotonic() - begun:5.0f} s"
            print(f"{spent}  {number}/{len(waiting)}  {method}, {situation}: {verdict}", flush=True)
    return runs


def _where(runs: int) -> str:
    """
    Return the line that says what was run, where and when.
    """
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    return f"{runs} runs with Python {platform.python_version()} and torch {torch.__version__} on Linux, {today}."


if __name__ == "__main__":
    sys.exit(main())
