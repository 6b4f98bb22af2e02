"""
The command ``python -m autoloader probe`` under limits that are made for real: masks, control groups, mounts.
"""

import os
import re
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.running import clean_environment, output_of, probe_json, probe_lines, run

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with the tools of Linux"),
]

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
NEEDS_ROOT = pytest.mark.skipif(not IS_ROOT, reason="needs root, for control groups and mount namespaces")

GIB = 1 << 30
MIB = 1 << 20


def test_json_of_usable_cpus_under_taskset_is_the_mask(topology: tuple[int, int, int]) -> None:
    """
    One CPU is usable, and the mask binds, where there are more.
    """
    cpu = str(min(os.sched_getaffinity(0)))
    facts = probe_json("taskset", "-c", cpu)["cpu"]
    assert (facts["usable_cpus"], facts["affinity"]) == (1.0, [int(cpu)])
    assert facts["bound_by"] == ("affinity" if topology[0] > 1 else "logical")


def test_line_of_usable_cpus_under_taskset_is_the_mask(topology: tuple[int, int, int]) -> None:
    """
    The same for people.
    """
    cpu = str(min(os.sched_getaffinity(0)))
    logical = topology[0]
    found = probe_lines("taskset", "-c", cpu)
    bound_by = "affinity" if logical > 1 else "logical"
    assert found["usable CPUs"].startswith(f"1 (bound by {bound_by}, of {logical} logical, ")
    assert found["CPU limits"].startswith("affinity 1, ")


@pytest.mark.parametrize(
    ("before", "variables", "expected"),
    [
        pytest.param(True, {"SLURM_CPUS_PER_TASK": "10"}, (1.0, "affinity"), id="slurm-step-on-one-cpu"),
        pytest.param(False, {"SLURM_CPUS_PER_TASK": "1"}, (1.0, "scheduler_cpus"), id="slurm-of-one"),
        pytest.param(False, {"PBS_JOBID": "7", "NCPUS": "1"}, (1.0, "scheduler_cpus"), id="pbs-of-one"),
    ],
)
def test_json_of_usable_cpus_in_a_batch_system_is_the_smaller(
    before: bool, variables: dict[str, str], expected: tuple[float, str]
) -> None:
    """
    The mask is believed where it is smaller than the grant, and the grant where it is smaller than the mask.
    """
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine lets the tests have one CPU only, so that no limit can be smaller")
    taskset = ("taskset", "-c", str(min(os.sched_getaffinity(0)))) if before else ()
    facts = probe_json(*taskset, environment=clean_environment(**variables))["cpu"]
    assert (facts["usable_cpus"], facts["bound_by"]) == expected


def own_groups(controller: str) -> Path:
    """
    Return where the version 1 hierarchy of a controller is mounted, or skip the test.
    """
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup" and controller in after.split()[2].split(","):
            return Path(before.split()[4])
    pytest.skip(f"cgroup v1 with the controller {controller!r} is not mounted here")


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """
    Make a control group of the controller that the test names, and remove it with what was made in it.
    """
    folder = own_groups(request.param) / f"autoloader-test-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        yield folder
    finally:
        deadline = time.monotonic() + 10
        for each in [*(path for path in folder.iterdir() if path.is_dir()), folder]:
            while not removed(each) and time.monotonic() < deadline:
                pass
        assert not folder.exists()


def removed(folder: Path) -> bool:
    """
    Try to remove a group, which the kernel refuses for a moment after its last process ended.
    """
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def inside(group: Path) -> tuple[str, ...]:
    """
    Return the command that moves itself into a group and then becomes another.
    """
    return "bash", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group)


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_json_of_a_cpu_quota_is_half_a_cpu(group: Path) -> None:
    """
    50 ms of each 100 ms are half a CPU, which nproc does not see.
    """
    (group / "cpu.cfs_quota_us").write_text("50000")
    facts = probe_json(*inside(group))["cpu"]
    assert (facts["usable_cpus"], facts["bound_by"], facts["quota_cpus"]) == (0.5, "quota_cpus", 0.5)
    assert facts["sources"]["quota_cpus"] == f"{group}/cpu.cfs_quota_us"
    assert int(output_of(*inside(group), "nproc")) >= 1


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_lines_of_a_cpu_quota_name_it(group: Path, topology: tuple[int, int, int]) -> None:
    """
    The same for people, with another period.
    """
    (group / "cpu.cfs_period_us").write_text("20000")
    (group / "cpu.cfs_quota_us").write_text("15000")
    found = probe_lines(*inside(group))
    assert found["usable CPUs"].startswith(f"0.75 (bound by quota_cpus, of {topology[0]} logical, ")
    assert found["CPU limits"].endswith(", quota 0.75")


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_json_of_a_cpu_quota_above_is_the_parents(group: Path) -> None:
    """
    A group without a quota of its own has its parent's.
    """
    (group / "cpu.cfs_quota_us").write_text("50000")
    (group / "inner").mkdir()
    facts = probe_json(*inside(group / "inner"))["cpu"]
    assert facts["quota_cpus"] == 0.5
    assert facts["sources"]["quota_cpus"] == f"{group}/cpu.cfs_quota_us"


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["memory"], indirect=True)
def test_json_of_a_memory_limit_is_its_bytes(group: Path) -> None:
    """
    What is left is the limit less what Python uses, some ten MiB.
    """
    (group / "memory.limit_in_bytes").write_text(str(GIB // 2))
    memory = probe_json(*inside(group))["memory"]
    assert memory["cgroup_limit_bytes"] == GIB / 2
    assert memory["sources"]["cgroup_limit_bytes"] == f"{group}/memory.limit_in_bytes"
    assert GIB / 2 - 200 * MIB < memory["cgroup_headroom_bytes"] < GIB / 2
    assert memory["headroom_bytes"] == memory["cgroup_headroom_bytes"]
    assert memory["bound_by"] == "cgroup_headroom_bytes"


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["memory"], indirect=True)
def test_line_of_a_memory_limit_above_is_the_parents(group: Path) -> None:
    """
    The same for people, in a group inside of the limited one.
    """
    (group / "memory.limit_in_bytes").write_text(str(GIB))
    (group / "inner").mkdir()
    line = probe_lines(*inside(group / "inner"))["memory"]
    assert re.search(r", cgroup limit 1\.0 GiB with (9\d\d|10\d\d)\.\d MiB left$", line), line


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["pids"], indirect=True)
def test_line_of_a_pids_limit_is_what_it_leaves(group: Path) -> None:
    """
    The probe is one process with one thread.
    """
    (group / "pids.max").write_text("100")
    assert probe_lines(*inside(group))["limits"].endswith(", cgroup leaves 99")


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize("group", ["cpuset"], indirect=True)
def test_json_of_a_cpuset_is_its_cpus(group: Path) -> None:
    """
    The kernel cuts the mask to the set.
    """
    cpu = min(os.sched_getaffinity(0))
    (group / "cpuset.mems").write_text((group.parent / "cpuset.mems").read_text())
    (group / "cpuset.cpus").write_text(str(cpu))
    facts = probe_json(*inside(group))["cpu"]
    assert (facts["usable_cpus"], facts["cpuset"], facts["affinity"]) == (1.0, [cpu], [cpu])


def in_new_mounts(*mounts: str) -> tuple[str, ...]:
    """
    Return the command that mounts something where nobody else sees it and then becomes another, or skip the test.
    """
    if run("unshare", "-m", "true").returncode != 0:
        pytest.skip("this machine does not let even root make a mount namespace")
    steps = " && ".join(["mount --make-rprivate /", *mounts])
    return "unshare", "-m", "bash", "-c", f'{steps} && exec "$@"', "bash"


@NEEDS_ROOT
@pytest.mark.root
def test_shared_memory_of_8_mib_is_seen() -> None:
    """
    As in a container that was started without --shm-size.
    """
    before = in_new_mounts("mount -t tmpfs -o size=8m tmpfs /dev/shm")
    shared = probe_json(*before)["shared_memory"]
    assert (shared["size_bytes"], shared["free_bytes"], shared["is_writable"]) == (8 * MIB, 8 * MIB, True)
    assert probe_lines(*before)["shared memory"] == "8.0 MiB free of 8.0 MiB at /dev/shm"


@NEEDS_ROOT
@pytest.mark.root
def test_shared_memory_that_is_read_only_is_seen() -> None:
    """
    Root cannot write to it either.
    """
    before = in_new_mounts("mount -t tmpfs -o ro,size=8m tmpfs /dev/shm")
    assert probe_lines(*before)["shared memory"] == "8.0 MiB free of 8.0 MiB at /dev/shm, not writable"
    assert probe_json(*before)["process"]["has_semaphores"] is False


@NEEDS_ROOT
@pytest.mark.root
def test_shared_memory_that_is_missing_is_unknown() -> None:
    """
    A /dev without shm, and without anything else.
    """
    found = probe_lines(*in_new_mounts("mount -t tmpfs tmpfs /dev"))
    assert found["shared memory"] == "unknown"
    assert found["accelerator"] == "none"


@NEEDS_ROOT
@pytest.mark.root
def test_storage_on_a_mount_with_a_space_is_memory(tmp_path: Path) -> None:
    """
    The kernel writes the space of a mount point in octal.
    """
    folder = tmp_path.resolve() / "a b"
    folder.mkdir()
    before = in_new_mounts(f'mount -t tmpfs -o size=8m "my disk" "{folder}"', f'cd "{folder}"')
    storage = probe_json(*before)["storage"]
    assert (storage["path"], storage["mount_point"]) == (str(folder), str(folder))
    assert (storage["filesystem"], storage["device"], storage["kind"]) == ("tmpfs", "my disk", "memory")
    assert storage["size_bytes"] == 8 * MIB


@NEEDS_ROOT
@pytest.mark.root
def test_storage_hidden_by_a_mount_above_is_what_a_path_leads_to(tmp_path: Path) -> None:
    """
    A mount over the parent folder hides the one below, which the table still lists (df names the wrong one).
    """
    folder = tmp_path.resolve()
    (folder / "below").mkdir()
    before = in_new_mounts(
        f'mount -t tmpfs -o size=8m hidden "{folder}/below"',
        f'mount -t tmpfs -o size=16m seen "{folder}"',
        f'mkdir "{folder}/below"',
        f'cd "{folder}/below"',
    )
    storage = probe_json(*before)["storage"]
    assert output_of(*before, "df", "-B1", "--output=size", ".").split()[-1] == str(16 * MIB)
    assert (storage["device"], storage["mount_point"], storage["size_bytes"]) == ("seen", str(folder), 16 * MIB)


@NEEDS_ROOT
@pytest.mark.root
def test_host_without_proc_and_sys_is_unknown() -> None:
    """
    Nothing is read off empty folders, and nothing fails.
    """
    before = in_new_mounts("mount -t tmpfs tmpfs /proc", "mount -t tmpfs tmpfs /sys")
    found = probe_lines(*before)
    assert found["CPU"] == "unknown"
    assert found["NUMA nodes"] == "unknown"
    assert found["memory"] == "unknown available of unknown, cgroup limit unknown"
    assert found["CPU limits"] == f"affinity {len(os.sched_getaffinity(0))}, cpuset unknown, quota unknown"
    assert found["limits"].endswith(", cgroup leaves unknown")
    assert found["storage"].startswith("unknown, file system unknown, ")
