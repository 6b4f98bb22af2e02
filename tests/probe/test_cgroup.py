"""
Limits of control groups in every layout that hosts and containers show.

Rows FX1 to FX11 are the fixture recipes of the cases. Expected values follow the kernel's admin-guide/cgroup-v2.rst,
scheduler/sched-bwc.rst and admin-guide/cgroup-v1/memory.rst.
"""

from collections.abc import Callable
from typing import Any

import pytest

from autoloader.probe import cgroup
from autoloader.probe.mounts import parse_mountinfo
from autoloader.probe.parse import NO_LIMIT
from support import FakeHost

V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
V1_CPU = "33 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "34 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V1_PIDS = "35 31 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
V1_CPUSET = "36 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
UNIFIED = "37 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

GIB = 1 << 30
ROOT = "/sys/fs/cgroup"
CPU = "/sys/fs/cgroup/cpu,cpuacct"
MEMORY = "/sys/fs/cgroup/memory"
PIDS = "/sys/fs/cgroup/pids"
CPUSET = "/sys/fs/cgroup/cpuset"

Question = Callable[[FakeHost, Any], Any]


def ask(question: Question, own: str | None, mounts: str | None, files: dict[str, str]) -> tuple[Any, str] | None:
    """
    Ask one question of a host that shows these groups, mounts and files.
    """
    texts = {"/proc/self/cgroup": own, "/proc/self/mountinfo": mounts, **files}
    host = FakeHost(files={path: text for path, text in texts.items() if text is not None})
    found = question(host, parse_mountinfo(host.read_text("/proc/self/mountinfo")))
    return None if found is None else tuple(found)


@pytest.mark.parametrize(
    ("question", "own", "mounts", "files", "expected"),
    [
        pytest.param(
            cgroup.read_quota,
            "0::/\n",
            V2,
            {f"{ROOT}/cpu.max": "200000 100000\n"},
            (2.0, f"{ROOT}/cpu.max"),
            id="FX1-v2-docker",
        ),
        pytest.param(
            cgroup.read_quota,
            "0::/user.slice/u.slice/a.scope\n",
            V2,
            {
                f"{ROOT}/user.slice/u.slice/a.scope/cpu.max": "max 100000\n",
                f"{ROOT}/user.slice/u.slice/cpu.max": "150000 100000\n",
                f"{ROOT}/user.slice/cpu.max": "max 100000\n",
                f"{ROOT}/cgroup.procs": "1\n",
            },
            (1.5, f"{ROOT}/user.slice/u.slice/cpu.max"),
            id="FX2-v2-systemd-nested",
        ),
        pytest.param(
            cgroup.read_quota,
            "4:cpu,cpuacct:/docker/abc\n",
            V1_CPU,
            {f"{CPU}/cpu.cfs_quota_us": "400000\n", f"{CPU}/cpu.cfs_period_us": "100000\n"},
            (4.0, f"{CPU}/cpu.cfs_quota_us"),
            id="FX3-v1-docker",
        ),
        pytest.param(
            cgroup.read_quota,
            "4:cpu,cpuacct:/\n",
            V1_CPU,
            {f"{CPU}/cpu.cfs_quota_us": "-1\n", f"{CPU}/cpu.cfs_period_us": "100000\n"},
            (NO_LIMIT, f"{CPU}/cpu.cfs_quota_us"),
            id="FX4-v1-none",
        ),
        pytest.param(
            cgroup.read_quota,
            "1:cpu:/g\n0::/\n",
            "33 31 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" + UNIFIED,
            {
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/cpu/g/cpu.cfs_quota_us": "50000\n",
                "/sys/fs/cgroup/cpu/g/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/unified/cgroup.procs": "1\n",
            },
            (0.5, "/sys/fs/cgroup/cpu/g/cpu.cfs_quota_us"),
            id="FX5-hybrid",
        ),
        pytest.param(cgroup.read_quota, "0::/\n", V2, {f"{ROOT}/cpu.max": ""}, None, id="FX6-empty"),
        pytest.param(
            cgroup.read_cpuset,
            "0::/\n",
            V2,
            {f"{ROOT}/cpuset.cpus.effective": "0-3,8,10-11\n"},
            ((0, 1, 2, 3, 8, 10, 11), f"{ROOT}/cpuset.cpus.effective"),
            id="FX7-cpuset",
        ),
        pytest.param(
            cgroup.read_quota,
            "0::/\n",
            V2,
            {f"{ROOT}/cpu.max": "50000 100000\n"},
            (0.5, f"{ROOT}/cpu.max"),
            id="FX8-fractional",
        ),
        pytest.param(
            cgroup.read_memory_limit,
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": "max\n", f"{ROOT}/memory.high": "max\n"},
            (NO_LIMIT, f"{ROOT}/memory.high"),
            id="FX9-memory-v2-none",
        ),
        pytest.param(
            cgroup.read_memory_limit,
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": "4294967296\n", f"{ROOT}/memory.high": "max\n"},
            (4.0 * GIB, f"{ROOT}/memory.max"),
            id="FX9-memory-v2-four-gib",
        ),
        pytest.param(
            cgroup.read_memory_limit,
            "5:memory:/\n",
            V1_MEMORY,
            {f"{MEMORY}/memory.limit_in_bytes": "9223372036854771712\n"},
            (NO_LIMIT, f"{MEMORY}/memory.limit_in_bytes"),
            id="FX9-memory-v1-none",
        ),
        pytest.param(
            cgroup.read_quota,
            "0::/../../kubepods/x\n",
            V2,
            {f"{ROOT}/cpu.max": "300000 100000\n"},
            (3.0, f"{ROOT}/cpu.max"),
            id="FX10-namespace",
        ),
        pytest.param(
            cgroup.read_quota, "x\n", V2, {f"{ROOT}/cpu.max": "200000 100000\n"}, None, id="FX11-garbage-in-cgroup"
        ),
        pytest.param(
            cgroup.read_quota,
            "0::/\n",
            "\ufffd\x00\x01 binary\n",
            {f"{ROOT}/cpu.max": "200000 100000\n"},
            None,
            id="FX11-binary-mountinfo",
        ),
        pytest.param(
            cgroup.read_quota,
            "0::/\n",
            V2,
            {f"{ROOT}/cpu.max": "\ufffd\x00\ufffd\n"},
            None,
            id="FX11-binary-limit",
        ),
        pytest.param(cgroup.read_quota, None, None, {}, None, id="FX11-no-proc"),
    ],
)
def test_limit_of_each_fixture_is_the_one_that_binds(
    question: Question, own: str | None, mounts: str | None, files: dict[str, str], expected: tuple[Any, str] | None
) -> None:
    """
    Each recipe of the cases gives its value and the file that it stands in; what makes no sense is unknown.
    """
    assert ask(question, own, mounts, files) == expected


@pytest.mark.parametrize(
    ("own", "mounts", "files", "expected"),
    [
        pytest.param(
            "0::/a/b\n",
            V2,
            {
                f"{ROOT}/a/b/cpu.max": "400000 100000\n",
                f"{ROOT}/a/cpu.max": "250000 100000\n",
            },
            (2.5, f"{ROOT}/a/cpu.max"),
            id="parent-tighter-than-leaf",
        ),
        pytest.param(
            "0::/a/b\n",
            V2,
            {
                f"{ROOT}/a/b/cpu.max": "100000 100000\n",
                f"{ROOT}/a/cpu.max": "250000 100000\n",
            },
            (1.0, f"{ROOT}/a/b/cpu.max"),
            id="leaf-tighter-than-parent",
        ),
        pytest.param(
            "0::/a/b\n",
            V2,
            {f"{ROOT}/a/b/cpu.max": "\n", f"{ROOT}/a/cpu.max": "250000 100000\n"},
            (2.5, f"{ROOT}/a/cpu.max"),
            id="unreadable-leaf",
        ),
        pytest.param(
            "0::/a\n",
            V2,
            {f"{ROOT}/a/cgroup.procs": "1\n", f"{ROOT}/cgroup.procs": "1\n"},
            (NO_LIMIT, f"{ROOT}/a/cpu.max"),
            id="controller-not-enabled",
        ),
        pytest.param(
            "4:cpu,cpuacct:/outer/inner\n",
            V1_CPU,
            {
                f"{CPU}/cpu.cfs_quota_us": "-1\n",
                f"{CPU}/outer/cpu.cfs_quota_us": "250000\n",
                f"{CPU}/outer/cpu.cfs_period_us": "100000\n",
                f"{CPU}/outer/inner/cpu.cfs_quota_us": "-1\n",
            },
            (2.5, f"{CPU}/outer/cpu.cfs_quota_us"),
            id="v1-parent-only",
        ),
        pytest.param(
            "4:cpu,cpuacct:/docker/abc\n",
            "33 31 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            {f"{CPU}/cpu.cfs_quota_us": "150000\n", f"{CPU}/cpu.cfs_period_us": "100000\n"},
            (1.5, f"{CPU}/cpu.cfs_quota_us"),
            id="v1-docker-own-group-mounted",
        ),
        pytest.param(
            "4:cpu,cpuacct:/docker/abc/child\n",
            "33 31 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
            {
                f"{CPU}/cpu.cfs_quota_us": "150000\n",
                f"{CPU}/cpu.cfs_period_us": "100000\n",
                f"{CPU}/child/cpu.cfs_quota_us": "50000\n",
                f"{CPU}/child/cpu.cfs_period_us": "100000\n",
            },
            (0.5, f"{CPU}/child/cpu.cfs_quota_us"),
            id="v1-docker-group-inside",
        ),
        pytest.param(
            "0::/system.slice/me.service\n",
            V2 + "90 1 0:26 /docker/abc /run/abc/cgroup rw - cgroup2 cgroup rw\n",
            {
                f"{ROOT}/system.slice/me.service/cpu.max": "400000 100000\n",
                "/run/abc/cgroup/cpu.max": "50000 100000\n",
            },
            (4.0, f"{ROOT}/system.slice/me.service/cpu.max"),
            id="mount-of-a-container-on-the-host",
        ),
        pytest.param(
            "0::/a\n",
            V2,
            {f"{ROOT}/a/cpu.max": "max 100000\n", f"{ROOT}/a/cpu.weight": "10\n", f"{ROOT}/a/cpu.max.burst": "0\n"},
            (NO_LIMIT, f"{ROOT}/a/cpu.max"),
            id="weight-is-no-limit",
        ),
        pytest.param(
            "4:cpu,cpuacct:/\n",
            V1_CPU,
            {f"{CPU}/cpu.cfs_quota_us": "-1\n", f"{CPU}/cpu.shares": "2\n"},
            (NO_LIMIT, f"{CPU}/cpu.cfs_quota_us"),
            id="shares-are-no-limit",
        ),
        pytest.param("0::relative\n", V2, {f"{ROOT}/cpu.max": "200000 100000\n"}, None, id="group-without-slash"),
        pytest.param("4:cpu,cpuacct:/\n", V2, {f"{ROOT}/cpu.max": "200000 100000\n"}, None, id="no-v2-group"),
    ],
)
def test_quota_over_all_ancestors_is_the_tightest(
    own: str, mounts: str, files: dict[str, str], expected: tuple[float, str] | None
) -> None:
    """
    A group may use no more than each group above it.
    """
    assert ask(cgroup.read_quota, own, mounts, files) == expected


@pytest.mark.parametrize(
    ("own", "mounts", "files", "limit", "headroom"),
    [
        pytest.param(
            "0::/\n",
            V2,
            {
                f"{ROOT}/memory.max": f"{4 * GIB}\n",
                f"{ROOT}/memory.high": "max\n",
                f"{ROOT}/memory.current": f"{3 * GIB}\n",
                f"{ROOT}/memory.stat": f"anon {GIB}\nactive_file {GIB // 2}\ninactive_file {GIB}\n",
            },
            (4.0 * GIB, f"{ROOT}/memory.max"),
            (2.0 * GIB, f"{ROOT}/memory.max"),
            id="v2-max-with-cache",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {
                f"{ROOT}/memory.max": f"{4 * GIB}\n",
                f"{ROOT}/memory.high": f"{3 * GIB}\n",
                f"{ROOT}/memory.current": f"{GIB}\n",
            },
            (3.0 * GIB, f"{ROOT}/memory.high"),
            (2.0 * GIB, f"{ROOT}/memory.high"),
            id="v2-high-below-max",
        ),
        pytest.param(
            "0::/outer/inner\n",
            V2,
            {
                f"{ROOT}/outer/inner/memory.max": f"{4 * GIB}\n",
                f"{ROOT}/outer/inner/memory.current": "0\n",
                f"{ROOT}/outer/memory.max": f"{8 * GIB}\n",
                f"{ROOT}/outer/memory.current": f"{7 * GIB}\n",
            },
            (4.0 * GIB, f"{ROOT}/outer/inner/memory.max"),
            (1.0 * GIB, f"{ROOT}/outer/memory.max"),
            id="v2-a-looser-parent-is-fuller",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": f"{GIB}\n", f"{ROOT}/memory.current": f"{2 * GIB}\n"},
            (1.0 * GIB, f"{ROOT}/memory.max"),
            (0.0, f"{ROOT}/memory.max"),
            id="v2-over-its-limit",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": f"{GIB}\n", f"{ROOT}/memory.current": "\ufffd\n"},
            (1.0 * GIB, f"{ROOT}/memory.max"),
            None,
            id="v2-unknown-use",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": f"{GIB}\n", f"{ROOT}/memory.current": "9" * 400},
            (1.0 * GIB, f"{ROOT}/memory.max"),
            None,
            id="v2-use-larger-than-a-float",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/cgroup.procs": "1\n"},
            (NO_LIMIT, f"{ROOT}/memory.high"),
            (NO_LIMIT, f"{ROOT}/memory.high"),
            id="v2-root-has-no-limit-files",
        ),
        pytest.param(
            "5:memory:/docker/abc\n",
            V1_MEMORY,
            {
                f"{MEMORY}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{MEMORY}/docker/abc/memory.limit_in_bytes": f"{2 * GIB}\n",
                f"{MEMORY}/docker/abc/memory.usage_in_bytes": f"{GIB}\n",
                f"{MEMORY}/docker/abc/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 2}\n",
            },
            (2.0 * GIB, f"{MEMORY}/docker/abc/memory.limit_in_bytes"),
            (1.5 * GIB, f"{MEMORY}/docker/abc/memory.limit_in_bytes"),
            id="v1-limit-with-cache-of-the-groups-below",
        ),
        pytest.param(
            "5:memory:/outer/inner\n",
            V1_MEMORY,
            {
                f"{MEMORY}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{MEMORY}/outer/memory.limit_in_bytes": f"{GIB}\n",
                f"{MEMORY}/outer/memory.usage_in_bytes": f"{GIB // 4}\n",
                f"{MEMORY}/outer/inner/memory.limit_in_bytes": "9223372036854771712\n",
            },
            (1.0 * GIB, f"{MEMORY}/outer/memory.limit_in_bytes"),
            (0.75 * GIB, f"{MEMORY}/outer/memory.limit_in_bytes"),
            id="v1-parent-only",
        ),
        pytest.param("0::/\n", "", {}, None, None, id="no-mounts"),
    ],
)
def test_memory_of_groups_gives_limit_and_headroom(
    own: str,
    mounts: str,
    files: dict[str, str],
    limit: tuple[float, str] | None,
    headroom: tuple[float, str] | None,
) -> None:
    """
    Headroom is the least of limit - use + file cache that can be dropped, over all ancestors.
    """
    assert ask(cgroup.read_memory_limit, own, mounts, files) == limit
    assert ask(cgroup.read_memory_headroom, own, mounts, files) == headroom


def usage(host: FakeHost, mounts: Any) -> Any:
    """
    Return the use of the group whose limit is the tightest, as the probe asks for it.
    """
    limit = cgroup.read_memory_limit(host, mounts)
    return limit and cgroup.read_memory_usage(limit, host)


@pytest.mark.parametrize(
    ("own", "mounts", "files", "expected"),
    [
        pytest.param(
            "0::/\n",
            V2,
            {
                f"{ROOT}/memory.max": f"{4 * GIB}\n",
                f"{ROOT}/memory.current": f"{3 * GIB}\n",
                f"{ROOT}/memory.stat": f"anon {GIB}\nactive_file 1\ninactive_file {GIB}\n",
            },
            (2 * GIB, f"{ROOT}/memory.current"),
            id="v2-without-cache",
        ),
        pytest.param(
            "0::/outer/inner\n",
            V2,
            {
                f"{ROOT}/outer/inner/memory.max": f"{4 * GIB}\n",
                f"{ROOT}/outer/inner/memory.current": "7\n",
                f"{ROOT}/outer/memory.max": f"{2 * GIB}\n",
                f"{ROOT}/outer/memory.current": f"{GIB}\n",
            },
            (GIB, f"{ROOT}/outer/memory.current"),
            id="v2-of-the-tighter-parent",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": "max\n", f"{ROOT}/memory.high": "2048\n", f"{ROOT}/memory.current": "1024\n"},
            (1024, f"{ROOT}/memory.current"),
            id="v2-high",
        ),
        pytest.param(
            "5:memory:/docker/abc\n",
            V1_MEMORY,
            {
                f"{MEMORY}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{MEMORY}/memory.usage_in_bytes": f"{9 * GIB}\n",
                f"{MEMORY}/docker/abc/memory.limit_in_bytes": f"{2 * GIB}\n",
                f"{MEMORY}/docker/abc/memory.usage_in_bytes": f"{GIB}\n",
                f"{MEMORY}/docker/abc/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 4}\n",
            },
            (3 * GIB // 4, f"{MEMORY}/docker/abc/memory.usage_in_bytes"),
            id="v1-without-cache",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {
                f"{ROOT}/memory.max": "4096\n",
                f"{ROOT}/memory.current": "1024\n",
                f"{ROOT}/memory.stat": "inactive_file 2048\n",
            },
            (0, f"{ROOT}/memory.current"),
            id="more-cache-than-use",
        ),
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/memory.max": "max\n", f"{ROOT}/memory.current": "1024\n"},
            None,
            id="no-limit",
        ),
        pytest.param(
            "0::/\n", V2, {f"{ROOT}/memory.max": "4096\n", f"{ROOT}/memory.current": "x\n"}, None, id="garbage"
        ),
        pytest.param("0::/\n", V2, {f"{ROOT}/memory.max": "4096\n"}, None, id="use-unknown"),
        pytest.param(None, None, {}, None, id="no-groups"),
    ],
)
def test_memory_in_use_is_that_of_the_tightest_group(
    own: str | None, mounts: str | None, files: dict[str, str], expected: tuple[int, str] | None
) -> None:
    """
    Use goes with the limit that is shown, and file cache that can be dropped is no use.
    """
    assert ask(usage, own, mounts, files) == expected


@pytest.mark.parametrize(
    ("own", "mounts", "files", "expected"),
    [
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/memory.events": "low 0\nhigh 5\nmax 9\noom 2\noom_kill 3\noom_group_kill 1\n"},
            (3, f"{ROOT}/memory.events"),
            id="v2",
        ),
        pytest.param(
            "0::/a/b\n",
            V2,
            {f"{ROOT}/a/b/memory.events": "oom_kill 0\n", f"{ROOT}/a/memory.events": "oom_kill 7\n"},
            (0, f"{ROOT}/a/b/memory.events"),
            id="v2-siblings-kills-are-not-ours",
        ),
        pytest.param(
            "0::/a/b\n",
            V2,
            {f"{ROOT}/a/b/cgroup.procs": "1\n", f"{ROOT}/a/memory.events": "oom 1\noom_kill 1\n"},
            (1, f"{ROOT}/a/memory.events"),
            id="v2-memory-left-to-the-parent",
        ),
        pytest.param("0::/\n", V2, {f"{ROOT}/cgroup.procs": "1\n"}, None, id="v2-root"),
        pytest.param(
            "5:memory:/docker/abc\n",
            V1_MEMORY,
            {
                f"{MEMORY}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n",
                f"{MEMORY}/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            },
            (1, f"{MEMORY}/docker/abc/memory.oom_control"),
            id="v1",
        ),
        pytest.param(
            "5:memory:/docker/abc\n",
            V1_MEMORY,
            {
                f"{MEMORY}/memory.oom_control": "oom_kill 9\n",
                f"{MEMORY}/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
            },
            None,
            id="v1-before-linux-4.13",
        ),
        pytest.param(
            "5:memory:/g\n0::/\n",
            V1_MEMORY + UNIFIED,
            {f"{MEMORY}/g/memory.oom_control": "oom_kill 2\n", f"{ROOT}/unified/cgroup.procs": "1\n"},
            (2, f"{MEMORY}/g/memory.oom_control"),
            id="hybrid",
        ),
        pytest.param("0::/\n", V2, {f"{ROOT}/memory.events": "oom_kill many\n"}, None, id="garbage"),
        pytest.param("0::/\n", V2, {f"{ROOT}/memory.events": "oom_kill -1\n"}, None, id="negative"),
        pytest.param(None, None, {}, None, id="no-groups"),
    ],
)
def test_oom_kills_are_those_of_the_group_that_counts_this_process(
    own: str | None, mounts: str | None, files: dict[str, str], expected: tuple[int, str] | None
) -> None:
    """
    Version 2 counts what lies below, too, and may leave memory to the parent; version 1 counts each group by itself.
    """
    assert ask(cgroup.read_oom_kills, own, mounts, files) == expected


@pytest.mark.parametrize(
    ("own", "mounts", "files", "expected"),
    [
        pytest.param(
            "0::/\n",
            V2,
            {f"{ROOT}/pids.max": "100\n", f"{ROOT}/pids.current": "40\n"},
            (60.0, f"{ROOT}/pids.max"),
            id="v2",
        ),
        pytest.param(
            "0::/a/b\n",
            V2,
            {
                f"{ROOT}/a/b/pids.max": "max\n",
                f"{ROOT}/a/b/pids.current": "3\n",
                f"{ROOT}/a/pids.max": "50\n",
                f"{ROOT}/a/pids.current": "60\n",
            },
            (0.0, f"{ROOT}/a/pids.max"),
            id="v2-parent-is-full",
        ),
        pytest.param(
            "8:pids:/docker/abc\n",
            V1_PIDS,
            {
                f"{PIDS}/cgroup.procs": "1\n",
                f"{PIDS}/docker/abc/pids.max": "512\n",
                f"{PIDS}/docker/abc/pids.current": "12\n",
            },
            (500.0, f"{PIDS}/docker/abc/pids.max"),
            id="v1",
        ),
        pytest.param(
            "8:pids:/\n",
            V1_PIDS,
            {f"{PIDS}/cgroup.procs": "1\n"},
            (NO_LIMIT, f"{PIDS}/pids.max"),
            id="v1-root-has-no-limit-file",
        ),
        pytest.param(
            "0::/\n", V2, {f"{ROOT}/pids.max": "100\n"}, (100.0, f"{ROOT}/pids.max"), id="number-in-use-unknown"
        ),
        pytest.param("0::/\n", V2, {f"{ROOT}/pids.max": "many\n"}, None, id="garbage"),
    ],
)
def test_pids_of_groups_give_headroom(
    own: str, mounts: str, files: dict[str, str], expected: tuple[float, str] | None
) -> None:
    """
    What a group grants is its limit less the processes and threads in it, never less than none.
    """
    assert ask(cgroup.read_pids_headroom, own, mounts, files) == expected


@pytest.mark.parametrize(
    ("own", "mounts", "files", "expected"),
    [
        pytest.param(
            "0::/a/b\n",
            V2,
            {
                f"{ROOT}/a/b/cgroup.procs": "1\n",
                f"{ROOT}/a/cpuset.cpus": "0-7\n",
                f"{ROOT}/a/cpuset.cpus.effective": "2-3\n",
                f"{ROOT}/cpuset.cpus.effective": "0-15\n",
            },
            ((2, 3), f"{ROOT}/a/cpuset.cpus.effective"),
            id="v2-innermost-that-says",
        ),
        pytest.param(
            "3:cpuset:/jobs\n",
            V1_CPUSET,
            {
                f"{CPUSET}/jobs/cpuset.cpus": "0-7\n",
                f"{CPUSET}/jobs/cpuset.effective_cpus": "0-3\n",
                f"{CPUSET}/cpuset.cpus": "0-15\n",
            },
            ((0, 1, 2, 3), f"{CPUSET}/jobs/cpuset.effective_cpus"),
            id="v1-effective",
        ),
        pytest.param(
            "3:cpuset:/jobs\n",
            V1_CPUSET,
            {f"{CPUSET}/jobs/cpuset.cpus": "4,6\n"},
            ((4, 6), f"{CPUSET}/jobs/cpuset.cpus"),
            id="v1-before-effective-cpus",
        ),
        pytest.param(
            "3:cpuset:/jobs\n0::/jobs\n",
            V1_CPUSET + UNIFIED,
            {f"{CPUSET}/jobs/cpuset.effective_cpus": "1\n", f"{ROOT}/unified/cgroup.procs": "1\n"},
            ((1,), f"{CPUSET}/jobs/cpuset.effective_cpus"),
            id="hybrid",
        ),
        pytest.param("0::/\n", V2, {f"{ROOT}/cpuset.cpus.effective": "\n"}, None, id="empty"),
        pytest.param("0::/\n", V2, {f"{ROOT}/cgroup.procs": "1\n"}, None, id="controller-not-enabled"),
    ],
)
def test_cpuset_of_groups_is_what_the_kernel_leaves(
    own: str, mounts: str, files: dict[str, str], expected: tuple[tuple[int, ...], str] | None
) -> None:
    """
    The effective set, which the kernel has cut to the ancestors' already, of the innermost group that shows one.
    """
    assert ask(cgroup.read_cpuset, own, mounts, files) == expected


def test_own_groups_of_a_hybrid_host_are_by_controller() -> None:
    """
    Named hierarchies keep their names, version 2 stands under the empty one, colons in a path stay.
    """
    text = "12:cpu,cpuacct:/a:b\n9:name=systemd:/c\n0::/d\nbad line\n3:pids:../escaped\n"
    assert cgroup.parse_own_groups(text) == {"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/c", "": "/d"}
