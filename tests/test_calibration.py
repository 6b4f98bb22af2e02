"""
The outcome of a calibration: its verdict in words, and its JSON.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from autoloader.calibration import Calibration, Trial
from autoloader.plan import Choice, Plan
from autoloader.traits import Profile

PROFILE = Profile(batches=8, batch_samples=10, sample_seconds=0.02, sample_cpu_seconds=0.01)
"""
A batch takes 0.1 s of a CPU.
"""


def trial(workers: int, rate: float) -> Trial:
    """
    Return a trial with so many batches a second.
    """
    return Trial(
        num_workers=workers, step_seconds=1 / rate, first_batch_seconds=0.5, runs=1, batches=8, expected_seconds=0.1
    )


def calibration(rate: float | None = 10.0, **values: Any) -> Calibration:
    """
    Return one that chose two workers of two CPUs.
    """
    choice = Choice(value=2, rule="num_workers.calibrated", because="two were best")
    trials = () if rate is None else (trial(0, 5.0), trial(2, rate))
    known = {"plan": Plan(choices={"num_workers": choice}), "profile": PROFILE, "trials": trials, "cpus": 2.0}
    return Calibration(**{**known, "seconds": 4.0, **values})


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        pytest.param({}, 20.0, id="samples"),
        pytest.param({"collate_seconds": 0.1}, 10.0, id="and-collate"),
        pytest.param({"transfer_seconds": 0.05}, 10.0, id="and-both-sides-of-the-transfer"),
        pytest.param({"step_seconds": 1.0, "step_cpu_seconds": 0.3}, 5.0, id="and-training"),
        pytest.param({"sample_cpu_seconds": 0.0}, None, id="nothing"),
    ],
)
def test_cpu_limit_is_when_all_cpus_are_busy(changes: dict[str, float], limit: float | None) -> None:
    """
    Two CPUs by the CPU seconds of a batch: 0.1, and what is added.
    """
    assert calibration(profile=replace(PROFILE, **changes)).cpu_limit == (limit and pytest.approx(limit))


SLOW = replace(PROFILE, step_seconds=0.1, step_cpu_seconds=0.0)
FAST = replace(PROFILE, step_seconds=0.05, step_cpu_seconds=0.0)
IDLE = replace(PROFILE, sample_cpu_seconds=0.0)


@pytest.mark.parametrize(
    ("rate", "changes", "lines"),
    [
        pytest.param(
            10,
            {},
            ["The 2 CPUs would allow 20: what is waited for is not CPU, or other programs use it."],
            id="far-from-the-limit",
        ),
        pytest.param(
            19,
            {},
            [
                "The 2 CPUs allow about 20: no setting gains much more, only cheaper samples or steps, or more CPUs.",
            ],
            id="near-the-limit",
        ),
        pytest.param(
            25,
            {},
            ["That is more than the CPUs should allow: the first batches were slower than those that followed."],
            id="beyond-the-limit",
        ),
        pytest.param(
            4,
            {"cpus": 1.0},
            ["The 1 CPU would allow 10: what is waited for is not CPU, or other programs use it."],
            id="one-cpu",
        ),
        pytest.param(
            4,
            {"cpus": 1.5},
            ["The 1.5 CPUs would allow 15: what is waited for is not CPU, or other programs use it."],
            id="one-and-a-half",
        ),
        pytest.param(
            9.5, {"profile": SLOW}, ["Training alone could take 10: loading keeps up with it."], id="keeps-up"
        ),
        pytest.param(
            10,
            {"profile": FAST},
            [
                "The 2 CPUs would allow 20: what is waited for is not CPU, or other programs use it.",
                "Training alone could take 20: it waits for data.",
            ],
            id="training-waits",
        ),
        pytest.param(10, {"profile": IDLE}, [], id="no-cpu-needed"),
    ],
)
def test_verdict_says_what_tuning_can_still_gain(rate: float, changes: dict[str, Any], lines: list[str]) -> None:
    """
    Between what was chosen and how long it took.
    """
    assert str(calibration(rate, **changes)).splitlines() == [
        "num_workers=2: two were best [num_workers.calibrated]",
        f"That is {rate:g} batches a second, {rate * 10:g} samples a second.",
        *lines,
        "Measured in 4 s, ended when the order was clear.",
    ]


@pytest.mark.parametrize(
    ("stopped_by", "text"),
    [
        ("order clear", "when the order was clear"),
        ("budget", "when the budget was used up"),
        ("interrupt", "by an interrupt"),
        ("no trial possible", "without a trial, so that the model alone decides"),
    ],
)
def test_verdict_without_trials_says_why_it_ended(stopped_by: str, text: str) -> None:
    """
    There is no rate then.
    """
    assert str(calibration(None, stopped_by=stopped_by)).splitlines() == [
        "num_workers=2: two were best [num_workers.calibrated]",
        f"Measured in 4 s, ended {text}.",
    ]


def test_json_holds_all_of_it() -> None:
    """
    What is read back is equal.
    """
    found = calibration(curve=((0, 0.2), (1, 0.2), (2, 0.1)), stopped_by="budget")
    data = json.loads(found.to_json())
    assert data["plan"]["choices"]["num_workers"]["value"] == 2
    assert data["trials"][1]["num_workers"] == 2
    assert Calibration.from_json(data) == found
    assert found.num_workers == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"plan": None}, "Calibration.plan should be an object, and is None", id="no-plan"),
        pytest.param({"seconds": "4"}, "Calibration.seconds should be a number, and is '4'", id="text"),
        pytest.param({"speed": 1}, "Calibration has a field 'speed' that this version does not know", id="unknown"),
        pytest.param({"curve": [[1]]}, "Calibration.curve[0] should be a list of 2, and is [1]", id="half-a-point"),
    ],
)
def test_json_of_something_else_is_one_error(change: dict[str, Any], text: str) -> None:
    """
    The text names the field.
    """
    data = {**json.loads(calibration().to_json()), **change}
    with pytest.raises(ValueError) as raised:
        Calibration.from_json(data)
    assert str(raised.value) == text
