"""
How Python starts children, and in what state it is.
"""

import pytest

from autoloader.probe.host_io import MainModule, StartMethods
from autoloader.probe.interpreter import read_process, read_python_cpu_count, read_start_methods
from support import FakeHost


@pytest.mark.parametrize(
    "methods",
    [
        pytest.param(StartMethods(("fork", "spawn", "forkserver"), "fork", None), id="linux-up-to-3.13"),
        pytest.param(StartMethods(("forkserver", "fork", "spawn"), "forkserver", None), id="linux-from-3.14-on"),
        pytest.param(StartMethods(("spawn",), "spawn", "spawn"), id="windows-fixed-already"),
    ],
)
def test_start_methods_are_as_multiprocessing_says(methods: StartMethods) -> None:
    """
    What nobody fixed stays unknown.
    """
    facts = read_start_methods(FakeHost(methods=methods))
    assert (facts.available, facts.default, facts.in_force) == methods
    assert ("in_force" in facts.sources) is (methods.in_force is not None)


def test_start_methods_without_multiprocessing_are_unknown() -> None:
    """
    Some builds of Python have no multiprocessing (WebAssembly).
    """
    facts = read_start_methods(FakeHost(methods=None))
    assert (facts.available, facts.default, facts.in_force, dict(facts.sources)) == ((), None, None, {})


@pytest.mark.parametrize(
    ("answers", "field", "expected"),
    [
        pytest.param({"threads": 3}, "other_threads", 3, id="threads"),
        pytest.param({"threads": None}, "other_threads", None, id="threads-unknown"),
        pytest.param({"daemonic": True}, "is_daemonic", True, id="daemon"),
        pytest.param({"dataloader_worker": True}, "is_dataloader_worker", True, id="worker"),
        pytest.param({"accelerator_initialised": True}, "is_accelerator_initialised", True, id="cuda-in-use"),
        pytest.param({"accelerators": None}, "is_torch_built_for_accelerator", None, id="torch-not-loaded"),
        pytest.param({"accelerators": ()}, "is_torch_built_for_accelerator", False, id="torch-for-cpu"),
        pytest.param({"accelerators": ("cuda",)}, "is_torch_built_for_accelerator", True, id="torch-for-cuda"),
        pytest.param({"main": MainModule(None, "/x/train.py")}, "reimported_main", "/x/train.py", id="script"),
        pytest.param({"main": MainModule("pkg.__main__", "/x")}, "reimported_main", None, id="python-m-package"),
    ],
)
def test_process_state_is_read_with_its_source(answers: dict[str, object], field: str, expected: object) -> None:
    """
    False is known and has a source, None has neither.
    """
    facts = read_process(FakeHost(**answers))  # type: ignore[arg-type]
    assert getattr(facts, field) == expected
    assert (field in facts.sources) is (expected is not None)


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        pytest.param(None, "4", (4, "PYTHON_CPU_COUNT"), id="variable"),
        pytest.param(2, None, (2, "-X cpu_count"), id="option"),
        pytest.param(2, "4", (2, "-X cpu_count"), id="option-goes-first"),
        pytest.param(None, "default", (None, "PYTHON_CPU_COUNT"), id="default"),
        pytest.param(None, "0", (None, "PYTHON_CPU_COUNT"), id="zero"),
        pytest.param(None, "-3", (None, "PYTHON_CPU_COUNT"), id="negative"),
        pytest.param(0, "4", (4, "PYTHON_CPU_COUNT"), id="option-of-zero"),
        pytest.param(None, "9" * 400, (None, "PYTHON_CPU_COUNT"), id="too-many-digits"),
        pytest.param(None, None, (None, "PYTHON_CPU_COUNT"), id="neither"),
    ],
)
def test_python_cpu_count_is_a_positive_number_or_none(
    option: int | None, variable: str | None, expected: tuple[int | None, str]
) -> None:
    """
    Python takes positive numbers and the word "default" only.
    """
    environment = {} if variable is None else {"PYTHON_CPU_COUNT": variable}
    assert read_python_cpu_count(FakeHost(own_cpu_count=option, environment=environment)) == expected
