"""
The command ``python -m autoloader probe`` on this machine, line by line beside the machine's own tools.
"""

import os
import platform
import re
import sys
from pathlib import Path

import pytest

from live.running import (
    clean_environment,
    output_of,
    probe_json,
    probe_lines,
    run_python,
)

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with the tools of Linux"),
]

GIB = 1 << 30
MIB = 1 << 20


def gib(size: float) -> str:
    """
    Return a size of a GiB or more as people read it.
    """
    return f"{size / GIB:.1f} GiB"


def counted(number: int, noun: str) -> str:
    """
    Return a number with its noun, in the plural where it should be.
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def leading_gib(text: str) -> float:
    """
    Return the size that a line starts with, in GiB.
    """
    number, unit = text.split()[:2]
    return float(number) / {"KiB": 1 << 20, "MiB": 1 << 10, "GiB": 1}[unit]


def lscpu(name: str) -> str | None:
    """
    Return what lscpu says under a name, ``None`` where it does not have it.
    """
    pairs = (line.partition(":") for line in output_of("lscpu", environment=clean_environment(LC_ALL="C")).splitlines())
    return next((text.strip() for found, _, text in pairs if found == name), None)


def test_lines_are_one_for_each_group(lines: dict[str, str]) -> None:
    """
    The names stand in the order of the record.
    """
    assert list(lines) == [
        *("system", "environment", "CPU", "usable CPUs", "CPU limits", "NUMA nodes", "memory", "shared memory"),
        *("limits", "storage", "accelerator", "start methods", "job"),
    ]


def test_line_of_the_system_is_as_uname_and_os_release_say(lines: dict[str, str]) -> None:
    """
    Kernel, distribution and Python, exactly.
    """
    kernel = output_of("uname", "-s", "-r", "-m").strip()
    distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    gil = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without GIL"
    assert lines["system"] == f"{kernel}, {distribution}, {python}{gil}"


def test_line_of_the_environment_is_as_its_marks_say(lines: dict[str, str]) -> None:
    """
    Docker and Podman leave a file in the root folder.
    """
    marks = {"/.dockerenv": "docker container", "/run/.containerenv": "podman container"}
    expected = next((kind for path, kind in marks.items() if Path(path).exists()), "no container, no notebook")
    if "microsoft" in platform.release().lower() or Path("/run/systemd/container").exists():
        pytest.skip("this machine is WSL or a container of another kind, which has marks of its own")
    assert lines["environment"] == expected


def test_line_of_the_cpu_is_as_lscpu_says(lines: dict[str, str]) -> None:
    """
    The brand, where the architecture has one.
    """
    name = lscpu("Model name")
    if name is None or platform.machine().startswith(("arm", "aarch")):
        pytest.skip("the kernel names no brand on this architecture")
    assert lines["CPU"] == name


def test_lines_of_cpus_are_as_nproc_and_lscpu_say(lines: dict[str, str], topology: tuple[int, int, int]) -> None:
    """
    Usable CPUs are nproc's where no quota is set, exactly.
    """
    logical, cores, sockets = topology
    allowed = int(output_of("nproc"))
    if not lines["CPU limits"].endswith("no quota"):
        pytest.skip("this machine has a CPU quota, which nproc does not know")
    bound_by = "logical" if allowed == logical else "affinity"
    counts = f"{counted(cores, 'core')}, {counted(sockets, 'socket')}"
    assert lines["usable CPUs"] == f"{allowed} (bound by {bound_by}, of {logical} logical, {counts})"
    assert lines["CPU limits"].startswith(f"affinity {allowed}, cpuset ")


def test_line_of_numa_nodes_is_as_lscpu_says(lines: dict[str, str]) -> None:
    """
    The kernel's own nodes; a kernel without any is one.
    """
    assert lines["NUMA nodes"] == (lscpu("NUMA node(s)") or "1")


def test_line_of_memory_is_as_free_says(lines: dict[str, str]) -> None:
    """
    Total memory exactly; available memory moves with other programs.
    """
    total, *_, available = map(int, re.findall(r"\d+", output_of("free", "-b").splitlines()[1]))
    assert f"available of {gib(total)}," in lines["memory"]
    assert leading_gib(lines["memory"]) == pytest.approx(available / GIB, abs=1.0)


def test_line_of_shared_memory_is_as_df_says(lines: dict[str, str]) -> None:
    """
    Size exactly; free space moves with other programs.
    """
    size, free = map(int, output_of("df", "-B1", "--output=size,avail", "/dev/shm").split()[-2:])
    expected = f"free of {gib(size) if size >= GIB else f'{size / MIB:.1f} MiB'} at /dev/shm"
    assert lines["shared memory"].split(maxsplit=2)[2] == expected
    assert leading_gib(lines["shared memory"]) == pytest.approx(free / GIB, abs=0.5)


def test_line_of_limits_is_as_ulimit_says() -> None:
    """
    Open files and processes as the shell shows them, after it took some away.
    """
    shell = 'ulimit -Sn 200; ulimit -Hn 300; ulimit -u 5000; exec "$@"'
    line = probe_lines("bash", "-c", shell, "bash")["limits"]
    assert line.startswith("200 open files (300 if raised), 5000 processes, cgroup leaves ")


def test_line_of_storage_is_as_df_says(tmp_path: Path) -> None:
    """
    File system, device and path exactly; free space moves with other programs.
    """
    source, kind, free = output_of("df", "-B1", "--output=source,fstype,avail", ".", cwd=tmp_path).split()[-3:]
    medium, on, left, at = probe_lines(cwd=tmp_path)["storage"].split(", ", 3)
    assert (on, at) == (f"{kind} on {source}", f"at {tmp_path.resolve()}")
    assert medium in {"nvme", "ssd", "hdd", "virtual", "network", "memory", "unknown"}
    assert leading_gib(left) == pytest.approx(int(free) / GIB, abs=1.0)


def test_line_of_the_accelerator_without_device_files_is_none(lines: dict[str, str]) -> None:
    """
    Every kind has a file in /dev.
    """
    if any(re.match(r"nvidia\d|kfd|dxg", name) for name in os.listdir("/dev")):
        pytest.skip("this machine has an accelerator")
    assert lines["accelerator"] == "none"


def test_line_of_start_methods_is_as_multiprocessing_says(lines: dict[str, str]) -> None:
    """
    The default is the first that a fresh process would use.
    """
    first, *others = run_python("import multiprocessing as m; print(*m.get_all_start_methods())").split()
    assert lines["start methods"] == ", ".join([f"{first} (default)", *others])


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, "single process", id="alone"),
        pytest.param(
            {"TORCHELASTIC_RUN_ID": "7", "RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            "torchrun, rank 5, local rank 1 of 4 on this node",
            id="torchrun",
        ),
        pytest.param(
            {
                "SLURM_STEP_ID": "0",
                "SLURM_PROCID": "3",
                "SLURM_LOCALID": "1",
                "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
            },
            "slurm, rank 3, local rank 1 of 2 on this node",
            id="slurm",
        ),
    ],
)
def test_line_of_the_job_is_as_its_launcher_says(variables: dict[str, str], expected: str) -> None:
    """
    Ranks as the launcher numbers them.
    """
    assert probe_lines(environment=clean_environment(**variables))["job"] == expected


def test_json_of_sysctls_is_as_the_kernel_says() -> None:
    """
    The kernel gives none of them to who asks for 4 MiB at once.
    """
    memory = probe_json()["memory"]
    folder = Path("/proc/sys/vm")
    assert memory["swappiness"] == int((folder / "swappiness").read_text())
    words = {"0": "heuristic", "1": "always", "2": "never"}
    assert memory["overcommit"] == words[(folder / "overcommit_memory").read_text().strip()]


def test_json_of_memory_is_as_the_kernel_says() -> None:
    """
    Total and swap exactly, available memory between what it was before and after, give or take other programs.
    """

    def kernel() -> dict[str, int]:
        return {
            name: int(size) * 1024
            for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
        }

    before, memory, after = kernel(), probe_json()["memory"], kernel()
    assert memory["total_bytes"] == before["MemTotal"]
    assert memory["swap_total_bytes"] == before["SwapTotal"]
    around = (before["MemAvailable"], after["MemAvailable"])
    assert min(around) - GIB < memory["available_bytes"] < max(around) + GIB
