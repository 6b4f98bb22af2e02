"""
A loop that is left early: workers finish the batch in progress, and begin no other one.
"""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from autoloader import auto_loader

PATIENCE_SECONDS = 60


class Gated(Dataset):
    """
    Sample 0 comes at once; every other one waits for a file. Each leaves a file when it begins.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        (self.folder / f"begun-{index}").touch()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while index and not (self.folder / "open").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        return torch.tensor(index)


def begun(folder: Path) -> set[int]:
    """
    Return the samples whose loading has begun.
    """
    return {int(path.name.partition("-")[2]) for path in folder.glob("begun-*")}


@pytest.mark.slow_spawn
@pytest.mark.parametrize("drop", ["close", "del"])
def test_workers_begin_no_batch_after_the_loop_was_left(drop: str, tmp_path: Path) -> None:
    """
    Sixteen batches are issued; the two that are in progress are all that is loaded after the first.
    """
    loader = auto_loader(Gated(tmp_path), 1, num_workers=2, prefetch_factor=8)
    iterator: Any = iter(loader)
    assert next(iterator).tolist() == [0]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while begun(tmp_path) != {0, 1, 2} and time.monotonic() < deadline:
        time.sleep(0.005)
    is_done = iterator.source._workers_done_event.is_set

    def open_the_gate() -> None:
        while not is_done() and time.monotonic() < deadline:
            time.sleep(0.005)
        (tmp_path / "open").touch()

    helper = threading.Thread(target=open_the_gate)
    helper.start()
    if drop == "close":
        loader.close()
    del iterator
    helper.join()
    assert begun(tmp_path) == {0, 1, 2}
