"""
Bad input is one clear error, before anything is started.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import datasets
from autoloader import AutoloaderWarning, Plan, auto_loader, plan_loader
from autoloader.errors import ArgumentError, PlanFileError


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            {"num_workers": -1},
            "num_workers=-1 is too small: 0 loads in the training process, and the smallest is 0. "
            "Pass 0 or more, or leave num_workers out.",
            id="negative-workers",
        ),
        pytest.param(
            {"prefetch_factor": 0},
            "prefetch_factor=0 is too small: each worker prepares so many batches ahead, and the smallest is 1. "
            "Pass 1 or more, or leave prefetch_factor out.",
            id="no-prefetch",
        ),
        pytest.param(
            {"num_workers": "4"},
            "num_workers='4' is not a whole number: 0 loads in the training process. "
            "Pass an int of 0 or more, or leave num_workers out.",
            id="text",
        ),
        pytest.param(
            {"num_workers": 1.5},
            "num_workers=1.5 is not a whole number: 0 loads in the training process. "
            "Pass an int of 0 or more, or leave num_workers out.",
            id="fraction",
        ),
        pytest.param(
            {"epochs": 0},
            "epochs=0 is too small: it is how often you expect to go through the dataset, and the smallest is 1. "
            "Pass 1 or more, or leave epochs out.",
            id="no-epochs",
        ),
        pytest.param(
            {"plan": 4},
            "plan=4 is not a plan: it is of type int. Pass a Plan, or the path of a file that Plan.save wrote.",
            id="plan-of-another-type",
        ),
    ],
)
def test_argument_that_makes_no_sense_is_one_error(arguments: dict[str, Any], text: str) -> None:
    """
    The error names value, reason and fix, is a ValueError too, and ends a command with exit code 2.
    """
    with pytest.raises(ArgumentError) as caught:
        auto_loader(datasets.Numbers(), 4, **arguments)
    assert (str(caught.value), caught.value.exit_code, isinstance(caught.value, ValueError)) == (text, 2, True)


@pytest.mark.parametrize(
    ("dataset", "what"),
    [
        pytest.param(DataLoader([1, 2]), "a DataLoader", id="loader"),
        pytest.param(datasets.Numbers, "a class", id="class"),
        pytest.param(None, "of type NoneType", id="none"),
        pytest.param((number for number in range(3)), "of type generator", id="generator"),
        pytest.param("data", "a string, whose samples would be its characters", id="path"),
    ],
)
def test_what_is_no_dataset_is_one_error(dataset: Any, what: str) -> None:
    """
    Torch would take it here, and fail on it in a worker.
    """
    with pytest.raises(ArgumentError) as caught:
        auto_loader(dataset)
    assert str(caught.value).endswith(
        f" is not a dataset: it is {what}. "
        "Pass the dataset itself, an object with __getitem__ and __len__ or an IterableDataset."
    )


@pytest.mark.parametrize("extra", [{}, {"num_workers": 2}, {"distributed": True}], ids=["as-is", "workers", "ranks"])
def test_empty_dataset_that_is_to_be_shuffled_is_one_error(extra: dict[str, Any]) -> None:
    """
    Torch's own names num_samples, which nobody has passed.
    """
    with pytest.raises(ArgumentError) as caught:
        auto_loader([], 4, shuffle=True, **extra)
    assert str(caught.value) == (
        "The dataset, a list, has no samples to shuffle: its length is 0. Check the path or pattern that it reads."
    )


def test_empty_dataset_is_not_refused_with_a_sampler_or_without_shuffling() -> None:
    """
    An epoch has no batches, as with torch.
    """
    assert list(auto_loader([], 4)) == []
    assert list(auto_loader([], 4, sampler=[])) == []


def test_count_set_after_construction_is_checked() -> None:
    """
    An attribute is an argument, too.
    """
    loader = auto_loader(datasets.Numbers(), 4)
    with pytest.raises(ArgumentError, match="^num_workers=-1 is too small: "):
        loader.num_workers = -1
    assert loader.num_workers == 2


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"shuffle": True, "sampler": [1, 2]}, id="shuffle-and-sampler"),
        pytest.param({"batch_sampler": [[1]], "batch_size": 4}, id="batch-sampler-and-size"),
        pytest.param({"num_workers": 0, "prefetch_factor": 2}, id="prefetch-without-workers"),
        pytest.param({"num_workers": 0, "persistent_workers": True}, id="persistent-without-workers"),
        pytest.param({"num_workers": 0, "multiprocessing_context": "fork"}, id="context-without-workers"),
        pytest.param({"batch_size": 0}, id="empty-batches"),
        pytest.param({"batch_size": "4"}, id="batch-size-of-another-type"),
        pytest.param({"timeout": -1, "num_workers": 1}, id="negative-timeout"),
        pytest.param({"num_workers": 1, "multiprocessing_context": "clone"}, id="no-such-method"),
        pytest.param({"worker": 3}, id="no-such-argument"),
    ],
)
def test_contradiction_of_the_users_is_torchs_own_error(arguments: dict[str, Any]) -> None:
    """
    Type and text of the error are the plain DataLoader's.
    """
    with pytest.raises((ValueError, TypeError)) as expected:
        DataLoader(datasets.Numbers(), **arguments)
    with pytest.raises(type(expected.value)) as caught:
        auto_loader(datasets.Numbers(), **arguments)
    if "worker" not in arguments:
        assert str(caught.value) == str(expected.value)


def test_timeout_without_workers_is_torchs_own_error() -> None:
    """
    Torch accepts a timeout at 0 workers, and refuses it when the loader is iterated.
    """
    for make in (DataLoader, auto_loader):
        with pytest.raises(AssertionError):
            iter(make(datasets.Numbers(), num_workers=0, timeout=5))


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"prefetch_factor": 3}, id="prefetch"),
        pytest.param({"persistent_workers": True}, id="persistent"),
        pytest.param({"multiprocessing_context": "spawn"}, id="context"),
        pytest.param({"timeout": 600}, id="timeout"),
    ],
)
def test_argument_that_needs_workers_gets_one_where_none_was_wanted(arguments: dict[str, Any]) -> None:
    """
    What the user sets wins over our choice of none.
    """
    with auto_loader([1, 2, 3, 4], 2, **arguments) as loader:
        assert (loader.num_workers, loader.plan.choices["num_workers"].rule) == (1, "num_workers.needed")
        assert [batch.tolist() for batch in loader] == [[1, 2], [3, 4]]


def test_plan_of_another_schema_is_one_error(tmp_path: Path) -> None:
    """
    A plan file of another layout is refused with what to do, and exit code 3.
    """
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"schema": 99, "choices": {}}))
    with pytest.raises(PlanFileError) as caught:
        auto_loader(datasets.Numbers(), 4, plan=path)
    assert caught.value.exit_code == 3
    assert str(caught.value) == (
        f"plan={str(path)!r} has another layout: its schema is 99, and this version reads 1. "
        "Write it again with Plan.save, or leave plan= out."
    )


def test_plan_file_with_a_value_out_of_range_is_one_error(tmp_path: Path) -> None:
    """
    A plan that was edited by hand is checked like arguments are.
    """
    path = tmp_path / "plan.json"
    plan_loader(datasets.Numbers(), 4).save(path)
    path.write_text(path.read_text().replace('"value": 2,', '"value": -2,'))
    with pytest.raises(PlanFileError, match=r"is not a plan: num_workers=-2 is too small: "):
        auto_loader(datasets.Numbers(), 4, plan=path)


def test_plan_is_used_as_given_and_arguments_win_over_it(tmp_path: Path) -> None:
    """
    plan= replaces the choosing; what the user sets beside it is the user's.
    """
    path = tmp_path / "plan.json"
    plan = plan_loader(datasets.Numbers(), 4, num_workers=1)
    plan.save(path)
    for given in (plan, path, str(path)):
        assert auto_loader(datasets.Numbers(), 4, plan=given).num_workers == 1
    loader = auto_loader(datasets.Numbers(), 4, plan=path, num_workers=2)
    assert (loader.num_workers, loader.plan.choices["num_workers"].rule) == (2, "num_workers.fixed")


def test_plan_gives_the_arguments_of_a_plain_dataloader() -> None:
    """
    plan_loader(...).as_kwargs() is all that a plain DataLoader needs.
    """
    plan = plan_loader(datasets.Numbers(), 4)
    assert isinstance(plan, Plan)
    loader = DataLoader(datasets.Numbers(), 4, **plan.as_kwargs())
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (2, 2, False)


class MissingSampler(list):  # type: ignore[type-arg]
    """
    A sampler whose list of indices lies in a file that is not there.
    """

    def __iter__(self) -> Any:
        raise FileNotFoundError(2, "No such file or directory", "indices.txt")


def test_error_of_a_sampler_is_its_own_inline() -> None:
    """
    An OSError is nobody's failure to start a worker where none was to start.
    """
    with pytest.raises(FileNotFoundError, match="indices.txt"):
        list(auto_loader(datasets.Numbers(), 4, sampler=MissingSampler([0, 1]), num_workers=0))


@pytest.mark.slow_spawn
def test_error_of_a_sampler_with_workers_is_its_own_in_the_end() -> None:
    """
    Torch asks the sampler while it starts workers, so it is taken for theirs first; what is raised is the sampler's.
    """
    with pytest.warns(AutoloaderWarning, match="indices.txt"), pytest.raises(FileNotFoundError, match="indices.txt"):
        list(auto_loader(datasets.Numbers(), 4, sampler=MissingSampler([0, 1]), num_workers=1))
