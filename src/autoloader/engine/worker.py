"""
What a worker does before it loads its first batch.
"""

import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Any

from torch.utils.data import get_worker_info

from ..start.affinity import restore
from ..start.interrupts import let_through
from .issue import IN_WORKER
from .pools import resize_to_one_thread
from .stacks import StackPipe

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
        collate_fn: The user's collate function, the object that the worker uses.
        version: The news that the worker's copy of the dataset has heard.
        stacks: Where to write its stack when it is asked.
        states: Where each worker's copy of an iterable-style dataset is to begin.
    """

    def __init__(
        self,
        users: Callable[[int], None] | None,
        cpus: frozenset[int] | None = None,
        *,
        collate_fn: Any = None,
        version: int = 0,
        stacks: StackPipe | None = None,
        states: Sequence[Any] | None = None,
    ) -> None:
        self._users = users
        self._cpus = cpus
        self._collate_fn, self._version = collate_fn, version
        self._stacks, self._states = stacks, states

    def __call__(self, worker: int) -> None:
        """
        Let Ctrl-C through, be seen when it hangs, crashes or loses its parent, and run the user's function.
        """
        let_through()
        IN_WORKER.start(self._version, self._collate_fn)
        if self._stacks is not None:
            self._stacks.register()
        resize_to_one_thread()
        if self._cpus is not None:
            restore(self._cpus)
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), name="autoloader-parent", daemon=True).start()
        if self._users is not None:
            self._users(worker)
        info = get_worker_info()
        if self._states is not None and info is not None and self._states[worker] is not None:
            info.dataset.load_state_dict(self._states[worker])  # type: ignore[attr-defined]


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
