"""
Accelerators, from the files of their drivers, and from NVIDIA's management library where no file tells.

A library that computes is never asked: it would be initialised, and this process could not fork any more.
"""

import itertools
import posixpath
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from ..facts import AcceleratorFacts, AcceleratorKind
from .host_io import HostIO
from .parse import parse_colons, parse_flat_keyed, parse_int
from .questions import Nvml
from .readings import Readings

Names = tuple[str, ...]
T = TypeVar("T")
WSL_LIBRARIES = "/usr/lib/wsl/lib"


class _Device(NamedTuple):
    """
    One device: its UUID, the memory node that it hangs on, its memory and load, as far as they are known.
    """

    uuid: str | None = None
    numa_node: int | None = None
    memory: int | None = None
    busy: float | None = None


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
    seen = _seen_by_files(io)
    if seen is not None:
        return _facts(seen, io.environment)
    readings = Readings()
    if _is_cuda_under_wsl(io):
        seen_by_nvml = _by_nvml(io)
        if seen_by_nvml is not None:
            return _facts(seen_by_nvml, io.environment)
        readings.put("kind", "cuda", WSL_LIBRARIES)
    elif io.list_dir("/dev") is not None and not _is_nvidia_hidden(io):
        readings.put("devices", 0, "/dev, /proc/driver/nvidia/gpus, /sys/class/kfd/kfd/topology/nodes, /sys/class/drm")
    return readings.build(AcceleratorFacts)


def with_load(accelerator: AcceleratorFacts, io: HostIO) -> AcceleratorFacts:
    """
    Add memory and load of NVIDIA's devices, which no file tells; the management library may take a second to start.

    Args:
        accelerator: What was read before.
        io: The host.
    """
    if accelerator.kind != "cuda" or accelerator.memory_bytes:
        return accelerator
    seen, nvml = _seen_by_files(io), io.nvml()
    if seen is None or nvml is None:
        return accelerator
    return _facts(seen._replace(devices=_with_nvml(seen.devices, nvml)), io.environment)


def _seen_by_files(io: HostIO) -> _Seen | None:
    return next((seen for seen in (_nvidia(io), _tegra(io), _amd(io), _intel(io)) if seen.devices), None)


def read_accelerator_by_nvml(io: HostIO) -> AcceleratorFacts:
    """
    Read NVIDIA's devices where only the management library tells of them, as on Windows.
    """
    seen = _by_nvml(io)
    return AcceleratorFacts() if seen is None else _facts(seen, io.environment)


def _facts(seen: _Seen, environment: Mapping[str, str]) -> AcceleratorFacts:
    """
    Return what is known of the devices that the environment leaves to this process.
    """
    chosen = _visible(seen.devices, environment, seen.visible)
    readings = Readings()
    readings.put("kind", seen.kind, seen.source)
    readings.put("devices", len(chosen), seen.source)
    readings.put("driver", seen.driver, seen.source)
    readings.put("numa_nodes", _of_all(device.numa_node for device in chosen), seen.numa_source)
    readings.put("memory_bytes", _of_all(device.memory for device in chosen), "nvmlDeviceGetMemoryInfo")
    readings.put("busy_fractions", _of_all(device.busy for device in chosen), "nvmlDeviceGetUtilizationRates")
    return readings.build(AcceleratorFacts)


def _of_all(values: Iterable[T | None]) -> tuple[T, ...]:
    """
    Return the values if all are known.
    """
    found = tuple(values)
    known = tuple(value for value in found if value is not None)
    return known if len(known) == len(found) else ()


def _by_nvml(io: HostIO) -> _Seen | None:
    """
    Return the devices that the management library tells of; ``None`` where it is not there.
    """
    nvml = io.nvml()
    if nvml is None:
        return None
    devices = tuple(_Device(each.uuid, None, each.memory, each.busy) for each in nvml.devices)
    return _Seen("cuda", devices, nvml.driver, (("CUDA_VISIBLE_DEVICES",),), "nvmlDeviceGetCount", "")


def _with_nvml(devices: tuple[_Device, ...], nvml: Nvml) -> tuple[_Device, ...]:
    """
    Add what the management library knows of the devices, found by their UUIDs.
    """
    known = {each.uuid: each for each in nvml.devices}
    found = ((device, known.get(device.uuid) if device.uuid else None) for device in devices)
    return tuple(d if more is None else d._replace(memory=more.memory, busy=more.busy) for d, more in found)


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


def _is_nvidia_hidden(io: HostIO) -> bool:
    """
    Return whether there are files of devices, and the driver's own list of them cannot be read.
    """
    names = (name[6:] for name in io.list_dir("/dev") or () if name.startswith("nvidia"))
    return any(name.isdecimal() for name in names) and io.list_dir("/proc/driver/nvidia/gpus") is None


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


INTEGRATED = "0000:00:02.0"
"""
Where the graphics inside an Intel processor sit on the PCI bus.
"""


def _intel(io: HostIO) -> _Seen:
    """
    Find Intel's GPUs that torch can use: those on cards, and those in processors that the driver xe serves.

    Older graphics in processors have the driver i915, and no kernels in torch. ``ZE_AFFINITY_MASK`` names devices by
    number, or tiles of one as ``0.1``.

    Source: PyTorch, "Getting Started on Intel GPU"; Level Zero, "Environment Variables".
    """
    drm, here = "/sys/class/drm", []
    for name in sorted(io.list_dir("/dev/dri") or (), key=lambda name: (len(name), name)):
        driver, place = (io.real_path(f"{drm}/{name}/{link}") or "" for link in ("device/driver", "device"))
        is_integrated = posixpath.basename(place) == INTEGRATED
        if name.startswith("renderD") and posixpath.basename(driver) in ({"xe"} if is_integrated else {"xe", "i915"}):
            here.append(_Device(None, _node_of(io, f"{drm}/{name}/device")))
    mask = io.environment.get("ZE_AFFINITY_MASK")
    if mask is not None:
        chosen = {parse_int(entry.partition(".")[0]) for entry in mask.split(",")}
        here = [device for number, device in enumerate(here) if number in chosen]
    return _Seen("xpu", tuple(here), None, (), drm, f"{drm}/renderD*/device/numa_node")


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
