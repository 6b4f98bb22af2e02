"""
The facts of a host as text.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.facts import (
    AcceleratorFacts,
    CpuFacts,
    HostFacts,
    JobFacts,
    LimitFacts,
    MemoryFacts,
    NumaFacts,
    SharedMemoryFacts,
    StartMethodFacts,
    StorageFacts,
    SystemFacts,
)
from autoloader.report import render_every_fact, render_facts
from autoloader.report.facts import render_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

FULL = HostFacts(
    system=SystemFacts(
        platform="linux",
        release="6.8.0-45-generic",
        distribution="Ubuntu 24.04.1 LTS",
        architecture="x86_64",
        python="CPython 3.14.0",
        is_free_threaded=True,
        wsl_version=0,
        container="docker",
        notebook="jupyter",
    ),
    start_methods=StartMethodFacts(available=("forkserver", "spawn", "fork"), default="forkserver"),
    cpu=CpuFacts(
        model="AMD EPYC 9654 96-Core Processor",
        logical=192,
        physical=96,
        sockets=1,
        affinity=tuple(range(64)),
        cpuset=tuple(range(128)),
        quota_cpus=12.5,
        scheduler_cpus=32.0,
        python_cpu_count=24,
        usable_cpus=12.5,
        bound_by="quota_cpus",
    ),
    numa=NumaFacts(nodes=2, cpu_nodes=2),
    memory=MemoryFacts(
        total_bytes=1536 * GIB,
        available_bytes=1024 * GIB,
        cgroup_limit_bytes=64 * GIB,
        cgroup_headroom_bytes=60.5 * GIB,
    ),
    shared_memory=SharedMemoryFacts(path="/dev/shm", size_bytes=64 * MIB, free_bytes=63.5 * MIB, is_writable=True),
    limits=LimitFacts(
        open_files_soft=1024, open_files_hard=1_048_576, processes_soft=float("inf"), pids_headroom=4000.0
    ),
    storage=StorageFacts(
        path="/data", filesystem="ext4", device="/dev/nvme0n1p1", kind="nvme", size_bytes=2048 * GIB, free_bytes=GIB
    ),
    accelerator=AcceleratorFacts(kind="cuda", devices=8, driver="550.54.15"),
    job=JobFacts(launcher="torchrun", rank=9, local_rank=1, local_world_size=8),
)

FULL_TEXT = """\
system         Linux 6.8.0-45-generic x86_64, Ubuntu 24.04.1 LTS, CPython 3.14.0, without GIL
environment    docker container, jupyter notebook
CPU            AMD EPYC 9654 96-Core Processor
usable CPUs    12.5 (bound by quota_cpus, of 192 logical, 96 cores, 1 socket)
CPU limits     affinity 64, cpuset 128, quota 12.5, batch system 32, PYTHON_CPU_COUNT 24
NUMA nodes     2
memory         1024.0 GiB available of 1536.0 GiB, cgroup limit 64.0 GiB with 60.5 GiB left
shared memory  63.5 MiB free of 64.0 MiB at /dev/shm
limits         1024 open files (1048576 if raised), no limit processes, cgroup leaves 4000
storage        nvme, ext4 on /dev/nvme0n1p1, 1.0 GiB free, at /data
accelerator    8 cuda, driver 550.54.15
start methods  forkserver (default), spawn, fork
job            torchrun, rank 9, local rank 1 of 8 on this node
"""

UNKNOWN_TEXT = """\
system         unknown
environment    unknown
CPU            unknown
usable CPUs    unknown (of unknown logical, unknown cores, unknown sockets)
CPU limits     affinity unknown, cpuset unknown, quota unknown
NUMA nodes     unknown
memory         unknown available of unknown, cgroup limit unknown
shared memory  unknown
limits         unknown open files (unknown if raised), unknown processes, cgroup leaves unknown
storage        unknown
accelerator    unknown
start methods  unknown
job            unknown
"""


def test_render_facts_of_a_known_host_is_a_table() -> None:
    """
    Each group of facts has one line, with its units.
    """
    assert f"{render_facts(FULL)}\n" == FULL_TEXT


def test_render_facts_of_an_unknown_host_says_unknown() -> None:
    """
    A host that tells nothing is no error, and nothing is claimed of it.
    """
    assert f"{render_facts(HostFacts())}\n" == UNKNOWN_TEXT


@pytest.mark.parametrize(
    ("known", "line"),
    [
        pytest.param(
            {"answered_by": "storage", "read_latency_seconds": 0.00031, "read_latency_p95_seconds": 0.0009},
            "median 0.31 ms, 95 % within 0.9 ms; 128 reads",
            id="latencies",
        ),
        pytest.param(
            {
                "answered_by": "storage",
                "read_latency_seconds": 0.0123,
                "read_latency_p95_seconds": 0.02,
                "sequential_bytes_per_second": 150.0 * MIB,
            },
            "median 12.3 ms, 95 % within 20 ms, 150.0 MiB/s in sequence; 128 reads",
            id="rate",
        ),
        pytest.param({"answered_by": "nothing"}, "none: 128 reads", id="nothing"),
    ],
)
def test_render_facts_of_timed_reads_has_a_line_more(known: Mapping[str, Any], line: str) -> None:
    """
    Below the storage, and with the reason in the source.
    """
    storage = FULL.storage._replace(**known, sources={"answered_by": "128 reads"})
    found = render_facts(FULL._replace(storage=storage)).splitlines()
    added = f"timed reads    {line}"
    assert found.index(added) == 10
    assert [each for each in found if each != added] == FULL_TEXT.splitlines()


def test_render_facts_is_plain_ascii() -> None:
    """
    The table can be printed to any stream.
    """
    assert render_facts(FULL).isascii()


HOSTILE = "a\x1b[2J\n\r\x9bb\u2028\u202e\ud800"


def test_control_characters_are_escaped() -> None:
    """
    Whatever a file or a host says, each line stays one, and a terminal does nothing but show it.
    """
    facts = HostFacts(
        system=SystemFacts(release=HOSTILE, distribution=HOSTILE, sources={"release": HOSTILE}),
        cpu=CpuFacts(model=HOSTILE, sources={"model": "x"}),
        storage=StorageFacts(path=HOSTILE, filesystem=HOSTILE, device=HOSTILE, sources={"path": "x"}),
        job=JobFacts(launcher=HOSTILE),
    )
    table, every = render_facts(facts), render_every_fact(facts)
    assert len(table.splitlines()) == len(UNKNOWN_TEXT.splitlines())
    assert len(every.splitlines()) == 5
    for text in (table, every):
        assert text.replace("\n", "").isprintable()
        assert r"a\x1b[2J\n\r\x9bb\u2028\u202e\ud800" in text


def test_letters_of_any_language_are_shown() -> None:
    """
    A stream that cannot show them escapes them itself.
    """
    assert "täst" in render_facts(HostFacts(storage=StorageFacts(path="/täst")))


def _line(name: str, **groups: Any) -> str:
    lines = dict(line.split("  ", 1) for line in render_facts(HostFacts(**groups)).splitlines())
    return {key.strip(): text.strip() for key, text in lines.items()}[name]


@pytest.mark.parametrize(
    ("name", "groups", "text"),
    [
        pytest.param("system", {"system": SystemFacts(platform="macos")}, "macOS", id="macos"),
        pytest.param("system", {"system": SystemFacts(platform="windows", release="11")}, "Windows 11", id="windows"),
        pytest.param("system", {"system": SystemFacts(platform="freebsd14")}, "freebsd14", id="other-system"),
        pytest.param(
            "environment",
            {"system": SystemFacts(container="none", notebook="none", wsl_version=0)},
            "no container, no notebook",
            id="plain",
        ),
        pytest.param("environment", {"system": SystemFacts(container="none", wsl_version=2)}, "WSL 2", id="wsl"),
        pytest.param(
            "usable CPUs",
            {"cpu": CpuFacts(logical=1, physical=1, sockets=1, usable_cpus=1.0, bound_by="logical")},
            "1 (bound by logical, of 1 logical, 1 core, 1 socket)",
            id="one-cpu",
        ),
        pytest.param(
            "CPU limits",
            {"cpu": CpuFacts(affinity=(0, 1), cpuset=(0, 1, 2), quota_cpus=float("inf"))},
            "affinity 2, cpuset 3, no quota",
            id="no-quota",
        ),
        pytest.param(
            "memory",
            {"memory": MemoryFacts(total_bytes=2 * GIB, available_bytes=GIB, cgroup_limit_bytes=float("inf"))},
            "1.0 GiB available of 2.0 GiB, no cgroup limit",
            id="no-memory-limit",
        ),
        pytest.param(
            "memory",
            {
                "memory": MemoryFacts(
                    total_bytes=2 * GIB, available_bytes=GIB, cgroup_limit_bytes=float("inf"), oom_kills=1
                )
            },
            "1.0 GiB available of 2.0 GiB, no cgroup limit, 1 out-of-memory kill so far",
            id="one-kill",
        ),
        pytest.param(
            "memory",
            {
                "memory": MemoryFacts(
                    total_bytes=2 * GIB,
                    available_bytes=GIB,
                    cgroup_limit_bytes=1.0 * GIB,
                    cgroup_headroom_bytes=0.5 * GIB,
                    oom_kills=12,
                )
            },
            "1.0 GiB available of 2.0 GiB, cgroup limit 1.0 GiB with 512.0 MiB left, 12 out-of-memory kills so far",
            id="many-kills",
        ),
        pytest.param(
            "memory",
            {
                "memory": MemoryFacts(
                    total_bytes=2 * GIB, available_bytes=GIB, cgroup_limit_bytes=float("inf"), oom_kills=0
                )
            },
            "1.0 GiB available of 2.0 GiB, no cgroup limit",
            id="no-kills",
        ),
        pytest.param(
            "shared memory",
            {"shared_memory": SharedMemoryFacts(path="/dev/shm", size_bytes=GIB, free_bytes=GIB, is_writable=False)},
            "1.0 GiB free of 1.0 GiB at /dev/shm, not writable",
            id="shm-read-only",
        ),
        pytest.param(
            "shared memory",
            {"shared_memory": SharedMemoryFacts(path="/dev/shm")},
            "unknown free of unknown at /dev/shm",
            id="shm-unknown",
        ),
        pytest.param(
            "storage",
            {"storage": StorageFacts(path="/data")},
            "unknown, file system unknown, unknown free, at /data",
            id="storage-unknown",
        ),
        pytest.param(
            "storage",
            {"storage": StorageFacts(path="/data", filesystem="nfs4", kind="network")},
            "network, nfs4 on unknown, unknown free, at /data",
            id="device-unknown",
        ),
        pytest.param("accelerator", {"accelerator": AcceleratorFacts(devices=0)}, "none", id="no-accelerator"),
        pytest.param(
            "accelerator", {"accelerator": AcceleratorFacts(kind="mps", devices=1)}, "1 mps, driver unknown", id="mps"
        ),
        pytest.param("job", {"job": JobFacts(local_world_size=1)}, "single process", id="single-process"),
        pytest.param(
            "job",
            {"job": JobFacts(launcher="slurm")},
            "slurm, rank unknown, local rank unknown of unknown on this node",
            id="ranks-unknown",
        ),
    ],
)
def test_render_facts_line_says_what_is_known(name: str, groups: dict[str, Any], text: str) -> None:
    """
    Each line says what is known, and of the rest that it is not.
    """
    assert _line(name, **groups) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(None, "unknown", id="unknown"),
        pytest.param(float("inf"), "no limit", id="no-limit"),
        pytest.param(0, "0 bytes", id="nothing"),
        pytest.param(1023, "1023 bytes", id="bytes"),
        pytest.param(KIB, "1.0 KiB", id="kib"),
        pytest.param(1.5 * MIB, "1.5 MiB", id="mib"),
        pytest.param(2048 * GIB, "2048.0 GiB", id="gib"),
    ],
)
def test_render_bytes_uses_the_unit_that_people_use(size: float | None, text: str) -> None:
    """
    A size is a number with one digit after the point, in the largest unit that it fills.
    """
    assert render_bytes(size) == text
