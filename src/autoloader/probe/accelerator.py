"""
Accelerators on Linux, from the files of their drivers: asking a driver's library could initialise it.
"""

from collections.abc import Mapping

from ..facts import AcceleratorFacts, AcceleratorKind
from .host_io import HostIO
from .parse import parse_flat_keyed, parse_int
from .readings import Readings

Names = tuple[str, ...]
WSL_LIBRARIES = "/usr/lib/wsl/lib"


def read_accelerator(io: HostIO) -> AcceleratorFacts:
    """
    Read the first kind of accelerator that has a driver and a device here.

    None is none only where /dev can be read: every kind has a file there.
    """
    readings = Readings()
    for kind, devices, driver, visible, source in (_nvidia(io), _amd(io)):
        if devices:
            readings.put("kind", kind, source)
            readings.put("devices", _visible(devices, io.environment, visible), source)
            readings.put("driver", driver, source)
            return readings.build(AcceleratorFacts)
    if _is_cuda_under_wsl(io):
        readings.put("kind", "cuda", WSL_LIBRARIES)
    elif io.list_dir("/dev") is not None:
        readings.put("devices", 0, "/dev, /proc/driver/nvidia/gpus, /sys/class/kfd/kfd/topology/nodes")
    return readings.build(AcceleratorFacts)


Seen = tuple[AcceleratorKind, int, str | None, tuple[Names, ...], str]


def _nvidia(io: HostIO) -> Seen:
    """
    Count NVIDIA's devices. In a container /proc may list all of the host's: the device files say which are here.
    """
    listed = len(io.list_dir("/proc/driver/nvidia/gpus") or ())
    files = [name for name in io.list_dir("/dev") or () if name.startswith("nvidia") and name[6:].isdecimal()]
    words = (io.read_text("/proc/driver/nvidia/version") or "").partition("Kernel Module")[2].split()
    driver = next((word for word in words if word[0].isdecimal()), None)
    return "cuda", min(listed, len(files)), driver, (("CUDA_VISIBLE_DEVICES",),), "/proc/driver/nvidia"


def _amd(io: HostIO) -> Seen:
    """
    Count AMD's compute nodes: in the driver's topology those with SIMD units are GPUs.

    A container sees the topology of the whole host: the device files say which GPUs are here.
    """
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    has_driver = "kfd" in (io.list_dir("/dev") or ())
    files = io.list_dir("/dev/dri") or ()
    texts = (io.read_text(f"{nodes}/{name}/properties") for name in io.list_dir(nodes) or () if has_driver)
    gpus = [node for text in texts if (node := parse_flat_keyed(text)).get("simd_count")]
    devices = sum(f"renderD{node.get('drm_render_minor')}" in files for node in gpus)
    driver = (io.read_text("/sys/module/amdgpu/version") or "").strip() or None
    # HIP reads CUDA's variable where its own is not set.
    return "rocm", devices, driver, (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")), nodes


def _is_cuda_under_wsl(io: HostIO) -> bool:
    """
    Return whether Windows lends its NVIDIA driver to this WSL 2: it has no files in /proc that count the devices.

    Source: NVIDIA, "CUDA on WSL User Guide".
    """
    return "dxg" in (io.list_dir("/dev") or ()) and "libcuda.so.1" in (io.list_dir(WSL_LIBRARIES) or ())


def _visible(devices: int, environment: Mapping[str, str], variables: tuple[Names, ...]) -> int:
    """
    Return how many devices the environment leaves: each variable, or its stand-in, chooses from what is left.
    """
    for names in variables:
        chosen = next((environment[name] for name in names if name in environment), None)
        if chosen is not None:
            entries = [entry.strip() for entry in chosen.split(",")]
            invalid = (at for at, entry in enumerate(entries) if not _names_device(entry, devices))
            devices = min(devices, next(invalid, len(entries)))
    return devices


def _names_device(entry: str, devices: int) -> bool:
    """
    Return whether one entry of the list names a device, by index or by UUID; the first that does not ends the list.

    Source: CUDA C++ Programming Guide, "CUDA Environment Variables". Slurm writes ``NoDevFiles`` to hide all.
    """
    index = parse_int(entry)
    return entry.startswith(("GPU-", "MIG-")) if index is None else 0 <= index < devices
