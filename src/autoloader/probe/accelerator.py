"""
Accelerators on Linux, from the files of their drivers: asking a driver's library could initialise it.
"""

from collections.abc import Mapping

from ..facts import AcceleratorFacts, AcceleratorKind
from .host_io import HostIO
from .parse import parse_int
from .readings import Readings


def read_accelerator(io: HostIO) -> AcceleratorFacts:
    """
    Read the first kind of accelerator that has a driver and a device here.
    """
    readings = Readings()
    for kind, devices, driver, visible, source in (_nvidia(io), _amd(io)):
        if devices:
            readings.put("kind", kind, source)
            readings.put("count", _visible(devices, io.environment, visible), source)
            readings.put("driver", driver, source)
            break
    else:
        readings.put("count", 0, "/proc/driver/nvidia/gpus, /sys/class/kfd/kfd/topology/nodes")
    return readings.build(AcceleratorFacts)


Seen = tuple[AcceleratorKind, int, str | None, tuple[str, ...], str]


def _nvidia(io: HostIO) -> Seen:
    """
    Count NVIDIA's devices. In a container /proc may list all of the host's: the device files say which are here.
    """
    listed = len(io.list_dir("/proc/driver/nvidia/gpus") or ())
    files = [name for name in io.list_dir("/dev") or () if name.startswith("nvidia") and name[6:].isdecimal()]
    words = (io.read_text("/proc/driver/nvidia/version") or "").partition("Kernel Module")[2].split()
    driver = next((word for word in words if word[0].isdecimal()), None)
    return "cuda", min(listed, len(files)), driver, ("CUDA_VISIBLE_DEVICES",), "/proc/driver/nvidia"


def _amd(io: HostIO) -> Seen:
    """
    Count AMD's compute nodes: in the driver's topology those with SIMD units are GPUs.
    """
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    texts = [io.read_text(f"{nodes}/{name}/properties") or "" for name in io.list_dir(nodes) or ()]
    counts = [line.split()[1] for text in texts for line in text.splitlines() if line.startswith("simd_count ")]
    devices = sum(1 for count in counts if parse_int(count))
    driver = (io.read_text("/sys/module/amdgpu/version") or "").strip() or None
    return "rocm", devices, driver, ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), nodes


def _visible(devices: int, environment: Mapping[str, str], names: tuple[str, ...]) -> int:
    """
    Return how many devices the environment leaves; the list ends at the first entry that names none.

    Source: CUDA C++ Programming Guide, "CUDA Environment Variables": an invalid index hides all that follow it.
    """
    for name in names:
        if name in environment:
            entries = [entry.strip() for entry in environment[name].split(",")]
            invalid = (at for at, entry in enumerate(entries) if not entry or entry.startswith("-"))
            devices = min(devices, next(invalid, len(entries)))
    return devices
