"""
A generator of random numbers for one sample.
"""

import sys
from types import FrameType
from typing import Any, NamedTuple

import torch

from .issue import Arrival
from .randomness import derive, seed_from

_FETCH = "torch.utils.data._utils.fetch"
_LOOPS = {_FETCH, "torch.utils.data.dataset"}
"""
The modules of torch that go through the indices of a batch: the fetcher, and Subset for one that wraps a dataset.
"""


class _Place(NamedTuple):
    """
    The batch that is being fetched, and the index of its sample; ``None`` where the dataset fetches whole batches.
    """

    arrival: Arrival
    index: Any


def sample_rng() -> torch.Generator:
    """
    Return the random number generator of the sample that is being fetched.

    Call it in ``__getitem__``, or in what that calls, and draw from it: ``torch.rand(3, generator=sample_rng())``. What
    it gives depends on the epoch's seed, the batch and the sample's index, and neither on the number of workers nor on
    what other samples draw. Called again for the same sample it goes on.

    Where no AutoLoader fetches a map-style sample, it returns a generator that torch's global one seeds: code that
    calls it works under a plain DataLoader, too.
    """
    place = _find_place(sys._getframe(1))
    key = None if place is None else place.arrival.key
    if place is None or key is None:
        return torch.Generator().manual_seed(int(torch.randint(1 << 62, ()).item()))
    generators, index = place.arrival.samples, repr(place.index)
    if index not in generators:
        seed = seed_from(derive("sample", key.base, key.epoch, place.arrival.position or 0, index))
        generators[index] = torch.Generator().manual_seed(seed)
    generator: torch.Generator = generators[index]
    return generator


def _find_place(frame: FrameType | None) -> _Place | None:
    """
    Return the sample that torch's fetcher, in a frame further out, is at.
    """
    index: Any = None
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module in _LOOPS:
            index = frame.f_locals.get("idx", index)
            if module == _FETCH and frame.f_code.co_name == "fetch":
                arrival = getattr(frame.f_locals["self"].collate_fn, "arrival", None)
                return None if arrival is None or arrival.position is None else _Place(arrival, index)
        frame = frame.f_back
    return None
