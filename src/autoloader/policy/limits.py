"""
Budgets: how many workers the CPUs, memory, shared memory, files and processes of this rank hold.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ..facts import HostFacts
from ..plan import Limit, LoaderRequest
from ..records import NO_LIMIT, number_text
from ..traits import DatasetTraits, Profile

MAIN_AND_PIN_THREADS = 2
"""
The training loop, and the thread that copies batches to pinned memory, each busy on a CPU of its own.
"""

RESERVE_FRACTION = 0.1
"""
On many CPUs, what the training process and its libraries' thread pools take beside workers: at least a tenth.
"""

FORKED_WORKER_BYTES = 64 << 20
"""
What a forked worker adds before its first batch: 11 MiB of its own and some of what it shares (torch 2.13, Linux).
"""

SPAWNED_WORKER_BYTES = 256 << 20
"""
What a worker adds that imports torch itself: 145 MiB of its own with a CPU build of torch 2.13 on Linux.
"""

WINDOWS_WORKER_BYTES = 400 << 20
WINDOWS_CUDA_WORKER_BYTES = 5 << 29
"""
What a worker has Windows promise by importing torch, used or not, without CUDA's libraries, and with them at most.

Source: pytorch issue 64766; ultralytics/yolov5 issue 11418.
"""

MOST_OF_UNKNOWN_COMMIT = 4
"""
Workers that load CUDA's libraries on Windows, where it does not tell what it may still promise.
"""

SMALLEST_SAFE_SHARED_MEMORY = 128 << 20
"""
Below this, and with batches of unknown size, workers are not safe: Docker grants 64 MiB unless asked for more.
"""

PIPES_PER_WORKER = 12
"""
Files that the training process holds open for one worker: its queues' pipes and its sentinel (pytorch issue 11201).
"""

TENSORS_PER_BATCH = 4
"""
Shared tensors in one batch, each an open file until it is freed: image, label, and two more.
"""

FILES_FOR_TRAINING = 64
"""
Files that training opens besides: logs, checkpoints, sockets, libraries (pytorch issue 11201).
"""

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


class Share(NamedTuple):
    """
    The CPUs of one rank: a limit, and how many ranks share it.
    """

    limit: float
    name: str
    """The field of the facts that the limit stands in."""
    ranks: int

    @property
    def cpus(self) -> float:
        """
        Return the CPUs of one rank.
        """
        return self.limit / self.ranks


def share_of_rank(facts: HostFacts) -> Share:
    """
    Return the limit on CPUs that leaves this rank the fewest; an unknown host counts as one CPU.

    A mask that this rank has for itself is not divided again, and neither is what the user allows a process; a quota,
    and what a batch system allots, are shared all the same.
    """
    cpu, ranks = facts.cpu, facts.job.local_world_size or 1
    if cpu.usable_cpus is None or cpu.usable_cpus == NO_LIMIT:
        return Share(1.0, cpu.bound_by or "", ranks)
    if cpu.affinity is None or not _has_own_mask(facts):
        return Share(cpu.usable_cpus, cpu.bound_by or "", ranks)
    shares = [Share(float(len(cpu.affinity)), "affinity", 1)]
    shares += [Share(limit, "python_cpu_count", 1) for limit in (cpu.python_cpu_count,) if limit]
    shared = {"quota_cpus": cpu.quota_cpus, "scheduler_cpus": cpu.scheduler_cpus}
    shares += [Share(limit, name, ranks) for name, limit in shared.items() if limit and limit != NO_LIMIT]
    return min(shares, key=lambda share: share.cpus)


def _has_own_mask(facts: HostFacts) -> bool:
    """
    Return whether this rank was given CPUs that no other rank of this node has.

    Its mask is not that of the process which started the ranks, as it would be if they all had inherited one, and the
    masks of all ranks fit side by side. What is unknown counts as shared: too few workers are slow, too many slow down
    every rank.
    """
    cpu = facts.cpu
    return cpu.launcher_affinity is not None and cpu.launcher_affinity != cpu.affinity and _fit_side_by_side(facts)


def _fit_side_by_side(facts: HostFacts) -> bool:
    """
    Return whether there is room for as many masks of this size as ranks on the CPUs of the control group.
    """
    cpu, ranks = facts.cpu, facts.job.local_world_size or 1
    room = cpu.logical if cpu.cpuset is None else len(cpu.cpuset)
    return ranks > 1 and cpu.affinity is not None and room is not None and len(cpu.affinity) * ranks <= room


def ranks_sharing(facts: HostFacts) -> int:
    """
    Return how many ranks share the CPUs that this one sees.
    """
    return share_of_rank(facts).ranks


def cpus_of_rank(facts: HostFacts) -> float:
    """
    Return the CPUs that this rank may use; an unknown host counts as one CPU.
    """
    return share_of_rank(facts).cpus


def cpu_budget(facts: HostFacts) -> Limit:
    """
    Return the CPUs left for workers: from 4 on, the training process keeps its main and pin threads, or a tenth.
    """
    share = share_of_rank(facts)
    cpus = share.cpus
    reserve = max(RESERVE_FRACTION * cpus, MAIN_AND_PIN_THREADS) if cpus >= MAIN_AND_PIN_THREADS * 2 else 0.0
    rule = "local-ranks" if share.ranks > 1 else _CPU_RULES.get(share.name, "cpu-count")
    kept = f", less {number_text(reserve)} for the training process" if reserve else ""
    return Limit(rule=f"num_workers.{rule}", value=max(1.0, cpus - reserve), because=f"{cpus_text(facts)}{kept}")


def cpus_text(facts: HostFacts) -> str:
    """
    Return the CPUs of this rank as text.
    """
    if facts.cpu.usable_cpus is None or facts.cpu.usable_cpus == NO_LIMIT:
        return "the number of CPUs is unknown"
    share = share_of_rank(facts)
    plural = "" if share.limit == 1 else "s"
    return f"{number_text(share.limit)} usable CPU{plural} ({share.name}){_ranks_text(facts, share)}"


def _ranks_text(facts: HostFacts, share: Share) -> str:
    """
    Return by how many ranks CPUs are shared, and why, where a mask of each rank's own would have fitted.
    """
    if share.ranks == 1:
        return ", of this rank alone" if share.name == "affinity" and _has_own_mask(facts) else ""
    because = ""
    if share.name == "affinity" and _fit_side_by_side(facts):
        is_known = facts.cpu.launcher_affinity is not None
        because = ", with the mask of what started them" if is_known else ", as nothing tells whether each has its own"
    return f", shared by {share.ranks} ranks{because}"


def bytes_of_batch(traits: DatasetTraits, request: LoaderRequest) -> int | None:
    """
    Return the bytes of one batch, ``None`` while nothing tells them.
    """
    if traits.sample_bytes is None or request.batch_size is None:
        return None
    return traits.sample_bytes * request.batch_size


def measured_bytes(facts: HostFacts, traits: DatasetTraits, profile: Profile) -> int | None:
    """
    Return the bytes of a batch as measured; ``None`` where shared memory is so small that larger ones may not fit.

    The first batches say nothing of later ones that may be longer; the shapes of arrays do.
    """
    free = facts.shared_memory.free_bytes
    is_small = free is not None and free < SMALLEST_SAFE_SHARED_MEMORY
    return None if is_small and traits.sample_bytes is None else profile.batch_bytes


def worker_limits(
    facts: HostFacts, batch_bytes: int | None, usual: int, least: int, is_forked: bool
) -> Iterator[Limit]:
    """
    Yield how many workers memory, shared memory, open files and processes allow; what is unknown sets no limit.

    Where shared memory or files are short, fewer batches are prefetched before there are fewer workers.

    Args:
        facts: The host.
        batch_bytes: Bytes of one batch, ``None`` while unknown.
        usual: Batches in flight for each worker where nothing is short.
        least: Batches in flight for each worker where something is.
        is_forked: Whether workers start by fork, and so share the memory that they do not touch.
    """
    yield _memory_limit(facts, batch_bytes or 0, usual, is_forked)
    if facts.system.platform == "windows":
        yield _commit_limit(facts, batch_bytes or 0, usual)
    batches, because = _shared_batches(facts, batch_bytes)
    yield Limit(rule="num_workers.shared-memory", value=_fits(batches, least), because=because)
    files, because = _free_files(facts)
    each = PIPES_PER_WORKER + least * TENSORS_PER_BATCH
    because = because if files == NO_LIMIT else f"{because}, {each} a worker"
    yield Limit(rule="num_workers.open-files", value=_fits(files, each), because=because)
    yield _processes_limit(facts)


def prefetch_limits(facts: HostFacts, batch_bytes: int | None, num_workers: int) -> Iterator[Limit]:
    """
    Yield how many batches each of *num_workers* may have in flight in shared memory and open files.

    Args:
        facts: The host.
        batch_bytes: Bytes of one batch, ``None`` while unknown.
        num_workers: Workers of this rank, at least 1.
    """
    workers = f"{num_workers} worker{'' if num_workers == 1 else 's'}"
    batches, because = _shared_batches(facts, batch_bytes)
    because = because if batches == NO_LIMIT else f"{because}, {workers}"
    yield Limit(rule="prefetch_factor.shared-memory", value=_fits(batches, num_workers), because=because)
    files, because = _free_files(facts)
    because = because if files == NO_LIMIT else f"{because}, {workers}"
    allowed = _fits(files / num_workers - PIPES_PER_WORKER, TENSORS_PER_BATCH)
    yield Limit(rule="prefetch_factor.open-files", value=allowed, because=because)


def _memory_limit(facts: HostFacts, batch_bytes: int, prefetch: int, is_forked: bool) -> Limit:
    headroom, ranks = facts.memory.headroom_bytes, facts.job.local_world_size or 1
    if headroom is None or headroom == NO_LIMIT:
        return Limit(rule="num_workers.memory", value=NO_LIMIT, because="free memory is unknown")
    worker = (FORKED_WORKER_BYTES if is_forked else SPAWNED_WORKER_BYTES) + prefetch * batch_bytes
    because = f"half of {size_text(headroom)} free ({facts.memory.bound_by}), about {size_text(worker)} a worker"
    return Limit(rule="num_workers.memory", value=_fits(headroom / 2 / ranks, worker), because=because)


def _commit_limit(facts: HostFacts, batch_bytes: int, prefetch: int) -> Limit:
    """
    Return how many workers Windows can promise memory to: it promises no more than memory and page file hold.
    """
    memory, rule, ranks = facts.memory, "num_workers.commit", facts.job.local_world_size or 1
    built = facts.process.is_torch_built_for_accelerator  # which loads CUDA's libraries with or without a device
    has_cuda = facts.accelerator.kind == "cuda" if built is None else built
    told = (memory.commit_headroom_bytes, memory.job_headroom_bytes)
    left = [each for each in told if each is not None and each != NO_LIMIT]
    if not left:
        value = max(1, MOST_OF_UNKNOWN_COMMIT // ranks) if has_cuda else NO_LIMIT
        return Limit(rule=rule, value=value, because="what Windows may still promise is unknown")
    headroom = min(left)
    worker = (WINDOWS_CUDA_WORKER_BYTES if has_cuda else WINDOWS_WORKER_BYTES) + prefetch * batch_bytes
    because = f"Windows may promise {size_text(headroom)} more, about {size_text(worker)} a worker"
    return Limit(rule=rule, value=_fits(headroom / ranks, worker), because=because)


def _shared_batches(facts: HostFacts, batch_bytes: int | None) -> tuple[float, str]:
    """
    Return how many batches this rank's part of the shared memory holds, of which half is left alone, and why.
    """
    shared = facts.shared_memory
    if shared.is_writable is False:
        return 0.0, f"{shared.path} is read-only"
    if shared.free_bytes is None:
        return NO_LIMIT, "shared memory is unknown"
    free = f"{size_text(shared.free_bytes)} free in {shared.path}"
    if batch_bytes:
        share = shared.free_bytes / 2 / (facts.job.local_world_size or 1)
        return _fits(share, batch_bytes), f"half of {free}, {size_text(batch_bytes)} a batch"
    if shared.free_bytes < SMALLEST_SAFE_SHARED_MEMORY:
        return 0.0, f"only {free}, and the size of a batch is unknown"
    return NO_LIMIT, f"{free}, the size of a batch is unknown"


def _free_files(facts: HostFacts) -> tuple[float, str]:
    """
    Return how many files workers may hold open in this process, and why.
    """
    soft = facts.limits.open_files_soft
    if soft is None or soft == NO_LIMIT:
        return NO_LIMIT, "open files are not limited"
    free = soft - FILES_FOR_TRAINING - (facts.limits.open_files_now or 0)
    return free, f"{soft:.0f} open files allowed, {soft - free:.0f} kept for training"


def processes_allowed(facts: HostFacts, *, is_certain: bool = False) -> float:
    """
    Return how many more processes and threads this process may start, as far as it is known.

    Args:
        facts: The host.
        is_certain: Whether the user's own limit counts only if it is known how many there are, and that it binds.
    """
    limits = facts.limits
    group = NO_LIMIT if limits.pids_headroom is None else limits.pids_headroom
    if limits.processes_soft is None or (is_certain and limits.processes_now is None):
        return group
    return min(group, max(0.0, limits.processes_soft - (limits.processes_now or 0)))


def _processes_limit(facts: HostFacts) -> Limit:
    allowed = processes_allowed(facts)
    if allowed == NO_LIMIT:
        return Limit(rule="num_workers.processes", value=NO_LIMIT, because="processes are not limited")
    because = f"half of {allowed:.0f} more processes and threads allowed, {TASKS_PER_WORKER} a worker"
    share = allowed / 2 / (facts.job.local_world_size or 1)
    return Limit(rule="num_workers.processes", value=_fits(share, TASKS_PER_WORKER), because=because)


def _fits(total: float, each: float) -> float:
    """
    Return how often *each* fits into *total*: never less than 0 times, and any number of times where all is free.
    """
    return total if total == NO_LIMIT else max(0.0, total // each)


def size_text(size: float) -> str:
    """
    Return a size as people read it.
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{number_text(size / factor)} {unit}"
    return f"{size:.0f} bytes"
