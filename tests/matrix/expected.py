"""
What each cell of the matrix should come to: every start method, dataset and situation.

Written from these rules, and not from what the loader does:

- Every cell delivers. A plain DataLoader with ``num_workers=0`` delivers in each of them, so that an error of ours
  would break what worked.
- Workers are processes wherever processes can start and can load the dataset: that is what ``num_workers=2`` asks for.
- Where fork is not safe, or another method is set for the process, a worker has to unpickle the dataset. A quiet
  process still forks for a dataset that cannot be pickled; nobody forks with an open file, whose position all workers
  would share, nor beside a thread that may hold a lock.
- Where no process may start, a thread loads, and where the dataset refuses a second thread, the training thread does.
- The user who asked for two workers and gets none is told, once; so is one whose process would fork, where workers
  start another way and do not have what was set at run time.
- Without ``num_workers`` nobody asked for workers: a dataset with an open file does without them, and so does a process
  that may have so few others that half of them are less than a worker.
"""

from itertools import combinations, product
from typing import Literal, NamedTuple

METHODS = ("fork", "forkserver", "spawn")

LOADABLE = ("module", "numpy-generator", "meta-tensor", "big-list")
"""
Datasets that a new Python can unpickle.
"""

FORK_ONLY = ("lambda", "local-class", "guarded-class", "notebook-class", "lock", "generator")
"""
Datasets that a new Python cannot unpickle, and that a forked one has anyway.
"""

OPEN = ("file", "h5py", "lmdb", "sqlite")
"""
Datasets that hold a file open, which can neither be pickled nor be shared by forked workers.
"""

THREAD_BOUND = ("sqlite",)
"""
Datasets that refuse another thread than the one that made them (sqlite3.connect, ``check_same_thread``).
"""

QUIET = ("plain", "openmp", "sigchld-ignored", "few-files")
"""
Situations in which any process may start.

OpenMP: torch's workers use one thread, for which no pool is needed. Ignored SIGCHLD: torch sets its own handler. 128
files: a worker needs about 20.
"""

UNSAFE_TO_FORK = ("thread", "lock-held", "fork-unsafe-module", "off-main-thread")
"""
Situations in which a forked worker could find a lock that nobody releases; seen from another thread, the main one is
such a thread.
"""

NO_PROCESS = ("daemonic", "nested", "long-tmpdir", "read-only-shm", "no-semaphores", "few-processes")
"""
Situations in which no worker can start, or none could send a batch back.

Daemonic and nested: multiprocessing refuses. A long TMPDIR: sockets that carry batches lie there, and their addresses
have 108 bytes. Six more processes: a worker of torch's has about four threads.
"""

DATASETS = (
    *("module", "lambda", "local-class", "guarded-class", "notebook-class", "file", "h5py", "lmdb", "sqlite", "lock"),
    *("generator", "numpy-generator", "meta-tensor", "big-list"),
)
SITUATIONS = (
    *("plain", "thread", "lock-held", "openmp", "fork-unsafe-module", "daemonic", "nested", "off-main-thread"),
    *("sigchld-ignored", "long-tmpdir", "read-only-shm", "no-semaphores", "few-processes", "few-files"),
)

Variant = Literal["two", "ours"]
VARIANTS: tuple[Variant, ...] = ("two", "ours")
"""
``num_workers=2``, and no ``num_workers``.
"""


class Cell(NamedTuple):
    """
    One place in the matrix.
    """

    method: str
    """The start method of the process."""
    dataset: str
    situation: str

    @property
    def id(self) -> str:
        """
        Return the name of the test.
        """
        return "-".join(self)


class Expected(NamedTuple):
    """
    What a cell should come to.
    """

    backend: str
    """``process``, ``thread`` or ``inline``."""
    method: str | None
    """How workers start; ``None`` where none does."""
    is_said: bool | None
    """Whether the user hears of it; ``None`` where it may be either."""
    delivers: bool = True
    """Whether both epochs have every sample once and in order. Nothing here can be refused: see above."""

    def __str__(self) -> str:
        return self.backend if self.method is None else f"{self.backend}, {self.method}"


CELLS = tuple(Cell(*values) for values in product(METHODS, DATASETS, SITUATIONS))


def expected(cell: Cell, variant: Variant) -> Expected:
    """
    Return what a cell should come to.
    """
    if variant == "ours":
        return _expected_of_ours(cell)
    method = None if cell.situation in NO_PROCESS else _method(cell)
    if method is not None:
        return Expected("process", method, is_said=cell.method == "fork" and method != "fork")
    return Expected("inline" if cell.dataset in THREAD_BOUND else "thread", None, is_said=True)


def expected_places(backend: str) -> list[str]:
    """
    Return where each batch of an epoch is loaded.

    The first batch is loaded inline before a thread takes over: what the dataset opens with its first sample belongs to
    the training thread, as it would without the other one.
    """
    return ["inline", *["thread"] * 5] if backend == "thread" else [backend] * 6


def _method(cell: Cell) -> str | None:
    """
    Return how workers start where processes can, ``None`` where none can load the dataset safely.
    """
    is_fork_safe = cell.situation in QUIET and cell.dataset not in OPEN
    if cell.method == "fork" and is_fork_safe:
        return "fork"
    if cell.dataset in LOADABLE:
        return "forkserver" if cell.method == "fork" else cell.method
    return "fork" if is_fork_safe else None


def _expected_of_ours(cell: Cell) -> Expected:
    is_without = cell.dataset in OPEN and cell.situation not in NO_PROCESS
    if is_without or cell.situation == "few-processes":
        return Expected("inline", None, is_said=False)
    return expected(cell, "two")._replace(is_said=None)


def pairwise() -> tuple[Cell, ...]:
    """
    Return cells in which every two values of two axes meet: each dataset in each situation, by methods in turn.
    """
    pairs = product(enumerate(DATASETS), enumerate(SITUATIONS))
    return tuple(
        Cell(METHODS[(first + second) % len(METHODS)], dataset, situation)
        for (first, dataset), (second, situation) in pairs
    )


def pairs_in(cells: tuple[Cell, ...]) -> set[tuple[str, str]]:
    """
    Return every two values that meet in a cell.
    """
    return {pair for cell in cells for pair in combinations(cell, 2)}
