"""
Chooses whether batches are copied to pinned memory.
"""

from ..facts import HostFacts
from ..plan import Choice, LoaderRequest
from .fixed import fixed_choice

NAME = "pin_memory"


def choose_pin_memory(facts: HostFacts, request: LoaderRequest) -> Choice[bool]:
    """
    Choose to pin only for a CUDA, ROCm or XPU device that this torch can use.

    Elsewhere torch warns and copies for nothing. Under WSL pinned memory is limited by the Windows side, so that
    it stays off there (NVIDIA, "CUDA on WSL User Guide", known limitations).
    """
    fixed = fixed_choice(NAME, request)
    if fixed is not None:
        return fixed
    device = facts.accelerator
    if device.kind not in {"cuda", "rocm", "xpu"} or device.devices == 0:
        return Choice(value=False, rule=f"{NAME}.no-accelerator", because="no CUDA, ROCm or XPU device was found")
    if facts.process.is_torch_built_for_accelerator is False:
        because = f"a {device.kind} device is here, but this torch is a CPU build"
        return Choice(value=False, rule=f"{NAME}.torch-without-accelerator", because=because)
    if facts.system.wsl_version:
        return Choice(value=False, rule=f"{NAME}.wsl", because="pinned memory is limited under WSL")
    if device.devices is None:
        because = f"how many {device.kind} devices this process may use is unknown"
        return Choice(value=False, rule=f"{NAME}.no-accelerator", because=because)
    because = f"{device.devices} {device.kind} device{'s' if device.devices != 1 else ''} found"
    return Choice(value=True, rule=f"{NAME}.accelerator", because=because)
