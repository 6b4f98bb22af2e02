"""
Machines that were written by hand from documents: every fact is as the documents say. See tests/hosts/README.md.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from autoloader.facts import HostFacts
from autoloader.probe import probe_host
from autoloader.probe.parse import NO_LIMIT
from autoloader.probe.recording import ReplayedHost

FOLDER = Path(__file__).parent.parent / "hosts" / "synthetic"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))

MIB, GIB, GB = 1 << 20, 1 << 30, 1000**3
MANY = "cpus-1024"

FACTS: dict[str, dict[str, Any]] = {
    "wsl1": {
        "system.wsl_version": 1,
        "system.container": "none",
        "cpu.logical": 8,
        "cpu.physical": None,
        "cpu.usable_cpus": 8.0,
        "cpu.quota_cpus": None,
        "memory.total_bytes": 16 * GIB,
        "memory.cgroup_limit_bytes": None,
        "numa.nodes": None,
        "accelerator.devices": 0,
    },
    "wsl2": {
        "system.wsl_version": 2,
        "system.container": "none",
        "cpu.usable_cpus": 16.0,
        "cpu.quota_cpus": NO_LIMIT,
        "numa.nodes": 1,
        "accelerator.kind": "cuda",
        "accelerator.devices": None,
    },
    "wsl2-systemd": {"system.wsl_version": 2, "system.container": "none", "cpu.usable_cpus": 16.0},
    "wsl2-docker": {
        "system.wsl_version": 2,
        "system.container": "docker",
        "shared_memory.size_bytes": 64 * MIB,
        "accelerator.devices": 0,
    },
    "kubernetes": {
        "system.wsl_version": 0,
        "system.container": "kubernetes",
        "cpu.logical": 16,
        "cpu.quota_cpus": 1.5,
        "cpu.usable_cpus": 1.5,
        "cpu.bound_by": "quota_cpus",
        "memory.total_bytes": 128 * GIB,
        "memory.cgroup_limit_bytes": 4.0 * GIB,
        "memory.cgroup_usage_bytes": GIB - GIB // 4,
        "memory.headroom_bytes": 3.25 * GIB,
        "memory.bound_by": "cgroup_headroom_bytes",
        "memory.oom_kills": 2,
        "limits.pids_headroom": 1000.0,
        "shared_memory.size_bytes": 64 * MIB,
    },
    "kubernetes-cgroup-v1": {
        "system.container": "kubernetes",
        "cpu.quota_cpus": 1.5,
        "cpu.usable_cpus": 1.5,
        "memory.cgroup_limit_bytes": 4.0 * GIB,
        "memory.headroom_bytes": 3.25 * GIB,
        "memory.oom_kills": 2,
        "limits.pids_headroom": NO_LIMIT,
    },
    "docker": {
        "system.container": "docker",
        "cpu.quota_cpus": NO_LIMIT,
        "cpu.usable_cpus": 8.0,
        "memory.cgroup_limit_bytes": NO_LIMIT,
        "memory.headroom_bytes": 32.0 * GIB,
        "limits.pids_headroom": NO_LIMIT,
        "shared_memory.size_bytes": 64 * MIB,
        "shared_memory.is_writable": True,
    },
    "podman-rootless": {
        "system.container": "podman",
        "cpu.logical": 8,
        "cpu.physical": None,
        "cpu.sockets": None,
        "cpu.cpuset": None,
        "cpu.quota_cpus": NO_LIMIT,
        "cpu.usable_cpus": 8.0,
        "limits.pids_headroom": 2043.0,
        "shared_memory.size_bytes": 64000 * 1024,
    },
    "slurm-batch": {
        "job.launcher": None,
        "job.local_world_size": 1,
        "cpu.logical": 16,
        "cpu.physical": 8,
        "cpu.sockets": 2,
        "cpu.scheduler_cpus": 8.0,
        "cpu.usable_cpus": 8.0,
        "cpu.bound_by": "scheduler_cpus",
    },
    "slurm-step": {
        "job.launcher": "slurm",
        "job.rank": 3,
        "job.local_rank": 1,
        "job.local_world_size": 2,
        "cpu.scheduler_cpus": 8.0,
        "cpu.cpuset": (0, 1, 2, 3, 8, 9, 10, 11),
        "cpu.affinity": (2, 3, 10, 11),
        "cpu.usable_cpus": 4.0,
        "cpu.bound_by": "affinity",
        "memory.cgroup_limit_bytes": 16.0 * GIB,
        "memory.cgroup_usage_bytes": GIB,
        "memory.headroom_bytes": 15.0 * GIB,
    },
    "slurm-cgroup-v1": {
        "system.distribution": "CentOS Linux 7 (Core)",
        "job.launcher": "slurm",
        "job.local_world_size": 1,
        "cpu.physical": 8,
        "cpu.sockets": 2,
        "cpu.cpuset": (0, 1, 2, 3, 8, 9, 10, 11),
        "cpu.quota_cpus": NO_LIMIT,
        "cpu.scheduler_cpus": 8.0,
        "cpu.usable_cpus": 8.0,
        "memory.cgroup_limit_bytes": 16.0 * GIB,
        "memory.headroom_bytes": 13.0 * GIB,
        "memory.oom_kills": None,
        "limits.pids_headroom": NO_LIMIT,
    },
    "pbs": {"cpu.scheduler_cpus": 6.0, "cpu.usable_cpus": 6.0, "cpu.sources.scheduler_cpus": "NCPUS"},
    "torque": {"cpu.scheduler_cpus": 6.0, "cpu.usable_cpus": 6.0, "cpu.sources.scheduler_cpus": "PBS_NUM_PPN"},
    "lsf": {"cpu.scheduler_cpus": 6.0, "cpu.usable_cpus": 6.0, "cpu.sources.scheduler_cpus": "LSB_MCPU_HOSTS"},
    "lsf-two-hosts": {"cpu.scheduler_cpus": 6.0, "cpu.usable_cpus": 6.0, "cpu.bound_by": "scheduler_cpus"},
    "grid-engine": {"cpu.scheduler_cpus": 6.0, "cpu.usable_cpus": 6.0, "cpu.sources.scheduler_cpus": "NSLOTS"},
    "lambda": {"cpu.usable_cpus": 2.0, "shared_memory.path": None, "process.has_semaphores": False},
    "colab": {"system.notebook": "colab", "cpu.usable_cpus": 2.0, "memory.total_bytes": 13 * GIB},
    "kaggle": {"system.notebook": "kaggle", "cpu.usable_cpus": 4.0, "memory.total_bytes": 30 * GIB},
    "storage": {"memory.total_bytes": 64 * GIB},
    "shared-folders": {"system.container": "none"},
    "hybrid": {
        "cpu.model": "13th Gen Intel(R) Core(TM) i7-13700K",
        "cpu.logical": 24,
        "cpu.physical": 16,
        "cpu.sockets": 1,
        "cpu.performance_cpus": 16,
        "cpu.efficiency_cpus": 8,
        "cpu.usable_cpus": 24.0,
    },
    "arm-server": {
        "system.architecture": "aarch64",
        "cpu.model": None,
        "cpu.logical": 4,
        "cpu.physical": 4,
        "cpu.sockets": None,
        "cpu.performance_cpus": None,
    },
    MANY: {
        "cpu.logical": 1024,
        "cpu.physical": 512,
        "cpu.sockets": 4,
        "cpu.affinity": tuple(range(1024)),
        "cpu.usable_cpus": 1024.0,
        "memory.total_bytes": 4096 * GIB,
        "numa.nodes": 4,
        "numa.node_cpus.3": (*range(384, 512), *range(896, 1024)),
        "numa.node_memory_bytes.3": 1024 * GIB,
        "numa.node_distances.3": (21, 21, 21, 10),
    },
    "no-proc": {
        "system.container": "none",
        "cpu.model": None,
        "cpu.logical": 8,
        "cpu.physical": 4,
        "cpu.quota_cpus": None,
        "cpu.cpuset": None,
        "cpu.usable_cpus": 8.0,
        "cpu.load_1min": None,
        "memory.total_bytes": None,
        "memory.headroom_bytes": None,
        "memory.oom_kills": None,
        "numa.nodes": 1,
        "shared_memory.size_bytes": 32 * GIB,
        "limits.open_files_soft": 1024.0,
        "limits.open_files_now": None,
        "limits.pids_headroom": None,
        "storage.path": "/work",
        "storage.kind": None,
        "process.native_threads": None,
    },
    "jetson": {"accelerator.kind": "cuda", "accelerator.devices": 1, "accelerator.numa_nodes": ()},
    "rocm-8": {
        "accelerator.kind": "rocm",
        "accelerator.devices": 8,
        "accelerator.driver": "6.8.5",
        "accelerator.numa_nodes": (0, 0, 0, 0, 1, 1, 1, 1),
        "numa.nodes": 2,
    },
    "rocm-8-visible": {"accelerator.devices": 2, "accelerator.numa_nodes": (1, 0)},
    "nvidia-8": {
        "accelerator.kind": "cuda",
        "accelerator.devices": 8,
        "accelerator.driver": "550.54.15",
        "accelerator.numa_nodes": (0, 0, 0, 0, 1, 1, 1, 1),
        "numa.nodes": 2,
    },
    "nvidia-8-visible": {"accelerator.devices": 3, "accelerator.numa_nodes": (1, 1, 0)},
    "nvidia-8-container": {"accelerator.devices": 2, "accelerator.numa_nodes": (0, 1)},
    "fx1": {"cpu.quota_cpus": 2.0, "cpu.usable_cpus": 2.0},
    "fx2": {"cpu.quota_cpus": 1.5, "cpu.sources.quota_cpus": "/sys/fs/cgroup/user.slice/u.slice/cpu.max"},
    "fx3": {"cpu.quota_cpus": 4.0, "cpu.usable_cpus": 4.0, "cpu.logical": 8},
    "fx4": {"cpu.quota_cpus": NO_LIMIT, "cpu.usable_cpus": 4.0, "cpu.bound_by": "logical"},
    "fx5": {"cpu.quota_cpus": 0.5, "cpu.usable_cpus": 0.5},
    "fx6": {"cpu.quota_cpus": None, "cpu.usable_cpus": 4.0},
    "fx7": {"cpu.cpuset": (0, 1, 2, 3, 8, 10, 11), "cpu.usable_cpus": 7.0, "cpu.bound_by": "cpuset"},
    "fx8": {"cpu.quota_cpus": 0.5, "cpu.usable_cpus": 0.5},
    "fx9-max": {"memory.cgroup_limit_bytes": NO_LIMIT, "memory.bound_by": "available_bytes"},
    "fx9-limit": {"memory.cgroup_limit_bytes": 4.0 * GIB, "memory.headroom_bytes": 3e9},
    "fx9-v1": {"memory.cgroup_limit_bytes": NO_LIMIT, "memory.bound_by": "available_bytes"},
    "fx10": {"cpu.quota_cpus": 2.0, "cpu.usable_cpus": 2.0},
    "fx11": {
        "system.distribution": None,
        "cpu.model": None,
        "cpu.logical": None,
        "cpu.quota_cpus": None,
        "cpu.usable_cpus": None,
        "cpu.load_1min": None,
        "memory.total_bytes": None,
        "memory.cgroup_limit_bytes": None,
        "memory.oom_kills": None,
        "storage.kind": None,
    },
    "windows-desktop": {
        "system.platform": "windows",
        "system.distribution": "Windows 10.0.22631",
        "cpu.model": "AMD Ryzen 7 7700X 8-Core Processor",
        "cpu.logical": 16,
        "cpu.physical": 8,
        "cpu.quota_cpus": NO_LIMIT,
        "cpu.usable_cpus": 12.0,
        "cpu.bound_by": "python_cpu_count",
        "memory.total_bytes": 64 * GIB,
        "memory.commit_limit_bytes": 80 * GIB,
        "memory.headroom_bytes": 32.0 * GIB,
        "memory.job_limit_bytes": NO_LIMIT,
        "accelerator.kind": "cuda",
        "accelerator.devices": 1,
        "accelerator.driver": "551.86",
        "accelerator.memory_bytes": (24 * GIB,),
        "start_methods.in_force": "spawn",
        "process.fork_unsafe_modules": ("polars",),
    },
    "windows-hybrid": {
        "cpu.logical": 20,
        "cpu.physical": 14,
        "cpu.performance_cpus": 12,
        "cpu.efficiency_cpus": 8,
        "accelerator.devices": None,
    },
    "windows-two-groups": {
        "cpu.logical": 128,
        "cpu.sockets": 2,
        "cpu.affinity": None,
        "cpu.usable_cpus": 128.0,
        "numa.cpu_nodes": 4,
        "numa.node_cpus.1": tuple(range(32, 64)),
        "numa.node_cpus.2": tuple(range(64, 96)),
    },
    "windows-job": {
        "cpu.quota_cpus": 4.0,
        "cpu.usable_cpus": 4.0,
        "cpu.bound_by": "quota_cpus",
        "memory.job_limit_bytes": 4.0 * GIB,
        "memory.headroom_bytes": 3.0 * GIB,
        "memory.bound_by": "job_headroom_bytes",
        "limits.pids_headroom": 60.0,
    },
    "mac-m1-pro": {
        "system.platform": "macos",
        "system.distribution": "macOS 14.5",
        "cpu.model": "Apple M1 Pro",
        "cpu.performance_cpus": 8,
        "cpu.efficiency_cpus": 2,
        "cpu.usable_cpus": 8.0,
        "memory.total_bytes": 32 * GIB,
        "limits.open_files_soft": 256.0,
        "limits.open_files_now": 3,
        "accelerator.kind": "mps",
        "storage.confidence": "high",
    },
    "mac-intel": {
        "system.architecture": "x86_64",
        "cpu.model": "Intel(R) Core(TM) i7-7700K CPU @ 4.20GHz",
        "cpu.logical": 8,
        "cpu.physical": 4,
        "cpu.performance_cpus": None,
        "accelerator.kind": None,
        "accelerator.devices": 0,
    },
    "freebsd": {
        "system.platform": "freebsd14",
        "cpu.logical": 8,
        "cpu.usable_cpus": 4.0,
        "memory.headroom_bytes": 8.0 * GIB,
        "limits.open_files_soft": 117000.0,
        "storage.kind": None,
    },
    "xpu-2": {
        "accelerator.kind": "xpu",
        "accelerator.devices": 2,
        "accelerator.numa_nodes": (1, 0),
    },
    "arm-big-little": {
        "cpu.model": None,
        "cpu.performance_cpus": 4,
        "cpu.efficiency_cpus": 4,
        "cpu.max_frequency_hertz": 1.8e9,
        "system.hypervisor": None,
    },
    "ec2-ebs": {
        "system.hypervisor": "kvm",
        "system.libc": "glibc 2.34",
        "cpu.affinity": tuple(range(8)),
        "cpu.affinity_now": (0, 4),
        "cpu.affinity_bound_by": "OMP_PLACES",
        "cpu.usable_cpus": 8.0,
        "limits.processes_soft": 1000.0,
        "limits.processes_now": 120,
        "limits.locked_memory_soft_bytes": 8.0 * MIB,
        "process.native_threads": 1,
        "process.other_threads": ("tensorboard-writer",),
        "process.is_torch_built_for_accelerator": True,
        "process.reimported_main": "/home/user/train.py",
        "storage.kind": "virtual",
        "storage.confidence": "low",
        "storage.devices": ("nvme0n1p2", "nvme0n1"),
    },
}
"""
For each host the facts that its documents tell, as far as they differ from those of an ordinary server.
"""

STORAGE: dict[str, dict[str, tuple[str | None, str, int | None]]] = {
    "wsl1": {
        "/home/user/data": ("lxfs", "unknown", 1000 * GIB),
        "/mnt/c/data": ("drvfs", "network", None),
        "/run/shm": ("tmpfs", "memory", None),
    },
    "wsl2": {
        "/home/user/data": ("ext4", "virtual", 1000 * GIB),
        "/mnt/c/data": ("9p", "network", None),
        "/mnt/c/scratch": ("tmpfs", "memory", GIB),
        "/mnt/wsl": ("tmpfs", "memory", 8 * GIB),
        "/mnt/wsl/c/data": ("9p", "network", None),
    },
    "wsl2-docker": {"/": ("overlay", "unknown", 1000 * GIB), "/data": ("9p", "network", None)},
    "kubernetes": {
        "/": ("overlay", "unknown", 1000 * GIB),
        "/scratch/x": ("ext4", "nvme", 1000 * GIB),
        "/data/x": ("nfs4", "network", None),
    },
    "docker": {"/": ("overlay", "unknown", 1000 * GIB), "/data": ("ext4", "nvme", 1000 * GIB)},
    "podman-rootless": {"/": ("fuse.fuse-overlayfs", "unknown", 1000 * GIB), "/data": ("ext4", "unknown", 1000 * GIB)},
    "storage": {
        "/srv/x": ("ext4", "nvme", 1000 * GIB),
        "/mnt/nfs/x": ("nfs4", "network", None),
        "/mnt/nfs/cache/x": ("ext4", "nvme", 4000 * GIB),
        "/lustre/x": ("lustre", "network", None),
        "/gpfs/fs1/x": ("gpfs", "network", None),
        "/mnt/share/x": ("cifs", "network", None),
        "/mnt/bucket/x": ("fuse.s3fs", "network", None),
        "/mnt/ssh/x": ("fuse.sshfs", "network", None),
        "/mnt/usb/x": ("fuseblk", "hdd", 4000 * GIB),
        "/tank/data/x": ("zfs", "unknown", 4000 * GIB),
        "/merged/x": ("overlay", "network", None),
        "/net/other": ("autofs", "unknown", None),
        "/net/server/export/x": ("nfs", "network", None),
        "/mnt/image/x": ("squashfs", "network", None),
    },
    "shared-folders": {
        "/mnt/hgfs/x": ("fuse.vmhgfs-fuse", "network", None),
        "/mnt/hgfs-old/x": ("vmhgfs", "network", None),
        "/media/sf_share/x": ("vboxsf", "network", None),
        "/media/psf/share/x": ("prl_fs", "network", None),
        "/mnt/virtiofs/x": ("virtiofs", "network", None),
        "/mnt/9p/x": ("9p", "network", None),
        "/data/x": ("fakeowner", "network", None),
    },
    "windows-desktop": {
        "S:\\data": ("NTFS", "nvme", 2000 * GB),
        "D:\\data": ("NTFS", "hdd", 4000 * GB),
        "E:\\data": ("NTFS", "ssd", 1000 * GB),
        "F:\\data": ("exFAT", "unknown", 5000 * GB),
        "G:\\data": ("FAT32", "unknown", 32 * GB),
        "H:\\data": ("CDFS", "optical", 4 * GB),
        "R:\\data": ("NTFS", "hdd", 8000 * GB),
        "Z:\\data": (None, "network", None),
    },
    "mac-m1-pro": {"/Volumes/share/x": ("smbfs", "network", None), "/Volumes/T7/x": ("apfs", "ssd", 1000 * GB)},
    "mac-intel": {"/Volumes/Old/x": ("hfs", "hdd", 1000 * GB)},
    "ec2-ebs": {"/scratch": ("xfs", "nvme", 450 * GB)},
}
"""
For each host and path: the file system, its kind, and its size where it may be asked.
"""


def topology_of_many() -> Iterator[tuple[str, str]]:
    """
    Yield the files of 1,024 CPUs: four packages of 128 cores each, whose second threads have the upper numbers.
    """
    for cpu in range(1024):
        folder, core = f"/sys/devices/system/cpu/cpu{cpu}/topology", cpu % 512
        yield f"{folder}/core_cpus_list", f"{core},{core + 512}\n"
        yield f"{folder}/physical_package_id", f"{core // 128}\n"


@functools.cache
def document(name: str) -> Any:
    """
    Return what a host answers; that of the largest is made longer here.
    """
    read = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if name == MANY:
        read["answers"]["affinity"] = list(range(1024))
        read["answers"]["read_text"].update(topology_of_many())
    return read


@functools.cache
def facts_of(name: str, path: str | None = None) -> HostFacts:
    """
    Return the facts of a host, with those of the storage at *path*.
    """
    return probe_host(io=ReplayedHost(document(name)), path=path)


def look_up(facts: Any, fact: str) -> Any:
    """
    Return a fact by its dotted name; the last part may be a key.
    """
    for part in fact.split("."):
        facts = facts[part] if isinstance(facts, Mapping) else getattr(facts, part)
    return facts


@pytest.mark.parametrize(
    ("name", "fact", "expected"),
    [pytest.param(name, fact, value, id=f"{name}-{fact}") for name in FACTS for fact, value in FACTS[name].items()],
)
def test_synthetic_host_has_the_facts_of_its_documents(name: str, fact: str, expected: Any) -> None:
    """
    What the probe finds in a host's answers is what the documents say of such a host.
    """
    assert look_up(facts_of(name), fact) == expected


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [pytest.param(name, path, STORAGE[name][path], id=f"{name}-{path}") for name in STORAGE for path in STORAGE[name]],
)
def test_synthetic_storage_is_of_its_kind(name: str, path: str, expected: tuple[str | None, str, int | None]) -> None:
    """
    The mount that holds a path tells its kind; a network mount is not asked for its size.
    """
    storage = facts_of(name, path).storage
    assert (storage.filesystem, storage.kind, storage.size_bytes) == expected


def test_synthetic_hosts_all_have_facts() -> None:
    """
    No document is without a row, and no row without a document.
    """
    assert set(NAMES) == set(FACTS)
    assert set(STORAGE) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_synthetic_host_names_the_documents_that_it_is_from(name: str) -> None:
    """
    Nobody takes what was written by hand for the answers of a machine.
    """
    source = document(name)["synthetic"]
    assert isinstance(source, str)
    assert len(source) > len("none")


@pytest.mark.parametrize("name", NAMES)
def test_synthetic_answers_are_those_that_a_probe_asks_for(name: str) -> None:
    """
    A probe asks nothing that was not written, and all that was written is asked for.
    """
    host = ReplayedHost(document(name))
    for path in (None, *STORAGE.get(name, {})):
        probe_host(io=host, path=path)
    probe_host(io=host, full=True)
    assert (host.unanswered, host.unused) == (set(), set())
