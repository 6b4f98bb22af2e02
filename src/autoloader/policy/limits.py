"""
Budgets: how many workers the CPUs, memory, shared memory, files and processes of this rank hold.
"""

from collections.abc import Iterator

from ..facts import CpuFacts, HostFacts
from ..plan import Limit
from ..records import NO_LIMIT

MAIN_AND_PIN_THREADS = 2
RESERVE_FRACTION = 0.1

FORKED_WORKER_BYTES = 64 << 20
"""
What a forked worker adds before its first batch: 11 MiB of its own and some of what it shares (torch 2.13, Linux).
"""

SPAWNED_WORKER_BYTES = 256 << 20
"""
What a worker adds that imports torch itself: 145 MiB of its own with a CPU build of torch 2.13 on Linux.
"""

SMALLEST_SAFE_SHARED_MEMORY = 128 << 20
"""
Below this, and with batches of unknown size, workers are not safe: Docker grants 64 MiB unless asked for more.
"""

FILES_PER_WORKER = 20
"""
Pipes and sentinel of a worker (12), and two prefetched batches of four shared tensors each.
"""

FILES_FOR_TRAINING = 64
TASKS_PER_WORKER = 4
"""
Threads of one worker as the kernel counts them: its main thread, queue feeder, and torch's own.
"""

_CPU_RULES = {
    "affinity": "cpu-affinity",
    "cpuset": "cpu-cpuset",
    "quota_cpus": "cpu-quota",
    "scheduler_cpus": "cpu-scheduler",
    "python_cpu_count": "cpu-python",
    "logical": "cpu-count",
}


def ranks_sharing(facts: HostFacts) -> int:
    """
    Return how many ranks share the CPUs that this one sees.

    A batch system that bound each rank to CPUs of its own leaves masks so small that all ranks' fit side by side;
    those are not divided again.
    """
    ranks = facts.job.local_world_size or 1
    mask, logical = facts.cpu.affinity, facts.cpu.logical
    is_bound = mask is not None and logical is not None and len(mask) * ranks <= logical
    return 1 if is_bound and facts.cpu.bound_by == "affinity" else ranks


def cpus_of_rank(facts: HostFacts) -> float:
    """
    Return the CPUs that this rank may use; an unknown host counts as one CPU.
    """
    return (facts.cpu.usable_cpus or 1.0) / ranks_sharing(facts)


def cpu_budget(facts: HostFacts) -> Limit:
    """
    Return the CPUs left for workers: from 4 on, the training process keeps its main and pin threads, or a tenth.
    """
    cpus, ranks = cpus_of_rank(facts), ranks_sharing(facts)
    reserve = max(RESERVE_FRACTION * cpus, MAIN_AND_PIN_THREADS) if cpus >= MAIN_AND_PIN_THREADS * 2 else 0.0
    rule = "local-ranks" if ranks > 1 else _CPU_RULES.get(facts.cpu.bound_by or "", "cpu-count")
    shared = f", shared by {ranks} ranks" if ranks > 1 else ""
    kept = f", less {reserve:.3g} for the training process" if reserve else ""
    because = f"{_usable(facts.cpu)}{shared}{kept}"
    return Limit(rule=f"num_workers.{rule}", value=max(1.0, cpus - reserve), because=because)


def _usable(cpu: CpuFacts) -> str:
    if cpu.usable_cpus is None:
        return "the number of CPUs is unknown"
    plural = "" if cpu.usable_cpus == 1 else "s"
    return f"{cpu.usable_cpus:.3g} usable CPU{plural} ({cpu.bound_by})"


def resource_limits(facts: HostFacts, batch_bytes: int | None, prefetch: int, is_forked: bool) -> Iterator[Limit]:
    """
    Yield what memory, shared memory, open files and processes allow; what is unknown sets no limit.

    Args:
        facts: The host.
        batch_bytes: Bytes of one batch, ``None`` while unknown.
        prefetch: Batches in flight for each worker.
        is_forked: Whether workers start by fork, and so share the memory that they do not touch.
    """
    yield _memory_limit(facts, batch_bytes or 0, prefetch, is_forked)
    yield _shared_memory_limit(facts, batch_bytes, prefetch)
    yield _open_files_limit(facts)
    yield _processes_limit(facts)


def _memory_limit(facts: HostFacts, batch_bytes: int, prefetch: int, is_forked: bool) -> Limit:
    headroom, ranks = facts.memory.headroom_bytes, facts.job.local_world_size or 1
    if headroom is None:
        return Limit(rule="num_workers.memory", value=NO_LIMIT, because="free memory is unknown")
    worker = (FORKED_WORKER_BYTES if is_forked else SPAWNED_WORKER_BYTES) + prefetch * batch_bytes
    because = f"{mebibytes(headroom)} free ({facts.memory.bound_by}), about {mebibytes(worker)} a worker"
    return Limit(rule="num_workers.memory", value=headroom / 2 / ranks // worker, because=because)


def _shared_memory_limit(facts: HostFacts, batch_bytes: int | None, prefetch: int) -> Limit:
    shared = facts.shared_memory
    allowed, because = NO_LIMIT, "shared memory is unknown"
    if shared.is_writable is False:
        allowed, because = 0.0, f"{shared.path} is read-only"
    elif shared.free_bytes is not None:
        because = f"{mebibytes(shared.free_bytes)} free in {shared.path}"
        if batch_bytes:
            share = shared.free_bytes / 2 / (facts.job.local_world_size or 1)
            allowed, because = share // (prefetch * batch_bytes), f"{because}, {mebibytes(batch_bytes)} a batch"
        elif shared.free_bytes < SMALLEST_SAFE_SHARED_MEMORY:
            allowed, because = 0.0, f"only {because}, and the size of a batch is unknown"
    return Limit(rule="num_workers.shared-memory", value=allowed, because=because)


def _open_files_limit(facts: HostFacts) -> Limit:
    soft = facts.limits.open_files_soft
    if soft is None or soft == NO_LIMIT:
        return Limit(rule="num_workers.open-files", value=NO_LIMIT, because="open files are not limited")
    free = soft - FILES_FOR_TRAINING - (facts.limits.open_files_now or 0)
    because = f"{soft:.0f} open files allowed, {FILES_PER_WORKER} a worker"
    return Limit(rule="num_workers.open-files", value=max(0.0, free // FILES_PER_WORKER), because=because)


def _processes_limit(facts: HostFacts) -> Limit:
    group, user = facts.limits.pids_headroom, facts.limits.processes_soft
    allowed = min(NO_LIMIT if group is None else group, NO_LIMIT if user is None else user)
    if allowed == NO_LIMIT:
        return Limit(rule="num_workers.processes", value=NO_LIMIT, because="processes are not limited")
    because = f"{allowed:.0f} more processes and threads allowed, {TASKS_PER_WORKER} a worker"
    return Limit(rule="num_workers.processes", value=allowed // 2 // TASKS_PER_WORKER, because=because)


def mebibytes(size: float) -> str:
    """
    Return a size in MiB or GiB, as people read it.
    """
    return f"{size / (1 << 30):.3g} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.3g} MiB"
