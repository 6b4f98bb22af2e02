"""
A PyTorch DataLoader whose settings fit this machine, this dataset and this training loop.
"""

from typing import TYPE_CHECKING, Any

from .errors import AutoloaderError, AutoloaderWarning
from .start import affinity as _affinity  # noqa: F401 (looks at the CPU mask before torch is loaded)

if TYPE_CHECKING:
    from .engine.sample_rng import sample_rng as sample_rng
    from .loader import AutoLoader as AutoLoader
    from .loader import auto_loader as auto_loader
    from .loader import calibrate as calibrate
    from .loader import plan_loader as plan_loader
    from .plan import Plan as Plan
    from .probe import probe_host as probe_host

__version__ = "0.1.0"

_HOMES = {
    "AutoLoader": "loader",
    "auto_loader": "loader",
    "calibrate": "loader",
    "plan_loader": "loader",
    "Plan": "plan",
    "probe_host": "probe",
    "sample_rng": "engine.sample_rng",
}

__all__ = [
    "AutoLoader",
    "AutoloaderError",
    "AutoloaderWarning",
    "Plan",
    "auto_loader",
    "calibrate",
    "plan_loader",
    "probe_host",
    "sample_rng",
]


def __getattr__(name: str) -> Any:
    """
    Import a public name when it is first used: importing autoloader loads neither torch nor the probe.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise _torch_missing(name, error) from error
    globals()[name] = value
    return value


def _torch_missing(name: str, error: ImportError) -> ImportError:
    import sys

    from .errors import TorchMissingError
    from .findings import describe

    return TorchMissingError(describe("torch.missing", what=f"{name!r}", reason=error, python=sys.executable))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
