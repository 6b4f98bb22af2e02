"""
What one more forked worker adds to the time to the first batch, and how that grows with the memory of the process.

Workers of a plain DataLoader are forked, of two numbers in turn, from a process of its own for each amount of memory.
The constants of autoloader.policy.model are what this prints, rounded.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from torch.utils.data import DataLoader

FEW, MANY = 2, 10
GIB = 1 << 30


def seconds_to_first_batch(workers: int) -> float:
    """
    Return how long the first batch of so many new workers takes.
    """
    loader = DataLoader(list(range(1000)), 8, num_workers=workers, multiprocessing_context="fork")
    begun = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    seconds = time.perf_counter() - begun
    del iterator
    return seconds


def of_this_process(runs: int) -> dict[str, float]:
    """
    Return the anonymous memory of this process in GiB, and the median of what a worker takes.
    """
    with open("/proc/self/status", encoding="ascii") as status:
        (kib,) = (int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    pairs = [(seconds_to_first_batch(FEW), seconds_to_first_batch(MANY)) for _ in range(runs)]
    each = statistics.median((many - few) / (MANY - FEW) for few, many in pairs)
    return {"gib": kib / (1 << 20), "seconds": each}


def of_another(gib: int, runs: int) -> dict[str, float]:
    """
    Return the same of a process that holds so many GiB more.
    """
    command = [sys.executable, "-m", "benchmarks.fork_start", "--runs", str(runs), "--hold", str(gib)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's, of more workers than CPUs
    if options.hold is not None:
        held = torch.ones(options.hold * GIB, dtype=torch.uint8)
        print(json.dumps(of_this_process(options.runs)))
        del held
        return
    small, large = (of_another(gib, options.runs) for gib in (0, 2))
    by_gib = (large["seconds"] - small["seconds"]) / (large["gib"] - small["gib"])
    found: dict[str, Any] = {"seconds": small["seconds"] - by_gib * small["gib"], "seconds_per_gib": by_gib}
    print(json.dumps({**found, "runs": options.runs, "processes": [small, large]}, indent=2))


if __name__ == "__main__":
    main()
