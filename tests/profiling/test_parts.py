"""
What a dataset is made of: those that it wraps, and the generators that it holds.
"""

import collections
import functools
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from autoloader.profiling import datasets_in, generators_in


class Thing:
    """
    An object with the attributes given.
    """

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def collate(self, batch: list[Any]) -> Any:
        raise AssertionError("a batch was collated")


@dataclass(slots=True)
class Slotted:
    """
    An object whose attributes stand in slots.
    """

    dataset: Any


class Delegating:
    """
    A wrapper that passes on whatever it does not have itself, and counts what it is asked for.
    """

    def __init__(self, inner: Any) -> None:
        self.dataset = inner
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self.dataset, name)


class Settings(NamedTuple):
    """
    What a user may keep settings in.
    """

    rng: random.Random


class Closed:
    """
    An object that answers no question.
    """

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"asked for {name}")


class WithDict:
    """
    An object whose __dict__ is a property.
    """

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("asked for __dict__")


@pytest.fixture
def torchs() -> Any:
    """
    Return torch.utils.data.
    """
    return pytest.importorskip("torch.utils.data")


def names(dataset: Any) -> list[str]:
    """
    Return the names of the things that a dataset wraps, in the order found, and "?" for other objects.
    """
    return [getattr(each, "name", "?") for each in datasets_in(dataset)]


def thing(name: str, **attributes: Any) -> Thing:
    """
    Return an object with a name.
    """
    return Thing(name=name, **attributes)


def test_datasets_in_a_dataset_without_any_is_that_alone() -> None:
    """
    Attributes of other names and other kinds are no datasets.
    """
    assert names(thing("outer", data=thing("inner"), parts=[thing("part")], size=3)) == ["outer"]


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(thing("outer", dataset=thing("middle", dataset=thing("inner"))), id="dataset"),
        pytest.param(thing("outer", datasets=[thing("middle"), thing("inner")]), id="list"),
        pytest.param(thing("outer", datasets=(thing("middle"), thing("inner"))), id="tuple"),
        pytest.param(thing("outer", datasets={"a": thing("middle"), "b": thing("inner")}), id="dict"),
    ],
)
def test_datasets_in_go_by_the_names_dataset_and_datasets(dataset: Any) -> None:
    """
    A wrapper needs no class of torch's.
    """
    assert names(dataset) == ["outer", "middle", "inner"]


@pytest.mark.torch
def test_datasets_in_torchs_wrappers_and_the_users(torchs: Any) -> None:
    """
    Under any attribute's name, in a list or a dictionary, a Dataset of torch's is one.
    """

    class Named(torchs.Dataset):
        def __init__(self, name: str, **attributes: Any) -> None:
            self.__dict__.update(attributes, name=name)

        def __len__(self) -> int:
            return 2

    one, two, three, four = (Named(str(number)) for number in (1, 2, 3, 4))
    users = Named("users", wrapped=torchs.Subset(one, [0]), some=[two, "no dataset"], by_key={"three": three})
    whole = torchs.ConcatDataset([users, four])
    assert names(torchs.Subset(whole, [0])) == ["?", "?", "users", "4", "?", "2", "3", "1"]


@pytest.mark.torch
def test_every_part_of_a_large_concat_dataset_is_found(torchs: Any) -> None:
    """
    A dataset of 1500 shards has 1500 parts, and each wants to hear of the epoch.
    """
    parts = [torchs.TensorDataset() for _ in range(1500)]
    whole = torchs.ConcatDataset.__new__(torchs.ConcatDataset)
    whole.datasets = parts
    assert {id(each) for each in datasets_in(whole)} == {id(whole), *map(id, parts)}


def test_datasets_in_a_cycle_are_found_once() -> None:
    """
    A wrapper that is known to what it wraps is no endless walk, and what is held twice is told once.
    """
    inner = thing("inner")
    outer = thing("outer", dataset=inner, datasets=[inner, inner])
    inner.dataset = outer
    assert names(outer) == ["outer", "inner"]


def test_datasets_in_slots_are_found() -> None:
    """
    A dataclass with slots has no __dict__.
    """
    assert names(Slotted(thing("inner"))) == ["?", "inner"]


def test_datasets_in_a_delegating_wrapper_asks_it_nothing() -> None:
    """
    The walk runs no code of the user's.
    """
    inner = thing("inner")
    outer = Delegating(inner)
    found = list(datasets_in(outer))
    assert (len(found), found[0] is outer, found[1] is inner, outer.asked) == (2, True, True, [])


@pytest.mark.parametrize("kind", [Closed, WithDict, int, str, list, dict, object, type(None)])
def test_walks_over_objects_that_answer_nothing_find_nothing(kind: type) -> None:
    """
    Any object may stand there, and none raises an error.
    """
    value = kind()
    found = list(datasets_in(value))
    assert (len(found), found[0] is value, list(generators_in(value).values())) == (1, True, [])


@pytest.mark.parametrize("name", ["cifar", 3, b"x", None, range(4)])
def test_a_dataset_that_is_only_a_name_is_none(name: Any) -> None:
    """
    What a wrapper calls ``dataset`` may be the name of one, which nobody can tell anything.
    """
    outer = thing("outer", dataset=name)
    assert [each is outer for each in datasets_in(outer)] == [True]


def test_generators_of_python_and_numpy_are_found_in_an_order_of_the_structure() -> None:
    """
    Level by level, and on each level in the order of attributes and elements; a collate function's are found, too.
    """
    made = [random.Random(0), random.Random(1), np.random.default_rng(2), random.Random(3), np.random.RandomState(4)]
    dataset = Thing(
        first=made[0],
        transforms=Thing(steps=[Slotted(made[3]), Slotted((None, made[4]))]),
        by_name={"b": made[2], "a": "no generator"},
        last=made[1],
    )
    assert [id(each) for each in generators_in(dataset).values()] == [id(each) for each in made]
    collate = Thing(rng=random.Random(5))
    assert {id(each) for each in generators_in(dataset, collate).values()} == {
        id(each) for each in (*made, collate.rng)
    }


@pytest.mark.torch
def test_torchs_generators_are_found_on_the_cpu_only(torchs: Any) -> None:
    """
    Those of another device draw there, and no worker seeds a device.
    """
    import torch

    mine = torch.Generator()

    class Elsewhere(torch.Generator):
        device = torch.device("meta")  # type: ignore[assignment]

    whole = torchs.ConcatDataset([torchs.Subset(Thing(generators=[Elsewhere(), mine]), [0])])
    assert [each is mine for each in generators_in(whole).values()] == [True]


def test_copies_of_a_dataset_have_their_generators_in_the_same_order() -> None:
    """
    A worker's copy is another object with the same structure: the streams go to the same places.
    """
    dataset = Thing(
        transforms=[Slotted(random.Random(seed)) for seed in range(5)],
        by_name={str(seed): np.random.default_rng(seed) for seed in range(5)},
        shared=random.Random(9),
    )
    dataset.again = dataset.shared
    copied = pickle.loads(pickle.dumps(dataset))
    states = [[pickle.dumps(each) for each in generators_in(one).values()] for one in (dataset, copied)]
    assert len(states[0]) == 11
    assert states[0] == states[1]


def test_a_generator_without_a_state_is_none() -> None:
    """
    Python's SystemRandom draws from the system: it can neither be seeded nor put back.
    """
    mine = random.Random(1)
    assert list(generators_in(Thing(rng=random.SystemRandom(), other=mine)).values()) == [mine]


@pytest.mark.torch
def test_global_generators_are_not_the_datasets(torchs: Any) -> None:
    """
    What scikit-learn's check_random_state(None) gives, or torch.default_generator, has its streams already.
    """
    import torch

    held = [np.random.mtrand._rand, random._inst, torch.default_generator]  # type: ignore[attr-defined]
    assert list(generators_in(Thing(held=held, module=random)).values()) == []


def holders(generator: Any) -> Iterator[Any]:
    """
    Yield what else may hold a generator for a dataset or a collate function.
    """

    def draws() -> Any:
        return generator.random()

    yield pytest.param(functools.partial(print, generator), id="partial")
    yield pytest.param(functools.partial(print, rng=generator), id="partial-keyword")
    yield pytest.param(Thing(rng=generator).collate, id="method")
    yield pytest.param(draws, id="closure")
    yield pytest.param(collections.OrderedDict(rng=generator), id="ordered-dict")
    yield pytest.param(Settings(generator), id="named-tuple")
    yield pytest.param(collections.deque([generator]), id="deque")


HELD = random.Random(5)


@pytest.mark.parametrize("holder", list(holders(HELD)))
def test_generators_are_found_in_what_code_is_passed_in(holder: Any) -> None:
    """
    A collate function is often a method or a partial, and its settings a named tuple.
    """
    assert list(generators_in(Thing(transform=holder)).values()) == [HELD]
    assert list(generators_in(holder).values()) == [HELD]


def test_generators_of_every_part_are_found() -> None:
    """
    A hundred datasets that are one dataset have a hundred generators.
    """
    made = [random.Random(part) for part in range(100)]
    whole = Thing(datasets=[Thing(dataset=Thing(rng=each)) for each in made])
    assert {id(each) for each in generators_in(whole).values()} == {id(each) for each in made}


def test_walk_for_generators_ends_in_large_and_in_circular_structures() -> None:
    """
    It looks at a bounded number of objects, whatever a dataset holds.
    """
    mine = random.Random(1)
    circle: list[Any] = [mine]
    circle.append(circle)
    assert list(generators_in(Thing(circle=circle, rows=[[number] for number in range(100_000)])).values()) == [mine]


def test_generator_is_found_beside_a_lot_of_data() -> None:
    """
    Annotations of images, lists in dictionaries in a list, do not hide the generator of the same dataset.
    """
    mine = random.Random(1)
    annotations = [{"name": str(image), "boxes": [[box, 0, 1, 1] for box in range(50)]} for image in range(100)]
    assert list(generators_in(Thing(annotations=annotations, rng=mine)).values()) == [mine]
