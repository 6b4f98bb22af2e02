"""
The exceptions and warnings.
"""

import pytest

from autoloader import errors
from autoloader.errors import (
    ArgumentError,
    AutoloaderError,
    AutoloaderWarning,
    DemoMissingError,
    LoaderClosedError,
    PlanFileError,
    TargetError,
    TorchMissingError,
    WorkerDiedError,
)

CLASSES = [getattr(errors, name) for name in errors.__all__]
ERRORS = [each for each in CLASSES if issubclass(each, AutoloaderError)]


@pytest.mark.parametrize("error", CLASSES)
def test_error_class_says_what_it_is_for(error: type[Exception]) -> None:
    """
    Each class has a docstring of its own, which is a sentence.
    """
    doc = error.__dict__.get("__doc__")
    assert doc is not None
    assert doc.strip().endswith(".")


@pytest.mark.parametrize(
    ("error", "exit_code", "also"),
    [
        pytest.param(AutoloaderError, 1, Exception, id="internal"),
        pytest.param(ArgumentError, 2, ValueError, id="argument"),
        pytest.param(TargetError, 2, ValueError, id="target"),
        pytest.param(PlanFileError, 3, ValueError, id="plan-file"),
        pytest.param(DemoMissingError, 3, ImportError, id="demo-missing"),
        pytest.param(LoaderClosedError, 3, RuntimeError, id="loader-closed"),
        pytest.param(WorkerDiedError, 3, RuntimeError, id="worker-died"),
        pytest.param(TorchMissingError, 4, ImportError, id="torch-missing"),
    ],
)
def test_error_class_has_its_exit_code(error: type[AutoloaderError], exit_code: int, also: type[Exception]) -> None:
    """
    Each class ends the command line with its code, and is what Python would have raised.
    """
    assert (error.exit_code, issubclass(error, also)) == (exit_code, True)


def test_every_error_class_has_a_documented_exit_code() -> None:
    """
    The module's docstring says what each code means; 0 is no error's.
    """
    documented = {int(word) for word in (errors.__doc__ or "").replace(":", " ").split() if word.isdecimal()}
    assert documented == {0, 1, 2, 3, 4, 5, 6}
    assert {each.exit_code for each in ERRORS} == documented - {0}


def test_every_class_of_the_module_is_public() -> None:
    """
    The list of public names is complete and sorted.
    """
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert errors.__all__ == sorted(defined)


def test_warning_class_is_a_user_warning() -> None:
    """
    One filter silences all warnings of autoloader's.
    """
    assert issubclass(AutoloaderWarning, UserWarning)
