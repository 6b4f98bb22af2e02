"""
This process's place in a distributed job, and the CPUs that a batch system allotted, from the environment.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ..facts import JobFacts
from .parse import parse_int, parse_slurm_count
from .readings import Readings


class Launcher(NamedTuple):
    """
    The variables by which one launcher numbers its processes; of *local_world_size* the first that is set counts.
    """

    name: str
    marker: str
    rank: str
    local_rank: str
    local_world_size: tuple[str, ...]


LAUNCHERS = (
    Launcher("torchrun", "TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", ("LOCAL_WORLD_SIZE",)),
    Launcher("environment", "LOCAL_WORLD_SIZE", "RANK", "LOCAL_RANK", ("LOCAL_WORLD_SIZE",)),
    Launcher(
        "mpi",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    Launcher("mpi", "MPI_LOCALNRANKS", "PMI_RANK", "MPI_LOCALRANKID", ("MPI_LOCALNRANKS",)),
    Launcher(
        "slurm",
        "SLURM_STEP_ID",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"),
    ),
)
"""
Source: torch.distributed.run; Open MPI and Intel MPI documentation; srun(1), "OUTPUT ENVIRONMENT VARIABLES".
"""


def read_job(environment: Mapping[str, str]) -> JobFacts:
    """
    Read the ranks from the first launcher that left its mark; a process without one is alone.
    """
    readings = Readings()
    launcher = next((each for each in LAUNCHERS if each.marker in environment), None)
    if launcher is None:
        readings.put("local_world_size", 1, "no launcher's variable is set")
        return readings.build(JobFacts)
    readings.put("launcher", launcher.name, launcher.marker)
    readings.put("rank", parse_int(environment.get(launcher.rank)), launcher.rank)
    readings.put("local_rank", parse_int(environment.get(launcher.local_rank)), launcher.local_rank)
    node = _slurm_node(environment)
    counts = ((name, parse_slurm_count(environment.get(name), node)) for name in launcher.local_world_size)
    name, count = next(((name, count) for name, count in counts if count), (launcher.marker, None))
    readings.put("local_world_size", count, name)
    return readings.build(JobFacts)


def _slurm_node(environment: Mapping[str, str]) -> int:
    return max(0, parse_int(environment.get("SLURM_NODEID")) or 0)


def _slurm_tasks(environment: Mapping[str, str], job: JobFacts) -> int:
    """
    Return how many of Slurm's tasks all ranks on this node are: torchrun starts its ranks inside one task.
    """
    if job.launcher not in {"torchrun", "environment"}:
        return job.local_world_size or 1
    names = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    counts = (parse_slurm_count(environment.get(name), _slurm_node(environment)) for name in names)
    return next((count for count in counts if count), 1)


def read_scheduler_cpus(environment: Mapping[str, str], job: JobFacts) -> tuple[float, str] | None:
    """
    Return the CPUs that a batch system allotted to all ranks of this job on this node, and the variable.

    Source: sbatch(1) and srun(1); PBS Professional, LSF and Grid Engine user guides.
    """
    per_task = parse_slurm_count(environment.get("SLURM_CPUS_PER_TASK"))
    if per_task:
        return float(per_task * _slurm_tasks(environment, job)), "SLURM_CPUS_PER_TASK"
    for name in ("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "NCPUS", "LSB_DJOB_NUMPROC", "NSLOTS"):
        cpus = parse_slurm_count(environment.get(name), _slurm_node(environment))
        if cpus and (name != "NCPUS" or "PBS_JOBID" in environment):
            return float(cpus), name
    return None
