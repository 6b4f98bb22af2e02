"""
The truth table of pin_memory.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from policy.baseline import NO_ACCELERATOR, decision, plan_for

ROWS = [
    pytest.param({}, True, "pin_memory.accelerator", id="baseline"),
    pytest.param({"accelerator.kind": "rocm"}, True, "pin_memory.accelerator", id="rocm"),
    pytest.param({"accelerator.kind": "xpu"}, True, "pin_memory.accelerator", id="xpu"),
    pytest.param({"accelerator.kind": "mps"}, False, "pin_memory.no-accelerator", id="mps"),
    pytest.param(NO_ACCELERATOR, False, "pin_memory.no-accelerator", id="no-accelerator"),
    pytest.param({"accelerator.devices": 0}, False, "pin_memory.no-accelerator", id="every-device-hidden"),
    pytest.param({"accelerator.devices": None}, False, "pin_memory.no-accelerator", id="devices-unknown"),
    pytest.param(
        {"process.is_torch_built_for_accelerator": False},
        False,
        "pin_memory.torch-without-accelerator",
        id="torch-is-a-cpu-build",
    ),
    pytest.param(
        {"process.is_torch_built_for_accelerator": None}, True, "pin_memory.accelerator", id="torch-not-loaded-yet"
    ),
    pytest.param({"system.wsl_version": 2}, False, "pin_memory.wsl", id="wsl-2"),
    pytest.param({"system.wsl_version": None}, True, "pin_memory.accelerator", id="not-linux"),
    pytest.param({"traits.is_in_memory": True}, True, "pin_memory.accelerator", id="inline-batches-are-pinned-too"),
    pytest.param({"fixed.pin_memory": True, **NO_ACCELERATOR}, True, "pin_memory.fixed", id="fixed-on"),
    pytest.param({"fixed.pin_memory": False}, False, "pin_memory.fixed", id="fixed-off"),
]


@pytest.mark.parametrize(("changes", "value", "rule"), ROWS)
def test_pin_memory_truth_table(changes: Mapping[str, Any], value: bool, rule: str) -> None:
    """
    Batches are pinned only for a CUDA, ROCm or XPU device that this torch can use.
    """
    assert decision(changes, "pin_memory") == (value, rule)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "1 cuda device found", id="one"),
        pytest.param({"accelerator.devices": 8}, "8 cuda devices found", id="several"),
        pytest.param(
            {"process.is_torch_built_for_accelerator": False},
            "a cuda device is here, but this torch is a CPU build",
            id="cpu-build",
        ),
    ],
)
def test_pin_memory_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names the devices.
    """
    assert plan_for(changes).choices["pin_memory"].because == because
