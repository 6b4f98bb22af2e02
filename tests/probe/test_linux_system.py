"""
What a Linux machine runs on, and which C library it has.
"""

import pytest

from autoloader.probe.linux_system import read_system
from support import FakeHost

REAL, VIRTUAL = "flags\t\t: fpu sse2\n", "flags\t\t: fpu sse2 hypervisor\n"
DMI = "/sys/class/dmi/id"
TREE = "/sys/firmware/devicetree/base"


def named(vendor: str, product: str) -> dict[str, str]:
    """
    Return what the firmware of a virtual x86 machine tells.
    """
    return {"/proc/cpuinfo": VIRTUAL, f"{DMI}/sys_vendor": f"{vendor}\n", f"{DMI}/product_name": f"{product}\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"/proc/cpuinfo": REAL}, "none", id="real"),
        pytest.param({**named("Amazon EC2", "c5.metal"), "/proc/cpuinfo": REAL}, "none", id="bare-machine-of-a-cloud"),
        pytest.param(named("Amazon EC2", "g5.xlarge"), "kvm", id="ec2"),
        pytest.param(named("Google", "Google Compute Engine"), "kvm", id="google"),
        pytest.param(named("VMware, Inc.", "VMware20,1"), "vmware", id="vmware"),
        pytest.param(named("innotek GmbH", "VirtualBox"), "virtualbox", id="virtualbox"),
        pytest.param(named("Microsoft Corporation", "Virtual Machine"), "hyper-v", id="azure"),
        pytest.param(named("QEMU", "Standard PC (Q35 + ICH9, 2009)"), "qemu", id="qemu"),
        pytest.param({"/proc/cpuinfo": VIRTUAL}, "unnamed", id="virtual-without-firmware"),
        pytest.param({"/sys/hypervisor/type": "xen\n", "/proc/cpuinfo": REAL}, "xen", id="xen-paravirtual"),
        pytest.param({f"{TREE}/hypervisor/compatible": "linux,kvm\0"}, "kvm", id="arm-that-tells"),
        pytest.param({f"{TREE}/compatible": "linux,dummy-virt\0"}, "qemu", id="arm-of-qemu"),
        pytest.param({f"{TREE}/compatible": "raspberrypi,4-model-b\0"}, None, id="arm-that-is-silent"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_hypervisor_is_named_by_the_firmware_of_a_virtual_machine(files: dict[str, str], expected: str | None) -> None:
    """
    A processor without the flag is real, whatever name its firmware has; without any sign nobody knows.
    """
    assert read_system(FakeHost(files=files)).hypervisor == expected


@pytest.mark.parametrize(
    ("told", "files", "expected"),
    [
        pytest.param("glibc 2.36", {}, "glibc 2.36", id="glibc"),
        pytest.param(None, {"/lib/ld-musl-x86_64.so.1": ""}, "musl", id="musl"),
        pytest.param(None, {"/lib/libc.so": ""}, None, id="other"),
    ],
)
def test_c_library_is_what_it_tells_or_its_loader(told: str | None, files: dict[str, str], expected: str) -> None:
    """
    Of musl only its loader tells: it has no way to ask for its name.
    """
    assert read_system(FakeHost(c_library=told, files=files)).libc == expected
