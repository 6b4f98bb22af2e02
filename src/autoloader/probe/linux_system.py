"""
What runs on a Linux machine, and around it: kernel, distribution, WSL, container, hypervisor, notebook.
"""

from ..facts import SystemFacts
from .host_io import HostIO
from .parse import parse_colons, parse_os_release
from .readings import Readings

HYPERVISORS = {
    "kvm": ("kvm", "amazon ec2", "google", "openstack", "digitalocean", "hetzner"),
    "vmware": ("vmware",),
    "virtualbox": ("virtualbox", "innotek"),
    "hyper-v": ("microsoft corporation virtual machine",),
    "xen": ("xen",),
    "parallels": ("parallels",),
    "bhyve": ("bhyve",),
    "qemu": ("qemu",),
}
"""
Words in the maker's and the product's name of a machine, as its firmware tells them, and what they stand for.

Source: systemd-detect-virt(1) and the makers' documents.
"""


def read_system(io: HostIO) -> SystemFacts:
    """
    Read what runs here.
    """
    readings = Readings()
    release, machine = io.uname()
    readings.put("platform", "linux", "sys.platform")
    readings.put("release", release, "uname")
    readings.put("architecture", machine, "uname")
    distribution = parse_os_release(io.read_text("/etc/os-release") or io.read_text("/usr/lib/os-release"))
    readings.put("distribution", distribution.get("PRETTY_NAME"), "os-release")
    readings.put("libc", io.libc() or _musl(io), "confstr, or the loader in /lib")
    readings.put("hypervisor", *_hypervisor(io))
    version, is_free_threaded = io.python()
    readings.put("python", version, "platform")
    readings.put("is_free_threaded", is_free_threaded, "sys._is_gil_enabled()")
    readings.put("wsl_version", _wsl_version(release), "uname")
    readings.put("container", *_container(io))
    readings.put("notebook", *_notebook(io))
    return readings.build(SystemFacts)


def _wsl_version(release: str) -> int:
    """
    Return 1 or 2 under WSL: its kernels are ``4.4.0-19041-Microsoft`` and ``5.15.0-microsoft-standard-WSL2``.

    The first of WSL 2 ended in ``-microsoft-standard``; those that people build keep no more than ``WSL2``.
    """
    lowered = release.lower()
    if "wsl2" in lowered or "microsoft-standard" in lowered:
        return 2
    return 1 if "microsoft" in lowered else 0


def _container(io: HostIO) -> tuple[str, str]:
    """
    Return the kind of container and the sign of it.
    """
    if "KUBERNETES_SERVICE_HOST" in io.environment:
        return "kubernetes", "KUBERNETES_SERVICE_HOST"
    signs = {"docker": "/.dockerenv", "podman": "/run/.containerenv"}
    for kind, path in signs.items():
        if io.read_text(path) is not None:
            return kind, path
    named = (io.read_text("/run/systemd/container") or io.environment.get("container", "")).strip()
    if named and named != "wsl":  # which systemd takes for a container
        return named, "/run/systemd/container or the variable 'container'"
    if "SINGULARITY_CONTAINER" in io.environment or "APPTAINER_CONTAINER" in io.environment:
        return "apptainer", "APPTAINER_CONTAINER"
    if io.read_text("/sys/fs/cgroup/cgroup.type") is not None:
        # Kernel, cgroup-v2.rst: all groups have this file but the host's root, which a cgroup namespace hides.
        return "unnamed", "/sys/fs/cgroup/cgroup.type"
    return "none", "no container's mark was found"


def _notebook(io: HostIO) -> tuple[str, str]:
    marks = {
        "KAGGLE_KERNEL_RUN_TYPE": "kaggle",  # whose image is built from Colab's, and has its variables, too
        "COLAB_RELEASE_TAG": "colab",
        "COLAB_GPU": "colab",
        "JPY_PARENT_PID": "jupyter",
    }
    found = next((mark for mark in marks if mark in io.environment), None)
    return ("none", "no notebook's variable is set") if found is None else (marks[found], found)


def _musl(io: HostIO) -> str | None:
    """
    Return ``musl`` where its loader is: it has no way to ask for its name. Source: musl libc, FAQ.
    """
    return "musl" if any(name.startswith("ld-musl-") for name in io.list_dir("/lib") or ()) else None


def _hypervisor(io: HostIO) -> tuple[str | None, str]:
    """
    Return what this machine runs on and the sign of it; an x86 processor has a flag that no real one may set.

    A cloud's bare machines carry the cloud's name, too, so that on x86 a name counts only beside the flag.

    Source: Linux, arch/x86/include/asm/cpufeatures.h (X86_FEATURE_HYPERVISOR); ABI/testing/sysfs-hypervisor-xen;
    devicetree/bindings/arm/linux,dummy-virt.yaml.
    """
    if (io.read_text("/sys/hypervisor/type") or "").strip() == "xen":
        return "xen", "/sys/hypervisor/type"
    flags = parse_colons(io.read_text("/proc/cpuinfo")).get("flags")
    is_virtual = None if flags is None else "hypervisor" in flags.split()
    if is_virtual is False:
        return "none", "flags in /proc/cpuinfo"
    folder = "/sys/class/dmi/id"
    words = [(io.read_text(f"{folder}/{name}") or "").strip() for name in ("sys_vendor", "product_name")]
    named = " ".join(words).lower()
    found = next((kind for kind, marks in HYPERVISORS.items() if any(mark in named for mark in marks)), None)
    if found is not None:
        return found, folder
    tree = "/sys/firmware/devicetree/base"
    compatible = (io.read_text(f"{tree}/hypervisor/compatible") or "").strip("\0\n")
    if compatible:
        return compatible.rpartition(",")[2], f"{tree}/hypervisor"
    if "linux,dummy-virt" in (io.read_text(f"{tree}/compatible") or ""):
        return "qemu", f"{tree}/compatible"
    return ("unnamed" if is_virtual else None), "flags in /proc/cpuinfo"
