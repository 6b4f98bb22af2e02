"""
A training script for the tests of endings: ``sleepy_job.py METHOD AFTER HOW``.

Samples from number AFTER on sleep for an hour. HOW is ``loop`` (wait for them), ``close`` (close after the first batch,
and print the seconds that took) or ``exit`` (end the script after the first batch, the iterator still there).
"""

import multiprocessing
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset

from autoloader import auto_loader


class Sleepy(Dataset):
    """
    Sample *i* is *i*, at once or never.
    """

    def __init__(self, after: int) -> None:
        self.after = after

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index >= self.after:
            Path(os.environ["ASLEEP"], str(os.getpid())).touch()
            time.sleep(3600)
        return torch.tensor(index)


def main() -> None:
    """
    Print ``ready`` after the first batch, and go on as told.
    """
    method, after, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    multiprocessing.set_start_method(method)
    workers = 4 if how == "close" else 2
    loader = auto_loader(Sleepy(after), batch_size=4, num_workers=workers)
    iterator = iter(loader)
    next(iterator)
    while how != "exit" and len(os.listdir(os.environ["ASLEEP"])) < workers:
        time.sleep(0.01)
    print("ready", flush=True)
    if how == "close":
        begun = time.monotonic()
        loader.close()
        print(time.monotonic() - begun, flush=True)
    elif how == "loop":
        list(iterator)


if __name__ == "__main__":
    main()
