"""
Datasets for the loader's tests, in a module that a spawned worker can import.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    """
    Sample *i* is ``(i, scale)``.
    """

    def __init__(self, length: int = 40) -> None:
        self.length = length
        self.scale = 1

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, self.scale])


class Draws(Numbers):
    """
    Sample *i* is *i* and one draw from each global generator.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = [random.random(), float(np.random.rand()), torch.rand(1).item()]
        return torch.tensor([float(index), *drawn], dtype=torch.float64)


class Pids(Numbers):
    """
    Sample *i* is the number of the process that fetched it.
    """

    def __getitem__(self, index: int) -> int:
        return os.getpid()


class Masks(Numbers):
    """
    Sample *i* is the set of CPUs that the process which fetched it may use.
    """

    def __getitem__(self, index: int) -> set[int]:
        return os.sched_getaffinity(0)


class Failing(Numbers):
    """
    Raises at one index.
    """

    def __init__(self, length: int, at: int) -> None:
        super().__init__(length)
        self.at = at

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.at:
            raise KeyError(f"no sample {index}")
        return super().__getitem__(index)


class Asks(Numbers):
    """
    The samples of another dataset, each after a question that may not be answered in every thread.
    """

    def __init__(self, dataset: Numbers, question: Callable[[], object]) -> None:
        super().__init__(len(dataset))
        self.dataset = dataset
        self.question = question

    def __getitem__(self, index: int) -> torch.Tensor:
        self.question()
        return self.dataset[index]


class FromFile(Dataset):
    """
    Sample *i* is byte *i* of an open file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        self.file.seek(index)
        return self.file.read(1)[0]


class Unsized:
    """
    A map-style dataset without a length.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class ManyAtOnce(Numbers):
    """
    Fetches a batch in one call, and says what it was called with.
    """

    def __getitems__(self, indices: list[int]) -> list[str]:
        return [f"{type(indices).__name__}:{index}" for index in indices]


class Jpegs(Dataset):
    """
    Images of a folder, each as a tensor of shape ``(3, height, width)``.
    """

    def __init__(self, root: Path) -> None:
        self.paths = sorted(root.glob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        from PIL import Image

        with Image.open(self.paths[index]) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


class Stream(IterableDataset):
    """
    Yields the numbers below *length*, all of them in every worker.
    """

    def __init__(self, length: int = 20) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        yield from range(self.length)


class SharedStream(Stream):
    """
    Yields each number in one worker only.
    """

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        yield from range(info.id if info else 0, self.length, info.num_workers if info else 1)


class WorkerSeesMe(Numbers):
    """
    Sample *i* tells whether the worker's dataset is this very object, and of this class.
    """

    def __getitem__(self, index: int) -> bool:
        info = get_worker_info()
        return info is not None and info.dataset is self


def add_hundred(samples: list[torch.Tensor]) -> torch.Tensor:
    """
    Be a collate function of the user's.
    """
    return torch.stack(samples) + 100


def seed_by_numpy(worker_id: int) -> None:
    """
    Be a worker_init_fn that seeds by itself.
    """
    np.random.seed(1000 + worker_id)
