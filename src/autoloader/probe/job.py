"""
This process's place in a distributed job, and the CPUs that a batch system allotted, from the environment.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ..facts import JobFacts
from .host_io import HostIO
from .parse import parse_int, parse_lsf_slots, parse_slurm_count
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
Ray Train sets what torchrun sets, in workers that have Ray's own variables, too.

Source: torch.distributed.run; Ray's train/torch/config.py and common/constants.h; Open MPI and Intel MPI
documentation; srun(1), "OUTPUT ENVIRONMENT VARIABLES".
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
    is_ray = launcher.name == "environment" and "RAY_JOB_ID" in environment
    readings.put("launcher", "ray" if is_ray else launcher.name, "RAY_JOB_ID" if is_ray else launcher.marker)
    readings.put("rank", parse_int(environment.get(launcher.rank)), launcher.rank)
    readings.put("local_rank", parse_int(environment.get(launcher.local_rank)), launcher.local_rank)
    node = _slurm_node(environment)
    counts = ((name, parse_slurm_count(environment.get(name), node)) for name in launcher.local_world_size)
    name, count = next(((name, count) for name, count in counts if count), (launcher.marker, None))
    readings.put("local_world_size", count, name)
    return readings.build(JobFacts)


def put_launcher_affinity(readings: Readings, io: HostIO, job: JobFacts) -> None:
    """
    Note the CPUs of what started the ranks of this node, where there are several, and the system has masks.
    """
    if (job.local_world_size or 1) > 1 and io.affinity() is not None:
        mask = io.launcher_affinity(job.sources.get("local_rank", "LOCAL_RANK"))
        readings.put("launcher_affinity", mask, "the mask of the process that started the ranks")


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


NODE_COUNTS = (
    *("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"),
    *("PBS_NUM_PPN", "NCPUS"),
    *("LSB_MCPU_HOSTS", "LSB_DJOB_NUMPROC"),
    "NSLOTS",
)
"""
Variables by which batch systems tell the CPUs of a node; of one system the more exact first.
"""


def read_scheduler_cpus(environment: Mapping[str, str], job: JobFacts) -> tuple[float, str] | None:
    """
    Return the CPUs that a batch system allotted to all ranks of this job on this node, and the variable.

    Source: sbatch(1) and srun(1); PBS Professional, Torque, LSF and Grid Engine user guides.
    """
    per_task = parse_slurm_count(environment.get("SLURM_CPUS_PER_TASK"))
    if per_task:
        return float(per_task * _slurm_tasks(environment, job)), "SLURM_CPUS_PER_TASK"
    counts = ((name, _node_count(name, environment)) for name in NODE_COUNTS)
    return next(((float(cpus), name) for name, cpus in counts if cpus), None)


def _node_count(name: str, environment: Mapping[str, str]) -> int | None:
    """
    Return the CPUs that one variable tells; that with a name that anybody may use counts inside a PBS job only.
    """
    if name == "NCPUS" and "PBS_JOBID" not in environment:
        return None
    if name == "LSB_MCPU_HOSTS":
        return parse_lsf_slots(environment.get(name))
    return parse_slurm_count(environment.get(name), _slurm_node(environment))
