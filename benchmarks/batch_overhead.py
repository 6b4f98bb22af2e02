"""
What autoloader adds to each batch of in-memory tensors, beside a plain DataLoader with the same settings.

They go through the same dataset in turn, in one process; a sample is a slice of a tensor, so that almost nothing hides
what is added. There is a plain DataLoader made before and one made after: workers that start later were seen to be up
to 4 % faster, so ours is compared with the mean of the two, and the control is half of their difference. Medians of the
rounds' differences, without workers and with two; the bar is 2 % or 3 microseconds, whichever is larger. On an
installed wheel: ``python -m tox run -e bench``.
"""

import argparse
import gc
import json
import statistics
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from autoloader import auto_loader

MOST_FRACTION = 0.02
MOST_SECONDS = 3e-6
BATCH_SIZE = 64


def seconds_a_batch(loader: Any) -> float:
    """
    Return how long a batch takes, on average over one epoch; the first one, with which workers start, apart.
    """
    iterator = iter(loader)
    next(iterator)
    begun, count = time.perf_counter(), 0
    for _ in iterator:
        count += 1
    return (time.perf_counter() - begun) / count


def measure(settings: dict[str, Any], batches: int, runs: int) -> dict[str, Any]:
    """
    Return the medians for one choice of settings.
    """
    dataset = TensorDataset(torch.randn(batches * BATCH_SIZE, 8), torch.arange(batches * BATCH_SIZE))
    makers: list[Any] = [DataLoader, auto_loader, DataLoader]
    loaders = [make(dataset, BATCH_SIZE, **settings) for make in makers]
    for loader in loaders:
        seconds_a_batch(loader)
    rows = []
    gc.disable()
    for run in range(runs):
        order = [(run + place) % 3 for place in range(3)]
        row = {place: seconds_a_batch(loaders[place]) for place in order}
        rows.append([row[place] for place in range(3)])
        gc.collect()
    gc.enable()
    loaders[1].close()
    plain = statistics.median((first + last) / 2 for first, _, last in rows)
    added = statistics.median(ours - (first + last) / 2 for first, ours, last in rows)
    return {
        "plain_microseconds": plain * 1e6,
        "added_microseconds": added * 1e6,
        "control_microseconds": statistics.median((last - first) / 2 for first, _, last in rows) * 1e6,
        "added_fraction": added / plain,
        "most_microseconds": max(MOST_SECONDS, MOST_FRACTION * plain) * 1e6,
    }


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--batches", type=int, default=400)
    options = parser.parse_args()
    workers: dict[str, Any] = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "fork"}
    found = {
        "chosen": measure({}, options.batches, options.runs),
        "num_workers=0": measure({"num_workers": 0}, options.batches, options.runs),
        "num_workers=2": measure(workers, options.batches, options.runs),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
