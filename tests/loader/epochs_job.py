"""
A script for the test that nothing grows: ``epochs_job.py METHOD EPOCHS`` prints what the process holds, as JSON.
"""

import json
import multiprocessing
import os
import sys
import threading
from pathlib import Path

import torch
from torch.utils.data import Dataset

from autoloader import auto_loader


class Few(Dataset):
    """
    Eight small samples.
    """

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((64,), index)


def resident_bytes(pid: int) -> int:
    """
    Return the resident memory of a process.
    """
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def holdings() -> dict[str, object]:
    """
    Return what this process and its workers hold now.
    """
    workers = sorted(process.pid or 0 for process in multiprocessing.active_children())
    return {
        "workers": workers,
        "files": len(os.listdir("/proc/self/fd")),
        "files of workers": [len(os.listdir(f"/proc/{pid}/fd")) for pid in workers],
        "threads": threading.active_count(),
        "threads of workers": [len(os.listdir(f"/proc/{pid}/task")) for pid in workers],
        "resident": [resident_bytes(pid) for pid in (os.getpid(), *workers)],
        "shared": sorted(os.listdir("/dev/shm")),
    }


def main() -> None:
    """
    Go through the epochs, and note what is held after a tenth of them and after all.
    """
    method, epochs = sys.argv[1], int(sys.argv[2])
    multiprocessing.set_start_method(method)
    with auto_loader(Few(), batch_size=2, num_workers=2, persistent_workers=True) as loader:
        for epoch in range(epochs):
            assert torch.cat([batch[:, 0] for batch in loader]).tolist() == list(range(8))
            if epoch == epochs // 10:
                early = holdings()
        print(json.dumps([early, holdings()]))


if __name__ == "__main__":
    main()
