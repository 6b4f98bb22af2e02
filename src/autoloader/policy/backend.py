"""
Chooses where batches load: in worker processes, or inline in the training process.
"""

from typing import Any, NamedTuple

from ..facts import HostFacts
from ..findings import describe
from ..plan import Choice, Note
from .multiprocessing_context import method_name


class Obstacle(NamedTuple):
    """
    Why no worker process may start.
    """

    rule: str
    because: str
    note: Note | None = None


def find_obstacle(facts: HostFacts, context: Any) -> Obstacle | None:
    """
    Return why this process may not start workers under *context*; ``None`` where it may.
    """
    process, method = facts.process, method_name(context)
    if process.is_dataloader_worker:
        return Obstacle("nested-worker", "this process is itself a worker of a DataLoader")
    if process.is_daemonic:
        return Obstacle("daemonic", "this process is daemonic and may not have children")
    if method not in {None, "fork"} and process.reimported_main is not None:
        text = describe("process.reimports-main", method=method, main=process.reimported_main)
        note = Note(finding="process.reimports-main", text=text)
        return Obstacle("reimports-main", f"{method} would import {process.reimported_main} again", note)
    return None


def choose_backend(facts: HostFacts, num_workers: int, context: Any) -> Choice[str]:
    """
    Choose ``process`` where there are workers to start and they may start, else ``inline``.
    """
    if not num_workers:
        return Choice(value="inline", rule="backend.no-workers", because="there are no workers")
    obstacle = find_obstacle(facts, context)
    if obstacle is not None:
        return Choice(value="inline", rule=f"backend.{obstacle.rule}", because=obstacle.because)
    return Choice(value="process", rule="backend.workers", because="worker processes can start here")
