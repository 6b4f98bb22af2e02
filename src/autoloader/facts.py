"""
What the host is, as the probe read it: one frozen record for each group of facts.

Everywhere: ``None`` means that the host did not say, and ``float("inf")`` that it said "no limit". Sizes are bytes.
``sources`` names, for each field that is known, the file or call that it was read from.

These records are named tuples, where all others are dataclasses: the classes of the facts would take as long to make as
the whole probe takes to run. Name the fields when you make one; their order may change.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

SCHEMA = 1
"""
The number of this layout of facts; it changes when a field is renamed, removed or means something else.
"""

StorageKind = Literal["nvme", "ssd", "hdd", "optical", "virtual", "network", "memory", "unknown"]
Confidence = Literal["high", "low"]
AnsweredBy = Literal["storage", "memory", "storage-or-memory", "nothing"]
AcceleratorKind = Literal["cuda", "rocm", "xpu", "mps"]
StartMethod = Literal["fork", "spawn", "forkserver"]


class SystemFacts(NamedTuple):
    """
    The operating system and the Python that runs on it.
    """

    platform: str | None = None
    """``linux``, ``macos`` or ``windows``; any other system is named as Python's ``sys.platform`` names it."""
    release: str | None = None
    """The kernel's release, as ``uname -r`` prints it."""
    distribution: str | None = None
    """The distribution's name for itself, ``PRETTY_NAME`` in os-release."""
    architecture: str | None = None
    """The machine type, as ``uname -m`` prints it."""
    libc: str | None = None
    """The C library, ``glibc 2.36`` for instance; ``musl`` tells no version."""
    hypervisor: str | None = None
    """What runs this machine where it is a virtual one (``kvm``, ``hyper-v``, ...); ``unnamed`` where only the
    processor says that it is virtual, ``none`` where it says that it is not."""
    python: str | None = None
    """Implementation and version of the running interpreter."""
    is_free_threaded: bool | None = None
    """Whether this build of Python runs without the GIL."""
    wsl_version: int | None = None
    """1 or 2 under the Windows Subsystem for Linux, 0 elsewhere on Linux, ``None`` on other systems."""
    container: str | None = None
    """The kind of container (``docker``, ``podman``, ``kubernetes``, ...); ``unnamed`` where only the control groups
    tell that this process is in one, ``none`` where no sign of one was found."""
    notebook: str | None = None
    """``colab``, ``kaggle`` or ``jupyter``; ``none`` in a plain process."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class StartMethodFacts(NamedTuple):
    """
    The ways in which this Python starts a child process.
    """

    available: tuple[str, ...] = ()
    """The methods that this platform offers, torch's and multiprocessing's names."""
    default: str | None = None
    """The method that is used when nobody sets one."""
    in_force: str | None = None
    """The method that this process has fixed already; ``None`` when it has not fixed any."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class CpuFacts(NamedTuple):
    """
    The processors, and how much of them this process may use.
    """

    model: str | None = None
    """The processor's brand text."""
    logical: int | None = None
    """Logical CPUs that are online, hyper-threads counted."""
    physical: int | None = None
    """Physical cores that are online."""
    sockets: int | None = None
    """Processor packages."""
    performance_cpus: int | None = None
    """Logical CPUs of the fastest kind, where the processor has several kinds; ``None`` where it has one."""
    efficiency_cpus: int | None = None
    """Logical CPUs of all slower kinds, where it has several."""
    max_frequency_hertz: float | None = None
    """The highest clock rate that the first CPU is allowed; it says little of what runs when all are busy."""
    flags: tuple[str, ...] = ()
    """Names of the processor's instruction sets and features, as py-cpuinfo spells them; only in a full probe."""
    cache_bytes: Mapping[str, int] | None = None
    """Size of the caches by name (``l1_data``, ``l1_instruction``, ``l2``, ``l3``), as py-cpuinfo sums them up; only
    in a full probe."""
    affinity: tuple[int, ...] | None = None
    """Numbers of the CPUs on which the scheduler may place this process, before OpenMP bound its main thread."""
    affinity_now: tuple[int, ...] | None = None
    """The same at this moment; workers that start now inherit it."""
    affinity_bound_by: str | None = None
    """The variable by which OpenMP bound the main thread to fewer CPUs, or may have; ``None`` where none did."""
    launcher_affinity: tuple[int, ...] | None = None
    """The same of the process that started the ranks of this node, torchrun or a step of Slurm for instance. A rank
    with other CPUs was given a mask of its own. ``None`` where only one rank is on this node."""
    cpuset: tuple[int, ...] | None = None
    """Numbers of the CPUs that the control groups leave to this process."""
    quota_cpus: float | None = None
    """CPUs that the tightest quota of all control groups above this process grants, on Windows the hard cap of its job
    object; infinite without a quota."""
    scheduler_cpus: float | None = None
    """CPUs that a batch system (Slurm, PBS, LSF, SGE) allotted to all ranks on this node; ``None`` outside of one."""
    python_cpu_count: int | None = None
    """The user's own limit, from ``PYTHON_CPU_COUNT`` or ``-X cpu_count``."""
    usable_cpus: float | None = None
    """The smallest of the limits above, in CPUs, greater than 0."""
    bound_by: str | None = None
    """The field that *usable_cpus* was taken from."""
    load_1min: float | None = None
    """Processes that ran or waited to run, averaged over the last minute, on the whole host."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class NumaFacts(NamedTuple):
    """
    The memory nodes of the host.
    """

    nodes: int | None = None
    """Nodes that have memory; 1 on an ordinary machine."""
    cpu_nodes: int | None = None
    """Nodes that have CPUs."""
    node_cpus: Mapping[str, tuple[int, ...]] | None = None
    """Numbers of the online CPUs of each node, by the node's number as text; none of them for a node of memory only.
    Linux: ``nodeN/cpulist`` in sysfs."""
    node_memory_bytes: Mapping[str, int] | None = None
    """Memory of each node that the kernel gives out, a little less than what is built in; 0 for a node of CPUs only.
    Linux: ``MemTotal`` of ``nodeN/meminfo``."""
    node_distances: Mapping[str, tuple[int, ...]] | None = None
    """How far memory is from each node, in a row with a number for each node, in the order of their numbers. 10 is the
    node's own, 20 costs twice as much, 255 cannot be reached (ACPI 6.5, "System Locality Information Table"). Linux:
    ``nodeN/distance``."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class MemoryFacts(NamedTuple):
    """
    Memory of the host and of the control groups around this process.
    """

    total_bytes: int | None = None
    """Memory of the host."""
    available_bytes: int | None = None
    """What the kernel believes can be allocated without swapping."""
    cgroup_limit_bytes: float | None = None
    """The tightest limit of all control groups above this process; infinite without one."""
    cgroup_headroom_bytes: float | None = None
    """The least that any of these groups still grants, its reclaimable file cache counted as free."""
    cgroup_usage_bytes: int | None = None
    """What the group of *cgroup_limit_bytes* holds, its reclaimable file cache left out; ``None`` without a limit."""
    commit_limit_bytes: int | None = None
    """What all processes together may allocate on Windows, used or not."""
    commit_headroom_bytes: int | None = None
    """What this process may still allocate of *commit_limit_bytes*."""
    job_limit_bytes: float | None = None
    """What the job object around this process lets all its processes allocate on Windows; infinite without a limit."""
    job_headroom_bytes: float | None = None
    """What was left of *job_limit_bytes* when most was used; it is at least that now."""
    headroom_bytes: float | None = None
    """The smallest of *available_bytes* and the headrooms of control groups, commit limit and job object."""
    bound_by: str | None = None
    """The field that *headroom_bytes* was taken from."""
    swap_total_bytes: int | None = None
    """Swap space of the host."""
    overcommit: str | None = None
    """How far the kernel promises more memory than there is, ``heuristic``, ``always`` or ``never``. See the kernel's
    mm/overcommit-accounting.rst."""
    swappiness: int | None = None
    """How readily the kernel swaps rather than drops file cache, 0 to 200. See the kernel's
    admin-guide/sysctl/vm.rst."""
    oom_kills: int | None = None
    """Processes that the kernel's out-of-memory killer ended so far in the control group that this process's memory
    counts in, or on the whole host where no group tells."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class SharedMemoryFacts(NamedTuple):
    """
    The place through which workers hand their batches to the training process.
    """

    path: str | None = None
    """Where it is mounted; ``None`` where the system has no such folder."""
    size_bytes: int | None = None
    """Its size."""
    free_bytes: int | None = None
    """What is free of it now."""
    is_writable: bool | None = None
    """Whether this process can create files there."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class LimitFacts(NamedTuple):
    """
    Limits on files and processes.
    """

    open_files_soft: float | None = None
    """Files that this process may hold open (RLIMIT_NOFILE, soft)."""
    open_files_hard: float | None = None
    """What the soft limit may be raised to."""
    open_files_now: int | None = None
    """Files that this process holds open now."""
    locked_memory_soft_bytes: float | None = None
    """Memory that this process may lock (RLIMIT_MEMLOCK, soft), which RDMA needs; CUDA's pinned memory is exempt."""
    processes_soft: float | None = None
    """Processes and threads that this user may have (RLIMIT_NPROC, soft); root is exempt from it."""
    processes_now: int | None = None
    """Processes and threads that this user has, counted where *processes_soft* is low enough to matter."""
    pids_headroom: float | None = None
    """Processes and threads that the tightest control group still grants, on Windows processes that the job object
    does; infinite without a limit."""
    temp_dir: str | None = None
    """The folder for temporary files; workers keep sockets there, whose paths are limited to about 100 characters."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class StorageFacts(NamedTuple):
    """
    What lies under one path, by default the working directory.
    """

    path: str | None = None
    """The path asked about, links resolved."""
    mount_point: str | None = None
    """The mount that holds it."""
    filesystem: str | None = None
    """The type of its file system, in the kernel's words."""
    device: str | None = None
    """What is mounted there, be it a device, a server's folder, or a name of the file system's own."""
    kind: StorageKind | None = None
    """What it is made of, the slowest of the disks below where there are several; ``virtual`` is a disk of a virtual
    machine, whose nature the host hides, unless ``probe --measure`` was asked what it is like: then ``ssd`` is a disk
    that needs no time to seek, of whatever make, ``hdd`` one that does, and ``network`` one that answers late, and
    several reads as late as one."""
    confidence: Confidence | None = None
    """How far *kind* may be believed: ``low`` where it rests on what a hypervisor passed on, or on how fast reads were
    alone, or is not known."""
    devices: tuple[str, ...] = ()
    """Names of the block devices from what is mounted down to the disks, partitions, LVM, dm-crypt, RAID and loop
    devices among them; none where the data lies on no device of this machine."""
    size_bytes: int | None = None
    """Size of the file system; ``None`` on a network mount, which is not asked because it may never answer."""
    free_bytes: int | None = None
    """What this user may still write there."""
    answered_by: AnsweredBy | None = None
    """What answered the reads that ``probe --measure`` timed, the storage itself or ``memory``, the page cache for
    instance, in which case the times say nothing of the storage. One of both, where the system does not tell which, or
    ``nothing``, with the reason in *sources*. ``None`` where nobody asked."""
    read_latency_seconds: float | None = None
    """What a read of 4 KiB takes, the median of those that were timed one after another."""
    read_latency_p95_seconds: float | None = None
    """What 95 % of these reads took at most."""
    sequential_bytes_per_second: float | None = None
    """How fast one large file was read from its beginning on, in pieces of 1 MiB, by one reader."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class AcceleratorFacts(NamedTuple):
    """
    Accelerators for training, seen without initialising any of them.
    """

    kind: AcceleratorKind | None = None
    """The first kind found; ``None`` where there is none."""
    devices: int | None = None
    """Devices that this process may use, ``CUDA_VISIBLE_DEVICES`` and its like counted."""
    driver: str | None = None
    """The driver's version text."""
    numa_nodes: tuple[int, ...] = ()
    """The memory node of each of these devices; empty unless all are known."""
    memory_bytes: tuple[int, ...] = ()
    """Memory of each of these devices, by NVML; empty unless all are known. On Linux only in a full probe."""
    busy_fractions: tuple[float, ...] = ()
    """Share of the last sampling period (up to a second) in which each of these devices ran a kernel, 0 to 1, by NVML
    (``nvmlDeviceGetUtilizationRates``); empty unless all are known. On Linux only in a full probe."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class JobFacts(NamedTuple):
    """
    This process's place in a job of many processes.
    """

    launcher: str | None = None
    """``torchrun``, ``slurm``, ``mpi``, ``ray`` or ``environment``; ``None`` in a single process."""
    rank: int | None = None
    """Number of this process in the job, from 0."""
    local_rank: int | None = None
    """Number of this process on this node, from 0."""
    local_world_size: int | None = None
    """Processes of the job on this node; 1 in a single process."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class ProcessFacts(NamedTuple):
    """
    The state of this process that decides how it may start others.
    """

    other_threads: tuple[str, ...] | None = None
    """Names of Python threads besides the one that asks; those that torch and multiprocessing feed queues with, and
    tqdm's monitor, hold nothing that a worker waits for and are left out."""
    native_threads: int | None = None
    """Threads that libraries started beyond Python's and beyond what BLAS and OpenMP pools may have on so many CPUs."""
    fork_unsafe_modules: tuple[str, ...] = ()
    """Loaded modules whose documentation forbids to fork after they were used."""
    is_daemonic: bool | None = None
    """Whether multiprocessing made this process a daemon, which may have no children."""
    is_dataloader_worker: bool | None = None
    """Whether this process is itself a worker of a DataLoader."""
    is_accelerator_initialised: bool | None = None
    """Whether torch has touched an accelerator in this process."""
    is_torch_built_for_accelerator: bool | None = None
    """Whether the torch loaded here can use an accelerator at all; ``None`` while torch is not loaded."""
    reimported_main: str | None = None
    """The module or file that spawn and forkserver would import again in each child; ``None`` when there is none."""
    is_main_missing: bool | None = None
    """Whether *reimported_main* is a file that does not exist, as when Python reads a script from standard input."""
    interpreter: str | None = None
    """The program that spawn and forkserver start for a child; ``None`` where there is none to start."""
    is_interpreter_python: bool | None = None
    """Whether *interpreter* is a Python, rather than a frozen program or one that embeds Python."""
    anonymous_bytes: int | None = None
    """Resident memory that no file backs, of which a fork copies the page tables. Linux only."""
    has_semaphores: bool | None = None
    """Whether a semaphore can be made, which every queue between processes needs."""
    sources: Mapping[str, str] = {}
    """Where each known field was read."""


class HostFacts(NamedTuple):
    """
    All that one probe read off one host.
    """

    schema: int = SCHEMA
    """The layout of this record, see :data:`SCHEMA`."""
    system: SystemFacts = SystemFacts()
    """The operating system and Python."""
    start_methods: StartMethodFacts = StartMethodFacts()
    """Ways to start a child process."""
    cpu: CpuFacts = CpuFacts()
    """Processors and their limits."""
    numa: NumaFacts = NumaFacts()
    """Memory nodes."""
    memory: MemoryFacts = MemoryFacts()
    """Memory and its limits."""
    shared_memory: SharedMemoryFacts = SharedMemoryFacts()
    """Where batches travel."""
    limits: LimitFacts = LimitFacts()
    """Files and processes."""
    storage: StorageFacts = StorageFacts()
    """What lies under one path."""
    accelerator: AcceleratorFacts = AcceleratorFacts()
    """Devices to train on."""
    job: JobFacts = JobFacts()
    """Ranks."""
    process: ProcessFacts = ProcessFacts()
    """State of this process."""
