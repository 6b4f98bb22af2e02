"""
Which epoch comes next, and what the dataset and the samplers are told before it.
"""

import contextlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.news import News, apply, has_attribute
from ..engine.randomness import derive, seed_from
from ..errors import ArgumentError
from ..findings import describe
from ..profiling import datasets_in


def samplers_of(*samplers: Any) -> list[Any]:
    """
    Return the samplers of a loader, with those that batch samplers draw from, each once.
    """
    found: list[Any] = []
    for sampler in samplers:
        for each in (sampler, getattr(sampler, "sampler", None)):
            if each is not None and all(each is not other for other in found):
                found.append(each)
    return found


class Told(NamedTuple):
    """
    What the dataset was told at once.
    """

    version: int
    epoch: int | None
    state: Mapping[str, Any]


class Waiting(NamedTuple):
    """
    What is to be passed on before the next epoch, and after that.
    """

    number: int
    is_users: bool
    epoch: int | None
    state: Mapping[str, Any]
    after: Mapping[str, Any] | None


class Epochs:
    """
    The epochs of one loader: their numbers, and what the user has set for them.

    Nothing is passed on before the next epoch begins: batches in flight stay as they are.
    """

    def __init__(self) -> None:
        self.next_number = 0
        self.version = 0
        self.is_users = False
        self.told_epoch: int | None = None
        self._new_epoch: int | None = None
        self._new_state: dict[str, Any] = {}
        self._after: Mapping[str, Any] | None = None
        self._names: set[str] = set()
        self._told: list[Told] = []
        self._news: tuple[tuple[int, int], News] | None = None
        self._exhausted: list[tuple[int, Any]] = []

    def set(self, number: int) -> None:
        """
        Let the next epoch be the one of this number, for samplers and datasets that want to know.
        """
        self.next_number, self.is_users, self._new_epoch = number, True, number

    def resume(self, state: Mapping[str, Any], *, is_inside: bool) -> None:
        """
        Go on with an epoch that began elsewhere, and with what was set there.

        Args:
            state: What ``state_dict`` returned.
            is_inside: Whether it is in the middle of an epoch: what was not passed on there is for the one after it.
        """
        self.next_number, self.is_users = state["epoch"], state["has_set_epoch"]
        self._new_epoch, self._after = state["told_epoch"], None
        self._note_state(state["broadcast"])
        if is_inside:
            self._after = state["pending"]
        else:
            self._pass_on_next(state["pending"])

    def pending(self) -> dict[str, Any]:
        """
        Return what is to be passed on before the next epoch.
        """
        return {"epoch": self._new_epoch, "state": dict(self._new_state)}

    def waiting(self) -> Waiting:
        """
        Return what :meth:`begin` takes, for :meth:`wait_again`.
        """
        return Waiting(self.next_number, self.is_users, self._new_epoch, dict(self._new_state), self._after)

    def wait_again(self, waiting: Waiting) -> None:
        """
        Let the next epoch be the one that was to begin, which did not, with what was to be passed on before it.
        """
        self.next_number, self.is_users, self._new_epoch = waiting.number, waiting.is_users, waiting.epoch
        self._new_state, self._after = dict(waiting.state), waiting.after

    def _pass_on_next(self, pending: Mapping[str, Any]) -> None:
        if pending["epoch"] is not None:
            self.set(pending["epoch"])
        self._note_state(pending["state"])

    def broadcast(self, dataset: Any, state: Mapping[str, Any]) -> None:
        """
        Let attributes of the dataset have other values from the next epoch on.

        Raises:
            ArgumentError: Neither the dataset nor one that it wraps has such an attribute.
        """
        for name in state:
            if not any(has_attribute(each, name) for each in datasets_in(dataset)):
                kind = type(dataset).__name__
                raise ArgumentError(describe("argument.not-in-dataset", name=name, kind=kind))
        self._note_state(state)

    def _note_state(self, state: Mapping[str, Any]) -> None:
        self._new_state.update(state)
        self._names.update(state)

    def state(self, dataset: Any) -> dict[str, Any]:
        """
        Return the values that attributes have which were set by :meth:`broadcast`.
        """
        found = {}
        for name in sorted(self._names):
            holder = next((each for each in datasets_in(dataset) if has_attribute(each, name)), None)
            if holder is not None:
                found[name] = getattr(holder, name, None)
        return found

    @property
    def has_news(self) -> bool:
        """
        Return whether something is to be passed on before the next epoch.
        """
        return self._new_epoch is not None or bool(self._new_state)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_told": [], "_news": None, "_exhausted": []}

    def begin(self, dataset: Any, samplers: Sequence[Any]) -> int:
        """
        Pass on what the user has set, and return the number of the epoch that begins.

        What goes wrong there goes wrong once: the epoch after it begins without.
        """
        number = self.next_number
        if self.has_news:
            epoch, state = self._new_epoch, self._new_state
            self._new_epoch, self._new_state = None, {}
            self.told_epoch = self.told_epoch if epoch is None else epoch
            self.version += 1
            self._told.append(Told(self.version, epoch, state))
            for sampler in samplers if epoch is not None else ():
                _set_epoch(sampler, epoch or 0)
            apply(dataset, epoch, state)
        self.next_number = number + 1
        if self._after is not None:
            after, self._after = self._after, None
            self._pass_on_next(after)
        return number

    def news_since(self, version: int) -> News | None:
        """
        Return what was passed on after a version, to copies of the dataset that have heard that.
        """
        missed = [told for told in self._told if told.version > version]
        if not missed:
            return None
        if self._news is None or self._news[0] != (version, self.version):
            epochs = [told.epoch for told in missed if told.epoch is not None]
            state = {name: value for told in missed for name, value in told.state.items()}
            self._news = (version, self.version), News(self.version, epochs[-1] if epochs else None, state)
        return self._news[1]

    def forget(self, version: int | None) -> None:
        """
        Forget what all workers that are kept have heard; ``None`` where there are none.
        """
        self._told = [] if version is None else [told for told in self._told if told.version > version]

    def advance(self, samplers: Iterable[Any]) -> None:
        """
        After an epoch that was exhausted: give samplers that want to know its number the next one, if nobody does.

        Whoever calls a sampler's ``set_epoch``, now or later, has the last word.
        """
        for sampler in samplers if not self.is_users else ():
            now, last = getattr(sampler, "epoch", None), getattr(sampler, _ADVANCED, 0)
            if not has_attribute(sampler, "set_epoch") or (now is not None and now != last):
                continue
            try:
                setattr(sampler, _ADVANCED, last + 1)
            except AttributeError:  # a sampler with slots: nobody could say later who has set its epoch
                continue
            _set_epoch(sampler, last + 1)

    def note_exhausted(self, samplers: Iterable[Any]) -> None:
        """
        Note which order of samplers that shuffle by their epoch has been given.
        """
        self._exhausted = _shuffled_by(samplers)

    def is_standing_still(self, samplers: Iterable[Any]) -> bool:
        """
        Return whether a sampler that shuffles by its epoch is about to give the order of the last one again.
        """
        return not self.is_users and any(each in self._exhausted for each in _shuffled_by(samplers))


_ADVANCED = "_autoloader_epoch"
"""
The attribute of a sampler that notes the epoch to which a loader has advanced it; a copy of the sampler has it, too.
"""


def _shuffled_by(samplers: Iterable[Any]) -> list[tuple[int, Any]]:
    shuffling = (each for each in samplers if getattr(each, "shuffle", False) and hasattr(each, "epoch"))
    return [(id(each), each.epoch) for each in shuffling]


def epochs_of(samplers: Iterable[Any]) -> list[list[int | None]]:
    """
    Return the epoch of each sampler, and the one to which a loader has advanced it.
    """
    knowing = [each if has_attribute(each, "set_epoch") else None for each in samplers]
    return [[getattr(each, "epoch", None), getattr(each, _ADVANCED, None)] for each in knowing]


def set_epochs(samplers: Iterable[Any], epochs: Iterable[Sequence[int | None]]) -> None:
    """
    Set the epochs of samplers to what :func:`epochs_of` returned.
    """
    for sampler, (epoch, advanced) in zip(samplers, epochs, strict=False):
        if epoch is not None:
            _set_epoch(sampler, epoch)
        if advanced is not None:
            with contextlib.suppress(AttributeError):
                setattr(sampler, _ADVANCED, advanced)


def _set_epoch(sampler: Any, number: int) -> None:
    if has_attribute(sampler, "set_epoch"):
        sampler.set_epoch(number)


def order_seed(seed: int, epoch: int) -> int:
    """
    Return what seeds the order of an epoch, and the base of its random numbers, for ``seed=``.
    """
    return seed_from(derive("order", operator.index(seed), epoch))
