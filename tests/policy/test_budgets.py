"""
Budgets of hosts that are given as facts, beside the oracle's.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoloader.plan import Limit, LoaderRequest
from autoloader.policy import limits, recommend
from policy.baseline import NO_LIMIT, TRAITS, own_mask, situation
from policy.budget_oracle import (
    BUDGET,
    COUNTS,
    CPU_RULES,
    METHODS,
    QUOTAS,
    RANKS,
    TASKS,
    Room,
    batches_in_shared_memory,
    counts,
    cpu_rules,
    cpus_for_workers,
    cpus_of_one_rank,
    expected_prefetch,
    expected_workers,
    grants,
    looked_at,
    maybe,
    prior,
    sizes,
    times,
)


@st.composite
def cpu_changes(draw: st.DrawFn) -> dict[str, Any]:
    """
    Draw limits of CPUs as a kernel may show them: the mask lies in the cpuset, and that on the CPUs that are online.

    The mask of what started the ranks is unknown, the same, or any other one.
    """
    logical = draw(maybe(COUNTS))
    cpuset = draw(maybe(st.integers(1, logical or 96)))
    affinity = draw(maybe(st.integers(1, cpuset or logical or 96)))
    above = draw(maybe(st.just(affinity or 1) | st.integers(1, cpuset or logical or 96)))
    return {
        "cpu.logical": logical,
        "cpu.cpuset": cpuset and tuple(range(cpuset)),
        "cpu.affinity": affinity and tuple(range(affinity)),
        "cpu.launcher_affinity": above and tuple(range(above)),
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
        is_bound=changes["cpu.launcher_affinity"] not in {None, changes["cpu.affinity"]},
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

    Their masks are apart, or all have that of their launcher, which is as wide as their control group, or narrower.
    """
    ranks, each, spare = draw(st.integers(1, 8)), draw(st.integers(1, 16)), draw(st.integers(0, 8))
    cpus = tuple(range(ranks * each + spare))
    layout = draw(st.sampled_from(["own", "wide", "narrow"]))
    launcher = cpus[: draw(st.integers(1, len(cpus)))] if layout == "narrow" else cpus
    masks = [cpus[rank * each : (rank + 1) * each] if layout == "own" else launcher for rank in range(ranks)]
    quota = draw(st.just(NO_LIMIT) | QUOTAS.map(float))
    common = {
        "cpu.logical": draw(st.sampled_from([len(cpus), 256])),
        "cpu.cpuset": cpus,
        "cpu.launcher_affinity": launcher,
        "cpu.quota_cpus": quota,
        "cpu.scheduler_cpus": draw(st.sampled_from([None, float(len(cpus))])),
        "cpu.python_cpu_count": None,
        "job.local_world_size": ranks,
    }
    return [{**common, "cpu.affinity": mask} for mask in masks], len(set().union(*masks)), quota


@BUDGET
@given(node=nodes(), is_known=st.booleans())
def test_ranks_of_a_host_together_count_its_cpus_once(
    node: tuple[list[dict[str, Any]], int, float], is_known: bool
) -> None:
    """
    Masks apart or not, the shares of all ranks add up to their CPUs and to the quota above them, and not to more.

    Where nobody knows the mask of their launcher they add up to less.
    """
    ranks, cpus, quota = node
    unknown = {} if is_known else {"cpu.launcher_affinity": None}
    all_facts = [situation({**rank, **unknown})[0] for rank in ranks]
    shares = [limits.cpus_of_rank(facts) for facts in all_facts]
    assert sum(shares) <= min(cpus, quota) * (1 + 1e-9)
    if is_known:
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
    facts, _, _ = situation({"job.local_world_size": 4, **own_mask(16), **shared})
    [granted] = shared.values()
    assert 4 * limits.cpus_of_rank(facts) <= granted
