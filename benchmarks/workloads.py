"""
What is loaded, how, and by whom: one :class:`Workload` a row of the report.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import datasets, files

SEED = 20_261_130

Consumer = Callable[[Any], None]


def take_nothing() -> Consumer:
    """
    Return a consumer that lets each batch go at once: loading is all there is.
    """
    return lambda _batch: None


def train_convolution() -> Consumer:
    """
    Return a consumer that takes one training step of a small convolution on the CPU with each batch of images.
    """
    torch.manual_seed(SEED)
    pooled = torch.nn.AdaptiveAvgPool2d(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, 2), pooled)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(batch: Any) -> None:
        optimizer.zero_grad()
        model(batch[0]).square().mean().backward()
        optimizer.step()

    return step


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """
    A dataset, its loader's own arguments, and what takes the batches.
    """

    name: str
    """What the report and ``--only`` call it."""
    make_dataset: Callable[[int, Path], Any]
    """Makes the dataset of so many samples, with its files in a folder, where they stay for the next run."""
    loader_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that are the workload's, ``batch_size`` among them, whoever chooses the settings."""
    consumer: Callable[[], Consumer] = take_nothing
    """Makes what is called with each batch."""
    batches: int
    """Batches an epoch; 1 or more."""
    epochs: int = 1
    """Passes over the dataset with one loader; 1 or more."""
    quick_batches: int = 8
    """Batches an epoch in a quick run; no more than *batches*."""

    @property
    def batch_size(self) -> int:
        """
        Return the samples a batch.
        """
        return int(self.loader_arguments["batch_size"])


def _seeded(make: Callable[..., Any], **arguments: Any) -> Callable[[int, Path], Any]:
    """
    Return a maker of a dataset that needs no files.
    """
    return partial(_in_memory, make, arguments)


def _in_memory(make: Callable[..., Any], arguments: Mapping[str, Any], samples: int, _folder: Path) -> Any:
    return make(samples, SEED, **arguments)


def _volumes(samples: int, folder: Path) -> datasets.Volumes:
    return datasets.Volumes(samples, SEED, files.make_volumes(folder / "volumes", 8, SEED))


def _lmdb(samples: int, folder: Path) -> datasets.Lmdb:
    return datasets.Lmdb(samples, SEED, files.make_lmdb(folder / f"{samples}.lmdb", samples, SEED))


def _hdf5(samples: int, folder: Path) -> datasets.Hdf5:
    return datasets.Hdf5(samples, SEED, files.make_hdf5(folder / f"{samples}.h5", samples, SEED))


def _workload(name: str, make: Callable[[int, Path], Any], batch_size: int, batches: int, **other: Any) -> Workload:
    """
    Return a workload that is shuffled, as in training, unless it says otherwise.
    """
    arguments = {"batch_size": batch_size, "shuffle": True, **other.pop("arguments", {})}
    return Workload(name=name, make_dataset=make, loader_arguments=arguments, batches=batches, **other)


WORKLOADS: tuple[Workload, ...] = (
    _workload("small-tensors", _seeded(datasets.small_tensors), 64, 400, quick_batches=200),
    _workload("latency-5ms", _seeded(datasets.Latency, seconds=0.005), 16, 24),
    _workload("jpeg-256", _seeded(datasets.JpegImages, pixels=256), 32, 24),
    _workload("many-short-epochs", _seeded(datasets.Latency, seconds=0.001), 8, 6, epochs=12, quick_batches=6),
    _workload("shards", _seeded(datasets.Shards), 16, 30, quick_batches=12, arguments={"shuffle": False}),
    _workload("first-access", _seeded(datasets.FirstAccess), 16, 60, quick_batches=20),
    _workload("text", _seeded(datasets.Text), 16, 30),
    _workload("training", _seeded(datasets.JpegImages, pixels=256), 16, 24, consumer=train_convolution),
    _workload("memory-images", _seeded(datasets.MemoryImages), 32, 40, quick_batches=20),
    _workload("latency-1ms", _seeded(datasets.Latency, seconds=0.001), 32, 40, quick_batches=20),
    _workload("latency-20ms", _seeded(datasets.Latency, seconds=0.02), 8, 30, quick_batches=10),
    _workload("jpeg-1024", _seeded(datasets.JpegImages, pixels=1_024), 8, 20),
    _workload("native", _seeded(datasets.Native), 16, 24),
    _workload("mixed", _seeded(datasets.Mixed), 16, 24),
    _workload("volumes-16mib", _volumes, 2, 24),
    _workload("heavy-tail", _seeded(datasets.HeavyTail), 16, 30, quick_batches=12),
    _workload("getitems", _seeded(datasets.BatchedItems), 32, 60, quick_batches=20),
    _workload("lmdb", _lmdb, 32, 30, quick_batches=15),
    _workload("hdf5", _hdf5, 32, 30, quick_batches=15),
    _workload("five-batches", _seeded(datasets.Latency, seconds=0.005), 16, 5, quick_batches=5),
)
"""
All named workloads; the first ones differ most, since a quick run may not reach the last ones.
"""


def unseen(seed: int, count: int = 3) -> tuple[Workload, ...]:
    """
    Return *count* workloads that nobody chose, drawn from *seed*.

    They wait up to 20 ms a sample, draw up to 40,000 numbers in Python, have 1 KiB to 1 MiB, a log-normal spread of
    both, a first access of up to a second in each process, and a batch size.
    """
    drawn = random.Random(seed)
    found = []
    for number in range(count):
        batch_size = drawn.choice((4, 8, 16, 32))
        dataset = {
            "latency": 0.02 * drawn.random() ** 2,
            "draws": int(40_000 * drawn.random() ** 2),
            "size": 1 << drawn.randint(10, 20),
            "spread": drawn.uniform(0, 1),
            "first": drawn.choice((0.0, drawn.uniform(0, 1))),
        }
        make = _seeded(datasets.Drawn, **dataset)
        batches = max(5, 320 // batch_size)
        name = f"unseen-{seed}-{number}"
        found.append(_workload(name, make, batch_size, batches, quick_batches=max(5, 96 // batch_size)))
    return tuple(found)


def find(name: str, seed: int | None) -> Workload:
    """
    Return the workload *name*, of the named ones and those drawn from *seed*.

    Raises:
        ValueError: There is none.
    """
    known = {each.name: each for each in (*WORKLOADS, *(() if seed is None else unseen(seed)))}
    if name not in known:
        raise ValueError(f"{name!r} is no workload: there are {', '.join(known)}. Give one of them.")
    return known[name]
