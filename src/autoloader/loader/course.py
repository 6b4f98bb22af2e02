"""
The course of a training through the epochs of one loader: which one it is in, how far, and how to continue it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..engine.inner import Epoch
from ..errors import ArgumentError
from ..findings import describe
from .epochs import Epochs, order_seed, set_epochs
from .resume import Progress, Resumed, capture, check_state, has_known_order, replayed, to_state
from .statistics import EpochRecorder, Recorder
from .warn import warn_once


class Beginning(NamedTuple):
    """
    An epoch that is about to begin, or to be continued.
    """

    epoch: Epoch
    begun_with: Mapping[str, Any]
    record: EpochRecorder
    replay: Callable[[], contextlib.AbstractContextManager[None]]
    """Gives the surroundings in which its sampler begins."""
    resumed: Resumed | None
    """Where it was left, if it is continued."""

    @property
    def stream(self) -> Mapping[str, Any] | None:
        """
        Return where an iterable-style dataset is to begin that keeps its own state.
        """
        return None if self.resumed is None else self.resumed.stream


class _OwnGenerator(torch.Generator):
    """
    The generator of an order that ``seed=`` decides.
    """


class Course:
    """
    What a loader remembers from one epoch to the next.

    Args:
        advances_ranks: Whether the loader itself made the sampler that shares samples among ranks, and so gives it the
            number of each epoch, which is the same on all of them.
    """

    def __init__(self, *, advances_ranks: bool = False) -> None:
        self._advances_ranks = advances_ranks
        self.epochs = Epochs()
        self.recorder = Recorder()
        self.progress: Progress | None = None
        self.seeded = _OwnGenerator()
        self._resumed: Resumed | None = None
        self._loaded: Mapping[str, Any] | None = None

    @property
    def has_resumed(self) -> bool:
        """
        Return whether the next epoch is one that was left in the middle.
        """
        return self._resumed is not None

    @property
    def workers_of_resumed(self) -> int | None:
        """
        Return how many workers read the stream that the next epoch goes on with; ``None`` where it does not.
        """
        resumed = self._resumed
        return None if resumed is None or resumed.stream is None else int(resumed.stream["workers"])

    def __getstate__(self) -> dict[str, Any]:
        return {
            "epochs": self.epochs,
            "advances_ranks": self._advances_ranks,
            "resumed": self._resumed,
            "loaded": self._loaded,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(advances_ranks=state["advances_ranks"])  # type: ignore[misc]
        self.epochs, self._resumed, self._loaded = state["epochs"], state["resumed"], state["loaded"]

    def begin(
        self, dataset: Any, samplers: Sequence[Any], generator: torch.Generator | None, *, begun: float, **how: Any
    ) -> Beginning:
        """
        Begin an epoch, or continue the one that a state was loaded of.

        Args:
            dataset: What is told what the user has set for it.
            samplers: The loader's samplers.
            generator: The user's generator.
            begun: When the user asked for it.
            how: Further fields of the epoch.
        """
        resumed, self._resumed = self._resumed, None
        number = self.epochs.begin(dataset, samplers)
        record = self.recorder.begin(number, begun)
        if resumed is None or resumed.epoch != number:  # or the user has set another epoch since
            begun_with = capture(samplers, generator)
            return Beginning(Epoch(number, **how), begun_with, record, contextlib.nullcontext, None)
        epoch = Epoch(number, skip=resumed.first, served=resumed.others, last=resumed.last, **how)
        states = resumed.begun_with
        return Beginning(epoch, states, record, lambda: replayed(states, samplers, generator), resumed)

    def note_begun(self, progress: Progress) -> None:
        """
        Note that an epoch has begun: from now on it is its own place that :meth:`state` tells.
        """
        self.progress, self._loaded = progress, None

    @contextlib.contextmanager
    def until_begun(self) -> Iterator[None]:
        """
        Let what was loaded, and what was set since, hold for the next epoch if the ``with`` block begins none.

        That may be after Ctrl-C. A state that does not fit is not tried again.
        """
        resumed, waiting = self._resumed, self.epochs.waiting()
        try:
            yield
        except BaseException as error:
            if isinstance(error, ArgumentError):
                self._loaded = None
            elif self._loaded is not None:
                self._resumed = resumed
                self.epochs.wait_again(waiting)
            raise

    def begin_plain(self, dataset: Any, samplers: Sequence[Any]) -> None:
        """
        Begin an epoch that torch loads alone: what the user has set is passed on, and our own sampler gets its number.
        """
        if self.epochs.begin(dataset, samplers) and self._advances_ranks:
            self.epochs.advance(samplers)

    def check_stream(self, dataset: Any, workers: int, *, local_rank: int | None, stacklevel: int) -> None:
        """
        Begin the epoch of an iterable-style dataset anew, and say so, if it cannot be continued with so many workers.
        """
        resumed = self._resumed
        if resumed is None or (resumed.stream is not None and resumed.stream["workers"] == workers):
            return
        self._resumed = None
        warn_of_restarted_stream(resumed, dataset, workers, local_rank=local_rank, stacklevel=stacklevel + 1)

    def seed_order(self, seed: int, sampler: Any, *, is_ours: bool) -> None:
        """
        Let the order of the next epoch come from *seed*, where the loader itself made the sampler.
        """
        self.seeded.manual_seed(order_seed(seed, self.epochs.next_number))
        if hasattr(sampler, "generator") and (is_ours or isinstance(sampler.generator, _OwnGenerator)):
            sampler.generator = self.seeded

    def note_exhausted(self, samplers: Sequence[Any]) -> None:
        """
        Note that an epoch was exhausted.
        """
        if _is_distributed(samplers) and not self._advances_ranks:
            self.epochs.note_exhausted(samplers)
        else:
            self.epochs.advance(samplers)

    def warn_of_repetition(self, samplers: Sequence[Any], *, local_rank: int | None, stacklevel: int) -> None:
        """
        Say once that each epoch has the same order, where nobody tells the samplers of several ranks otherwise.
        """
        if _is_distributed(samplers) and self.epochs.is_standing_still(samplers):
            text = describe("sampler.epoch-not-set")
            warn_once("sampler.epoch-not-set", text, local_rank=local_rank, stacklevel=stacklevel + 1)

    def state(self, dataset: Any, samplers: Sequence[Any], batches: int | None) -> dict[str, Any]:
        """
        Return where the latest epoch stands.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        progress = self.progress
        if progress is None:
            progress = Progress(self.epochs.next_number, None, None, {})
        told = self.epochs.state(dataset)
        return to_state(progress, samplers, batches=batches, epochs=self.epochs, told=told)

    def load(
        self, state: Mapping[str, Any], samplers: Sequence[Any], *, skips_empty: bool, batches: int | None
    ) -> None:
        """
        Let the next epoch be the one of *state*, from where that stands.

        Args:
            state: What :meth:`state` returned.
            samplers: The loader's samplers.
            skips_empty: Whether to begin the next epoch where nothing of that one is left.
            batches: The batches of an epoch.

        Raises:
            ArgumentError: It is no state of a loader like this one.
        """
        check_state(state, batches=batches)
        if skips_empty and state["served"] == state["batches"]:
            state = {
                **state,
                "epoch": state["epoch"] + 1,
                "served": 0,
                "begun_with": None,
                "epochs": state["epochs_now"],
            }
        self.epochs.resume(state, is_inside=state["begun_with"] is not None)
        set_epochs(samplers, state["epochs"])
        self.progress, self._resumed, self._loaded = None, None, state
        if state["begun_with"] is not None:
            ahead = tuple(state["served_ahead"])
            last = None if state["last"] is None else (state["last"][0], state["last"][1])
            self._resumed = Resumed(state["epoch"], state["served"], ahead, last, state["begun_with"], state["stream"])


def _is_distributed(samplers: Sequence[Any]) -> bool:
    return any((getattr(each, "num_replicas", None) or 1) > 1 for each in samplers)


def warn_of_fast_forward(served: int, samplers: Sequence[Any], *, local_rank: int | None, stacklevel: int) -> None:
    """
    Say once that an epoch is continued with a sampler of which it is not known what its order depends on.
    """
    unknown = [type(each).__name__ for each in samplers if not has_known_order(each)]
    if served and unknown:
        text = describe("resume.fast-forward", served=served, sampler=unknown[0])
        warn_once("resume.fast-forward", text, local_rank=local_rank, stacklevel=stacklevel + 1)


def warn_of_restarted_stream(
    resumed: Resumed, dataset: Any, workers: int, *, local_rank: int | None, stacklevel: int
) -> None:
    """
    Say once that the epoch of an iterable-style dataset begins anew.
    """
    because = "does not keep its own state"
    if resumed.stream is not None:
        because = f"was read by {resumed.stream['workers']} workers, and would be by {workers} now"
    kind = type(dataset).__name__
    text = describe("resume.stream-restarts", served=resumed.first, kind=kind, because=because)
    warn_once("resume.stream-restarts", text, local_rank=local_rank, stacklevel=stacklevel + 1)


def warn_of_no_place(*, is_off: bool) -> None:
    """
    Say once, where autoloader is switched off, that a state is none.
    """
    if is_off:
        warn_once("state.switched-off", describe("state.switched-off"), local_rank=None, stacklevel=3)
