"""
Budgets of hosts that are given as files of control groups, whose grants the oracle computes while they are drawn.
"""

from fractions import Fraction
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from autoloader.facts import HostFacts
from autoloader.plan import LoaderRequest, Plan
from autoloader.policy import recommend
from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace, StartMethods
from autoloader.probe.questions import WindowsMemory
from autoloader.traits import DatasetTraits
from policy.baseline import FACTS, GIB, MIB, NO_LIMIT, TRAITS
from policy.budget_oracle import BUDGET, METHODS, Room, expected_workers, grants, looked_at, prior, sizes
from support import FakeHost

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
    above = draw(st.sampled_from([None, mask, cpuset]))
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
        launcher_masks={} if above is None else {"LOCAL_RANK": above},
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
        is_bound=above is not None and len(above) > len(mask),
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
def test_num_workers_on_windows_fit_into_what_may_be_committed(sizes_: tuple[int, int], ranks: int, cpus: int) -> None:
    """
    Windows keeps a place for all that is allocated: the commit limit binds where it leaves less than is available.

    And each worker has it promise what CUDA's libraries may need.
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
    promised = commit // ranks // (2560 * MIB)
    if promised <= value:
        value, rules = promised, {"commit", *(rules if promised == value else ())}
    assert (choice.value, choice.rule.removeprefix("num_workers.") in rules) == (value, True)
    assert choice.value * ranks * 256 * MIB <= commit / 2
    assert facts.memory.bound_by == ("available_bytes" if available <= commit else "commit_headroom_bytes")
    if choice.rule == "num_workers.memory":
        assert f"free ({facts.memory.bound_by})" in choice.because
