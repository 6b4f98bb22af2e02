"""
Datasets that answer questions in ways nobody expects: looking at them neither raises an error nor runs on for ever.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from autoloader.profiling import Fingerprint, inspect_dataset


class Refuses:
    """
    Raises an error for every attribute that is not there.
    """

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class RefusesEverything:
    """
    Raises an error for every attribute.
    """

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Endless:
    """
    Returns itself for every attribute, call and item.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> "Endless":
        return self

    def __call__(self, *arguments: Any) -> "Endless":
        return self

    def __getitem__(self, index: Any) -> "Endless":
        return self

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __hash__(self) -> int:
        raise RuntimeError("not to be hashed")

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Slotted:
    """
    Has slots, one of which is empty.
    """

    __slots__ = ("data_dir", "missing")

    def __init__(self) -> None:
        self.data_dir = "/data"


class Properties:
    """
    Raises an error in each property, also in those that Python itself looks at.
    """

    def _fail(self) -> Any:
        raise RuntimeError("a property that raises")

    root = property(_fail)
    dataset = property(_fail)
    datasets = property(_fail)
    tensors = property(_fail)
    num_shards = property(_fail)
    n_shards = property(_fail)
    __class__ = property(_fail)  # type: ignore[assignment]
    __dict__ = property(_fail)  # type: ignore[assignment]


class OddAttributes:
    """
    Holds attributes that are no attributes.
    """

    def __init__(self) -> None:
        self.__dict__[1] = "/data"  # type: ignore[index]
        self.root = Endless()
        self.files = [Endless()]
        self.dataset = Endless()
        self.datasets = [Endless()]
        self.path = RefusesEverything()


class OddMembers:
    """
    Holds class attributes that are no methods.
    """

    endless = Endless()
    refuses = Refuses()
    mock = MagicMock()
    nested = Properties


class EndlessList(list[Any]):
    """
    A list that never ends when iterated over.
    """

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield 0


class RaisingList(list[Any]):
    """
    A list that raises an error whatever is asked of it.
    """

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("not to be iterated over")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("no item")


class Meta(type):
    """
    A metaclass that raises an error for what its classes lack.
    """

    def __getattr__(cls, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class OfMeta(metaclass=Meta):
    pass


class Holder:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def cyclic() -> Holder:
    """
    Return an object that holds itself, in every way that is looked at.
    """
    holder = Holder()
    holder.__dict__.update({f"dataset{number}": holder for number in range(60)})
    holder.__dict__.update(dataset=holder, datasets=[holder] * 50, root=[[holder]])
    return holder


HOSTILE = [
    pytest.param(Refuses, id="refuses-what-is-missing"),
    pytest.param(RefusesEverything, id="refuses-everything"),
    pytest.param(Endless, id="returns-itself"),
    pytest.param(Slotted, id="slots"),
    pytest.param(Properties, id="properties-that-raise"),
    pytest.param(OddAttributes, id="odd-attributes"),
    pytest.param(OddMembers, id="odd-members"),
    pytest.param(lambda: EndlessList([1, 2]), id="list-without-end"),
    pytest.param(lambda: Holder(files=EndlessList([1, 2])), id="holds-a-list-without-end"),
    pytest.param(lambda: RaisingList([1]), id="list-that-raises"),
    pytest.param(lambda: Holder(files=RaisingList([1])), id="holds-a-list-that-raises"),
    pytest.param(OfMeta, id="metaclass"),
    pytest.param(lambda: OfMeta, id="class-of-a-metaclass"),
    pytest.param(Mock, id="mock"),
    pytest.param(MagicMock, id="magic-mock"),
    pytest.param(cyclic, id="cyclic"),
    pytest.param(lambda: None, id="none"),
    pytest.param(object, id="object"),
    pytest.param(lambda: Holder, id="class"),
]


@pytest.mark.parametrize("make", HOSTILE)
def test_inspect_of_a_hostile_dataset_raises_nothing(make: Any) -> None:
    """
    Whatever a dataset answers, it is a map-style dataset that is not in memory.
    """
    traits = inspect_dataset(make())
    assert (traits.style, traits.is_in_memory, traits.sample_bytes) == ("map", False, None)


@pytest.mark.parametrize("make", HOSTILE)
def test_fingerprint_of_a_hostile_dataset_is_stable(make: Any) -> None:
    """
    Whatever a dataset answers, looking twice gives the same number.
    """
    dataset = make()
    assert not Fingerprint(dataset).differs_from(Fingerprint(dataset))


@pytest.mark.torch
@pytest.mark.parametrize("make", HOSTILE)
def test_inspect_of_a_hostile_dataset_in_torchs_wrappers_raises_nothing(make: Any) -> None:
    """
    The same holds where torch is loaded and a Subset is around it.
    """
    from torch.utils.data import Subset

    traits = inspect_dataset(Subset(make(), [0]))
    assert (traits.style, traits.is_in_memory, traits.samples) == ("map", False, 1)


@pytest.mark.torch
@pytest.mark.parametrize("make", HOSTILE)
def test_inspect_of_a_stream_of_hostile_parts_raises_nothing(make: Any) -> None:
    """
    A stream may hold anything, as an attribute of its own or of its class.
    """
    from torch.utils.data import IterableDataset

    class Stream(IterableDataset[Any]):
        def __init__(self) -> None:
            self.source = make()
            self.sources = [make()]
            self.root = make()

        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("an iterator was made")

        @property
        def num_shards(self) -> Any:
            return make()

    # Set afterwards: a class with abstract methods looks at each of its members while it is made.
    Stream.part = make()  # type: ignore[attr-defined]
    traits = inspect_dataset(Stream())
    assert (traits.style, traits.num_shards, traits.is_worker_aware) == ("iterable", None, False)


@pytest.mark.torch
def test_inspect_of_an_object_that_claims_to_be_a_stream_believes_it() -> None:
    """
    A proxy whose ``__class__`` is an iterable-style dataset is one to torch, and so it is here.
    """
    from torch.utils.data import IterableDataset

    class Proxy:
        @property
        def __class__(self) -> Any:  # type: ignore[override]
            return IterableDataset

    assert inspect_dataset(Proxy()).style == "iterable"
