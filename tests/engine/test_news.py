"""
What copies of a dataset are told: the epoch, and attributes, wherever these belong.
"""

import pickle
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from autoloader.engine.news import News, apply, has_attribute, hear


class Tells(Dataset):
    """
    A dataset that notes each epoch that it is told.
    """

    difficulty = 1

    def __init__(self) -> None:
        self.heard: list[int] = []

    def __len__(self) -> int:
        return 2

    def set_epoch(self, epoch: int) -> None:
        self.heard.append(epoch)


class Wrapper(Dataset):
    """
    A wrapper of the user's, with a name of the user's for what it wraps.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return 2


class Delegating(Wrapper):
    """
    Passes on whatever it does not have itself.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)


class DelegatingSlots:
    """
    The same without a __dict__ of its own: that of the wrapped dataset answers.
    """

    __slots__ = ("dataset",)

    def __init__(self, inner: Any) -> None:
        self.dataset = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "dataset"), name)


class WithSlots:
    """
    A dataset whose attributes stand in slots, one without a value.
    """

    __slots__ = ("difficulty", "unset")

    def __init__(self) -> None:
        self.difficulty = 1


class WithProperty:
    """
    A dataset with an attribute that is a property.
    """

    def __init__(self) -> None:
        self.twice = 2

    @property
    def difficulty(self) -> float:
        return self.twice / 2

    @difficulty.setter
    def difficulty(self, value: int) -> None:
        self.twice = 2 * value


@pytest.mark.parametrize(
    ("make", "name", "expected"),
    [
        pytest.param(Tells, "difficulty", True, id="of-the-class"),
        pytest.param(Tells, "heard", True, id="of-the-object"),
        pytest.param(Tells, "set_epoch", True, id="method"),
        pytest.param(Tells, "other", False, id="none"),
        pytest.param(WithSlots, "difficulty", True, id="slot"),
        pytest.param(WithSlots, "unset", True, id="slot-without-value"),
        pytest.param(WithSlots, "other", False, id="no-slot"),
        pytest.param(WithProperty, "difficulty", True, id="property"),
        pytest.param(lambda: Delegating(Tells()), "heard", False, id="wrapped-ones"),
        pytest.param(lambda: Delegating(Tells()), "inner", True, id="wrappers"),
        pytest.param(lambda: DelegatingSlots(Tells()), "heard", False, id="wrapped-ones-dict"),
        pytest.param(lambda: DelegatingSlots(Tells()), "dataset", True, id="wrappers-slot"),
    ],
)
def test_has_attribute_is_about_the_object_itself(make: Any, name: str, expected: bool) -> None:
    """
    What a wrapper passes on belongs to the wrapped dataset, and is set there.
    """
    assert has_attribute(make(), name) is expected


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda data: data, id="alone"),
        pytest.param(lambda data: Subset(data, [0]), id="subset"),
        pytest.param(lambda data: ConcatDataset([data, data]), id="concat-of-the-same"),
        pytest.param(Wrapper, id="users"),
        pytest.param(Delegating, id="delegating"),
        pytest.param(DelegatingSlots, id="delegating-slots"),
        pytest.param(lambda data: Subset(Delegating(ConcatDataset([Wrapper(data)])), [0]), id="all"),
    ],
)
def test_apply_reaches_what_is_wrapped_and_each_object_once(wrap: Any) -> None:
    """
    Its set_epoch is called once, however many ways lead there, and its attribute is set in it, not in a wrapper.
    """
    inner = Tells()
    apply(wrap(inner), 3, {"difficulty": 2})
    assert (inner.heard, vars(inner)["difficulty"]) == ([3], 2)


def test_apply_tells_the_wrapper_and_each_part() -> None:
    """
    A wrapper with a set_epoch of its own hears of it, too, and so do all parts of a concatenation.
    """

    class Own(Tells):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

    parts = [Tells(), Tells(), Tells()]
    outer = Own(ConcatDataset(parts))
    apply(outer, 4, {})
    assert [each.heard for each in (outer, *parts)] == [[4]] * 4


@pytest.mark.parametrize("make", [WithSlots, WithProperty])
def test_apply_sets_slots_and_properties(make: Any) -> None:
    """
    They are attributes like others.
    """
    dataset = make()
    apply(dataset, None, {"difficulty": 5})
    assert dataset.difficulty == 5


def test_apply_without_an_epoch_calls_no_set_epoch() -> None:
    """
    Attributes alone are no new epoch.
    """
    dataset = Tells()
    apply(dataset, None, {"difficulty": 5})
    assert (dataset.heard, dataset.difficulty) == ([], 5)
    apply(dataset, 0, {})
    assert dataset.heard == [0]


def test_apply_calls_only_what_is_a_method() -> None:
    """
    An attribute that happens to have this name is left alone.
    """
    dataset = Tells()
    dataset.set_epoch = 5  # type: ignore[assignment,method-assign]
    apply(dataset, 3, {})
    assert (dataset.heard, dataset.set_epoch) == ([], 5)


def test_news_bring_each_copy_up_to_date() -> None:
    """
    One message serves every worker: its epoch, and all attributes by value.
    """
    version, pickled = News(1, 3, {"difficulty": {"level": [2, 4]}, "unknown": 5}).wire
    for _ in range(3):
        copied = Wrapper(Tells())
        hear(pickled, copied)
        assert (version, copied.inner.heard, copied.inner.difficulty) == (1, [3], {"level": [2, 4]})
        assert not hasattr(copied.inner, "unknown")


def test_news_with_a_tensor_serve_every_worker_and_leave_it_where_it_is() -> None:
    """
    Several workers read the same message, and the user's tensor does not move into shared memory for that.
    """
    table = torch.arange(4.0)
    _, pickled = News(1, None, {"difficulty": table}).wire
    for _ in range(3):
        copied = Tells()
        hear(pickled, copied)
        assert torch.equal(copied.difficulty, torch.arange(4.0))  # type: ignore[arg-type]
    assert not table.is_shared()


def test_news_that_nobody_reads_need_not_be_picklable() -> None:
    """
    They are pickled for workers, once, and not where batches load in this process.
    """
    news = News(1, None, {"difficulty": lambda: 3})
    with pytest.raises((AttributeError, pickle.PicklingError)):
        _ = news.wire
    again = News(2, None, {"difficulty": 3})
    assert again.wire is again.wire
