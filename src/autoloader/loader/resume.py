"""
Where in an epoch a training stands, to be stored with a checkpoint and continued in another process.
"""

import contextlib
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..engine.issue import IssuedIndices, digest
from ..engine.stream import Stream
from ..errors import ArgumentError
from ..findings import describe
from .epochs import Epochs, epochs_of, set_epochs

SCHEMA = 1
"""
The number of this layout of a loader's state.
"""


def capture(samplers: Sequence[Any], generator: torch.Generator | None) -> dict[str, Any]:
    """
    Return what the order of an epoch that is about to begin depends on, as numbers, lists and tensors.

    Torch's own samplers draw from their generator or from torch's global one; others may draw from any.
    """
    states: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "generators": [each.get_state() for each in _generators(samplers, generator)],
        "epochs": epochs_of(samplers),
    }
    if not all(map(has_known_order, samplers)):
        version, numbers, gauss = random.getstate()
        states["python"] = [version, list(numbers), gauss]
        if "numpy.random" in sys.modules:
            states["numpy"] = _numpys_state()
    return states


def has_known_order(sampler: Any) -> bool:
    """
    Return whether a sampler is torch's own, whose order depends on its generator and epoch only, or a plain container.
    """
    return type(sampler) in {list, tuple, range} or type(sampler).__module__.startswith("torch.utils.data.")


def _generators(samplers: Sequence[Any], generator: torch.Generator | None) -> list[torch.Generator]:
    several = [generator, *(getattr(each, "generator", None) for each in samplers)]
    found: list[torch.Generator] = []
    for each in several:
        if isinstance(each, torch.Generator) and all(each is not other for other in found):
            found.append(each)
    return found


def _numpys_state() -> list[Any] | None:
    state = sys.modules["numpy.random"].get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        return None
    key = [int(word) for word in state["state"]["key"]]
    return [key, int(state["state"]["pos"]), int(state["has_gauss"]), float(state["gauss"])]


def _set_numpys_state(state: Sequence[Any]) -> None:
    import numpy as np

    key, position, has_gauss, gauss = state
    np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), position, has_gauss, gauss))


@contextlib.contextmanager
def replayed(states: Mapping[str, Any], samplers: Sequence[Any], generator: torch.Generator | None) -> Iterator[None]:
    """
    For the time of a ``with`` block, let all that the order depends on be as it was when the epoch began.

    The generators of samplers stay where the block leaves them; the global ones are given back.
    """
    set_epochs(samplers, states["epochs"])
    for each, state in zip(_generators(samplers, generator), states["generators"], strict=False):
        each.set_state(state)
    now = capture([object()], None)
    _set_global(states)
    try:
        yield
    finally:
        _set_global(now)


def _set_global(states: Mapping[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    if states.get("python") is not None:
        version, numbers, gauss = states["python"]
        random.setstate((version, tuple(numbers), gauss))
    if states.get("numpy") is not None:
        _set_numpys_state(states["numpy"])


class Progress:
    """
    How far the latest epoch of a loader has come.

    Args:
        epoch: Its number.
        issued: Its indices; ``None`` for iterable-style data.
        stream: Where iterable-style data stands, if it knows.
        begun_with: What :func:`capture` returned before it began.
        served: Batches of iterable-style data that were served elsewhere.
    """

    def __init__(
        self,
        epoch: int,
        issued: IssuedIndices | None,
        stream: Stream | None,
        begun_with: Mapping[str, Any],
        *,
        served: int = 0,
    ) -> None:
        self.epoch = epoch
        self.issued = issued
        self.stream = stream
        self.begun_with = begun_with
        self.served_batches = served
        self.is_exhausted = False

    def served(self) -> tuple[int, list[int]]:
        """
        Return how many batches at its begin were served, and the positions of the others that were.
        """
        return (self.served_batches, []) if self.issued is None else self.issued.served()

    def last(self) -> list[Any] | None:
        """
        Return the position of the batch that was served last, and the digest of its indices, if they have one.
        """
        last = None if self.issued is None else self.issued.last_served
        text = None if last is None else digest(last[1])
        return None if last is None or text is None else [last[0], text]


class Resumed(NamedTuple):
    """
    An epoch that began elsewhere, and how far it came there.
    """

    epoch: int
    first: int
    others: tuple[int, ...]
    last: tuple[int, str] | None
    begun_with: Mapping[str, Any]
    stream: Mapping[str, Any] | None


def to_state(
    progress: Progress, samplers: Sequence[Any], *, batches: int | None, epochs: Epochs, told: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Return what ``load_state_dict`` continues from, made of numbers, texts, lists, dictionaries and tensors.
    """
    first, others = (0, []) if progress.is_exhausted else progress.served()
    is_inside = bool(first or others)
    return {
        "schema": SCHEMA,
        "epoch": progress.epoch + progress.is_exhausted,
        "served": first,
        "served_ahead": others,
        "last": progress.last() if is_inside else None,
        "batches": batches,
        "begun_with": dict(progress.begun_with) if is_inside else None,
        "epochs_now": epochs_of(samplers),
        "epochs": progress.begun_with["epochs"] if is_inside else epochs_of(samplers),
        "stream": progress.stream.state() if is_inside and progress.stream is not None else None,
        "has_set_epoch": epochs.is_users,
        "told_epoch": epochs.told_epoch,
        "broadcast": dict(told),
        "pending": epochs.pending(),
    }


def check_state(state: Any, *, batches: int | None) -> None:
    """
    Refuse a state that cannot be this loader's.

    Raises:
        ArgumentError: It is no state of this layout, or of a loader with another number of batches.
    """
    needed = {"epoch", "served", "served_ahead", "last", "batches", "begun_with", "epochs", "epochs_now", "stream"}
    needed |= {"has_set_epoch", "told_epoch", "broadcast", "pending"}
    if not isinstance(state, Mapping) or state.get("schema") != SCHEMA or not needed <= set(state):
        raise ArgumentError(describe("state.malformed", known=SCHEMA))
    is_inside = state["begun_with"] is not None
    if is_inside and batches is not None and state["batches"] is not None and batches != state["batches"]:
        raise ArgumentError(
            describe("state.other-loader", served=state["served"], theirs=state["batches"], ours=batches)
        )
