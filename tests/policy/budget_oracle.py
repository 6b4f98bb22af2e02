"""
What CPUs, memory, shared memory, files and processes leave to the workers of a rank, worked out apart from the policy.

It is written from what docs/explanation/choosing.md and the rules' meanings promise, in exact fractions and in lines of
its own. It uses nothing of ``autoloader.policy.limits``.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from autoloader.plan import Choice
from policy.baseline import MIB, NO_LIMIT

BUDGET = settings(max_examples=200, deadline=None, derandomize=True)

METHODS = ("fork", "forkserver", "spawn")
CPU_RULES = {
    "cpu.logical": "cpu-count",
    "cpu.affinity": "cpu-affinity",
    "cpu.cpuset": "cpu-cpuset",
    "cpu.quota_cpus": "cpu-quota",
    "cpu.scheduler_cpus": "cpu-scheduler",
    "cpu.python_cpu_count": "cpu-python",
}
"""
Each limit of CPUs, and the rule that names it.
"""


class Room(NamedTuple):
    """
    What there is for all ranks of a host, and what one of their loaders wants; ``None`` where nothing is known.
    """

    cpus: Mapping[str, Fraction]
    """CPUs by the last part of the rule that a limit has; those that limit nothing are left out."""
    ranks: int = 1
    is_bound: bool = False
    """Whether somebody gave this rank a mask: it is known that what started the ranks has another one."""
    memory: float | None = None
    shared: float | None = None
    files: float | None = None
    """Files that may be open, less those that are."""
    tasks: float = NO_LIMIT
    """Processes and threads that may still start, by the user's limit and by control groups."""
    certain_tasks: float = NO_LIMIT
    """The same without a user's limit of whose use nothing is known."""
    batch_bytes: int | None = None
    fixed_prefetch: int | None = None
    is_forked: bool = True
    is_network: bool = False
    has_accelerator: bool = True


# The oracle.


def is_bound_apart(room: Room) -> bool:
    """
    Return whether each rank was given CPUs of its own: as many masks as ranks fit beside each other.

    All ranks of a job that was itself put on a few CPUs have the same small mask, which nobody gave to one of them.
    """
    mask, whole = room.cpus.get("cpu-affinity"), room.cpus.get("cpu-cpuset", room.cpus.get("cpu-count"))
    return room.is_bound and mask is not None and whole is not None and mask * room.ranks <= whole


def cpus_of_one_rank(room: Room) -> Fraction:
    """
    Return the most CPUs that this rank may count on: its own mask, and its part of all that the ranks share.

    What the user allows each Python is no longer to be shared where CPUs are not.
    """
    own = {"cpu-affinity", "cpu-python"} if is_bound_apart(room) else set()
    parts = [cpus if rule in own else cpus / room.ranks for rule, cpus in room.cpus.items()]
    return min(parts, default=Fraction(1, room.ranks))


def cpus_for_workers(room: Room) -> Fraction:
    """
    Return what the training process leaves: all below 4 CPUs, else all but two or a tenth; at least one worker's.
    """
    cpus = cpus_of_one_rank(room)
    return max(Fraction(1), cpus if cpus < 4 else min(cpus - 2, cpus * 9 / 10))


def cpu_rules(room: Room) -> set[str]:
    """
    Return the rules that may stand for the CPU budget: of equal limits any, and that of ranks where they share it.
    """
    own = {"cpu-affinity", "cpu-python"} if is_bound_apart(room) else set()
    least = cpus_of_one_rank(room)
    if room.ranks == 1:
        return {rule for rule, cpus in room.cpus.items() if cpus == least} or {"cpu-count"}
    parts = {rule: cpus if rule in own else cpus / room.ranks for rule, cpus in room.cpus.items()}
    return {rule if rule in own else "local-ranks" for rule, cpus in parts.items() if cpus == least} or {"local-ranks"}


def prior(room: Room) -> tuple[set[str], int]:
    """
    Return the number of workers to start from, and the rules that may stand for it.
    """
    if room.is_network:
        return {"network-latency"}, max(1, math.floor(2 * cpus_of_one_rank(room)))
    if not room.has_accelerator:
        return {"no-accelerator"}, max(1, math.floor(cpus_of_one_rank(room) / 4))
    return cpu_rules(room), math.floor(cpus_for_workers(room))


def times(total: float | None, each: int) -> float:
    """
    Return how often *each* fits into *total*, any number of times where nothing limits.
    """
    return NO_LIMIT if total is None or total == NO_LIMIT else max(0, math.floor(Fraction(total) / each))


def part_of_half(total: float | None, ranks: int) -> float | None:
    """
    Return what one rank may take of what is free: its part of the half.
    """
    return total if total is None or total == NO_LIMIT else float(Fraction(total) / 2 / ranks)


def batches_in_shared_memory(room: Room) -> float:
    """
    Return how many batches of this rank lie in its part of half the shared memory; of unknown size none below 128 MiB.
    """
    if room.shared is not None and not room.batch_bytes:
        return 0 if room.shared < 128 * MIB else NO_LIMIT
    return times(part_of_half(room.shared, room.ranks), room.batch_bytes or 1)


def grants(room: Room) -> dict[str, float]:
    """
    Return how many workers each resource but the CPUs grants, by the rule that names it.
    """
    usual = room.fixed_prefetch or (4 if room.is_network else 2)
    least = room.fixed_prefetch or 1
    worker = (64 if room.is_forked else 256) * MIB + usual * (room.batch_bytes or 0)
    files = None if room.files is None else room.files - 64
    return {
        "memory": times(part_of_half(room.memory, room.ranks), worker),
        "shared-memory": times(batches_in_shared_memory(room), least),
        "open-files": times(files, 12 + 4 * least),
        "processes": times(part_of_half(room.tasks, room.ranks), 4),
        "unmeasured": 32 if room.is_network else 16,
    }


def expected_workers(room: Room) -> tuple[int, set[str]]:
    """
    Return the number of workers, and the rules that may stand for it: what binds names itself, of equal ones any.
    """
    if room.certain_tasks < 4:
        value, rules = 0, {"few-processes"}
    else:
        first, start = prior(room)
        granted = grants(room)
        value = int(min(start, *granted.values()))
        rules = {rule for rule, grant in granted.items() if grant == value} | (first if start == value else set())
    if value == 0 and room.fixed_prefetch:
        return 1, {"needed"}
    return value, rules


def expected_prefetch(room: Room, workers: int) -> tuple[int, set[str]]:
    """
    Return the batches that each of some workers prepares ahead, and the rules that may stand for them.
    """
    wanted = ("latency", 4) if room.is_network else ("default", 2)
    files = None if room.files is None else Fraction(room.files - 64) / workers - 12
    granted = dict(
        [
            wanted,
            ("shared-memory", times(batches_in_shared_memory(room), workers)),
            ("open-files", NO_LIMIT if files is None else max(0, math.floor(files / 4))),
        ]
    )
    value = min(granted.values())
    return max(1, int(value)), {rule for rule, grant in granted.items() if grant == value}


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """
    Return a strategy that also gives ``None``, for what is unknown.
    """
    return st.none() | strategy


def sizes(most_mib: int) -> st.SearchStrategy[int]:
    """
    Return a strategy for bytes, a third of them plenty.
    """
    plenty = st.just(most_mib * MIB << 10)
    return st.integers(0, most_mib * MIB) | st.integers(0, most_mib).map(lambda size: size * MIB) | plenty


def counts(most: int) -> st.SearchStrategy[float]:
    """
    Return a strategy for a number of files or tasks, a third of them plenty, and a third no limit.
    """
    return st.integers(0, most).map(float) | st.just(1e6) | st.just(NO_LIMIT)


COUNTS = st.integers(1, 96)
QUOTAS = st.integers(10, 6000).map(lambda hundredths: Fraction(hundredths, 100))
TASKS = maybe(counts(800))
RANKS = maybe(st.sampled_from([1, 1, 2, 3, 4, 8]))


def looked_at(choice: Choice[Any]) -> dict[str, float]:
    """
    Return every bound of a choice by the last part of its rule, the one that decided among them.
    """
    bounds = {limit.rule: limit.value for limit in choice.limits}
    return {rule.partition(".")[2]: value for rule, value in {choice.rule: choice.value, **bounds}.items()}
