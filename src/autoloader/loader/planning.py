"""
From the arguments of a loader to its plan.
"""

import operator
import reprlib
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from ..errors import ArgumentError, PlanFileError
from ..facts import HostFacts
from ..findings import describe
from ..plan import ALWAYS_DECIDED, Choice, LoaderRequest, Plan
from ..policy import recommend, with_own_persistence, with_repetition_note
from ..profiling.inspect import length_of
from ..records import says_yes
from ..traits import DatasetTraits

COUNTS = {
    "num_workers": (0, "0 loads in the training process"),
    "prefetch_factor": (1, "each worker prepares so many batches ahead"),
    "epochs": (1, "it is how often you expect to go through the dataset"),
    "seed": (0, "all random numbers come from it"),
}
"""
For each count the smallest value, and what it counts.
"""


WORDS = {"on_unsafe": ("fallback", "raise"), "on_worker_death": ("raise", "restart"), "numa": ("auto", "off")}
"""
The words that an argument takes.
"""

OFF = "AUTOLOADER_OFF"
"""
The environment variable that leaves everything to torch.
"""


def check_counts(arguments: Mapping[str, Any]) -> None:
    """
    Refuse a count that no loader can work with, before anything is started.

    Raises:
        ArgumentError: A count is not a whole number, or below its smallest value.
    """
    for name, (least, meaning) in COUNTS.items():
        value = arguments.get(name)
        if value is not None:
            _check_count(name, value, least, meaning)


def check_epoch(epoch: Any) -> int:
    """
    Return the number of an epoch as Python's own.

    Raises:
        ArgumentError: It is not a whole number of 0 or more.
    """
    _check_count("epoch", epoch, 0, "it is the number of the next epoch")
    return operator.index(epoch)


def _check_count(name: str, value: Any, least: int, meaning: str) -> None:
    try:
        count = operator.index(value)
    except TypeError:
        text = describe("argument.not-a-count", name=name, value=value, meaning=meaning, least=least)
        raise ArgumentError(text) from None
    if count < least:
        raise ArgumentError(describe("argument.too-small", name=name, value=value, meaning=meaning, least=least))


def check_word(name: str, value: Any, known: tuple[str, ...]) -> None:
    """
    Refuse a word that is none of those that an argument takes.

    Raises:
        ArgumentError: It is not.
    """
    if not isinstance(value, str) or value not in known:
        text = describe("argument.unknown-word", name=name, value=value, known=" or ".join(map(repr, known)))
        raise ArgumentError(text)


def check_dataset(dataset: Any, *, shuffle: bool | None) -> None:
    """
    Refuse what torch would accept here and fail on later, in a worker: a loader, a class, something without samples.

    Args:
        dataset: What is to be loaded.
        shuffle: Whether its samples are to be shuffled, for which torch wants one at least, and does not say of what.

    Raises:
        ArgumentError: It is no dataset, or has nothing to shuffle.
    """
    what = None
    if isinstance(dataset, DataLoader):
        what = "a DataLoader"
    elif isinstance(dataset, type):
        what = "a class"
    elif isinstance(dataset, str):
        what = "a string, whose samples would be its characters"
    elif not isinstance(dataset, IterableDataset) and not any(
        hasattr(dataset, name) for name in ("__getitem__", "__getitems__")
    ):
        what = f"of type {type(dataset).__name__}"
    if what is not None:
        raise ArgumentError(describe("dataset.not-one", value=reprlib.repr(dataset), what=what))
    if shuffle and not isinstance(dataset, IterableDataset) and length_of(dataset) == 0:
        raise ArgumentError(describe("dataset.nothing-to-shuffle", kind=type(dataset).__name__))


def batches_per_epoch(dataset: Any, batch_size: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> int | None:
    """
    Return the batches of one pass; ``None`` where a length is missing, or the arguments are torch's to refuse.
    """
    if batch_sampler is not None:
        return length_of(batch_sampler)
    samples = length_of(dataset if sampler is None else sampler)
    if samples is None or batch_size is None:
        return samples
    if not isinstance(batch_size, int) or batch_size < 1:
        return None
    return samples // batch_size if drop_last else ceil(samples / batch_size)


def make_plan(
    request: LoaderRequest,
    facts: HostFacts,
    traits: DatasetTraits,
    *,
    given: "Plan | str | Path | None",
) -> Plan:
    """
    Return the plan for a new loader: the policy's, or the one that was given, the user's own values in place.
    """
    if given is None:
        return recommend(facts, traits, request)
    return with_own_persistence(with_repetition_note(load_given(given).with_fixed(request.fixed), traits))


def load_given(given: "Plan | str | Path") -> Plan:
    """
    Return the plan that ``plan=`` names.

    Raises:
        ArgumentError: It is neither a plan nor a path.
        PlanFileError: The file cannot be read, or is not a plan of this layout.
    """
    if isinstance(given, Plan):
        return given
    if isinstance(given, (str, Path)):
        plan = Plan.load(given)
        try:
            check_counts({name: choice.value for name, choice in plan.choices.items()})
        except ArgumentError as error:
            raise PlanFileError(describe("plan.malformed", path=str(given), reason=error)) from error
        return plan
    raise ArgumentError(describe("plan.not-a-plan", value=given, type=type(given).__name__))


def is_switched_off(environment: Mapping[str, str]) -> bool:
    """
    Return whether the user wants torch's DataLoader and nothing else.
    """
    return says_yes(environment.get(OFF))


def switched_off_plan(request: LoaderRequest) -> Plan:
    """
    Return the plan that leaves everything to torch but what the user set.
    """
    torchs = {**dict.fromkeys(ALWAYS_DECIDED), "num_workers": 0, "pin_memory": False, "persistent_workers": False}
    because = f"{OFF} is set: torch's default"
    choices = {name: Choice(value=value, rule=f"{name}.off", because=because) for name, value in torchs.items()}
    return Plan(choices=choices).with_fixed(request.fixed)
