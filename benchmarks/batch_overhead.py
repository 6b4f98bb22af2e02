"""
What autoloader adds to each batch of in-memory tensors, beside a plain DataLoader with the same settings.

They go through the same dataset in turn, in one process; a sample is a slice of a tensor, so that almost nothing hides
what is added. There is a plain DataLoader made before and one made after: workers that start later were seen to be up
to 4 % faster, so ours is compared with the mean of the two, and the control is half of their difference.

Two loaders of the same kind differ by up to 5 % for as long as they live, however many rounds they run: where their
processes' memory lies is settled when they start. So each set of three runs a few rounds in a process of its own, with
the settings that autoloader chooses, without workers, and with two. What is printed is the median over the sets of the
medians of their rounds, and its interval; the bar is 2 % or 3 microseconds, whichever is larger.

CPU time is that of the process and its workers, per batch: it changes little with what else runs. The times on the
clock need a machine on which nothing else does; ``other_cpus`` tells how many CPUs were used by others meanwhile. On an
installed wheel: ``python -m tox run -e bench``.
"""

import argparse
import gc
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psutil
import torch
from torch.utils.data import DataLoader, TensorDataset

from autoloader import auto_loader

from .paired import median_with_interval

MOST_FRACTION = 0.02
MOST_SECONDS = 3e-6
BATCH_SIZE = 64
MAKERS: tuple[Any, ...] = (DataLoader, auto_loader, DataLoader)
SETTINGS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "num_workers=0": {"num_workers": 0},
    "num_workers=2": {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "fork"},
}


class Pass(NamedTuple):
    """
    What a batch took, on average over one epoch.
    """

    seconds: float
    cpu_seconds: float
    other_cpus: float
    """CPUs that other processes used meanwhile."""


class Contestant:
    """
    A loader that has run one epoch, and its workers.
    """

    def __init__(self, loader: Any) -> None:
        before = set(multiprocessing.active_children())
        self.loader = loader
        self._workers: list[psutil.Process] = []
        self.run()
        self._workers = [psutil.Process(each.pid) for each in set(multiprocessing.active_children()) - before]

    def run(self) -> Pass:
        """
        Return what a batch takes in one epoch; the first one, with which workers start, apart.
        """
        iterator = iter(self.loader)
        next(iterator)
        cpu_before, busy_before, count = self._cpu_seconds(), busy_seconds(), 0
        begun = time.perf_counter()
        for _ in iterator:
            count += 1
        seconds = time.perf_counter() - begun
        cpu_seconds = self._cpu_seconds() - cpu_before
        others = (busy_seconds() - busy_before - cpu_seconds) / seconds
        return Pass(seconds / count, cpu_seconds / count, others)

    def _cpu_seconds(self) -> float:
        return time.process_time() + sum(sum(worker.cpu_times()[:2]) for worker in self._workers)


def busy_seconds() -> float:
    """
    Return for how long all CPUs together have been used.
    """
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def run_set(settings: dict[str, Any], batches: int, runs: int) -> list[list[Pass]]:
    """
    Return what one set of loaders took: plain, ours, plain, in each round.
    """
    dataset = TensorDataset(torch.randn(batches * BATCH_SIZE, 8), torch.arange(batches * BATCH_SIZE))
    contestants = [Contestant(make(dataset, BATCH_SIZE, **settings)) for make in MAKERS]
    rows = []
    gc.disable()
    for run in range(runs):
        order = [(run + place) % 3 for place in range(3)]
        row = {place: contestants[place].run() for place in order}
        rows.append([row[place] for place in range(3)])
        gc.collect()
    gc.enable()
    contestants[1].loader.close()
    return rows


def run_sets(sets: int, batches: int, runs: int) -> dict[str, list[list[list[Pass]]]]:
    """
    Return what all sets took, each in a process of its own, by the name of their settings.
    """
    command = [sys.executable, "-m", "benchmarks.batch_overhead", "--one", f"--batches={batches}", f"--runs={runs}"]
    found: dict[str, list[list[list[Pass]]]] = {name: [] for name in SETTINGS}
    for _ in range(sets):
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        for name, rows in json.loads(ran.stdout).items():
            found[name].append([[Pass(*values) for values in row] for row in rows])
    return found


def added(first: float, ours: float, last: float) -> float:
    """
    Return what ours takes longer than the mean of the other two.
    """
    return ours - (first + last) / 2


def control(first: float, _: float, last: float) -> float:
    """
    Return what would be added if ours were one of the others.
    """
    return (last - first) / 2


def summary(sets: Sequence[Sequence[Sequence[Pass]]]) -> dict[str, Any]:
    """
    Return the medians for one choice of settings.
    """
    clock = [[[each.seconds * 1e6 for each in row] for row in rows] for rows in sets]
    ours = median_with_interval([statistics.median(added(*row) for row in rows) for rows in clock])
    same = median_with_interval([statistics.median(control(*row) for row in rows) for rows in clock])
    plain = statistics.median((row[0] + row[2]) / 2 for rows in clock for row in rows)
    cpu = [[each.cpu_seconds * 1e6 for each in row] for rows in sets for row in rows]
    return {
        "plain_microseconds": plain,
        "added_microseconds": ours.value,
        "added_microseconds_interval": [ours.low, ours.high],
        "control_microseconds": same.value,
        "control_microseconds_interval": [same.low, same.high],
        "added_fraction": ours.value / plain,
        "most_microseconds": max(MOST_SECONDS * 1e6, MOST_FRACTION * plain),
        "plain_cpu_microseconds": statistics.fmean((row[0] + row[2]) / 2 for row in cpu),
        "added_cpu_microseconds": statistics.fmean(added(*row) for row in cpu),
        "other_cpus": statistics.fmean(each.other_cpus for rows in sets for row in rows for each in row),
    }


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--one", action="store_true", help="print the rounds of one set, for the process that asks")
    options = parser.parse_args()
    found: dict[str, Any]
    if options.one:
        found = {name: run_set(settings, options.batches, options.runs) for name, settings in SETTINGS.items()}
    else:
        sets = run_sets(options.sets, options.batches, options.runs)
        found = {name: summary(rows) for name, rows in sets.items()}
    print(json.dumps(found, indent=None if options.one else 2))


if __name__ == "__main__":
    main()
