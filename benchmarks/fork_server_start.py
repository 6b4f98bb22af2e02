"""
How long the second iterator's workers take to their first batch, as a fraction of the first one's.

Both start two workers by the fork server, in a process of its own for each run; the fork server has torch loaded when
the second ones start. The same with plain torch, in turn, and the medians of all runs. The control is the third
iterator beside the second. Run it on an installed wheel: ``python -m tox run -e bench``.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from autoloader import auto_loader

MOST = 0.2
"""
What the second start may take of the first one.
"""

MAKERS: dict[str, Any] = {"autoloader": auto_loader, "torch": DataLoader}


class Numbers(Dataset[torch.Tensor]):
    """
    Sample *i* is *i*.
    """

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


def seconds_to_first_batch(loader: Any) -> float:
    """
    Return how long the first batch of a new iterator takes; the rest is fetched, too.
    """
    begun = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    seconds = time.perf_counter() - begun
    assert len(list(iterator)) == len(loader) - 1
    return seconds


def starts(maker: str) -> list[float]:
    """
    Return how long three iterators of one loader take, each with workers of its own.
    """
    settings = {"num_workers": 2, "multiprocessing_context": "forkserver", "persistent_workers": False}
    loader = MAKERS[maker](Numbers(), 8, **settings)
    return [seconds_to_first_batch(loader) for _ in range(3)]


def starts_in_new_process(maker: str) -> list[float]:
    """
    Return the same of a Python whose fork server does not run yet.
    """
    command = [sys.executable, "-m", "benchmarks.fork_server_start", "--only", maker]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return list(json.loads(done.stdout))


def measure(runs: int) -> dict[str, Any]:
    """
    Return the medians for autoloader and torch, and the ratios.
    """
    runs_of: dict[str, list[list[float]]] = {maker: [] for maker in MAKERS}
    for _ in range(runs):
        for maker, rows in runs_of.items():
            rows.append(starts_in_new_process(maker))
    result: dict[str, Any] = {"runs": runs, "most": MOST}
    for maker, rows in runs_of.items():
        first, second, third = (statistics.median(column) for column in zip(*rows, strict=True))
        result[maker] = {
            "first_seconds": first,
            "second_seconds": second,
            "ratio": second / first,
            "control_ratio": third / second,
        }
    return result


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=MAKERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    print(json.dumps(starts(options.only) if options.only else measure(options.runs), indent=2))


if __name__ == "__main__":
    main()
