"""
What a worker does before it loads its first batch.
"""

import os
import threading
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import wait

from ..start.affinity import restore
from ..start.interrupts import let_through

LOOK_SECONDS = 2.0
"""
How often a worker looks whether its parent is alive. Torch's own looks are between two batches only.
"""


class WorkerInit:
    """
    The ``worker_init_fn`` of every worker: its own part, and then the user's.

    Args:
        users: The user's function, called with the worker's number.
        cpus: The CPUs to use, where the worker would inherit fewer than the user meant.
    """

    def __init__(self, users: Callable[[int], None] | None, cpus: frozenset[int] | None = None) -> None:
        self._users = users
        self._cpus = cpus

    def __call__(self, worker: int) -> None:
        """
        Let Ctrl-C through, end when the parent does, and run the user's function.
        """
        let_through()
        if self._cpus is not None:
            restore(self._cpus)
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="autoloader-parent", daemon=True).start()
        if self._users is not None:
            self._users(worker)


def _end_with_parent(parent: int) -> None:
    """
    End this process when the one that started it has ended, whatever its main thread waits for.

    Forked siblings hold the pipe open that would tell of it, so that the parent's number is looked at, too; under the
    fork server that is the server's, which ends with the process that it serves.
    """
    starter = parent_process()
    watched = [] if starter is None else [starter.sentinel]
    while os.getppid() == parent and not wait(watched, LOOK_SECONDS):
        pass
    os._exit(1)
