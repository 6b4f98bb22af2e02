"""
Chooses where batches load: in worker processes, in a thread of the training process, or inline.
"""

from typing import NamedTuple

from ..facts import HostFacts
from ..findings import describe_parts
from ..plan import Choice, Note
from .limits import TASKS_PER_WORKER, processes_allowed

LONGEST_TEMP_DIR = 75
"""
Bytes of a temporary folder's path below which multiprocessing's sockets fit: their addresses take 108 (unix(7)), with
``/pymp-xxxxxxxx/listener-xxxxxxxx`` and a final zero. macOS grants four less.
"""


class Obstacle(NamedTuple):
    """
    Why no worker process may start.
    """

    rule: str
    """The last part of the rule ids and of the finding's."""
    because: str
    """The fact, as a clause."""
    fix: str
    """What the user can do."""

    @property
    def note(self) -> Note:
        """
        Return this as a note of a plan.
        """
        text = f"No worker process starts: {self.because}. {self.fix}"
        return Note(finding=f"process.{self.rule}", text=text)


def obstacle(finding_id: str, **evidence: object) -> Obstacle:
    """
    Return an obstacle, with its words from the catalogue.
    """
    text, fix = describe_parts(finding_id, **evidence)
    return Obstacle(finding_id.partition(".")[2], text[0].lower() + text[1:].removesuffix("."), fix)


def find_obstacle(facts: HostFacts, num_workers: int = 1) -> Obstacle | None:
    """
    Return why this process may not start *num_workers* workers by any method; ``None`` where it may.
    """
    process, shared = facts.process, facts.shared_memory
    if process.is_dataloader_worker:
        return obstacle("process.nested-worker")
    if process.is_daemonic:
        return obstacle("process.daemonic")
    if shared.is_writable is False:
        return obstacle("process.shared-memory-read-only", path=shared.path)
    if process.has_semaphores is False:
        return obstacle("process.no-semaphores")
    temp_dir = facts.limits.temp_dir or ""
    length = len(temp_dir.encode("utf-8", "surrogateescape"))
    if facts.system.platform != "windows" and length > LONGEST_TEMP_DIR:
        return obstacle("process.temp-dir-too-long", path=temp_dir, bytes=length, most=LONGEST_TEMP_DIR)
    needed, allowed = num_workers * TASKS_PER_WORKER, processes_allowed(facts, is_certain=True)
    if allowed < needed:
        return obstacle("process.few-processes", allowed=f"{allowed:.0f}", needed=needed, workers=num_workers)
    return None


def find_obstacle_to(method: str | None, facts: HostFacts) -> Obstacle | None:
    """
    Return why no worker can start by one start method, as far as facts tell; fork has none.
    """
    process = facts.process
    if method in {None, "fork"}:
        return None
    if process.is_interpreter_python is False:
        return obstacle("process.not-python", method=method, program=process.interpreter or "no program")
    if process.is_main_missing:
        return obstacle("process.main-missing", method=method, main=process.reimported_main)
    return None


def choose_backend(facts: HostFacts, num_workers: Choice[int], method: str | None, style: str) -> Choice[str]:
    """
    Choose ``process`` where there are workers to start and they may start, else a fallback.
    """
    found = find_obstacle(facts, num_workers.value or 1) or find_obstacle_to(method, facts)
    if found is not None and (num_workers.value or num_workers.rule == f"num_workers.{found.rule}"):
        return fallback(found, style)
    if not num_workers.value:
        return Choice(value="inline", rule="backend.no-workers", because="there are no workers")
    return Choice(value="process", rule="backend.workers", because="worker processes can start here")


def fallback(found: Obstacle, style: str) -> Choice[str]:
    """
    Return where batches load if no worker process may start: a thread, but inline for iterable-style data.

    A batch that cannot be loaded in a thread is loaded again inline; a stream could lose items by that.
    """
    value = "inline" if style == "iterable" else "thread"
    return Choice(value=value, rule=f"backend.{found.rule}", because=found.because)
