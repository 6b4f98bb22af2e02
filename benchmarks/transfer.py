"""
What the training process spends on taking over a batch that waits for it, and how that grows with the tensors in it.

A worker of a plain DataLoader sends tensors of a few bytes, faster than a training that sleeps for its step asks for
them. The constants of autoloader.engine.sending are what this prints, rounded: for a batch without tensors, and for
each tensor by torch's sharing strategy.
"""

import argparse
import json
import statistics
import time
from typing import Any

import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset

FEW, MANY = 2, 10
BATCHES, FIRST_BATCHES = 200, 20
STEP_SECONDS = 0.005


class Tensors(Dataset[Any]):
    """
    Samples of so many new tensors.
    """

    def __init__(self, tensors: int) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> Any:
        return [torch.zeros(8) for _ in range(self.tensors)]


def seconds_to_take_over(tensors: int) -> float:
    """
    Return the median of what ``next`` takes for a batch of so many tensors.
    """
    loader = DataLoader(Tensors(tensors), None, num_workers=1, prefetch_factor=4, multiprocessing_context="fork")
    taken, iterator = [], iter(loader)
    for _ in range(BATCHES):
        time.sleep(STEP_SECONDS)
        begun = time.perf_counter()
        next(iterator)
        taken.append(time.perf_counter() - begun)
    del iterator
    return statistics.median(taken[FIRST_BATCHES:])


def by_strategy(strategy: str, runs: int) -> dict[str, float]:
    """
    Return the medians of what a batch without tensors takes, and of what each further tensor adds.
    """
    torch.multiprocessing.set_sharing_strategy(strategy)
    rounds = [[seconds_to_take_over(tensors) for tensors in (0, FEW, MANY)] for _ in range(runs)]
    return {
        "seconds": statistics.median(none for none, _, _ in rounds),
        "seconds_per_tensor": statistics.median((many - few) / (MANY - FEW) for _, few, many in rounds),
    }


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    strategies = sorted(torch.multiprocessing.get_all_sharing_strategies())
    print(json.dumps({"runs": runs, **{name: by_strategy(name, runs) for name in strategies}}, indent=2))


if __name__ == "__main__":
    main()
