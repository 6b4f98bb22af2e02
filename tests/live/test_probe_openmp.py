"""
What the probe says, and what workers get, where OpenMP binds the main thread as torch is loaded, beside other tools.

Oracles are ``nproc`` and ``taskset -cp``, run without the variables, and the kernel's mask inside of the process.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from live.running import clean_environment, output_of, probe_json

pytestmark = [
    pytest.mark.torch,
    pytest.mark.real_host,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets OpenMP bind a thread"),
]

FIRST, *OTHERS = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [0]
NEEDS_TWO_CPUS = pytest.mark.skipif(not OTHERS, reason="one CPU is not enough to see a mask shrink")

JOB = """
import json, os, subprocess, sys
{imports}
from autoloader import auto_loader, probe_host


def look():
    cpu = probe_host().cpu
    names = ("affinity", "affinity_now", "affinity_bound_by", "usable_cpus", "bound_by")
    return {{"kernel": sorted(os.sched_getaffinity(0)), **{{name: getattr(cpu, name) for name in names}}}}


class Looks:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return json.dumps(look())


if __name__ == "__main__":
    listed = subprocess.run(["taskset", "-cp", str(os.getpid())], capture_output=True, text=True, check=True).stdout
    seen = {{"here": look(), "taskset": listed.rpartition(":")[2].strip(), "workers": {{}}}}
    for method in sys.argv[1:]:
        settings = {{}} if method == "chosen" else {{"multiprocessing_context": method}}
        with auto_loader(Looks(), 1, num_workers=1, **settings) as loader:
            seen["workers"][method] = [json.loads(text) for batch in loader for text in batch]
            seen["notes"] = [note.finding for note in loader.plan.notes]
    seen["after"] = look()
    print(json.dumps(seen))
"""
AUTOLOADER_FIRST = "import autoloader\nimport torch"
TORCH_FIRST = "import torch\nimport autoloader"

PLACES = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"}
BIND = {"OMP_PROC_BIND": "close"}
GOMP = {"GOMP_CPU_AFFINITY": str(FIRST)}


def job(
    folder: Path,
    variables: dict[str, str],
    *methods: str,
    imports: str = AUTOLOADER_FIRST,
    before: tuple[str, ...] = (),
) -> dict[str, Any]:
    """
    Return what the job saw under some variables, in its own process and in a worker of each method.

    Args:
        folder: Where its file is written.
        variables: Variables that it has besides those of this process.
        methods: Start methods, ``chosen`` for the one that autoloader chooses.
        imports: What it imports first of all.
        before: A command that starts another.
    """
    (folder / "job.py").write_text(JOB.format(imports=imports).lstrip())
    command = (*before, sys.executable, "job.py", *methods)
    return dict(json.loads(output_of(*command, cwd=folder, environment=clean_environment(**variables))))


def bound_job(
    folder: Path, variables: dict[str, str], *methods: str, imports: str = AUTOLOADER_FIRST
) -> dict[str, Any]:
    """
    Return the same, or skip the test where this torch has an OpenMP that binds nothing as it is loaded.
    """
    seen = job(folder, variables, *methods, imports=imports)
    if seen["here"]["kernel"] == wide_mask():
        pytest.skip("the OpenMP of this torch binds no thread when it is loaded")
    return seen


def numbers(listed: str) -> list[int]:
    """
    Return the numbers of a list such as ``0-3,8``.
    """
    ends = [part.partition("-") for part in listed.split(",")]
    return [cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)]


def wide_mask() -> list[int]:
    """
    Return the CPUs of a process without the variables, as taskset lists them.
    """
    return numbers(output_of("bash", "-c", "taskset -cp $$").rpartition(":")[2].strip())


def taskset(cpus: list[int]) -> tuple[str, ...]:
    """
    Return the command that leaves these CPUs to another.
    """
    return "taskset", "-c", ",".join(map(str, cpus))


@NEEDS_TWO_CPUS
@pytest.mark.parametrize(
    ("variables", "name"),
    [
        pytest.param(PLACES, "OMP_PLACES", id="places-and-bind"),
        pytest.param(BIND, "OMP_PROC_BIND", id="bind"),
        pytest.param(GOMP, "GOMP_CPU_AFFINITY", id="gomp"),
    ],
)
def test_probe_of_a_bound_process_is_as_without_the_variables(
    tmp_path: Path, variables: dict[str, str], name: str
) -> None:
    """
    Affinity and usable CPUs are those of nproc and taskset outside; the mask of now is the kernel's, and has a reason.
    """
    seen, outside = bound_job(tmp_path, variables), probe_json()["cpu"]
    here, wide = seen["here"], wide_mask()
    assert here["affinity"] == wide
    assert len(here["affinity"]) == int(output_of("nproc"))
    assert (here["usable_cpus"], here["bound_by"]) == (outside["usable_cpus"], outside["bound_by"])
    if here["bound_by"] in {"logical", "affinity", "cpuset"}:
        assert here["usable_cpus"] == int(output_of("nproc"))
    assert here["affinity_now"] == here["kernel"] == numbers(seen["taskset"])
    assert set(here["affinity_now"]) < set(wide)
    assert here["affinity_bound_by"] == name


@NEEDS_TWO_CPUS
@pytest.mark.parametrize(
    ("variables", "methods"),
    [
        pytest.param(PLACES, ("chosen",), id="places-and-bind"),
        pytest.param(GOMP, ("chosen", "fork", "forkserver", "spawn"), id="gomp"),
    ],
)
def test_worker_of_a_bound_process_has_the_wide_mask(
    tmp_path: Path, variables: dict[str, str], methods: tuple[str, ...]
) -> None:
    """
    Kernel and probe tell each worker the CPUs of taskset outside, unbound; the training process stays as it was.
    """
    seen, wide = bound_job(tmp_path, variables, *methods), wide_mask()
    assert list(seen["workers"]) == list(methods)
    for method, looks in seen["workers"].items():
        assert [look["kernel"] for look in looks] == [wide, wide], method
        assert [look["affinity"] for look in looks] == [wide, wide], method
        assert [look["affinity_now"] for look in looks] == [wide, wide], method
        assert [look["affinity_bound_by"] for look in looks] == [None, None], method
    assert seen["after"] == seen["here"]
    assert "host.openmp-binding" not in seen["notes"]


@NEEDS_TWO_CPUS
@pytest.mark.parametrize(
    ("variables", "name"),
    [
        pytest.param(PLACES, "OMP_PLACES", id="places-and-bind"),
        pytest.param(GOMP, "GOMP_CPU_AFFINITY", id="gomp"),
    ],
)
def test_mask_that_was_bound_before_autoloader_looked_is_suspected(
    tmp_path: Path, variables: dict[str, str], name: str
) -> None:
    """
    With torch imported first the wide mask is not known: it is not guessed, workers keep the small one, a note says so.
    """
    seen = bound_job(tmp_path, variables, "chosen", imports=TORCH_FIRST)
    here = seen["here"]
    assert here["affinity"] == here["affinity_now"] == here["kernel"] == numbers(seen["taskset"])
    assert here["usable_cpus"] <= len(here["kernel"]) < len(wide_mask())
    assert here["affinity_bound_by"] == name
    assert [look["kernel"] for look in seen["workers"]["chosen"]] == [here["kernel"]] * 2
    assert "host.openmp-binding" in seen["notes"]


@pytest.mark.parametrize("imports", [AUTOLOADER_FIRST, TORCH_FIRST], ids=["autoloader-first", "torch-first"])
def test_openmp_that_may_not_bind_takes_nothing_away(tmp_path: Path, imports: str) -> None:
    """
    ``OMP_PROC_BIND=false`` makes the places idle, and nothing is suspected.
    """
    here = job(tmp_path, {"OMP_PLACES": "cores", "OMP_PROC_BIND": "false"}, imports=imports)["here"]
    assert here["affinity"] == here["affinity_now"] == here["kernel"] == wide_mask()
    assert here["affinity_bound_by"] is None


@pytest.mark.parametrize("variables", [pytest.param(PLACES, id="places-and-bind"), pytest.param(GOMP, id="gomp")])
def test_probe_command_loads_nothing_that_binds(variables: dict[str, str]) -> None:
    """
    Without torch there is no OpenMP in the process, and the variables change no fact of the CPU's limits.
    """
    names = ("affinity", "affinity_now", "affinity_bound_by", "usable_cpus", "bound_by")
    bound, free = (probe_json(environment=clean_environment(**each))["cpu"] for each in (variables, {}))
    assert {name: bound[name] for name in names} == {name: free[name] for name in names}
    assert bound["affinity"] == bound["affinity_now"] == wide_mask()


@NEEDS_TWO_CPUS
def test_workers_get_back_no_more_than_taskset_left(tmp_path: Path) -> None:
    """
    The mask that the user set before Python started is the wide one: no worker leaves it.
    """
    allowed = OTHERS[-2:]
    seen = job(tmp_path, PLACES, "chosen", before=taskset(allowed))
    here = seen["here"]
    assert here["affinity"] == allowed
    assert here["usable_cpus"] <= len(allowed)
    assert here["affinity_bound_by"] == (None if here["kernel"] == allowed else "OMP_PLACES")
    assert [look["kernel"] for look in seen["workers"]["chosen"]] == [allowed, allowed]


@NEEDS_TWO_CPUS
def test_mask_that_gomp_moved_out_of_tasksets_is_seen(tmp_path: Path) -> None:
    """
    GNU's OpenMP binds to the CPU that its variable names, also where taskset left others only.
    """
    allowed = OTHERS[-2:]
    seen = job(tmp_path, GOMP, "chosen", before=taskset(allowed))
    if seen["here"]["kernel"] == allowed:
        pytest.skip("the OpenMP of this torch binds no thread when it is loaded")
    assert seen["here"]["affinity"] == allowed
    assert seen["here"]["affinity_bound_by"] == "GOMP_CPU_AFFINITY"
    assert [look["kernel"] for look in seen["workers"]["chosen"]] == [allowed, allowed]
