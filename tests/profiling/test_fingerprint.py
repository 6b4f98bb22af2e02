"""
The number that tells whether the user changed a dataset.
"""

import gc
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autoloader.profiling import Fingerprint
from autoloader.profiling.fingerprint import _Walk


def fingerprint(*values: Any) -> int:
    """
    Return the number that stands for what one look saw.
    """
    return Fingerprint(*values).token


class Thing:
    """
    An object with the attributes given.
    """

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@dataclass(slots=True)
class Crop:
    """
    A transform with slots, as dataclasses make them.
    """

    size: int


class Collator:
    """
    A collate function that is a method.
    """

    length = 1

    def collate(self, batch: list[Any]) -> Any:
        raise AssertionError("a batch was collated")


class Level(IntEnum):
    EASY = 1
    HARD = 2


def training_set() -> Any:
    """
    Return a dataset with a bit of everything, as training scripts have it.
    """
    return Thing(
        difficulty=1,
        offset=-1,
        scale=0.5,
        phase=1j,
        name="train",
        key=b"key",
        size=(224, 224),
        level=Level.EASY,
        is_training=True,
        extra=None,
        files=["a.png", "b.png"],
        big=list(range(1000)),
        options={"crop": 1, "nested": {"deep": [1]}},
        large={number: -number for number in range(1000)},
        tags={"a", "b"},
        transform=Thing(transforms=[Thing(p=0.5, size=(1, 2)), Crop(size=4)]),
        inner=Thing(dataset=Thing(datasets=[Thing(difficulty=1)])),
    )


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """
    Return a function that sets the attribute at *path*.
    """

    def change(dataset: Any) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            dataset = getattr(dataset, parent)
        setattr(dataset, name, value)

    return change


CHANGES = [
    pytest.param(_set("difficulty", 2), id="number"),
    pytest.param(_set("offset", -2), id="minus-one-to-minus-two-which-hash-alike"),
    pytest.param(_set("difficulty", 1 + (2**61 - 1)), id="number-of-the-same-hash"),
    pytest.param(_set("difficulty", 1.0), id="number-of-another-type"),
    pytest.param(_set("difficulty", True), id="truth-for-a-number"),
    pytest.param(_set("scale", 0.25), id="float"),
    pytest.param(_set("scale", -0.5), id="sign-of-a-float"),
    pytest.param(_set("phase", 2j), id="complex"),
    pytest.param(_set("name", "valid"), id="text"),
    pytest.param(_set("key", b"other"), id="bytes"),
    pytest.param(_set("size", (224, 192)), id="tuple"),
    pytest.param(_set("level", Level.HARD), id="enum"),
    pytest.param(_set("is_training", False), id="truth"),
    pytest.param(_set("extra", 0), id="none-to-zero"),
    pytest.param(_set("added", 0), id="new-attribute"),
    pytest.param(lambda dataset: delattr(dataset, "extra"), id="attribute-gone"),
    pytest.param(lambda dataset: dataset.files.append("c.png"), id="list-grows"),
    pytest.param(lambda dataset: dataset.files.reverse(), id="list-order"),
    pytest.param(lambda dataset: dataset.files.__setitem__(1, "c.png"), id="list-element"),
    pytest.param(lambda dataset: dataset.big.__setitem__(999, "last"), id="element-of-a-large-list"),
    pytest.param(lambda dataset: dataset.big.pop(), id="large-list-shrinks"),
    pytest.param(lambda dataset: dataset.options.__setitem__("crop", 2), id="dict-value"),
    pytest.param(lambda dataset: dataset.options.__setitem__("flip", True), id="dict-key"),
    pytest.param(lambda dataset: dataset.options["nested"]["deep"].__setitem__(0, 2), id="nested-dict"),
    pytest.param(lambda dataset: dataset.large.__setitem__(500, "new"), id="value-of-a-large-dict"),
    pytest.param(lambda dataset: dataset.tags.add("c"), id="set"),
    pytest.param(_set("transform", None), id="transform-gone"),
    pytest.param(lambda dataset: setattr(dataset.transform.transforms[0], "p", 0.9), id="attribute-of-a-transform"),
    pytest.param(lambda dataset: setattr(dataset.transform.transforms[0], "size", (1, 3)), id="tuple-of-a-transform"),
    pytest.param(lambda dataset: setattr(dataset.transform.transforms[1], "size", 8), id="slot-of-a-transform"),
    pytest.param(lambda dataset: dataset.transform.transforms.pop(), id="one-transform-less"),
    pytest.param(
        lambda dataset: setattr(dataset.inner.dataset.datasets[0], "difficulty", 2), id="dataset-within-a-dataset"
    ),
]


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint_after_a_change_is_another(change: Callable[[Any], None]) -> None:
    """
    What a user changes between epochs changes the number.
    """
    dataset = training_set()
    before = fingerprint(dataset)
    change(dataset)
    assert fingerprint(dataset) != before


def test_fingerprint_without_a_change_stays() -> None:
    """
    Looking is no change, and neither is collecting garbage.
    """
    dataset = training_set()
    before = fingerprint(dataset)
    gc.collect()
    assert {fingerprint(dataset) for _ in range(3)} == {before}


def test_fingerprint_of_other_values_is_another() -> None:
    """
    The dataset, the collate function and the init function count, each in its place.
    """
    first, second = Thing(), Thing()
    assert len({fingerprint(first, second), fingerprint(second, first), fingerprint(first), fingerprint(second)}) == 4


def test_fingerprint_of_a_method_of_the_same_object_stays() -> None:
    """
    A function, a class and a module count by identity.
    """
    values = (len, random, Thing, fingerprint, training_set)
    assert fingerprint(*values) == fingerprint(*values)


def test_fingerprint_sees_the_object_of_a_method_and_the_arguments_of_a_partial() -> None:
    """
    A collate function may be a method of an object, or a function with arguments bound to it.
    """
    collator = Collator()
    bound = partial(len, collator)
    first = fingerprint(collator.collate), fingerprint(bound)
    assert (fingerprint(collator.collate), fingerprint(bound)) == first
    collator.length = 2
    second = fingerprint(collator.collate), fingerprint(bound)
    assert [before == after for before, after in zip(first, second, strict=True)] == [False, False]


def test_fingerprint_of_scalars_needs_no_identity() -> None:
    """
    Numbers and text are the same when they are equal.
    """
    assert fingerprint(10**30, "a" * 100, 1.5, (1, 2)) == fingerprint(10**30, "a" * 100, 3 / 2, (1, 2))


def _use_file(path: Path) -> Iterator[Any]:
    path.write_text("one\ntwo\n", encoding="utf-8")
    with path.open(encoding="utf-8") as file:
        yield file
        file.readline()
        yield file


def _use_random(path: Path) -> Iterator[Any]:
    generator = random.Random(0)
    yield generator
    generator.gauss(0, 1)
    yield generator


def _use_lock(path: Path) -> Iterator[Any]:
    lock = threading.Lock()
    yield lock
    with lock:
        yield lock


def _use_semaphore(path: Path) -> Iterator[Any]:
    semaphore = threading.Semaphore(2)
    yield semaphore
    with semaphore:
        yield semaphore


def _use_event(path: Path) -> Iterator[Any]:
    event = threading.Event()
    yield event
    event.set()
    yield event


def _use_condition(path: Path) -> Iterator[Any]:
    condition = threading.Condition()
    yield condition
    with condition:
        condition.notify_all()
        yield condition


def _use_generator(path: Path) -> Iterator[Any]:
    numbers = iter(range(10))
    yield numbers
    next(numbers)
    yield numbers


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(_use_file, id="file"),
        pytest.param(_use_random, id="random"),
        pytest.param(_use_lock, id="lock"),
        pytest.param(_use_semaphore, id="semaphore"),
        pytest.param(_use_event, id="event"),
        pytest.param(_use_condition, id="condition"),
        pytest.param(_use_generator, id="iterator"),
    ],
)
def test_fingerprint_after_use_of_what_a_dataset_holds_stays(
    use: Callable[[Path], Iterator[Any]], tmp_path: Path
) -> None:
    """
    Drawing a number, taking a lock and reading a file are no changes by the user.
    """
    states = use(tmp_path / "file.txt")
    dataset = Thing(held=next(states))
    before = fingerprint(dataset)
    next(states)
    assert fingerprint(dataset) == before
    assert list(states) == []


@pytest.mark.parametrize(
    "make",
    [pytest.param("default_rng", id="generator"), pytest.param("RandomState", id="random-state")],
)
def test_fingerprint_after_a_draw_by_numpy_stays(make: str) -> None:
    """
    Numpy's generators count by identity, too.
    """
    numpy = pytest.importorskip("numpy", reason="needs numpy")
    generator = getattr(numpy.random, make)(0)
    dataset = Thing(rng=generator)
    before = fingerprint(dataset)
    generator.normal()
    assert fingerprint(dataset) == before


@pytest.fixture
def numpy() -> ModuleType:
    """
    Give numpy.
    """
    return pytest.importorskip("numpy", reason="needs numpy")


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((), id="no-dimension"),
        pytest.param((10,), id="one-dimension"),
        pytest.param((3, 4, 5), id="three-dimensions"),
    ],
)
def test_fingerprint_after_writing_to_an_array_is_another(numpy: ModuleType, shape: tuple[int, ...]) -> None:
    """
    An array that was written to is another, although it is the same object.
    """
    dataset = Thing(data=numpy.zeros(shape))
    before = fingerprint(dataset)
    assert fingerprint(dataset) == before
    dataset.data[...] = 1
    assert fingerprint(dataset) != before


def test_fingerprint_after_masking_an_element_is_another(numpy: ModuleType) -> None:
    """
    The mask lies beside the elements; netCDF4 returns such arrays.
    """
    dataset = Thing(data=numpy.ma.array([1, 2, 3], mask=[0, 0, 0]))
    before = fingerprint(dataset)
    dataset.data[1] = numpy.ma.masked
    assert fingerprint(dataset) != before


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda numpy: numpy.zeros((0, 3)), id="empty"),
        pytest.param(lambda numpy: numpy.array([object()]), id="objects"),
        pytest.param(lambda numpy: numpy.zeros(4, dtype="V0"), id="no-bytes"),
        pytest.param(lambda numpy: numpy.zeros((4, 4)).T[::2], id="strided"),
        pytest.param(lambda numpy: numpy.ma.array([1, 2], mask=[0, 1]), id="masked"),
        pytest.param(lambda numpy: numpy.zeros(2, dtype="U3"), id="text"),
        pytest.param(lambda numpy: numpy.float32(1), id="scalar"),
    ],
)
def test_fingerprint_of_any_array_is_stable(numpy: ModuleType, make: Callable[[ModuleType], Any]) -> None:
    """
    Arrays of every layout and type have a number.
    """
    dataset = Thing(data=make(numpy))
    assert fingerprint(dataset) == fingerprint(dataset)


def test_fingerprint_sees_another_object_in_an_array(numpy: ModuleType) -> None:
    """
    An array of objects counts by the identity of its elements.
    """
    dataset = Thing(names=numpy.array(["a.png", "b.png"], dtype=object))
    before = fingerprint(dataset)
    dataset.names[1] = "c.png"
    assert fingerprint(dataset) != before


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_fingerprint_reads_no_more_than_a_block_of_an_array(numpy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of an array with a single huge row only the first MiB is read, whatever its kind and its order in memory.
    """
    checked: list[int] = []
    monkeypatch.setattr("zlib.crc32", lambda block: checked.append(len(block)) or 0)
    huge = numpy.zeros((1, 1 << 23), dtype="uint8")
    fingerprint(huge, numpy.zeros(1 << 20), numpy.asmatrix(huge), huge.reshape(2, -1).T)
    assert checked == [1 << 20] * 4


def test_fingerprint_reads_the_blocks_of_few_arrays_only(numpy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A dataset of many arrays is not read as a whole at the start of each epoch.
    """
    checked: list[int] = []
    monkeypatch.setattr("zlib.crc32", lambda block: checked.append(len(block)) or 0)
    fingerprint(*([numpy.zeros(1) for _ in range(60)] for _ in range(10)))
    assert len(checked) == 32


@pytest.mark.torch
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda tensor: tensor.add_(1), id="in-place"),
        pytest.param(lambda tensor: tensor.__setitem__(0, 1), id="element"),
        pytest.param(lambda tensor: tensor.resize_(2), id="shape"),
    ],
)
def test_fingerprint_after_writing_to_a_tensor_is_another(change: Callable[[Any], Any]) -> None:
    """
    Torch counts the writes to a tensor.
    """
    import torch

    dataset = torch.utils.data.TensorDataset(torch.zeros(4))
    before = fingerprint(dataset)
    assert fingerprint(dataset) == before
    change(dataset.tensors[0])
    assert fingerprint(dataset) != before


@pytest.mark.torch
def test_fingerprint_of_inference_tensors_and_generators_is_stable() -> None:
    """
    A tensor made in inference mode counts no writes, and a generator may draw.
    """
    import torch

    with torch.inference_mode():
        features = torch.zeros(4)
    generator = torch.Generator()
    dataset = Thing(features=features, sparse=torch.eye(2).to_sparse(), generator=generator)
    before = fingerprint(dataset)
    torch.rand(1, generator=generator)
    assert fingerprint(dataset) == before


def test_fingerprint_of_a_cycle_ends() -> None:
    """
    Objects that hold each other are visited once.
    """
    first, second = Thing(name="first"), Thing(name="second")
    first.other, second.others = second, [first, second]
    second.others.append(second.others)
    before = fingerprint(first)
    assert fingerprint(first) == before
    second.name = "changed"
    assert fingerprint(first) != before


class Counted(list[Any]):
    """
    A list that counts how many of its elements were handed out.
    """

    given = 0

    def __iter__(self) -> Iterator[Any]:
        for value in super().__iter__():
            self.given += 1
            yield value


def test_fingerprint_of_huge_lists_looks_at_a_bounded_number_of_elements() -> None:
    """
    Of all large lists together no more than 100,000 elements are looked at.
    """
    lists = [Counted(range(1_000_000)), Counted(range(1_000_000))]
    walk = _Walk()
    walk.token(Thing(lists=lists), 0)
    assert [each.given for each in lists] == [100_000, 0]
    assert len(walk._seen) == 4


def test_fingerprint_of_a_bush_visits_a_bounded_number_of_objects() -> None:
    """
    A structure that branches at each level is looked at up to 10,000 objects, and 13 levels down.
    """

    def bush(depth: int) -> list[Any]:
        return [bush(depth - 1) for _ in range(12)] if depth else []

    walk = _Walk()
    walk.token(bush(4), 0)
    assert len(walk._seen) == 10_000

    deep: list[Any] = []
    for _ in range(20):
        deep = [deep]
    walk = _Walk()
    walk.token(deep, 0)
    assert len(walk._seen) == 13


def test_path_that_was_used_is_no_change() -> None:
    """
    A path keeps its text, hash and parts once they were asked for; another path is a change.
    """
    path = Path("data") / "images"
    before = Fingerprint({"root": path})
    assert (str(path), path.parts) == (str(Path("data/images")), ("data", "images"))
    hash(path)
    assert not Fingerprint({"root": path}).differs_from(before)
    assert not Fingerprint({"root": Path("data/images")}).differs_from(before)
    assert Fingerprint({"root": Path("data/labels")}).differs_from(before)
