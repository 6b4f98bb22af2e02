"""
The whole of Linux's facts, off hosts that exist only as files.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from autoloader.facts import HostFacts
from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace
from autoloader.probe.linux import collect
from autoloader.probe.parse import NO_LIMIT
from autoloader.records import field_names, from_json, is_record, to_json
from support import FakeHost

CGROUP = "/sys/fs/cgroup"
CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"

PLAIN = {
    "/proc/self/mountinfo": (
        "20 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    ),
    "/proc/self/cgroup": "0::/job\n",
    f"{CGROUP}/job/cgroup.procs": "1\n",
    "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Example CPU\nflags\t\t: fpu sse2\n",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3500000\n",
    "/proc/sys/vm/overcommit_memory": "2\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/meminfo": "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\nSwapTotal: 2097152 kB\n",
    "/proc/loadavg": "1.50 1.00 0.50 1/100 4242\n",
    "/dev/null": "",
    "/proc/self/fd/0": "",
    "/proc/self/fd/1": "",
    "/proc/self/fd/2": "",
    "/proc/self/fd/3": "",
    "/etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    f"{CPU}/online": "0-7\n",
    **{f"{CPU}/cpu{cpu}/topology/core_cpus_list": f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)},
    **{f"{CPU}/cpu{cpu}/topology/physical_package_id": f"{cpu % 2}\n" for cpu in range(8)},
    f"{NODE}/has_memory": "0-1\n",
    f"{NODE}/has_cpu": "0-1\n",
    "/sys/devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p2/partition": "2\n",
}
"""
A server with 8 CPUs (4 cores in 2 sockets), 64 GiB and an NVMe disk, and no limits.
"""

SPACES = {"/work": DiskSpace(2_000_000, 1_000_000), "/dev/shm": DiskSpace(34_359_738_368, 34_359_738_000)}


def plain(files: dict[str, str | None] | None = None, **answers: Any) -> FakeHost:
    """
    Return the server of :data:`PLAIN` with some files changed (``None``: missing) and some answers its own.
    """
    texts = {path: text for path, text in {**PLAIN, **(files or {})}.items() if text is not None}
    disk = "/sys/devices/pci0000:00/nvme/nvme0/nvme0n1/nvme0n1p2"
    known: dict[str, Any] = {
        "mask": tuple(range(8)),
        "spaces": SPACES,
        "links": {"/sys/dev/block/259:2": disk},
        "resource_limits": {
            "NOFILE": (1024.0, 524288.0),
            "NPROC": (NO_LIMIT, NO_LIMIT),
            "MEMLOCK": (65536.0, NO_LIMIT),
        },
        "c_library": "glibc 2.36",
        **answers,
    }
    return FakeHost(files=texts, **known)


def groups(facts: HostFacts) -> Iterator[tuple[str, Any]]:
    """
    Yield each group of facts with its name.
    """
    for name in field_names(facts):
        if is_record(getattr(facts, name)):
            yield name, getattr(facts, name)


def test_plain_server_has_every_fact() -> None:
    """
    Each fact of an ordinary server is as its files say, each with its source.
    """
    facts = probe_host(io=plain())
    assert to_json(facts.system) == {
        "platform": "linux",
        "release": "6.1.0",
        "distribution": "Debian GNU/Linux 12 (bookworm)",
        "architecture": "x86_64",
        "libc": "glibc 2.36",
        "hypervisor": "none",
        "python": "CPython 3.12.1",
        "is_free_threaded": False,
        "wsl_version": 0,
        "container": "none",
        "notebook": "none",
        "sources": {
            "platform": "sys.platform",
            "release": "uname",
            "distribution": "os-release",
            "architecture": "uname",
            "libc": "confstr, or the loader in /lib",
            "hypervisor": "flags in /proc/cpuinfo",
            "python": "platform",
            "is_free_threaded": "sys._is_gil_enabled()",
            "wsl_version": "uname",
            "container": "no container's mark was found",
            "notebook": "no notebook's variable is set",
        },
    }
    assert to_json(facts.cpu) == {
        "model": "Example CPU",
        "logical": 8,
        "physical": 4,
        "sockets": 2,
        "performance_cpus": None,
        "efficiency_cpus": None,
        "max_frequency_hertz": 3.5e9,
        "flags": [],
        "cache_bytes": None,
        "affinity": [0, 1, 2, 3, 4, 5, 6, 7],
        "affinity_now": [0, 1, 2, 3, 4, 5, 6, 7],
        "affinity_bound_by": None,
        "launcher_affinity": None,
        "cpuset": None,
        "quota_cpus": "no limit",
        "scheduler_cpus": None,
        "python_cpu_count": None,
        "usable_cpus": 8.0,
        "bound_by": "logical",
        "load_1min": 1.5,
        "sources": {
            "model": "/proc/cpuinfo",
            "logical": f"{CPU}/online",
            "physical": f"{CPU}/cpu*/topology",
            "sockets": f"{CPU}/cpu*/topology",
            "max_frequency_hertz": "cpu0/cpufreq/cpuinfo_max_freq",
            "affinity": "sched_getaffinity",
            "affinity_now": "sched_getaffinity",
            "quota_cpus": f"{CGROUP}/job/cpu.max",
            "usable_cpus": "the smallest of the limits: logical",
            "bound_by": "the smallest of the limits",
            "load_1min": "/proc/loadavg",
        },
    }
    assert (facts.numa.nodes, facts.numa.cpu_nodes) == (2, 2)
    memory = facts.memory
    assert (memory.total_bytes, memory.available_bytes, memory.swap_total_bytes) == (64 << 30, 32 << 30, 2 << 30)
    assert (memory.cgroup_limit_bytes, memory.cgroup_headroom_bytes) == (NO_LIMIT, NO_LIMIT)
    assert (memory.headroom_bytes, memory.bound_by) == (32 << 30, "available_bytes")
    assert (memory.overcommit, memory.swappiness) == ("never", 60)
    shared = facts.shared_memory
    assert (shared.path, shared.is_writable) == ("/dev/shm", True)
    assert (shared.size_bytes, shared.free_bytes) == (34_359_738_368, 34_359_738_000)
    limits = facts.limits
    assert (limits.open_files_soft, limits.open_files_hard, limits.open_files_now) == (1024.0, 524288.0, 3)
    assert (limits.processes_soft, limits.pids_headroom, limits.temp_dir) == (NO_LIMIT, NO_LIMIT, "/tmp")
    assert limits.locked_memory_soft_bytes == 65536
    storage = facts.storage
    assert (storage.confidence, storage.devices) == ("high", ("nvme0n1p2", "nvme0n1"))
    assert (storage.path, storage.mount_point, storage.filesystem) == ("/work", "/", "ext4")
    assert (storage.device, storage.kind) == ("/dev/nvme0n1p2", "nvme")
    assert (storage.size_bytes, storage.free_bytes) == (2_000_000, 1_000_000)
    assert (facts.accelerator.kind, facts.accelerator.devices) == (None, 0)
    assert (facts.job.launcher, facts.job.local_world_size) == (None, 1)
    assert (facts.process.other_threads, facts.process.is_daemonic) == ((), False)


@pytest.mark.parametrize("io", [pytest.param(plain(), id="plain-server"), pytest.param(FakeHost(), id="empty-host")])
def test_facts_that_are_known_carry_a_source(io: FakeHost) -> None:
    """
    Exactly the fields that are known have a source, and none is an empty text.
    """
    for name, group in groups(collect(io)):
        values = {field: getattr(group, field) for field in field_names(group)}
        sources = values.pop("sources")
        assert set(sources) == {field for field, value in values.items() if value is not None and value != ()}, name
        assert all(sources.values()), name


def test_facts_of_a_server_survive_json() -> None:
    """
    What the command prints as JSON can be read again, infinity included.
    """
    facts = collect(plain())
    assert from_json(HostFacts, to_json(facts)) == facts


def test_empty_host_knows_nothing_and_raises_nothing() -> None:
    """
    A host without any file leaves all that Linux's files would tell unknown.
    """
    io = FakeHost(methods=None, program=None)
    facts = probe_host(io=io)
    told = {
        "system.platform": "linux",
        "system.release": "6.1.0",
        "system.architecture": "x86_64",
        "system.python": "CPython 3.12.1",
        "system.is_free_threaded": False,
        "system.wsl_version": 0,
        "system.container": "none",
        "system.notebook": "none",
        "limits.temp_dir": "/tmp",
        "storage.path": "/work",
        "job.local_world_size": 1,
        "process.is_daemonic": False,
        "process.is_dataloader_worker": False,
        "process.is_accelerator_initialised": False,
        "process.is_main_missing": False,
        "process.is_interpreter_python": False,
        "process.has_semaphores": True,
    }
    known = {
        f"{name}.{field}": getattr(group, field)
        for name, group in groups(facts)
        for field in field_names(group)
        if field != "sources" and getattr(group, field) not in {None, ()}
    }
    assert known == told


V1_MOUNTS = (
    "20 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
    "33 31 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "36 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
)


@pytest.mark.parametrize(
    ("files", "answers", "usable", "bound_by"),
    [
        pytest.param({}, {}, 8.0, "logical", id="nothing-limits"),
        pytest.param({}, {"mask": (0, 2, 5)}, 3.0, "affinity", id="affinity-of-3"),
        pytest.param({f"{CGROUP}/job/cpuset.cpus.effective": "0-1\n"}, {"mask": None}, 2.0, "cpuset", id="cpuset-of-2"),
        pytest.param(
            {f"{CGROUP}/job/cpuset.cpus.effective": "0-1\n"}, {"mask": (0, 1)}, 2.0, "affinity", id="cpuset-in-the-mask"
        ),
        pytest.param({f"{CGROUP}/job/cpu.max": "250000 100000\n"}, {}, 2.5, "quota_cpus", id="quota-of-2.5"),
        pytest.param({f"{CGROUP}/job/cpu.max": "50000 100000\n"}, {}, 0.5, "quota_cpus", id="quota-of-half"),
        pytest.param(
            {f"{CGROUP}/job/cpu.max": "6400000 100000\n"}, {}, 8.0, "logical", id="quota-larger-than-the-machine"
        ),
        pytest.param(
            {f"{CGROUP}/job/cpu.max": "max 100000\n", f"{CGROUP}/cpu.max": "100000 100000\n"},
            {},
            1.0,
            "quota_cpus",
            id="quota-of-the-ancestor",
        ),
        pytest.param(
            {
                "/proc/self/mountinfo": V1_MOUNTS,
                "/proc/self/cgroup": "2:cpu:/g\n3:cpuset:/g\n0::/\n",
                "/sys/fs/cgroup/cpu/g/cpu.cfs_quota_us": "150000\n",
                "/sys/fs/cgroup/cpu/g/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/cpuset/g/cpuset.effective_cpus": "0-3\n",
            },
            {"mask": (0, 1, 2, 3)},
            1.5,
            "quota_cpus",
            id="v1-quota-and-cpuset",
        ),
        pytest.param({}, {"environment": {"SLURM_CPUS_PER_TASK": "3"}}, 3.0, "scheduler_cpus", id="slurm-of-3"),
        pytest.param(
            {},
            {"environment": {"SLURM_CPUS_PER_TASK": "10"}, "mask": (0,)},
            1.0,
            "affinity",
            id="slurm-step-on-one-cpu",
        ),
        pytest.param(
            {},
            {
                "environment": {
                    "SLURM_STEP_ID": "0",
                    "SLURM_STEP_TASKS_PER_NODE": "2",
                    "SLURM_CPUS_PER_TASK": "3",
                }
            },
            6.0,
            "scheduler_cpus",
            id="slurm-of-3-for-2-ranks",
        ),
        pytest.param(
            {}, {"environment": {"PYTHON_CPU_COUNT": "2"}}, 2.0, "python_cpu_count", id="python-variable-of-2"
        ),
        pytest.param({}, {"own_cpu_count": 1}, 1.0, "python_cpu_count", id="python-option-of-1"),
        pytest.param({}, {"environment": {"PYTHON_CPU_COUNT": "0"}}, 8.0, "logical", id="python-variable-of-0"),
        pytest.param({f"{CPU}/online": None}, {"mask": None, "cpus": 6}, 6.0, "logical", id="cpu-count-without-sysfs"),
        pytest.param({f"{CPU}/online": "\n"}, {"mask": (0, 1), "cpus": None}, 2.0, "affinity", id="only-the-mask"),
        pytest.param({f"{CPU}/online": None}, {"mask": None, "cpus": None}, None, None, id="nothing-known"),
        pytest.param(
            {f"{CPU}/online": "0-2,4-6\n"}, {"mask": (0, 1, 2, 4, 5, 6)}, 6.0, "logical", id="holes-in-the-numbers"
        ),
    ],
)
def test_usable_cpus_is_the_smallest_limit(
    files: dict[str, str | None], answers: dict[str, Any], usable: float | None, bound_by: str | None
) -> None:
    """
    The smallest of all limits binds; of equal ones the first in the order of the record.
    """
    cpu = collect(plain(files, **answers)).cpu
    assert (cpu.usable_cpus, cpu.bound_by) == (usable, bound_by)
    if usable is not None:
        assert cpu.sources["usable_cpus"] == f"the smallest of the limits: {bound_by}"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, (8, 4, 2), id="threads-in-pairs"),
        pytest.param(
            {f"{CPU}/online": "0-2\n", **{f"{CPU}/cpu{cpu}/topology/core_cpus_list": f"{cpu}\n" for cpu in range(3)}},
            (3, 3, 2),
            id="one-thread-a-core",
        ),
        pytest.param(
            {
                **{f"{CPU}/cpu{cpu}/topology/core_cpus_list": None for cpu in range(8)},
                **{f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu // 2}\n" for cpu in range(8)},
            },
            (8, 4, 2),
            id="before-linux-5.3",
        ),
        pytest.param(
            {f"{CPU}/cpu{cpu}/topology/physical_package_id": "-1\n" for cpu in range(8)},
            (8, 4, None),
            id="arm-without-sockets",
        ),
        pytest.param(
            {
                **{f"{CPU}/cpu{cpu}/topology/core_cpus_list": None for cpu in range(8)},
                **{f"{CPU}/cpu{cpu}/topology/physical_package_id": None for cpu in range(8)},
            },
            (8, None, None),
            id="no-topology",
        ),
        pytest.param(
            {f"{CPU}/cpu3/topology/core_cpus_list": None, f"{CPU}/cpu7/topology/core_cpus_list": None},
            (8, 3, 2),
            id="some-topology",
        ),
    ],
)
def test_topology_of_online_cpus_is_counted(
    files: dict[str, str | None], expected: tuple[int, int | None, int | None]
) -> None:
    """
    Cores are distinct sibling lists, sockets distinct package numbers that are not -1.
    """
    cpu = collect(plain(files)).cpu
    assert (cpu.logical, cpu.physical, cpu.sockets) == expected


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        pytest.param("6.1.0-18-amd64", 0, id="debian"),
        pytest.param("4.4.0-19041-Microsoft", 1, id="wsl1"),
        pytest.param("4.19.43-microsoft-standard", 2, id="first-wsl2"),
        pytest.param("5.15.153.1-microsoft-standard-WSL2", 2, id="wsl2"),
        pytest.param("6.6.36.3-microsoft-standard-WSL2+", 2, id="wsl2-built-again"),
        pytest.param("5.10.60.1-custom-WSL2", 2, id="wsl2-with-a-name-of-its-own"),
        pytest.param("6.8.0-1021-azure", 0, id="azure-is-not-wsl"),
    ],
)
def test_wsl_version_is_by_the_kernels_release(release: str, expected: int) -> None:
    """
    Microsoft's kernels say so, in either case.
    """
    assert collect(plain(release=release)).system.wsl_version == expected


@pytest.mark.parametrize(
    ("files", "environment", "expected"),
    [
        pytest.param({"/.dockerenv": ""}, {}, ("docker", "/.dockerenv"), id="docker"),
        pytest.param({"/run/.containerenv": ""}, {}, ("podman", "/run/.containerenv"), id="podman"),
        pytest.param(
            {"/.dockerenv": ""},
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            ("kubernetes", "KUBERNETES_SERVICE_HOST"),
            id="kubernetes-over-docker",
        ),
        pytest.param(
            {"/run/systemd/container": "systemd-nspawn\n"},
            {},
            ("systemd-nspawn", "/run/systemd/container or the variable 'container'"),
            id="nspawn",
        ),
        pytest.param({}, {"container": "lxc"}, ("lxc", "/run/systemd/container or the variable 'container'"), id="lxc"),
        pytest.param({}, {"APPTAINER_CONTAINER": "/x.sif"}, ("apptainer", "APPTAINER_CONTAINER"), id="apptainer"),
        pytest.param({}, {"SINGULARITY_CONTAINER": "/x.sif"}, ("apptainer", "APPTAINER_CONTAINER"), id="singularity"),
        pytest.param({"/run/systemd/container": "\n"}, {}, ("none", "no container's mark was found"), id="empty-mark"),
        pytest.param(
            {f"{CGROUP}/cgroup.type": "domain\n"}, {}, ("unnamed", f"{CGROUP}/cgroup.type"), id="cgroup-namespace"
        ),
        pytest.param({}, {}, ("none", "no container's mark was found"), id="none"),
    ],
)
def test_container_kind_is_by_its_mark(
    files: dict[str, str | None], environment: dict[str, str], expected: tuple[str, str]
) -> None:
    """
    Each kind leaves a file or a variable; Kubernetes runs on top of the others.
    """
    system = collect(plain(files, environment=environment)).system
    assert (system.container, system.sources["container"]) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"COLAB_RELEASE_TAG": "x", "JPY_PARENT_PID": "1"}, "colab", id="colab"),
        pytest.param({"COLAB_GPU": "0"}, "colab", id="old-colab"),
        pytest.param({"KAGGLE_KERNEL_RUN_TYPE": "Interactive", "JPY_PARENT_PID": "1"}, "kaggle", id="kaggle"),
        pytest.param({"JPY_PARENT_PID": "1"}, "jupyter", id="jupyter"),
        pytest.param({}, "none", id="plain-process"),
    ],
)
def test_notebook_kind_is_by_its_variable(environment: dict[str, str], expected: str) -> None:
    """
    Colab and Kaggle are Jupyter too: their own variables go first.
    """
    assert collect(plain(environment=environment)).system.notebook == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, (2, 2), id="two-nodes"),
        pytest.param(
            {f"{NODE}/has_memory": "0,2\n", f"{NODE}/has_cpu": "0-1\n"}, (2, 2), id="memory-only-and-cpu-only"
        ),
        pytest.param({f"{NODE}/has_memory": "0\n", f"{NODE}/has_cpu": "0\n"}, (1, 1), id="one-node"),
        pytest.param({f"{NODE}/has_memory": None, f"{NODE}/has_cpu": None}, (1, 1), id="kernel-without-nodes"),
        pytest.param({f"{NODE}/has_memory": "\n", f"{NODE}/has_cpu": "0\n"}, (None, 1), id="garbage"),
    ],
)
def test_numa_nodes_are_those_with_memory_and_those_with_cpus(
    files: dict[str, str | None], expected: tuple[int | None, int | None]
) -> None:
    """
    A node may have only one of both; a kernel built without nodes is one.
    """
    numa = collect(plain(files)).numa
    assert (numa.nodes, numa.cpu_nodes) == expected


def test_numa_facts_of_each_node_are_by_its_number() -> None:
    """
    Every node is listed, in the order of the numbers, with what its files say and without what they do not.
    """
    nodes = {
        f"{NODE}/node0/cpulist": "0-3\n",
        f"{NODE}/node0/meminfo": "Node 0 MemTotal:         984716 kB\nNode 0 MemFree:          852372 kB\n",
        f"{NODE}/node0/distance": "10 21 17\n",
        f"{NODE}/node2/cpulist": "4-7\n",
        f"{NODE}/node2/meminfo": "Node 2 MemTotal:              0 kB\n",
        f"{NODE}/node2/distance": "21 10 28\n",
        f"{NODE}/node10/cpulist": "\n",
        f"{NODE}/node10/meminfo": "Node 10 MemTotal:        1030660 kB\n",
        f"{NODE}/node10/distance": "\ufffd\n",
    }
    numa = collect(plain(nodes)).numa
    assert list(numa.node_cpus or ()) == ["0", "2", "10"]
    assert numa.node_cpus == {"0": (0, 1, 2, 3), "2": (4, 5, 6, 7), "10": ()}
    assert numa.node_memory_bytes == {"0": 1_008_349_184, "2": 0, "10": 1_055_395_840}
    assert numa.node_distances == {"0": (10, 21, 17), "2": (21, 10, 28)}
    assert numa.sources["node_distances"] == f"{NODE}/node*/distance"
    assert from_json(HostFacts, to_json(HostFacts(numa=numa))).numa == numa


def test_numa_facts_of_nodes_that_say_nothing_are_unknown() -> None:
    """
    Nodes without files have neither CPUs nor memory that anybody knows of.
    """
    numa = collect(plain(folders=(f"{NODE}/node0", f"{NODE}/nodes"))).numa
    assert (numa.node_cpus, numa.node_memory_bytes, numa.node_distances) == (None, None, None)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("files", "headroom", "bound_by"),
    [
        pytest.param({}, 32.0 * GIB, "available_bytes", id="host"),
        pytest.param(
            {f"{CGROUP}/job/memory.max": f"{8 * GIB}\n", f"{CGROUP}/job/memory.current": f"{GIB}\n"},
            7.0 * GIB,
            "cgroup_headroom_bytes",
            id="group",
        ),
        pytest.param(
            {f"{CGROUP}/job/memory.max": f"{128 * GIB}\n", f"{CGROUP}/job/memory.current": f"{GIB}\n"},
            32.0 * GIB,
            "available_bytes",
            id="group-larger-than-the-host",
        ),
        pytest.param(
            {
                "/proc/meminfo": "MemTotal: 67108864 kB\nMemFree: 1024 kB\n",
                f"{CGROUP}/job/memory.max": f"{8 * GIB}\n",
                f"{CGROUP}/job/memory.current": "0\n",
            },
            8.0 * GIB,
            "cgroup_headroom_bytes",
            id="kernel-without-memavailable",
        ),
        pytest.param({"/proc/meminfo": None, "/proc/self/cgroup": None}, None, None, id="nothing-known"),
        pytest.param({"/proc/meminfo": None}, None, None, id="no-group-limit-and-nothing-else"),
    ],
)
def test_memory_headroom_is_the_smaller_of_host_and_group(
    files: dict[str, str | None], headroom: float | None, bound_by: str | None
) -> None:
    """
    A process gets what both the host and its groups still have.
    """
    memory = collect(plain(files)).memory
    assert (memory.headroom_bytes, memory.bound_by) == (headroom, bound_by)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param({"spaces": {"/dev/shm": DiskSpace(64 << 20, 60 << 20)}}, (64 << 20, 60 << 20, True), id="docker"),
        pytest.param(
            {"spaces": {"/dev/shm": DiskSpace(8, 4)}, "read_only": frozenset({"/dev/shm"})},
            (8, 4, False),
            id="read-only",
        ),
        pytest.param({"folders": ("/dev/shm",), "spaces": {}}, (None, None, True), id="size-unknown"),
        pytest.param({"spaces": {}}, (None, None, None), id="missing"),
    ],
)
def test_shared_memory_is_the_folder_that_the_kernel_fixed(
    answers: dict[str, Any], expected: tuple[int | None, int | None, bool | None]
) -> None:
    """
    /dev/shm may be small, read-only or not there at all.
    """
    shared = collect(plain(**answers)).shared_memory
    assert (shared.size_bytes, shared.free_bytes, shared.is_writable) == expected
    assert shared.path == (None if expected == (None, None, None) else "/dev/shm")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, "Debian GNU/Linux 12 (bookworm)", id="etc"),
        pytest.param(
            {"/etc/os-release": None, "/usr/lib/os-release": "PRETTY_NAME=Fallback\n"}, "Fallback", id="usr-lib"
        ),
        pytest.param({"/etc/os-release": None}, None, id="neither"),
    ],
)
def test_distribution_is_of_either_os_release(files: dict[str, str | None], expected: str | None) -> None:
    """
    os-release(5) names two places, the first of which may be missing.
    """
    assert collect(plain(files)).system.distribution == expected


def test_pids_and_open_files_that_are_unknown_stay_so() -> None:
    """
    A host without limits to read leaves each of them unknown.
    """
    limits = collect(FakeHost()).limits
    assert (limits.open_files_soft, limits.open_files_hard, limits.open_files_now) == (None, None, None)
    assert (limits.processes_soft, limits.pids_headroom) == (None, None)


def test_probe_platform_given_chooses_the_backend() -> None:
    """
    A Linux host probed as another platform is asked by the fallback, and the other way round.
    """
    assert probe_host(io=plain(), platform="win32").memory.total_bytes is None
    assert probe_host(io=plain(platform="win32"), platform="linux").memory.total_bytes == 64 << 30


def test_probe_path_given_is_the_one_that_storage_is_about() -> None:
    """
    Without a path it is about the working directory.
    """
    assert probe_host(io=plain(), path="/data/../data/train").storage.path == "/data/train"
    assert probe_host(io=plain()).storage.path == "/work"
