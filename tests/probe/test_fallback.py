"""
Systems without a backend of their own: what every Python tells.
"""

from typing import Any

import pytest

from autoloader.facts import (
    AcceleratorFacts,
    MemoryFacts,
    NumaFacts,
    SharedMemoryFacts,
    StorageFacts,
)
from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace, StartMethods
from autoloader.records import field_names
from support import FakeHost

GIB = 1 << 30
SPAWN = StartMethods(("spawn",), "spawn", None)


def windows(**answers: Any) -> FakeHost:
    """
    Return a Windows machine with 12 CPUs and 16 GiB, some answers its own.
    """
    known: dict[str, Any] = {
        "platform": "win32",
        "release": "11",
        "machine": "AMD64",
        "cpus": 12,
        "memory": (16 * GIB, 9 * GIB),
        "methods": SPAWN,
        "spaces": {},
        **answers,
    }
    return FakeHost(**known)


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        pytest.param("win32", "windows", id="windows"),
        pytest.param("cygwin", "windows", id="cygwin"),
        pytest.param("darwin", "macos", id="macos"),
        pytest.param("freebsd14", "freebsd14", id="freebsd"),
        pytest.param("emscripten", "emscripten", id="webassembly"),
    ],
)
def test_platform_of_each_system_has_its_name(platform: str, name: str) -> None:
    """
    Systems that we name otherwise than Python does, and those that we do not name.
    """
    system = probe_host(io=FakeHost(platform=platform)).system
    assert (system.platform, system.wsl_version, system.container, system.notebook) == (name, None, None, None)


def test_windows_machine_has_what_python_tells() -> None:
    """
    CPUs, memory by psutil, and start methods; there is no shared memory folder and no quota.
    """
    facts = probe_host(io=windows())
    assert (facts.system.release, facts.system.architecture) == ("11", "AMD64")
    assert (facts.cpu.logical, facts.cpu.affinity, facts.cpu.quota_cpus) == (12, None, None)
    assert (facts.cpu.usable_cpus, facts.cpu.bound_by) == (12.0, "logical")
    assert facts.memory == MemoryFacts(
        total_bytes=16 * GIB,
        available_bytes=9 * GIB,
        headroom_bytes=9.0 * GIB,
        bound_by="available_bytes",
        sources=dict.fromkeys(
            ("total_bytes", "available_bytes", "headroom_bytes", "bound_by"), "psutil.virtual_memory()"
        ),
    )
    assert facts.shared_memory == SharedMemoryFacts()
    assert facts.accelerator == AcceleratorFacts()
    assert facts.numa == NumaFacts()
    assert facts.start_methods.available == ("spawn",)
    assert facts.storage == StorageFacts(path="/work", sources={"path": "realpath"})


def test_unix_machine_has_limits_and_room() -> None:
    """
    A system of Unix's kind answers getrlimit and statvfs.
    """
    io = FakeHost(
        platform="freebsd14",
        release="14.1",
        machine="amd64",
        cpus=10,
        memory=(32 * GIB, 20 * GIB),
        methods=StartMethods(("spawn", "fork", "forkserver"), "spawn", None),
        resource_limits={"NOFILE": (256.0, float("inf"))},
        spaces={"/data": DiskSpace(1000, 400)},
    )
    facts = probe_host(io=io, path="/data")
    assert (facts.limits.open_files_soft, facts.limits.open_files_hard) == (256.0, float("inf"))
    assert (facts.storage.path, facts.storage.size_bytes, facts.storage.free_bytes) == ("/data", 1000, 400)
    assert (facts.start_methods.default, facts.limits.temp_dir) == ("spawn", "/tmp")


def test_psutil_that_gives_nothing_leaves_memory_unknown() -> None:
    """
    A missing or broken psutil is no answer and no error.
    """
    assert probe_host(io=windows(memory=None)).memory == MemoryFacts()


@pytest.mark.parametrize(
    ("answers", "usable", "bound_by"),
    [
        pytest.param({}, 12.0, "logical", id="nothing-limits"),
        pytest.param({"mask": (0, 1)}, 2.0, "affinity", id="affinity"),
        pytest.param({"environment": {"PYTHON_CPU_COUNT": "4"}}, 4.0, "python_cpu_count", id="variable"),
        pytest.param({"own_cpu_count": 3}, 3.0, "python_cpu_count", id="option"),
        pytest.param({"environment": {"PYTHON_CPU_COUNT": "-1"}}, 12.0, "logical", id="variable-of-no-sense"),
        pytest.param({"cpus": None}, None, None, id="nothing-known"),
    ],
)
def test_usable_cpus_elsewhere_is_the_smallest_limit(
    answers: dict[str, Any], usable: float | None, bound_by: str | None
) -> None:
    """
    The user's own limit holds on every system, by variable and by option.
    """
    cpu = probe_host(io=windows(**answers)).cpu
    assert (cpu.usable_cpus, cpu.bound_by) == (usable, bound_by)


def test_host_that_tells_nothing_raises_nothing() -> None:
    """
    No working directory, no CPUs, no memory, no start methods.
    """

    class Mute(FakeHost):
        def working_directory(self) -> str | None:
            return None

        def temp_dir(self) -> str | None:
            return None

    facts = probe_host(io=Mute(platform="aix", methods=None, program=None))
    assert facts.storage == StorageFacts()
    assert facts.cpu.usable_cpus is None
    assert facts.limits.temp_dir is None
    assert facts.start_methods.available == ()
    assert (facts.process.native_threads, facts.process.interpreter) == (None, None)


@pytest.mark.parametrize("io", [pytest.param(windows(), id="windows"), pytest.param(FakeHost(platform="x"), id="mute")])
def test_facts_elsewhere_that_are_known_carry_a_source(io: FakeHost) -> None:
    """
    Exactly the fields that are known have a source.
    """
    facts = probe_host(io=io)
    for group in (facts.system, facts.cpu, facts.memory, facts.limits, facts.storage, facts.start_methods, facts.job):
        values = {field: getattr(group, field) for field in field_names(group)}
        sources = values.pop("sources")
        assert set(sources) == {name for name, value in values.items() if value is not None and value != ()}
