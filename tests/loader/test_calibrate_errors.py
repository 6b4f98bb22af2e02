"""
calibrate where nothing can be measured: one error, which says what, because of what, and what to do.
"""

from collections.abc import Callable
from typing import Any

import pytest

import datasets
from autoloader import calibrate
from autoloader.errors import ArgumentError, CalibrationError, MissingMainGuardError
from autoloader.start import main_guard
from loader.chosen import NEEDS_FORK
from tuning.subjects import Troubled, Unsendable, hang, kill, raise_key_error, raise_stop_iteration

pytestmark = [NEEDS_FORK, pytest.mark.slow_spawn]


def message(raised: Any) -> str:
    """
    Return the first paragraph of an error.
    """
    return str(raised.value).partition("\n\n")[0]


FAILED = "Nothing could be measured, because loading failed: {}. "
MEND = "Mend the dataset: list(DataLoader(dataset, num_workers={})) shows the same error here."


@pytest.mark.parametrize(
    ("dataset", "arguments", "text"),
    [
        pytest.param(
            lambda: Troubled(raise_key_error),
            {},
            FAILED.format("KeyError: 'no such sample'") + MEND.format(0),
            id="raises",
        ),
        pytest.param(
            lambda: Troubled(raise_key_error, only_in_workers=True),
            {"num_workers": 2, "budget_seconds": 20},
            FAILED.format("KeyError: 'no such sample'") + MEND.format(2),
            id="raises-in-workers-that-the-user-set",
        ),
        pytest.param(
            lambda: Troubled(raise_stop_iteration),
            {},
            FAILED.format("StopIteration") + MEND.format(0),
            id="stop-iteration",
        ),
        pytest.param(
            lambda: Troubled(kill),
            {},
            FAILED.format("the process that measures ended with exit code -9") + MEND.format(0),
            id="dies",
        ),
        pytest.param(
            lambda: datasets.Numbers(0),
            {},
            "Nothing can be measured, because the dataset gives no batch. "
            "Check the path or pattern that it reads, its sampler, and drop_last.",
            id="empty",
        ),
        pytest.param(
            lambda: Troubled(hang),
            {"budget_seconds": 1.5},
            "Nothing could be measured in 1.5 seconds: no batch came. "
            "Pass more, budget_seconds=60 for instance, or see why a batch takes so long.",
            id="hangs",
        ),
        pytest.param(
            Unsendable,
            {"collate_fn": list, "step": lambda batch: None},
            "step= cannot be timed, because a batch holds something that cannot be pickled, and cannot come here. "
            "Make batches of tensors, numbers and text, or leave step= out.",
            id="step-without-batch",
        ),
    ],
)
def test_dataset_that_cannot_be_measured_is_one_error(
    dataset: Callable[[], Any], arguments: dict[str, Any], text: str
) -> None:
    """
    What, because, do; the dataset's own traceback below.
    """
    with pytest.raises(CalibrationError) as raised:
        calibrate(dataset(), 4, **arguments)
    assert message(raised) == text
    assert raised.value.exit_code == 5


def test_traceback_of_the_dataset_stands_below_the_error() -> None:
    """
    With none of our own calls.
    """
    with pytest.raises(CalibrationError) as raised:
        calibrate(Troubled(raise_key_error), 4)
    told = str(raised.value).partition("\n\n")[2].splitlines()
    assert (told[0], told[-1]) == ("Traceback (most recent call last):", "KeyError: 'no such sample'")
    assert [line for line in told if line.endswith("in raise_key_error")]
    assert not [line for line in told if "/src/autoloader/" in line]


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), "20"])
def test_budget_that_is_no_time_is_one_error(budget: Any) -> None:
    """
    Before anything is started.
    """
    with pytest.raises(ArgumentError) as raised:
        calibrate(datasets.Numbers(), 4, budget_seconds=budget)
    text = f"budget_seconds={budget!r} is no time to measure in. Pass a number of seconds above 0; 20 is the default."
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("state", "because"),
    [
        pytest.param({"is_daemonic": True}, "this process is daemonic", id="daemonic"),
        pytest.param({"is_dataloader_worker": True}, "this process is itself a", id="in-a-worker"),
    ],
)
def test_process_that_may_start_none_is_one_error(host: Any, state: dict[str, bool], because: str) -> None:
    """
    With the reason.
    """
    host.change("process", **state)
    with pytest.raises(CalibrationError) as raised:
        calibrate(datasets.Numbers(), 4)
    assert message(raised).startswith(f"Nothing can be measured, because no process can start for it: {because}")
    assert message(raised).endswith("Then calibrate again.")


def test_copy_of_the_script_in_a_starting_worker_does_not_calibrate(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It would start processes without end.
    """
    monkeypatch.setattr(main_guard, "is_starting_worker", lambda: True)
    with pytest.raises(MissingMainGuardError, match="^This process is a worker that is importing"):
        calibrate(datasets.Numbers(), 4)


def test_sampler_that_cannot_be_pickled_is_one_error_under_spawn() -> None:
    """
    And is not drawn from.
    """
    sampler = (index for index in range(40))
    with pytest.raises(CalibrationError) as raised:
        calibrate(datasets.Numbers(), 4, sampler=sampler, multiprocessing_context="spawn")
    assert message(raised) == (
        "Nothing can be measured, because the process for it did not start: TypeError: cannot pickle 'generator' "
        "object. If something cannot be pickled, it is the sampler: pass a list of indices. Otherwise memory, "
        "processes or open files are short."
    )
    assert next(sampler) == 0
