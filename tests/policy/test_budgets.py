"""
Budgets: what CPUs, memory, shared memory, files and processes leave to the workers of one rank.

The oracle below is written from DESIGN, section 5, and from what docs/explanation/choosing.md and the rules' meanings
promise, in exact fractions and in lines of its own. It uses nothing of ``autoloader.policy.limits``: the functions of
that module are imported as what is tested. Hosts come in two ways: as facts, and as the files of control groups, of
which the oracle computes the grants while they are drawn.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoloader.facts import HostFacts
from autoloader.plan import Choice, Limit, LoaderRequest, Plan
from autoloader.policy import limits, recommend
from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace, StartMethods
from autoloader.probe.questions import WindowsMemory
from autoloader.traits import DatasetTraits
from policy.baseline import FACTS, GIB, MIB, NO_LIMIT, TRAITS, situation
from support import FakeHost

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
    Return whether a batch system gave each rank CPUs of its own: as many masks as ranks fit beside each other.
    """
    mask, whole = room.cpus.get("cpu-affinity"), room.cpus.get("cpu-cpuset", room.cpus.get("cpu-count"))
    return mask is not None and whole is not None and mask * room.ranks <= whole


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


# Hosts as facts.


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


@st.composite
def cpu_changes(draw: st.DrawFn) -> dict[str, Any]:
    """
    Draw limits of CPUs as a kernel may show them: the mask lies in the cpuset, and that on the CPUs that are online.
    """
    logical = draw(maybe(COUNTS))
    cpuset = draw(maybe(st.integers(1, logical or 96)))
    affinity = draw(maybe(st.integers(1, cpuset or logical or 96)))
    return {
        "cpu.logical": logical,
        "cpu.cpuset": cpuset and tuple(range(cpuset)),
        "cpu.affinity": affinity and tuple(range(affinity)),
        "cpu.quota_cpus": draw(maybe(QUOTAS.map(float) if logical is None else st.just(NO_LIMIT) | QUOTAS.map(float))),
        "cpu.scheduler_cpus": draw(maybe(COUNTS.map(float))),
        "cpu.python_cpu_count": draw(maybe(COUNTS)),
    }


OTHER_CHANGES = st.fixed_dictionaries(
    {
        "job.local_world_size": RANKS,
        "memory.headroom_bytes": maybe(st.just(NO_LIMIT) | sizes(24 << 10).map(float)),
        "shared_memory.free_bytes": maybe(sizes(2048)),
        "shared_memory.is_writable": st.sampled_from([True, None]),
        "limits.open_files_soft": maybe(counts(1200)),
        "limits.open_files_now": maybe(st.integers(0, 300)),
        "limits.processes_soft": TASKS,
        "limits.processes_now": maybe(st.integers(0, 400)),
        "limits.pids_headroom": TASKS,
        "traits.sample_bytes": maybe(st.integers(28_000, 780_000)),
        "request.batch_size": maybe(st.integers(1, 128)),
        "start_methods.in_force": st.sampled_from(METHODS),
        "storage.kind": st.sampled_from(["nvme", "nvme", "nvme", "network"]),
        "accelerator.devices": st.sampled_from([1, 1, 1, 0]),
    }
)
PREFETCH = st.sampled_from([*[{}] * 8, *({"fixed.prefetch_factor": factor} for factor in (1, 2, 3, 8))])
SITUATIONS = st.builds(lambda *parts: {**parts[0], **parts[1], **parts[2]}, cpu_changes(), OTHER_CHANGES, PREFETCH)
"""
What differs from the baseline, where memory, CPUs and all else are plenty.
"""


def counted_cpus(changes: Mapping[str, Any]) -> dict[str, Fraction]:
    """
    Return the limits of CPUs that are known and limit something, by the rules that name them.
    """
    limited = {rule: changes[name] for name, rule in CPU_RULES.items() if changes[name] not in (None, NO_LIMIT)}
    return {rule: Fraction(len(each) if isinstance(each, tuple) else each) for rule, each in limited.items()}


def room_of(changes: Mapping[str, Any]) -> Room:
    """
    Return what the situation that *changes* describe leaves, for the oracle.
    """
    soft, use, group = (changes[f"limits.{name}"] for name in ("processes_soft", "processes_now", "pids_headroom"))
    of_user = NO_LIMIT if soft is None else max(0, soft - (use or 0))
    of_group = NO_LIMIT if group is None else group
    files, sample, batch = (
        changes[name] for name in ("limits.open_files_soft", "traits.sample_bytes", "request.batch_size")
    )
    return Room(
        cpus=counted_cpus(changes),
        ranks=changes["job.local_world_size"] or 1,
        memory=changes["memory.headroom_bytes"],
        shared=changes["shared_memory.free_bytes"],
        files=None if files in (None, NO_LIMIT) else files - (changes["limits.open_files_now"] or 0),
        tasks=min(of_user, of_group),
        certain_tasks=of_group if use is None else min(of_user, of_group),
        batch_bytes=None if sample is None or batch is None else sample * batch,
        fixed_prefetch=changes.get("fixed.prefetch_factor"),
        is_forked=changes["start_methods.in_force"] == "fork",
        is_network=changes["storage.kind"] == "network",
        has_accelerator=changes["accelerator.devices"] > 0,
    )


def looked_at(choice: Choice[Any]) -> dict[str, float]:
    """
    Return every bound of a choice by the last part of its rule, the one that decided among them.
    """
    bounds = {limit.rule: limit.value for limit in choice.limits}
    return {rule.partition(".")[2]: value for rule, value in {choice.rule: choice.value, **bounds}.items()}


@BUDGET
@given(changes=SITUATIONS)
def test_num_workers_are_what_the_tightest_budget_grants(changes: Mapping[str, Any]) -> None:
    """
    The number is the smallest of all budgets, exactly, under the rule of the budget that binds.
    """
    room = room_of(changes)
    choice = recommend(*situation(changes)).choices["num_workers"]
    value, rules = expected_workers(room)
    assert choice.value == value
    assert choice.rule.removeprefix("num_workers.") in rules


@BUDGET
@given(changes=SITUATIONS)
def test_every_budget_stands_in_the_plan_with_its_value(changes: Mapping[str, Any]) -> None:
    """
    Also what did not bind was counted right: a budget that is wrong does not hide behind a tighter one.
    """
    room = room_of(changes)
    choice = recommend(*situation(changes)).choices["num_workers"]
    if choice.rule in {"num_workers.few-processes", "num_workers.needed"}:
        return
    seen, (rules, start) = looked_at(choice), prior(room)
    assert {rule: seen[rule] for rule in grants(room)} == grants(room)
    [first] = [rule for rule in seen if rule in rules | set(CPU_RULES.values()) | {"local-ranks"}]
    assert first in rules
    assert seen[first] == start


@BUDGET
@given(changes=SITUATIONS, workers=st.integers(1, 40))
def test_prefetch_factor_is_what_the_tightest_budget_grants(changes: Mapping[str, Any], workers: int) -> None:
    """
    For workers of the user's too it is the most that fits, at least 1, under the rule of what binds.
    """
    given_ = {name: value for name, value in changes.items() if name != "fixed.prefetch_factor"}
    choice = recommend(*situation({**given_, "fixed.num_workers": workers})).choices["prefetch_factor"]
    value, rules = expected_prefetch(room_of(given_), workers)
    assert choice.value == value
    assert choice.rule.removeprefix("prefetch_factor.") in rules


@BUDGET
@given(changes=SITUATIONS)
def test_functions_of_cpus_give_the_share_and_what_the_training_process_leaves(changes: Mapping[str, Any]) -> None:
    """
    The CPUs of a rank, the budget and its rule, before anything is rounded.
    """
    room = room_of(changes)
    facts, _, _ = situation(changes)
    budget = limits.cpu_budget(facts)
    assert limits.cpus_of_rank(facts) == pytest.approx(float(cpus_of_one_rank(room)), rel=1e-12)
    assert budget.value == pytest.approx(float(cpus_for_workers(room)), rel=1e-12)
    assert budget.rule.removeprefix("num_workers.") in cpu_rules(room)
    assert limits.ranks_sharing(facts) in {1, room.ranks}


@BUDGET
@given(changes=SITUATIONS, usual=st.integers(1, 8), least=st.integers(1, 8), workers=st.integers(1, 40))
def test_functions_of_resources_give_each_its_rule_and_count(
    changes: Mapping[str, Any], usual: int, least: int, workers: int
) -> None:
    """
    Whatever the batches ahead, memory counts the usual ones, shared memory and files the least.
    """
    room = room_of({name: value for name, value in changes.items() if name != "fixed.prefetch_factor"})
    facts, traits, request = situation(changes)
    assert limits.bytes_of_batch(traits, request) == room.batch_bytes
    found = by_rule(limits.worker_limits(facts, room.batch_bytes, usual, least, room.is_forked))
    with_usual, with_least = (grants(room._replace(fixed_prefetch=each)) for each in (usual, least))
    shared, files = with_least["shared-memory"], with_least["open-files"]
    assert found == {
        "num_workers.memory": with_usual["memory"],
        "num_workers.shared-memory": shared,
        "num_workers.open-files": files,
        "num_workers.processes": with_least["processes"],
    }
    ahead = by_rule(limits.prefetch_limits(facts, room.batch_bytes, workers))
    assert ahead["prefetch_factor.shared-memory"] == times(batches_in_shared_memory(room), workers)
    assert (ahead["prefetch_factor.open-files"] >= least) is (files >= workers)
    assert (limits.processes_allowed(facts), limits.processes_allowed(facts, is_certain=True)) == (
        room.tasks,
        room.certain_tasks,
    )


def by_rule(found: Any) -> dict[str, float]:
    """
    Return the values of some limits by their rules, none of which occurs twice.
    """
    listed: list[Limit] = list(found)
    assert len({limit.rule for limit in listed}) == len(listed)
    return {limit.rule: limit.value for limit in listed}


LESS = {
    "cpu.quota_cpus": QUOTAS.map(float),
    "memory.headroom_bytes": sizes(24 << 10).map(float),
    "shared_memory.free_bytes": sizes(2048),
    "limits.open_files_soft": st.integers(0, 1200).map(float),
    "limits.processes_soft": st.integers(0, 800).map(float),
    "limits.pids_headroom": st.integers(0, 800).map(float),
}
"""
What may be taken from a host.
"""


@BUDGET
@given(changes=SITUATIONS, name=st.sampled_from(sorted(LESS)), data=st.data())
def test_less_of_anything_never_means_more_workers(changes: Mapping[str, Any], name: str, data: st.DataObject) -> None:
    """
    A host that grants less of one thing, and the same of all else, never gets a worker more.
    """
    one, other = sorted([data.draw(LESS[name]), data.draw(LESS[name])])
    less, more = (recommend(*situation({**changes, name: each})).value("num_workers") for each in (one, other))
    assert less <= more


# Ranks beside each other on one host.


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[dict[str, Any]], int, float]:
    """
    Draw the ranks of one host: what each sees, the CPUs that all of them have together, and the quota above them.

    Their masks are apart, or one mask for all that is as wide as their control group.
    """
    ranks, each, spare = draw(st.integers(1, 8)), draw(st.integers(1, 16)), draw(st.integers(0, 8))
    cpus = tuple(range(ranks * each + spare))
    has_own = draw(st.booleans())
    masks = [cpus[rank * each : (rank + 1) * each] if has_own else cpus for rank in range(ranks)]
    quota = draw(st.just(NO_LIMIT) | QUOTAS.map(float))
    common = {
        "cpu.logical": draw(st.sampled_from([len(cpus), 256])),
        "cpu.cpuset": cpus,
        "cpu.quota_cpus": quota,
        "cpu.scheduler_cpus": draw(st.sampled_from([None, float(len(cpus))])),
        "cpu.python_cpu_count": None,
        "job.local_world_size": ranks,
    }
    return [{**common, "cpu.affinity": mask} for mask in masks], len(set().union(*masks)), quota


@BUDGET
@given(node=nodes())
def test_ranks_of_a_host_together_count_its_cpus_once(node: tuple[list[dict[str, Any]], int, float]) -> None:
    """
    Masks apart or not, the shares of all ranks add up to their CPUs and to the quota above them, and not to more.
    """
    ranks, cpus, quota = node
    all_facts = [situation(rank)[0] for rank in ranks]
    shares = [limits.cpus_of_rank(facts) for facts in all_facts]
    assert sum(shares) == pytest.approx(min(cpus, quota))
    if min(shares) >= 4:
        workers = [int(recommend(facts, TRAITS, LoaderRequest()).value("num_workers")) for facts in all_facts]
        assert sum(workers) <= min(cpus, quota) - 2 * len(ranks)


@pytest.mark.parametrize(
    "shared",
    [
        pytest.param({"cpu.quota_cpus": 20.0}, id="quota"),
        pytest.param({"cpu.quota_cpus": 16.0}, id="quota-of-one-mask"),
        pytest.param({"cpu.scheduler_cpus": 20.0}, id="scheduler"),
    ],
)
def test_ranks_with_own_masks_share_what_is_above_them(shared: Mapping[str, Any]) -> None:
    """
    Four ranks with 16 CPUs each under 20 CPUs in all have 5 CPUs each, not 16.
    """
    facts, _, _ = situation({"job.local_world_size": 4, "cpu.affinity": tuple(range(16)), **shared})
    [granted] = shared.values()
    assert 4 * limits.cpus_of_rank(facts) <= granted


# Hosts as the files of control groups.

CONTROLLERS = {"cpu": "cpu,cpuacct", "memory": "memory", "pids": "pids", "cpuset": "cpuset"}
"""
Each controller, and the folder in which version 1 mounts it.
"""


class Granted(NamedTuple):
    """
    What each level of a host's control groups still grants by itself, as far as it says.
    """

    quotas: list[Fraction]
    memory: list[int]
    tasks: list[int]
    cpusets: list[tuple[int, ...]]
    memory_scale: int = 1
    """By how much more memory there is than would be tight."""
    tasks_scale: int = 1
    """The same for processes and threads."""


class Tree(NamedTuple):
    """
    A host's control groups: their files, where /proc says that they are, and what they grant.
    """

    files: dict[str, str]
    granted: Granted


class Place(NamedTuple):
    """
    Where one hierarchy is seen, and the group of this process in it.
    """

    root: str
    mount_point: str
    group: str
    folders: list[str]
    """From the mount point down to the group."""


PATHS = st.sampled_from(
    [(), ("a",), ("a.slice", "b"), ("a", "a"), ("kubepods", "pod-1", "c"), ("a", "b", "c", "d.scope")]
)
"""
Groups below the mount point, down to that of this process.
"""


@st.composite
def places(draw: st.DrawFn, mount_point: str) -> Place:
    """
    Draw how a hierarchy is seen: all of it, from a container's own group on, in a namespace, or by the host's names.
    """
    parts = draw(PATHS)
    folders = ["/".join([mount_point, *parts[:depth]]) for depth in range(len(parts) + 1)]
    below = "".join(f"/{part}" for part in parts)
    view = draw(st.sampled_from(["whole", "whole", "whole", "container", "container", "namespace", "elsewhere"]))
    if view == "container":
        return Place("/docker/0a1b", mount_point, f"/docker/0a1b{below}", folders)
    if view == "namespace":
        return Place("/../0a1b", mount_point, f"/../0a1b{below}" if not parts else "/../x", folders[:1])
    if view == "elsewhere":
        return Place("/", mount_point, "/not/mounted/here", folders[:1])
    return Place("/", mount_point, below or "/", folders)


@st.composite
def quota_files(draw: st.DrawFn, version: int, granted: Granted) -> dict[str, str]:
    """
    Draw the quota of one level.
    """
    kind = draw(st.sampled_from(["none", "no limit", "limit", "limit", "unreadable"]))
    period = draw(st.sampled_from([100_000, 50_000, 1000]))
    quota = draw(st.integers(1, 48 * 20)) * period // 20
    if kind == "limit":
        granted.quotas.append(Fraction(quota, period))
    if version == 2:
        texts = {"no limit": f"max {period}\n", "limit": f"{quota} {period}\n", "unreadable": ""}
        return {"cpu.max": texts[kind]} if kind in texts else {}
    texts = {"no limit": "-1\n", "limit": f"{quota}\n", "unreadable": ""}
    return {"cpu.cfs_quota_us": texts[kind], "cpu.cfs_period_us": f"{period}\n"} if kind in texts else {}


@st.composite
def memory_files(draw: st.DrawFn, version: int, granted: Granted) -> dict[str, str]:
    """
    Draw limit, use and file cache of one level; of version 2 also the limit from which on the kernel reclaims.
    """
    amounts = st.integers(1, 48).map(lambda part: part * granted.memory_scale * GIB // 3)
    most = draw(st.none() | st.just(NO_LIMIT) | amounts)
    high = draw(st.none() | st.just(NO_LIMIT) | amounts) if version == 2 else None
    use = draw(st.integers(0, 60)) * 64 * MIB + 4096
    cache = use // draw(st.sampled_from([1, 2, 4, 8192]))
    known = [int(limit) for limit in (most, high) if limit is not None and limit != NO_LIMIT]
    granted.memory.extend(max(0, limit - (use - cache)) for limit in known)
    if version == 1:
        limit = f"{9223372036854771712 if most == NO_LIMIT else most}\n"
        stat = f"cache 1\ninactive_file {cache // 2}\ntotal_inactive_file {cache}\n"
        files = {"memory.usage_in_bytes": f"{use}\n", "memory.stat": stat}
        return files if most is None else {"memory.limit_in_bytes": limit, **files}
    texts = {name: "max" if limit == NO_LIMIT else limit for name, limit in (("max", most), ("high", high))}
    limits_ = {f"memory.{name}": f"{text}\n" for name, text in texts.items() if text is not None}
    return {**limits_, "memory.current": f"{use}\n", "memory.stat": f"anon 1\ninactive_file {cache}\n"}


@st.composite
def pids_files(draw: st.DrawFn, version: int, granted: Granted) -> dict[str, str]:
    """
    Draw limit and use of one level, which are the same in both versions.
    """
    amounts = st.integers(1, 120).map(lambda part: part * granted.tasks_scale * 5)
    most = draw(st.none() | st.just(NO_LIMIT) | amounts)
    use = draw(st.none() | st.integers(0, 300))
    if most is not None and most != NO_LIMIT:
        granted.tasks.append(max(0, int(most) - (use or 0)))
    files = {"pids.max": "max" if most == NO_LIMIT else most, "pids.current": use}
    return {name: f"{text}\n" for name, text in files.items() if text is not None}


@st.composite
def cpuset_files(draw: st.DrawFn, version: int, granted: Granted) -> dict[str, str]:
    """
    Draw the CPUs of one level, some of those of the level above, of which the kernel takes the common ones itself.
    """
    above = granted.cpusets[-1]
    if not draw(st.booleans()):
        return {}
    first = draw(st.integers(0, len(above) - 1))
    cpus = above[first : draw(st.integers(first + 1, len(above)))]
    granted.cpusets.append(cpus)
    listed = f"{cpus[0]}-{cpus[-1]}\n"
    if version == 2:
        return {"cpuset.cpus.effective": listed}
    return dict.fromkeys(draw(st.sampled_from([["cpuset.cpus"], ["cpuset.cpus", "cpuset.effective_cpus"]])), listed)


FILES = {"cpu": quota_files, "memory": memory_files, "pids": pids_files, "cpuset": cpuset_files}


@st.composite
def trees(draw: st.DrawFn, online: int) -> Tree:
    """
    Draw the control groups of a host whose controllers are of version 1, of version 2, or some of each.
    """
    layout = draw(st.sampled_from(["v1", "v2", "hybrid"]))
    versions = {
        name: draw(st.sampled_from([1, 2])) if layout == "hybrid" else (1 if layout == "v1" else 2)
        for name in CONTROLLERS
    }
    scales = (draw(st.sampled_from([1, 1, 1000])) for _ in range(2))
    granted = Granted([], [], [], [tuple(range(online))], *scales)
    unified = draw(places("/sys/fs/cgroup" if layout == "v2" else "/sys/fs/cgroup/unified"))
    own, mounts, files = [], [], {}
    for number, (name, version) in enumerate(versions.items()):
        place = unified if version == 2 else draw(places(f"/sys/fs/cgroup/{CONTROLLERS[name]}"))
        if version == 1:
            own.append(f"{number + 3}:{CONTROLLERS[name]}:{place.group}\n")
            options = f"cgroup cgroup rw,{CONTROLLERS[name]}"
            mounts.append(f"{number + 40} 31 0:{number + 40} {place.root} {place.mount_point} rw - {options}\n")
        for folder in place.folders:
            found = draw(FILES[name](version, granted))
            files.update({f"{folder}/{file}": text for file, text in {**found, "cgroup.procs": "1\n"}.items()})
    if layout != "v1":
        own.append(f"0::{unified.group}\n")
        mounts.append(f"39 31 0:39 {unified.root} {unified.mount_point} rw - cgroup2 cgroup2 rw\n")
        files.update({f"{folder}/cgroup.procs": "1\n" for folder in unified.folders})
    texts = {"/proc/self/cgroup": "".join(own), "/proc/self/mountinfo": "".join(mounts)}
    return Tree({**files, **texts}, granted)


class Machine(NamedTuple):
    """
    A host that can be probed, what it leaves, and what each level of its control groups grants.
    """

    host: FakeHost
    room: Room
    granted: Granted
    request: LoaderRequest
    traits: DatasetTraits


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """
    Draw a Linux host by its files and calls.
    """
    online, ranks = draw(st.integers(1, 64)), draw(st.sampled_from([1, 1, 2, 4]))
    tree = draw(trees(online))
    cpuset = tree.granted.cpusets[-1]
    mask = cpuset[: draw(st.integers(1, len(cpuset)))]
    per_node, own = draw(st.none() | st.integers(1, 64)), draw(st.none() | st.integers(1, 64))
    available, shared = draw(st.sampled_from([3, 20, 4000, 4000])) * GIB, draw(sizes(4096))
    files, open_files = draw(st.integers(16, 1200) | st.just(1 << 20)), draw(st.integers(0, 60))
    processes, used = draw(st.sampled_from([400, 4096, NO_LIMIT, NO_LIMIT])), draw(st.none() | st.integers(0, 300))
    sample, batch = draw(st.integers(28_000, 780_000)), draw(st.integers(1, 64))
    method = draw(st.sampled_from(METHODS))
    variables = {"SLURM_CPUS_ON_NODE": per_node, "PYTHON_CPU_COUNT": own, "LOCAL_WORLD_SIZE": ranks}
    host = FakeHost(
        files={
            **tree.files,
            "/proc/meminfo": f"MemTotal: {64 << 30} kB\nMemAvailable: {available // 1024} kB\n",
            "/sys/devices/system/cpu/online": f"0-{online - 1}\n",
            **{f"/proc/self/fd/{number}": "" for number in range(open_files + 1)},
        },
        folders=("/dev/shm",),
        spaces={"/dev/shm": DiskSpace(4096 * GIB, shared)},
        environment={name: str(value) for name, value in variables.items() if value is not None},
        mask=mask,
        cpus=online,
        resource_limits={"NOFILE": (float(files), NO_LIMIT), "NPROC": (float(processes), NO_LIMIT)},
        user_tasks=used,
        methods=StartMethods(("fork", "spawn", "forkserver"), "fork", method),
    )
    of_user = NO_LIMIT if processes == NO_LIMIT else max(0, processes - (used or 0 if processes < 4096 else 0))
    of_groups = min(tree.granted.tasks, default=NO_LIMIT)
    cpus = {
        "cpu-count": online,
        "cpu-affinity": len(mask),
        "cpu-cpuset": len(cpuset) if len(tree.granted.cpusets) > 1 else None,
        "cpu-quota": min(tree.granted.quotas, default=None),
        "cpu-scheduler": per_node,
        "cpu-python": own,
    }
    room = Room(
        cpus={rule: Fraction(limit) for rule, limit in cpus.items() if limit is not None},
        ranks=ranks,
        memory=min([available, *tree.granted.memory]),
        shared=shared,
        files=files - open_files,
        tasks=min(of_user, of_groups),
        certain_tasks=min(of_user, of_groups) if used is not None and processes < 4096 else of_groups,
        batch_bytes=sample * batch,
        is_forked=method == "fork",
    )
    traits = DatasetTraits(style="map", sample_bytes=sample)
    return Machine(host, room, tree.granted, LoaderRequest(batch_size=batch), traits)


def plan_on(host: FakeHost, traits: DatasetTraits, request: LoaderRequest) -> tuple[HostFacts, Plan]:
    """
    Return the facts of a host to which an accelerator was added, and the plan.
    """
    facts = probe_host(io=host)._replace(accelerator=FACTS.accelerator)
    return facts, recommend(facts, traits, request)


@BUDGET
@given(machine=machines())
def test_num_workers_fit_into_every_control_group_above(machine: Machine) -> None:
    """
    Level by level, in both versions: the workers of all ranks take no more than half of what each group still grants.
    """
    host, room, granted, request, traits = machine
    _, plan = plan_on(host, traits, request)
    all_workers = int(plan.value("num_workers")) * room.ranks
    worker = (64 if room.is_forked else 256) * MIB + 2 * (room.batch_bytes or 0)
    assert [grant for grant in granted.memory if all_workers * worker > grant / 2] == []
    assert [grant for grant in granted.tasks if all_workers * 4 > grant / 2] == []
    cpus = granted.quotas + [Fraction(len(cpuset)) for cpuset in granted.cpusets]
    assert [grant for grant in cpus if all_workers > max(Fraction(room.ranks), grant)] == []


@BUDGET
@given(machine=machines())
def test_num_workers_of_a_probed_host_are_exact(machine: Machine) -> None:
    """
    From files to plan: the number and the rule are what the oracle worked out from the same groups.
    """
    host, room, _, request, traits = machine
    facts, plan = plan_on(host, traits, request)
    value, rules = expected_workers(room)
    choice = plan.choices["num_workers"]
    assert choice.value == value
    assert choice.rule.removeprefix("num_workers.") in rules
    if choice.rule != "num_workers.few-processes":
        _, start = prior(room)
        assert start in looked_at(choice).values()
        assert {rule: looked_at(choice)[rule] for rule in grants(room)} == grants(room)
    if choice.rule == "num_workers.memory":
        assert f"free ({facts.memory.bound_by})" in choice.because
    least = min(machine.granted.memory, default=NO_LIMIT)
    if facts.memory.available_bytes != least:
        is_of_groups = room.memory == least
        assert facts.memory.bound_by == ("cgroup_headroom_bytes" if is_of_groups else "available_bytes")


@BUDGET
@given(
    sizes_=st.tuples(sizes(16 << 10), sizes(16 << 10)),
    ranks=st.sampled_from([1, 2, 4]),
    cpus=st.integers(1, 64),
)
def test_num_workers_on_windows_fit_into_half_of_what_may_be_committed(
    sizes_: tuple[int, int], ranks: int, cpus: int
) -> None:
    """
    Windows keeps a place for all that is allocated: the commit limit binds where it leaves less than is available.
    """
    available, commit = sizes_
    host = FakeHost(
        platform="win32",
        environment={"LOCAL_WORLD_SIZE": str(ranks)},
        cpus=cpus,
        mask=tuple(range(cpus)),
        methods=StartMethods(("spawn",), "spawn", None),
        commit=WindowsMemory(64 * GIB, available, 96 * GIB, commit),
    )
    facts, plan = plan_on(host, TRAITS, LoaderRequest(batch_size=None))
    count = {"cpu-count": Fraction(cpus), "cpu-affinity": Fraction(cpus)}
    room = Room(cpus=count, ranks=ranks, memory=min(available, commit), is_forked=False)
    value, rules = expected_workers(room)
    choice = plan.choices["num_workers"]
    assert (choice.value, choice.rule.removeprefix("num_workers.") in rules) == (value, True)
    assert choice.value * ranks * 256 * MIB <= commit / 2
    assert facts.memory.bound_by == ("available_bytes" if available <= commit else "commit_headroom_bytes")
    if choice.rule == "num_workers.memory":
        assert f"free ({facts.memory.bound_by})" in choice.because
