"""
What importing loads, and what it does not.
"""

import subprocess
import sys

import pytest

import autoloader

HEAVY = ("torch", "subprocess", "ctypes", "psutil", "rich", "numpy", "platformdirs", "multiprocessing")


def loaded_after(code: str) -> set[str]:
    """
    Return the modules that a fresh interpreter has loaded after running *code*.
    """
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    return set(result.stdout.split())


def test_importing_loads_nothing_heavy() -> None:
    """
    ``import autoloader`` is free of torch, processes and the terminal.
    """
    assert loaded_after("import autoloader").isdisjoint(HEAVY)


def test_probing_does_not_load_torch() -> None:
    """
    The probe works where torch is not installed, and does not load it where it is.
    """
    heavy = {"torch", "subprocess", "ctypes", "psutil", "rich", "numpy", "platformdirs"}
    if not sys.platform.startswith("linux"):
        heavy -= loaded_after("import ctypes, psutil")  # which ask the system there
    assert loaded_after("import autoloader; autoloader.probe_host()").isdisjoint(heavy)


@pytest.mark.torch
def test_worker_imports_hold_no_probe_policy_or_rich() -> None:
    """
    What a spawned worker imports for our sake stays small.
    """
    loaded = loaded_after("import autoloader.engine.delivery, autoloader.engine.processes")
    assert not [name for name in loaded if name.startswith(("autoloader.probe", "autoloader.policy", "rich"))]


@pytest.mark.torch
def test_every_public_name_is_served() -> None:
    """
    Each name of __all__ can be imported, and dir() shows it.
    """
    for name in autoloader.__all__:
        assert getattr(autoloader, name) is not None
        assert name in dir(autoloader)


def test_unknown_name_is_an_attribute_error() -> None:
    """
    A misspelt name says what Python says for any module.
    """
    with pytest.raises(AttributeError, match="^module 'autoloader' has no attribute 'autoload'$"):
        _ = autoloader.autoload
