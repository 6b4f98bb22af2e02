"""
Ranks and allotted CPUs, by the variables that each launcher and batch system sets.
"""

import pytest

from autoloader.facts import CpuFacts, JobFacts
from autoloader.probe import probe_host
from autoloader.probe.job import LAUNCHERS, put_launcher_affinity, read_job, read_scheduler_cpus
from autoloader.probe.readings import Readings
from support import FakeHost

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "8"}
STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(TORCHRUN, ("torchrun", 5, 1, 4), id="torchrun"),
        pytest.param(
            {"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, ("environment", 5, 1, 4), id="set-by-hand"
        ),
        pytest.param(
            {
                "OMPI_COMM_WORLD_SIZE": "16",
                "OMPI_COMM_WORLD_RANK": "9",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
            },
            ("mpi", 9, 1, 8),
            id="open-mpi",
        ),
        pytest.param(
            {"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            ("mpi", 3, 1, 2),
            id="intel-mpi",
        ),
        pytest.param({**STEP, "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, ("slurm", 5, 1, 4), id="slurm-equal-nodes"),
        pytest.param({**STEP, "SLURM_STEP_TASKS_PER_NODE": "4,2"}, ("slurm", 5, 1, 2), id="slurm-unequal-nodes"),
        pytest.param({**STEP, "SLURM_NTASKS_PER_NODE": "4"}, ("slurm", 5, 1, 4), id="slurm-tasks-asked-for"),
        pytest.param(STEP, ("slurm", 5, 1, None), id="slurm-tasks-unknown"),
        pytest.param(
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", **TORCHRUN}, ("torchrun", 5, 1, 4), id="torchrun-in-slurm"
        ),
        pytest.param(
            {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "4"},
            (None, None, None, 1),
            id="slurm-batch-script",
        ),
        pytest.param({"WORLD_SIZE": "8", "RANK": "5"}, (None, None, None, 1), id="world-size-is-of-all-nodes"),
        pytest.param(
            {**TORCHRUN, "LOCAL_WORLD_SIZE": "four", "RANK": "", "LOCAL_RANK": "9" * 5000},
            ("torchrun", None, None, None),
            id="garbage",
        ),
        pytest.param({}, (None, None, None, 1), id="single-process"),
    ],
)
def test_job_of_each_launcher_has_its_ranks(
    environment: dict[str, str], expected: tuple[str | None, int | None, int | None, int | None]
) -> None:
    """
    The first launcher that left its mark numbers the process; a process without one is alone.
    """
    job = read_job(environment)
    assert (job.launcher, job.rank, job.local_rank, job.local_world_size) == expected
    known = {name for name in ("launcher", "rank", "local_rank", "local_world_size") if getattr(job, name) is not None}
    assert set(job.sources) == known


def test_job_sources_name_the_variables() -> None:
    """
    Each fact says which variable it was read from.
    """
    assert dict(read_job(TORCHRUN).sources) == {
        "launcher": "TORCHELASTIC_RUN_ID",
        "rank": "RANK",
        "local_rank": "LOCAL_RANK",
        "local_world_size": "LOCAL_WORLD_SIZE",
    }


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"SLURM_CPUS_PER_TASK": "10"}, (10.0, "SLURM_CPUS_PER_TASK"), id="slurm-batch-script"),
        pytest.param(
            {**STEP, "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_CPUS_PER_TASK": "10", "SLURM_CPUS_ON_NODE": "64"},
            (40.0, "SLURM_CPUS_PER_TASK"),
            id="slurm-four-tasks-of-ten",
        ),
        pytest.param(
            {**STEP, **TORCHRUN, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_CPUS_PER_TASK": "40"},
            (40.0, "SLURM_CPUS_PER_TASK"),
            id="slurm-one-task-of-forty-with-torchrun-inside",
        ),
        pytest.param(
            {**TORCHRUN, "SLURM_TASKS_PER_NODE": "4", "SLURM_CPUS_PER_TASK": "10"},
            (40.0, "SLURM_CPUS_PER_TASK"),
            id="slurm-batch-script-of-four-tasks-with-torchrun-inside",
        ),
        pytest.param(
            {**TORCHRUN, "SLURM_CPUS_PER_TASK": "10"},
            (10.0, "SLURM_CPUS_PER_TASK"),
            id="slurm-tasks-unknown-with-torchrun-inside",
        ),
        pytest.param(
            {
                "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
                "SLURM_STEP_ID": "0",
                "SLURM_STEP_TASKS_PER_NODE": "1",
                "SLURM_CPUS_PER_TASK": "10",
            },
            (40.0, "SLURM_CPUS_PER_TASK"),
            id="slurm-each-rank-of-mpi-is-a-task",
        ),
        pytest.param({"SLURM_CPUS_ON_NODE": "16"}, (16.0, "SLURM_CPUS_ON_NODE"), id="slurm-node"),
        pytest.param({"SLURM_JOB_CPUS_PER_NODE": "8(x2)"}, (8.0, "SLURM_JOB_CPUS_PER_NODE"), id="slurm-equal-nodes"),
        pytest.param(
            {"SLURM_JOB_CPUS_PER_NODE": "8(x2),4", "SLURM_NODEID": "2"},
            (4.0, "SLURM_JOB_CPUS_PER_NODE"),
            id="slurm-the-third-node",
        ),
        pytest.param({"PBS_JOBID": "7.server", "NCPUS": "12"}, (12.0, "NCPUS"), id="pbs"),
        pytest.param({"NCPUS": "12"}, None, id="ncpus-outside-pbs"),
        pytest.param({"LSB_JOBID": "7", "LSB_DJOB_NUMPROC": "6"}, (6.0, "LSB_DJOB_NUMPROC"), id="lsf"),
        pytest.param(
            {"PBS_JOBID": "7.server", "PBS_NUM_PPN": "6", "PBS_NP": "12"}, (6.0, "PBS_NUM_PPN"), id="torque-two-nodes"
        ),
        pytest.param(
            {"LSB_DJOB_NUMPROC": "12", "LSB_MCPU_HOSTS": "hosta 6 hostb 6"}, (6.0, "LSB_MCPU_HOSTS"), id="lsf-two-hosts"
        ),
        pytest.param({"JOB_ID": "7", "NSLOTS": "3"}, (3.0, "NSLOTS"), id="grid-engine"),
        pytest.param({"SLURM_CPUS_PER_TASK": "0", "NSLOTS": "-2"}, None, id="nothing-and-less"),
        pytest.param({"SLURM_CPUS_PER_TASK": "many", "NSLOTS": "9" * 400}, None, id="garbage"),
        pytest.param({"SLURM_CPUS_PER_TASK": "x", "SLURM_CPUS_ON_NODE": "16"}, (16.0, "SLURM_CPUS_ON_NODE"), id="next"),
        pytest.param({}, None, id="no-batch-system"),
    ],
)
def test_scheduler_cpus_are_of_all_ranks_on_the_node(
    environment: dict[str, str], expected: tuple[float, str] | None
) -> None:
    """
    What a batch system grants to a task is multiplied by its tasks here, which torchrun's ranks are not.
    """
    assert read_scheduler_cpus(environment, read_job(environment)) == expected


def test_scheduler_cpus_of_an_unknown_number_of_ranks_are_of_one() -> None:
    """
    A launcher that does not say how many ranks are here counts as one.
    """
    job = JobFacts(launcher="slurm", local_world_size=None)
    assert read_scheduler_cpus({"SLURM_CPUS_PER_TASK": "10"}, job) == (10.0, "SLURM_CPUS_PER_TASK")


def test_launchers_with_marks_of_others_come_first() -> None:
    """
    Since torchrun sets LOCAL_WORLD_SIZE too, and any launcher may run in a Slurm step, the order tells them apart.
    """
    names = [launcher.name for launcher in LAUNCHERS]
    assert names[:2] == ["torchrun", "environment"]
    assert names[-1] == "slurm"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(TORCHRUN, (0, 1), id="torchrun"),
        pytest.param({"LOCAL_WORLD_SIZE": "2"}, (0, 1), id="rank-not-set"),
        pytest.param({**STEP, "SLURM_STEP_TASKS_PER_NODE": "4"}, (2, 3), id="slurm"),
        pytest.param({**TORCHRUN, "LOCAL_WORLD_SIZE": "1"}, None, id="one-rank"),
        pytest.param({**STEP}, None, id="ranks-unknown"),
        pytest.param({}, None, id="no-launcher"),
    ],
)
def test_mask_of_the_launcher_is_asked_for_by_the_variable_of_its_ranks(
    environment: dict[str, str], expected: tuple[int, ...] | None
) -> None:
    """
    Where one rank is on a node, nobody shares anything with it.
    """
    host = FakeHost(mask=(1,), launcher_masks={"LOCAL_RANK": (0, 1), "SLURM_LOCALID": (2, 3)})
    readings = Readings()
    put_launcher_affinity(readings, host, read_job(environment))
    facts = readings.build(CpuFacts)
    assert facts.launcher_affinity == expected
    assert set(facts.sources) == ({"launcher_affinity"} if expected else set())


@pytest.mark.parametrize("platform", ["linux", "win32", "freebsd14"])
@pytest.mark.parametrize("mask", [(1,), None])
def test_mask_of_the_launcher_is_a_fact_where_there_are_masks(platform: str, mask: tuple[int, ...] | None) -> None:
    """
    On every system that has masks.
    """
    host = FakeHost(platform=platform, mask=mask, launcher_masks={"LOCAL_RANK": (0, 1)}, environment=TORCHRUN)
    assert probe_host(io=host).cpu.launcher_affinity == (mask and (0, 1))
