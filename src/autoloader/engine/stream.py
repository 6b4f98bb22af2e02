"""
Where an iterable-style dataset stands that keeps its own state: of each worker's copy, as of the batches served.
"""

import pickle
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from torch.utils.data import get_worker_info


class CopyState(NamedTuple):
    """
    What a worker sends with a batch: its number, the pickled state of its copy after that batch, whether that is all.
    """

    worker: int
    pickled: bytes
    is_ended: bool


def has_own_state(dataset: Any) -> bool:
    """
    Return whether a dataset can say where it stands, and be set there.
    """
    return all(callable(getattr(dataset, name, None)) for name in ("state_dict", "load_state_dict"))


def state_of_copy(fetch: FrameType) -> CopyState | None:
    """
    Return, in a worker, where its copy stands; at once, as the copy goes on while a batch is sent.

    Args:
        fetch: The frame of torch's fetcher, which knows whether the copy came to its end with this batch: many begin
            anew then, and their own state is that of the next epoch.
    """
    info = get_worker_info()
    dataset: Any = None if info is None else info.dataset
    if info is None or not has_own_state(dataset):
        return None
    is_ended = bool(getattr(fetch.f_locals.get("self"), "ended", False))
    return CopyState(info.id, pickle.dumps(dataset.state_dict()), is_ended)


class Stream:
    """
    The states of all copies.

    Args:
        dataset: The dataset of the training process, which is the only copy where there are no workers.
        workers: The number of workers.
        resumed: What :meth:`state` returned elsewhere, to begin from.
    """

    def __init__(self, dataset: Any, workers: int, resumed: Mapping[str, Any] | None = None) -> None:
        self._dataset = dataset
        self.workers = workers
        copies = max(1, workers)
        begin = resumed or {"states": [None] * copies, "ended": [False] * copies, "turn": 0}
        self.first: Sequence[Any] | None = None if resumed is None else begin["states"]
        self.ended: list[bool] = list(begin["ended"])
        self.turn: int = begin["turn"]
        self._states = [None if state is None else pickle.dumps(state) for state in begin["states"]]

    def begin(self) -> None:
        """
        Set the only copy to where it is to begin; workers do it themselves.
        """
        if self.first is not None and not self.workers:
            self._dataset.load_state_dict(self.first[0])

    def note(self, state: CopyState | None, turn: int) -> None:
        """
        Note a batch of a worker that was served, and the worker whose turn is next.
        """
        if state is not None:
            self._states[state.worker], self.ended[state.worker], self.turn = state.pickled, state.is_ended, turn

    def note_inline(self, *, is_ended: bool) -> None:
        """
        Note a batch that was loaded inline and served.
        """
        self.ended[0] = is_ended

    def state(self) -> dict[str, Any]:
        """
        Return where all copies stand.
        """
        pickled = self._states if self.workers else [pickle.dumps(self._dataset.state_dict())]
        states = [None if each is None else pickle.loads(each) for each in pickled]  # noqa: S301 (our own)
        return {"workers": self.workers, "turn": self.turn, "states": states, "ended": list(self.ended)}
