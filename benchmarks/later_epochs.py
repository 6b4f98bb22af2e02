"""
How long the first batch of the second and later epochs takes, as a fraction of a plain DataLoader's.

The dataset opens something in each worker when it is first asked for a sample, which takes half a second, as a large
file or a connection may. A plain DataLoader's workers open it anew in each epoch; ours stay. Seven epochs of each, in
turn, and the median over all but the first. The control is a second plain DataLoader. On an installed wheel:
``python -m tox run -e bench``.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from autoloader import auto_loader

MOST = 0.15
"""
What the first batch of a later epoch may take of a plain DataLoader's.
"""

OPENING_SECONDS = 0.5


class Opens(Dataset[torch.Tensor]):
    """
    Sample *i* is *i*; the first one in each process takes its time.
    """

    def __init__(self) -> None:
        self.is_open = False

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if not self.is_open:
            time.sleep(OPENING_SECONDS)
            self.is_open = True
        return torch.tensor(index)


def first_batch_seconds(loader: Any) -> float:
    """
    Return how long the first batch of an epoch takes; the others are fetched, too.
    """
    begun = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    seconds = time.perf_counter() - begun
    assert len(list(iterator)) == len(loader) - 1
    return seconds


def measure(epochs: int) -> dict[str, Any]:
    """
    Return the medians and their ratios.
    """
    plan = auto_loader(Opens(), 8, prefetch_factor=2).plan
    ours = auto_loader(Opens(), 8, plan=plan)
    plain, control = (DataLoader(Opens(), 8, num_workers=ours.num_workers) for _ in range(2))
    rows, pids = [], set()
    for _ in range(epochs):
        ours_seconds = first_batch_seconds(ours)
        pids.add(frozenset(child.pid for child in multiprocessing.active_children()))
        rows.append((ours_seconds, first_batch_seconds(plain), first_batch_seconds(control)))
    ours.close()
    mine, theirs, again = (statistics.median(column) for column in zip(*rows[1:], strict=True))
    return {
        "epochs": epochs,
        "workers": ours.num_workers,
        "sets_of_workers": len(pids),
        "first_batch_seconds": mine,
        "plain_first_batch_seconds": theirs,
        "ratio": mine / theirs,
        "control_ratio": again / theirs,
        "most": MOST,
    }


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=7)
    options = parser.parse_args()
    print(json.dumps(measure(options.epochs), indent=2))


if __name__ == "__main__":
    main()
