"""
Accelerators by the files of their drivers, which answer without being initialised.
"""

import pytest

from autoloader.facts import AcceleratorFacts
from autoloader.probe.accelerator import read_accelerator, read_accelerator_by_nvml, with_load
from autoloader.probe.questions import Nvml, NvmlDevice
from support import FakeHost

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc 12\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs)\nGCC version: 12\n"
NODES = "/sys/class/kfd/kfd/topology/nodes"


def nvidia(listed: int, files: tuple[int, ...], version: str = PROPRIETARY) -> FakeHost:
    """
    Return a host whose driver lists devices, and that has these device files.
    """
    return FakeHost(
        files={
            "/proc/driver/nvidia/version": version,
            **{f"/proc/driver/nvidia/gpus/0000:0{at}:00.0/information": "Model: X\n" for at in range(listed)},
            **{f"/dev/nvidia{at}": "" for at in files},
            "/dev/nvidiactl": "",
            "/dev/nvidia-uvm": "",
        }
    )


def amd(gpus: int, minors: tuple[int, ...], *, kfd: bool = True) -> FakeHost:
    """
    Return a host with one CPU node and *gpus* GPU nodes, and the render files of *minors*.
    """
    files = {f"{NODES}/0/properties": "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\n"}
    for at in range(gpus):
        files[f"{NODES}/{at + 1}/properties"] = f"cpu_cores_count 0\nsimd_count 416\ndrm_render_minor {128 + at}\n"
    files.update({f"/dev/dri/renderD{minor}": "" for minor in minors})
    return FakeHost(
        files={**files, "/sys/module/amdgpu/version": "6.3.6\n", **({"/dev/kfd": ""} if kfd else {"/dev/null": ""})}
    )


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        pytest.param(PROPRIETARY, "535.104.05", id="proprietary"),
        pytest.param(OPEN, "550.54.15", id="open"),
        pytest.param("NVRM version:\n", None, id="cut-off"),
        pytest.param("", None, id="empty"),
    ],
)
def test_nvidia_driver_is_the_version_of_its_module(version: str, driver: str | None) -> None:
    """
    The first line names the module and then its version, in both of NVIDIA's drivers.
    """
    facts = read_accelerator(nvidia(1, (0,), version))
    assert (facts.kind, facts.devices, facts.driver) == ("cuda", 1, driver)


@pytest.mark.parametrize(
    ("listed", "files", "count"),
    [
        pytest.param(8, tuple(range(8)), 8, id="bare-metal"),
        pytest.param(8, (3,), 1, id="container-with-one-of-eight"),
        pytest.param(8, (), 0, id="container-with-none-of-eight"),
        pytest.param(0, (0,), None, id="files-whose-driver-cannot-be-asked"),
    ],
)
def test_nvidia_count_is_of_devices_that_are_here(listed: int, files: tuple[int, ...], count: int | None) -> None:
    """
    A device needs the driver and its file; control files are no devices.
    """
    facts = read_accelerator(nvidia(listed, files))
    assert facts.devices == count
    assert facts.kind == ("cuda" if count else None)


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        pytest.param("0", 1, id="one"),
        pytest.param("0,1", 2, id="two"),
        pytest.param("2, 3", 2, id="space"),
        pytest.param("", 0, id="empty"),
        pytest.param("-1", 0, id="minus-one"),
        pytest.param("NoDevFiles", 0, id="slurm-hides-all"),
        pytest.param("0,-1,1", 1, id="nothing-after-an-invalid-one"),
        pytest.param("1,4,2", 1, id="index-past-the-last"),
        pytest.param("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1, id="uuid"),
        pytest.param("MIG-3b4a1b1e-2bd6-5e46-8a9f-0c4d9b7f5d5b", 1, id="mig"),
        pytest.param("0,1,2,3", 4, id="all"),
    ],
)
def test_nvidia_count_is_what_the_environment_leaves(visible: str, count: int) -> None:
    """
    Entries of CUDA_VISIBLE_DEVICES count up to the first that names no device (four are here).
    """
    host = nvidia(4, (0, 1, 2, 3))
    host.environment = {"CUDA_VISIBLE_DEVICES": visible}
    facts = read_accelerator(host)
    assert (facts.kind, facts.devices) == ("cuda", count)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param(amd(2, (128, 129)), ("rocm", 2, "6.3.6"), id="bare-metal"),
        pytest.param(amd(8, (130,)), ("rocm", 1, "6.3.6"), id="container-with-one-of-eight"),
        pytest.param(amd(8, ()), (None, 0, None), id="container-without-render-files"),
        pytest.param(amd(8, (128,), kfd=False), (None, 0, None), id="container-without-kfd"),
        pytest.param(amd(0, (128,)), (None, 0, None), id="graphics-only"),
    ],
)
def test_amd_count_is_of_gpus_that_are_here(host: FakeHost, expected: tuple[str | None, int, str | None]) -> None:
    """
    A node with SIMD units is a GPU; /sys shows the host's to every container, /dev only what it may use.
    """
    facts = read_accelerator(host)
    assert (facts.kind, facts.devices, facts.driver) == expected


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        pytest.param({"ROCR_VISIBLE_DEVICES": "0,1"}, 2, id="rocr"),
        pytest.param({"HIP_VISIBLE_DEVICES": "3"}, 1, id="hip"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "0"}, 1, id="cuda-stands-in-for-hip"),
        pytest.param({"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "3"}, 2, id="hip-goes-before-cuda"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "0"}, 1, id="hip-chooses-from-rocrs"),
        pytest.param({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "2"}, 0, id="hip-past-rocrs"),
        pytest.param({"ROCR_VISIBLE_DEVICES": ""}, 0, id="none"),
    ],
)
def test_amd_count_is_what_the_environment_leaves(environment: dict[str, str], count: int) -> None:
    """
    ROCr's list is applied first, then HIP's to what is left (four are here).
    """
    host = amd(4, (128, 129, 130, 131))
    host.environment = environment
    assert read_accelerator(host).devices == count


UUIDS = tuple(f"GPU-{at}8932f93-d72c-4106-c12f-20bd9faed9f6" for at in range(4))


def nvidia_on_nodes(nodes: tuple[int | str, ...], minors: tuple[int, ...] = (0, 1, 2, 3)) -> FakeHost:
    """
    Return a host with a device on each of these memory nodes, in the order of the bus; *minors* have device files.
    """
    files = {"/proc/driver/nvidia/version": OPEN}
    for at, node in enumerate(nodes):
        address = f"0000:{at}3:00.0"
        minor = len(nodes) - 1 - at
        files[f"/proc/driver/nvidia/gpus/{address}/information"] = (
            f"Model: \t\t NVIDIA H100\nGPU UUID: \t {UUIDS[at]}\nBus Location: \t {address}\nDevice Minor: \t {minor}\n"
        )
        files[f"/sys/bus/pci/devices/{address}/numa_node"] = f"{node}\n"
    return FakeHost(files={**files, **{f"/dev/nvidia{minor}": "" for minor in minors}, "/dev/nvidiactl": ""})


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        pytest.param(None, (0, 0, 1, 1), id="all"),
        pytest.param("3,0", (1, 0), id="by-index-in-that-order"),
        pytest.param(f"{UUIDS[2]},{UUIDS[1]}", (1, 0), id="by-uuid"),
        pytest.param("GPU-289,1", (1, 0), id="by-short-uuid"),
        pytest.param("GPU-999", (), id="by-a-uuid-that-is-not-here"),
        pytest.param("0,MIG-3b4a1b1e-2bd6-5e46-8a9f-0c4d9b7f5d5b", (), id="part-of-some-device"),
        pytest.param("", (), id="none"),
    ],
)
def test_memory_nodes_are_those_of_the_devices_that_are_left(visible: str | None, expected: tuple[int, ...]) -> None:
    """
    In the order in which the environment names the devices; all of them, or nothing.
    """
    host = nvidia_on_nodes((0, 0, 1, 1))
    host.environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    facts = read_accelerator(host)
    assert facts.numa_nodes == expected
    assert ("numa_nodes" in facts.sources) == bool(expected)


def test_memory_nodes_in_a_container_are_those_of_its_devices() -> None:
    """
    Device files have the driver's minor numbers, which need not be in the order of the bus.
    """
    facts = read_accelerator(nvidia_on_nodes((0, 0, 1, 1), minors=(0, 3)))
    assert (facts.devices, facts.numa_nodes) == (2, (0, 1))


@pytest.mark.parametrize("node", ["-1", "", "x"])
def test_memory_node_that_the_firmware_does_not_tell_is_unknown(node: str) -> None:
    """
    The kernel says -1 then.
    """
    facts = read_accelerator(nvidia_on_nodes((0, 1, 1, node)))
    assert (facts.devices, facts.numa_nodes) == (4, ())


def test_memory_nodes_of_amd_are_those_of_the_render_devices() -> None:
    """
    HIP counts in the order of the driver's topology, 10 after 9.
    """
    host = amd(11, tuple(range(128, 139)))
    host.files.update({f"/sys/class/drm/renderD{128 + at}/device/numa_node": f"{at // 6}\n" for at in range(11)})
    assert read_accelerator(host).numa_nodes == (0,) * 6 + (1,) * 5


@pytest.mark.parametrize(
    ("files", "visible", "expected"),
    [
        pytest.param(("nvhost-gpu", "nvmap"), None, ("cuda", 1), id="jetpack-4"),
        pytest.param(("nvgpu/igpu0/channel", "nvidia0", "nvidiactl", "nvmap"), None, ("cuda", 1), id="jetpack-6"),
        pytest.param(("nvgpu/igpu0/channel", "nvmap"), "", ("cuda", 0), id="hidden"),
        pytest.param(("nvhost-ctrl", "nvmap"), None, (None, 0), id="container-without-the-gpu"),
    ],
)
def test_gpu_inside_a_tegra_is_one(
    files: tuple[str, ...], visible: str | None, expected: tuple[str | None, int]
) -> None:
    """
    A Jetson has one GPU and no list of them; the file of its display, nvidia0, is none.
    """
    host = FakeHost(files={f"/dev/{name}": "" for name in files})
    host.environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    facts = read_accelerator(host)
    assert (facts.kind, facts.devices) == expected


def test_cuda_under_wsl_is_there_in_unknown_number() -> None:
    """
    WSL 2 has Windows's driver library and /dev/dxg, and nothing in /proc that counts devices.
    """
    facts = read_accelerator(FakeHost(files={"/dev/dxg": "", "/usr/lib/wsl/lib/libcuda.so.1": ""}))
    assert (facts.kind, facts.devices) == ("cuda", None)
    assert dict(facts.sources) == {"kind": "/usr/lib/wsl/lib"}


def test_wsl_without_nvidia_has_no_accelerator() -> None:
    """
    /dev/dxg is there with any graphics card.
    """
    facts = read_accelerator(FakeHost(files={"/dev/dxg": "", "/usr/lib/wsl/lib/libdxcore.so": ""}))
    assert (facts.kind, facts.devices) == (None, 0)


def test_both_makes_in_one_host_give_nvidia() -> None:
    """
    A graphics unit inside an AMD processor does not hide the card beside it.
    """
    card, processor = nvidia(1, (0,)), amd(1, (128,))
    assert read_accelerator(FakeHost(files={**card.files, **processor.files})).kind == "cuda"


def test_host_without_device_files_has_no_accelerator() -> None:
    """
    Nothing found is 0 devices of no kind, with the places that were looked at; without /dev it is unknown.
    """
    facts = read_accelerator(FakeHost(files={"/dev/null": ""}))
    assert (facts.kind, facts.devices, facts.driver) == (None, 0, None)
    assert set(facts.sources) == {"devices"}
    assert read_accelerator(FakeHost()) == AcceleratorFacts()


CARD, INSIDE = "/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0", "/sys/devices/pci0000:00/0000:00:02.0"


def intel(*devices: tuple[str, str], environment: dict[str, str] | None = None) -> FakeHost:
    """
    Return a host with render files, each of a place on the PCI bus and a driver.
    """
    files, links = {"/dev/null": ""}, {}
    for minor, (place, driver) in enumerate(devices, 128):
        files[f"/dev/dri/renderD{minor}"] = ""
        files[f"/sys/class/drm/renderD{minor}/device/numa_node"] = f"{minor - 128}\n"
        links[f"/sys/class/drm/renderD{minor}/device"] = place
        links[f"/sys/class/drm/renderD{minor}/device/driver"] = f"/sys/bus/pci/drivers/{driver}"
    return FakeHost(files=files, links=links, environment=environment or {})


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        pytest.param([(CARD, "i915")], 1, id="card"),
        pytest.param([(CARD, "xe"), (INSIDE, "i915")], 1, id="card-beside-old-graphics"),
        pytest.param([(INSIDE, "xe")], 1, id="new-graphics"),
        pytest.param([(INSIDE, "i915")], 0, id="old-graphics"),
        pytest.param([(CARD, "amdgpu")], 0, id="of-another-maker"),
    ],
)
def test_xpu_is_a_card_or_new_graphics(devices: list[tuple[str, str]], count: int) -> None:
    """
    Torch has no kernels for the graphics of older Intel processors.
    """
    facts = read_accelerator(intel(*devices))
    assert (facts.kind, facts.devices) == ("xpu" if count else None, count)


@pytest.mark.parametrize(
    ("mask", "nodes"),
    [
        pytest.param("1", (1,), id="second"),
        pytest.param("0.0,0.1", (0,), id="tiles"),
        pytest.param("7", None, id="none"),
    ],
)
def test_xpu_devices_are_those_of_the_mask(mask: str, nodes: tuple[int, ...] | None) -> None:
    """
    ``ZE_AFFINITY_MASK`` names devices, or tiles of them.
    """
    facts = read_accelerator(intel((CARD, "xe"), (CARD, "xe"), environment={"ZE_AFFINITY_MASK": mask}))
    assert facts.numa_nodes == (nodes or ())
    assert facts.devices == len(nodes or ())


TWO = Nvml("555.42", (NvmlDevice("GPU-a", 80 << 30, 0.25), NvmlDevice("GPU-b", 40 << 30, 1.0)))


@pytest.mark.parametrize(
    ("visible", "memory", "busy"),
    [
        pytest.param({}, (80 << 30, 40 << 30), (0.25, 1.0), id="both"),
        pytest.param({"CUDA_VISIBLE_DEVICES": "GPU-b"}, (40 << 30,), (1.0,), id="by-uuid"),
        pytest.param({"CUDA_VISIBLE_DEVICES": ""}, (), (), id="none"),
    ],
)
def test_devices_that_only_the_management_library_knows_are_read_from_it(
    visible: dict[str, str], memory: tuple[int, ...], busy: tuple[float, ...]
) -> None:
    """
    On Windows no file tells; ``CUDA_VISIBLE_DEVICES`` chooses there, too, and the library does not know it.
    """
    facts = read_accelerator_by_nvml(FakeHost(platform="win32", management=TWO, environment=visible))
    assert (facts.kind, facts.driver, facts.devices) == ("cuda", "555.42", len(memory))
    assert (facts.memory_bytes, facts.busy_fractions) == (memory, busy)


def test_no_management_library_leaves_the_devices_unknown() -> None:
    """
    That it is missing says nothing of the devices.
    """
    assert read_accelerator_by_nvml(FakeHost(platform="win32")) == AcceleratorFacts()


def test_load_of_devices_is_found_by_their_uuids() -> None:
    """
    The library counts all devices of the host, and a container may have some of them.
    """
    host = nvidia(2, (1,))
    for at, uuid in enumerate(("GPU-a", "GPU-b")):
        host.files[f"/proc/driver/nvidia/gpus/0000:0{at}:00.0/information"] = f"GPU UUID: {uuid}\nDevice Minor: {at}\n"
    host.management = TWO
    facts = read_accelerator(host)
    assert (facts.devices, facts.memory_bytes) == (1, ())
    assert with_load(facts, host).memory_bytes == (40 << 30,)
    assert with_load(facts, host).busy_fractions == (1.0,)


def test_load_that_a_device_does_not_tell_is_unknown_for_all() -> None:
    """
    A list with holes could not be matched to devices.
    """
    silent = Nvml("555.42", (TWO.devices[0], NvmlDevice("GPU-b", 40 << 30, None)))
    facts = read_accelerator_by_nvml(FakeHost(platform="win32", management=silent))
    assert (len(facts.memory_bytes), facts.busy_fractions) == (2, ())
