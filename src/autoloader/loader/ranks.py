"""
What several ranks of a process group mean for the samples of one of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DistributedSampler, IterableDataset

from ..errors import ArgumentError
from ..findings import describe
from ..plan import Note


def distributed_sampler(
    dataset: Any, sampler: Any, *, shuffle: bool | None, seed: int | None, environment: Mapping[str, str]
) -> Any:
    """
    Return the sampler for ``distributed=True``: torch's, which gives each rank its share.

    Where this process is alone, there is nothing to share, and the order is as without.

    Args:
        dataset: The user's dataset.
        sampler: The user's sampler or batch sampler, which has to be ``None``.
        shuffle: Whether to shuffle, in another way in each epoch.
        seed: What the order comes from; the same on all ranks.
        environment: Where launchers say how many ranks there are.

    Raises:
        ArgumentError: The samples cannot be shared so, or it is not known yet among how many.
    """
    if sampler is not None:
        raise ArgumentError(describe("argument.distributed-sampler", kind=type(sampler).__name__))
    if isinstance(dataset, IterableDataset):
        raise ArgumentError(describe("argument.distributed-stream", kind=type(dataset).__name__))
    if world_size() > 1:
        return DistributedSampler(dataset, shuffle=bool(shuffle), seed=0 if seed is None else int(seed))
    ranks = environment.get("WORLD_SIZE", "1")
    if ranks not in {"", "1"} and not _has_group():
        raise ArgumentError(describe("argument.no-process-group", ranks=ranks))
    return None


def _has_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def world_size() -> int:
    """
    Return the number of ranks of the process group; 1 where there is none.
    """
    return torch.distributed.get_world_size() if _has_group() else 1


def not_sharded(dataset: Any, samplers: Sequence[Any]) -> tuple[Note, ...]:
    """
    Return what is to be noted where each of several ranks loads all samples.
    """
    ranks = world_size()
    if ranks == 1 or any(hasattr(each, "num_replicas") for each in samplers):
        return ()
    if isinstance(dataset, IterableDataset):
        text = describe("dataset.iterable-in-ranks", ranks=ranks)
        return (Note(finding="dataset.iterable-in-ranks", text=text),)
    return (Note(finding="sampler.not-sharded", text=describe("sampler.not-sharded", ranks=ranks)),)
