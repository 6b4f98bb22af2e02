"""
One plan for the ranks of a node: local rank 0 makes it, and the others find it in a file on this node.

Free memory, for one, is another number each time that somebody looks: ranks that choose for themselves choose unlike
numbers of workers, and all of them wait for the slowest.
"""

import atexit
import contextlib
import json
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from ..plan import Choice, plain, plan_from_json
from ..policy import POLICY, cpus_of_rank
from ..processes import started_at
from ..profiling.inspect import length_of
from ..store import Store, open_node_store
from .planning import check_counts
from .starting import is_users

if TYPE_CHECKING:
    from .auto_loader import AutoLoader

logger = logging.getLogger("autoloader")

KIND = "node"
"""
The word for it in the names of files.
"""

PATIENCE_SECONDS = 2.0
"""
How long a process waits for local rank 0, for all its loaders together: the ranks of a job make them at about the same
time, or local rank 0 makes none.
"""

POLL_SECONDS = 0.01

OLD_SECONDS = 86400.0
"""
A file that is older is left from a run that was killed.
"""

RUN_VARIABLES = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "RAY_JOB_ID"),
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
"""
Variables that tell one run from another on the same node, and are the same for its ranks. Two runs at once cannot have
one MASTER_PORT; of two runs after each other the first is known by its processes, which have ended.

Source: torch.distributed.run, "Environment Variables"; srun(1); Open MPI, PMIx.
"""


class NodePlans:
    """
    The plans that this process gives to, or takes from, the other ranks of its node.

    Args:
        patience: Seconds to wait for local rank 0, in all.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.patience = patience
        self._calls: Counter[str] = Counter()
        self._given: list[tuple[Store, dict[str, Any]]] = []
        self._lock = threading.Lock()

    def key_of(self, loader: "AutoLoader[Any]", environment: Mapping[str, str]) -> dict[str, Any]:
        """
        Return what tells this call of this run from all others, the same on each rank.
        """
        choices = loader.plan.choices
        call = {
            "run": {name: environment[name] for name in RUN_VARIABLES if name in environment},
            "host": socket.gethostname(),
            "dataset": f"{type(loader.dataset).__module__}.{type(loader.dataset).__qualname__}",
            "samples": length_of(loader.dataset),
            "batch_size": loader.batch_size,
            "epochs": loader.epochs,
            "fixed": {name: repr(plain(each.value)) for name, each in choices.items() if is_users(each)},
            "policy": POLICY,
        }
        with self._lock:
            number = self._calls[repr(call)]
            self._calls[repr(call)] += 1
        return {**call, "number": number}

    def give(self, loader: "AutoLoader[Any]", store: Store, key: dict[str, Any]) -> None:
        """
        Leave this rank's plan for the others, as long as this process runs.
        """
        pid = os.getpid()
        value = {"plan": json.loads(loader.plan.to_json()), "cpus": cpus_of_rank(loader._facts)}
        if not store.write(KIND, key, {**value, "pid": pid, "started": started_at(pid)}):
            logger.info("ranks: this rank's plan is not there for the others: %s", store.problem)
            return
        if not self._given:
            atexit.register(self._take_back, pid)
            _forget_older_runs(store)
        self._given.append((store, key))

    def _take_back(self, pid: int) -> None:
        for store, key in self._given if os.getpid() == pid else ():  # a forked process has inherited the list
            store.discard(KIND, key)

    def take(self, loader: "AutoLoader[Any]", store: Store, key: dict[str, Any]) -> dict[str, Choice[Any]] | None:
        """
        Return what local rank 0 has chosen; ``None`` where it does not come in time, or this rank has other CPUs.
        """
        begun = monotonic()
        while (value := store.read(KIND, key)) is None or not _is_of_a_running_process(value):
            if monotonic() - begun >= self.patience:
                self.patience = 0.0
                logger.info("ranks: local rank 0 has left no plan, so this one makes its own")
                return None
            sleep(POLL_SECONDS)
        self.patience -= min(self.patience, monotonic() - begun)
        if value.get("cpus") != cpus_of_rank(loader._facts):
            logger.info("ranks: local rank 0 has other CPUs, so this one makes its own plan")
            return None
        try:
            choices = plan_from_json(value.get("plan")).choices
            check_counts({name: choice.value for name, choice in choices.items()})
            _check_method(choices, loader)
        except (ValueError, ArgumentError) as error:
            logger.info("ranks: what local rank 0 has left is no plan: %s", error)
            return None
        logger.info("ranks: this one takes the plan of local rank 0")
        return {**choices, **{name: own for name, own in loader.plan.choices.items() if is_users(own)}}


_plans = NodePlans()


def choose_for_node(
    loader: "AutoLoader[Any]", choose: Callable[[], None], environment: Mapping[str, str], plans: NodePlans = _plans
) -> None:
    """
    Let *loader* choose, or on a node with several ranks take what local rank 0 has chosen.

    Args:
        loader: A loader with a plan by rules.
        choose: Lets it choose by what is known from earlier runs.
        environment: The environment variables.
        plans: What this process shares with other ranks.
    """
    job, store = loader._facts.job, Store(None)
    is_ours = not loader._has_given_plan and not loader.plan.has_users_workers
    is_ours = is_ours and not loader._facts.process.is_dataloader_worker
    if is_ours and job.local_rank is not None and (job.local_world_size or 1) > 1:
        store = open_node_store(environment)
    key = {} if store.folder is None else plans.key_of(loader, environment)
    choices = plans.take(loader, store, key) if job.local_rank and store.folder is not None else None
    if choices is not None:
        loader._take_choices(choices)
        return
    choose()
    if job.local_rank == 0 and store.folder is not None:
        plans.give(loader, store, key)


def _check_method(choices: Mapping[str, Choice[Any]], loader: "AutoLoader[Any]") -> None:
    """
    Check that a plan starts workers as this system can.

    Raises:
        ValueError: It does not.
    """
    method, known = choices["multiprocessing_context"].value, loader._facts.start_methods.available or ()
    if method is not None and method not in known:
        raise ValueError(f"multiprocessing_context={method!r} is none of {known}")


def _forget_older_runs(store: Store) -> None:
    """
    Delete what runs have left that were killed. Of one that runs for so long all ranks have read it.
    """
    for entry in store.entries():
        if entry.kind == KIND and time() - entry.written > OLD_SECONDS:
            with contextlib.suppress(OSError):
                entry.path.unlink()


def _is_of_a_running_process(value: Any) -> bool:
    """
    Return whether the process that left a file still runs, and is no other one of the same number.
    """
    if not isinstance(value, dict) or type(value.get("pid")) is not int:
        return False
    started = started_at(value["pid"])
    return started is not None and started == value.get("started")
