"""
What is read after a worker died: memory, shared memory and limits on files, and nothing else.
"""

from typing import Any

import pytest

from autoloader import probe
from autoloader.facts import HostFacts, LimitFacts, MemoryFacts, SharedMemoryFacts
from autoloader.probe import probe_host, probe_memory
from autoloader.probe.host_io import DiskSpace
from autoloader.probe.parse import NO_LIMIT, parse_oom_kills
from support import FakeHost

MIB, GIB = 1 << 20, 1 << 30
GROUP = "/sys/fs/cgroup/job"

FILES = {
    "/proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "/proc/self/cgroup": "0::/job\n",
    "/proc/meminfo": "MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\nSwapTotal: 0 kB\n",
    "/proc/vmstat": "nr_free_pages 5\noom_kill 8\npswpin 0\n",
    "/proc/self/fd/0": "",
    "/proc/self/fd/1": "",
    "/proc/self/fd/7": "",
    f"{GROUP}/memory.max": f"{4 * GIB}\n",
    f"{GROUP}/memory.high": "max\n",
    f"{GROUP}/memory.current": f"{3 * GIB}\n",
    f"{GROUP}/memory.stat": f"inactive_file {GIB}\n",
    f"{GROUP}/memory.events": "max 40\noom 2\noom_kill 2\n",
}
"""
A container of 4 GiB in which 3 are used, one of them for files, and in which two processes were killed.
"""


def container(files: dict[str, str | None] | None = None, **answers: Any) -> FakeHost:
    """
    Return the container of :data:`FILES` with some files changed (``None``: missing) and some answers its own.
    """
    texts = {path: text for path, text in {**FILES, **(files or {})}.items() if text is not None}
    known: dict[str, Any] = {
        "spaces": {"/dev/shm": DiskSpace(64 * MIB, 3 * MIB)},
        "resource_limits": {"NOFILE": (1024.0, 4096.0), "NPROC": (100.0, 100.0)},
        **answers,
    }
    return FakeHost(files=texts, **known)


def test_memory_of_a_container_is_read_and_nothing_else() -> None:
    """
    Each fact has its value and source; the groups that a death does not depend on stay unknown.
    """
    assert probe_memory(io=container()) == HostFacts(
        memory=MemoryFacts(
            total_bytes=64 * GIB,
            available_bytes=32 * GIB,
            cgroup_limit_bytes=4.0 * GIB,
            cgroup_headroom_bytes=2.0 * GIB,
            cgroup_usage_bytes=2 * GIB,
            headroom_bytes=2.0 * GIB,
            bound_by="cgroup_headroom_bytes",
            swap_total_bytes=0,
            oom_kills=2,
            sources={
                "total_bytes": "/proc/meminfo",
                "available_bytes": "/proc/meminfo",
                "swap_total_bytes": "/proc/meminfo",
                "cgroup_limit_bytes": f"{GROUP}/memory.max",
                "cgroup_headroom_bytes": f"{GROUP}/memory.max",
                "cgroup_usage_bytes": f"{GROUP}/memory.current",
                "headroom_bytes": "the smaller of the two: cgroup_headroom_bytes",
                "bound_by": "the smaller of the two",
                "oom_kills": f"{GROUP}/memory.events",
            },
        ),
        shared_memory=SharedMemoryFacts(
            path="/dev/shm",
            size_bytes=64 * MIB,
            free_bytes=3 * MIB,
            is_writable=True,
            sources={
                "path": "the kernel's fixed place",
                "is_writable": "access(2)",
                "size_bytes": "statvfs",
                "free_bytes": "statvfs",
            },
        ),
        limits=LimitFacts(
            open_files_soft=1024.0,
            open_files_hard=4096.0,
            open_files_now=2,
            temp_dir="/tmp",
            sources={
                "open_files_soft": "RLIMIT_NOFILE",
                "open_files_hard": "RLIMIT_NOFILE",
                "open_files_now": "/proc/self/fd",
                "temp_dir": "tempfile's order of places",
            },
        ),
    )


def test_memory_is_as_in_the_whole_probe() -> None:
    """
    What was read before workers started can be compared with what is read after a death.
    """
    before, after = probe_host(io=container()), probe_memory(io=container())
    assert (after.memory, after.shared_memory) == (before.memory, before.shared_memory)
    assert after.limits.open_files_now == before.limits.open_files_now


def test_memory_is_read_without_a_walk_over_all_processes() -> None:
    """
    Processes are counted by the whole probe only, which may take long on a large host.
    """

    class Busy(FakeHost):
        def tasks_of_user(self) -> int | None:
            raise AssertionError("processes were counted")

    assert probe_memory(io=Busy(files=FILES)).memory.oom_kills == 2


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, (2, f"{GROUP}/memory.events"), id="group"),
        pytest.param({f"{GROUP}/memory.events": None}, (8, "/proc/vmstat"), id="host"),
        pytest.param({f"{GROUP}/memory.events": "\ufffd\x00"}, (8, "/proc/vmstat"), id="garbage-in-the-group"),
        pytest.param({f"{GROUP}/memory.events": None, "/proc/vmstat": "oom_kill x\n"}, (None, None), id="garbage"),
        pytest.param({f"{GROUP}/memory.events": None, "/proc/vmstat": None}, (None, None), id="nowhere"),
    ],
)
def test_oom_kills_are_the_groups_or_else_the_hosts(
    files: dict[str, str | None], expected: tuple[int | None, str | None]
) -> None:
    """
    In the group of the root, the whole host is what counts.
    """
    memory = probe_memory(io=container(files)).memory
    assert (memory.oom_kills, memory.sources.get("oom_kills")) == expected


def test_group_without_a_limit_has_no_use_to_compare() -> None:
    """
    How much it holds says nothing then.
    """
    memory = probe_memory(io=container({f"{GROUP}/memory.max": "max\n"})).memory
    assert (memory.cgroup_limit_bytes, memory.cgroup_usage_bytes) == (NO_LIMIT, None)


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin", "aix"])
def test_memory_of_a_host_that_tells_nothing_is_unknown(platform: str) -> None:
    """
    Nothing raises where nothing answers.
    """

    class Mute(FakeHost):
        def temp_dir(self) -> str | None:
            return None

    assert probe_memory(io=Mute(platform=platform)) == HostFacts()


def test_memory_elsewhere_is_what_psutil_tells() -> None:
    """
    Windows has neither shared memory as a folder nor a limit of open files.
    """
    facts = probe_memory(io=FakeHost(platform="win32", memory=(16 * GIB, 9 * GIB)))
    assert (facts.memory.total_bytes, facts.memory.available_bytes) == (16 * GIB, 9 * GIB)
    assert (facts.memory.headroom_bytes, facts.memory.bound_by, facts.memory.oom_kills) == (
        9.0 * GIB,
        "available_bytes",
        None,
    )
    assert facts.shared_memory == SharedMemoryFacts()
    assert (facts.limits.open_files_soft, facts.limits.open_files_now) == (None, None)


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        pytest.param("darwin", 2, id="macos"),
        pytest.param("freebsd14", None, id="where-dev-fd-shows-three-at-most"),
    ],
)
def test_open_files_elsewhere_are_counted_where_a_folder_shows_them(platform: str, expected: int | None) -> None:
    """
    The look opens one file more, which is not counted.
    """
    files = dict.fromkeys(("/dev/fd/0", "/dev/fd/1", "/dev/fd/2"), "")
    io = FakeHost(platform=platform, files=files, resource_limits={"NOFILE": (256.0, NO_LIMIT)})
    for limits in (probe_memory(io=io).limits, probe_host(io=io).limits):
        assert (limits.open_files_soft, limits.open_files_hard, limits.open_files_now) == (256.0, NO_LIMIT, expected)


def test_memory_of_a_platform_given_is_read_by_its_backend() -> None:
    """
    A Linux host asked as another system gives what that system would.
    """
    assert probe_memory(io=container(), platform="win32").memory == MemoryFacts()
    assert probe_memory(io=container(platform="win32"), platform="linux").memory.oom_kills == 2


def test_memory_is_unknown_where_no_file_can_be_opened_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Not even the backend can be imported then.
    """
    monkeypatch.setitem(probe.BACKENDS, "linux", "no_such_backend")
    assert probe_memory(io=container()) == HostFacts()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", 4, id="v1"),
        pytest.param("oom 9\noom_kill 0\noom_group_kill 1\n", 0, id="v2"),
        pytest.param("oom_kill_disable 1\nunder_oom 0\n", None, id="old-kernel"),
        pytest.param("oom_kill -4\n", None, id="negative"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="missing"),
    ],
)
def test_parse_oom_kills_gives_the_count(text: str | None, expected: int | None) -> None:
    """
    Other lines begin alike.
    """
    assert parse_oom_kills(text) == expected
