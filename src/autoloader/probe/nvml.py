"""
NVIDIA's management library, through the package nvidia-ml-py. It does not initialise CUDA. Only RealHost asks here.

Source: NVML API reference, nvmlInit, nvmlDeviceGetMemoryInfo, nvmlDeviceGetUtilizationRates.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from .questions import Nvml, NvmlDevice


def read() -> Nvml | None:
    """
    Return driver and devices; ``None`` where package, library or driver are missing or broken.

    A package of the same name that is no longer kept warns when it is imported, and is taken for missing.
    """
    try:
        spec = importlib.util.find_spec("pynvml")
        if spec is None or not (spec.origin or "").endswith("pynvml.py"):
            return None
        pynvml: Any = importlib.import_module("pynvml")
        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 (a driver that does not fit raises anything)
        return None
    try:
        numbers = range(_answer(pynvml.nvmlDeviceGetCount) or 0)
        return Nvml(_answer(pynvml.nvmlSystemGetDriverVersion), tuple(_device(pynvml, number) for number in numbers))
    finally:
        _answer(pynvml.nvmlShutdown)


def _device(pynvml: Any, number: int) -> NvmlDevice:
    handle = _answer(pynvml.nvmlDeviceGetHandleByIndex, number)
    if handle is None:
        return NvmlDevice()
    memory, rates = (
        _answer(pynvml.nvmlDeviceGetMemoryInfo, handle),
        _answer(pynvml.nvmlDeviceGetUtilizationRates, handle),
    )
    return NvmlDevice(
        uuid=_answer(pynvml.nvmlDeviceGetUUID, handle),
        memory=None if memory is None else int(memory.total),
        busy=None if rates is None else rates.gpu / 100,
    )


def _answer(ask: Callable[..., Any], *arguments: Any) -> Any:
    """
    Return an answer, text as text; ``None`` where the device has none, as parts of a device have no rates.
    """
    try:
        value = ask(*arguments)
    except Exception:  # noqa: BLE001 (NVMLError, and what ctypes raises at an old library)
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
