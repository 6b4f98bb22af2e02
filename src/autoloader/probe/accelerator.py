"""
Accelerators on Linux, from the files of their drivers: asking a driver's library could initialise it.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from ..facts import AcceleratorFacts, AcceleratorKind
from .host_io import HostIO
from .parse import parse_colons, parse_flat_keyed, parse_int
from .readings import Readings

Names = tuple[str, ...]
WSL_LIBRARIES = "/usr/lib/wsl/lib"


class _Device(NamedTuple):
    """
    One device: its UUID, and the memory node that it hangs on, as far as they are known.
    """

    uuid: str | None = None
    numa_node: int | None = None


class _Seen(NamedTuple):
    """
    The devices of one kind, which variables choose from them, and where they were seen.
    """

    kind: AcceleratorKind
    devices: tuple[_Device, ...]
    driver: str | None
    visible: tuple[Names, ...]
    source: str
    numa_source: str


def read_accelerator(io: HostIO) -> AcceleratorFacts:
    """
    Read the first kind of accelerator that has a driver and a device here.

    None is none only where /dev can be read: every kind has a file there.
    """
    readings = Readings()
    for seen in (_nvidia(io), _tegra(io), _amd(io)):
        if seen.devices:
            chosen = _visible(seen.devices, io.environment, seen.visible)
            readings.put("kind", seen.kind, seen.source)
            readings.put("devices", len(chosen), seen.source)
            readings.put("driver", seen.driver, seen.source)
            nodes = tuple(device.numa_node for device in chosen if device.numa_node is not None)
            readings.put("numa_nodes", nodes if len(nodes) == len(chosen) else (), seen.numa_source)
            return readings.build(AcceleratorFacts)
    if _is_cuda_under_wsl(io):
        readings.put("kind", "cuda", WSL_LIBRARIES)
    elif io.list_dir("/dev") is not None:
        readings.put("devices", 0, "/dev, /proc/driver/nvidia/gpus, /sys/class/kfd/kfd/topology/nodes")
    return readings.build(AcceleratorFacts)


def _nvidia(io: HostIO) -> _Seen:
    """
    Find NVIDIA's devices. In a container /proc may list all of the host's: the device files say which are here.

    Source: the NVIDIA driver's README, "The /proc Interface".
    """
    gpus = "/proc/driver/nvidia/gpus"
    files = {name for name in io.list_dir("/dev") or () if name.startswith("nvidia") and name[6:].isdecimal()}
    here, listed = [], io.list_dir(gpus) or ()
    for address in listed:
        information = parse_colons(io.read_text(f"{gpus}/{address}/information"))
        if f"nvidia{information.get('Device Minor')}" in files:
            here.append(_Device(information.get("GPU UUID"), _node_of(io, f"/sys/bus/pci/devices/{address}")))
    known = tuple(here) if len(here) == len(files) else (_Device(),) * min(len(listed), len(files))
    words = (io.read_text("/proc/driver/nvidia/version") or "").partition("Kernel Module")[2].split()
    driver = next((word for word in words if word[0].isdecimal()), None)
    pci = "/sys/bus/pci/devices/*/numa_node"
    return _Seen("cuda", known, driver, (("CUDA_VISIBLE_DEVICES",),), "/proc/driver/nvidia", pci)


def _tegra(io: HostIO) -> _Seen:
    """
    Find the GPU inside NVIDIA's Tegra (Jetson): its driver has files of its own, and none that /proc lists.

    Source: NVIDIA, Jetson Linux, ``host-files-for-container.d/devices.csv``: ``nvhost-gpu``, or newer ``nvgpu``.
    """
    here = {"nvhost-gpu", "nvgpu"} & set(io.list_dir("/dev") or ())
    devices = (_Device(),) if here else ()
    return _Seen("cuda", devices, None, (("CUDA_VISIBLE_DEVICES",),), f"/dev/{min(here, default='')}", "")


def _amd(io: HostIO) -> _Seen:
    """
    Find AMD's compute nodes: in the driver's topology those with SIMD units are GPUs.

    A container sees the topology of the whole host: the device files say which GPUs are here.
    """
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    has_driver = "kfd" in (io.list_dir("/dev") or ())
    files = io.list_dir("/dev/dri") or ()
    here = []
    for name in sorted(io.list_dir(nodes) or (), key=lambda name: (len(name), name)) if has_driver else ():
        node = parse_flat_keyed(io.read_text(f"{nodes}/{name}/properties"))
        file = f"renderD{node.get('drm_render_minor')}"
        if node.get("simd_count") and file in files:
            here.append(_Device(None, _node_of(io, f"/sys/class/drm/{file}/device")))
    driver = (io.read_text("/sys/module/amdgpu/version") or "").strip() or None
    # HIP reads CUDA's variable where its own is not set.
    visible = ("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    return _Seen("rocm", tuple(here), driver, visible, nodes, "/sys/class/drm/renderD*/device/numa_node")


def _node_of(io: HostIO, folder: str) -> int | None:
    """
    Return the memory node of a device; the kernel says -1 where the firmware does not tell.
    """
    node = parse_int(io.read_text(f"{folder}/numa_node"))
    return None if node is None or node < 0 else node


def _is_cuda_under_wsl(io: HostIO) -> bool:
    """
    Return whether Windows lends its NVIDIA driver to this WSL 2: it has no files in /proc that count the devices.

    Source: NVIDIA, "CUDA on WSL User Guide".
    """
    return "dxg" in (io.list_dir("/dev") or ()) and "libcuda.so.1" in (io.list_dir(WSL_LIBRARIES) or ())


def _visible(
    devices: tuple[_Device, ...], environment: Mapping[str, str], variables: tuple[Names, ...]
) -> tuple[_Device, ...]:
    """
    Return the devices that the environment leaves: each variable, or its stand-in, chooses from what is left.
    """
    for names in variables:
        chosen = next((environment[name] for name in names if name in environment), None)
        if chosen is not None:
            found = (_named(entry.strip(), devices) for entry in chosen.split(","))
            named = tuple(itertools.takewhile(lambda device: device is not None, found))
            devices = tuple(device for device in named[: len(devices)] if device is not None)
    return devices


def _named(entry: str, devices: tuple[_Device, ...]) -> _Device | None:
    """
    Return the device that one entry of a list names, by index or by UUID; the first that names none ends the list.

    A UUID may be cut short. One of a part of a device (MIG) names a device that is not known.

    Source: CUDA C++ Programming Guide, "CUDA Environment Variables". Slurm writes ``NoDevFiles`` to hide all.
    """
    index = parse_int(entry)
    if index is not None:
        return devices[index] if 0 <= index < len(devices) else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    return next((device for device in devices if (device.uuid or "").startswith(entry)), _Device())
