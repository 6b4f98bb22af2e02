"""
The page that shows the full matrix.
"""

from collections.abc import Callable

from .expected import DATASETS, METHODS, SITUATIONS, Cell, Variant

ABOUT = """\
# Start matrix

How batches load under each start method of the process, with each kind of dataset, in each situation. Every cell was
run: two epochs, every sample once and in order, nothing left behind. `python -m tests.matrix` writes this page.

A cell says where batches load with `num_workers=2`: `process` is worker processes (with their start method, where that
is not the one of the heading), `thread` is a thread of the training process, and `inline` is the loop's own thread.
Where it is different without `num_workers`, that stands in brackets.
"""

DATASET_TEXTS = {
    "module": "class of a module",
    "lambda": "holds a lambda",
    "local-class": "class of a function",
    "guarded-class": "class under the main guard",
    "notebook-class": "class of a notebook",
    "file": "holds an open file",
    "h5py": "holds an open h5py file",
    "lmdb": "holds an lmdb environment",
    "sqlite": "holds an sqlite connection",
    "lock": "holds a lock",
    "generator": "holds a generator",
    "numpy-generator": "holds a numpy Generator",
    "meta-tensor": "holds a tensor of another device",
    "big-list": "holds 200 MB of strings",
}

SITUATION_TEXTS = {
    "plain": "nothing special",
    "thread": "another thread runs",
    "lock-held": "a thread holds a lock that the dataset takes",
    "openmp": "OpenMP was used",
    "fork-unsafe-module": "polars is loaded",
    "daemonic": "daemonic process",
    "nested": "worker of another loader",
    "off-main-thread": "not the main thread",
    "sigchld-ignored": "SIGCHLD is ignored",
    "long-tmpdir": "TMPDIR of 90 characters",
    "read-only-shm": "/dev/shm is read-only",
    "no-semaphores": "no semaphores",
    "few-processes": "6 more processes allowed",
    "few-files": "128 open files allowed",
}

Shown = Callable[[Cell, Variant], str]


def tables(shown: Shown) -> str:
    """
    Return a table for each start method.
    """
    return "\n\n".join(f"## {method}\n\n{_table(method, shown)}" for method in METHODS) + "\n"


def _table(method: str, shown: Shown) -> str:
    head = ["dataset", *(SITUATION_TEXTS[situation] for situation in SITUATIONS)]
    rows = [
        [DATASET_TEXTS[dataset], *(_cell(Cell(method, dataset, situation), shown) for situation in SITUATIONS)]
        for dataset in DATASETS
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _cell(cell: Cell, shown: Shown) -> str:
    """
    Return where batches load with two workers, and in brackets where without a number of workers, if that is elsewhere.
    """
    texts = shown(cell, "two"), shown(cell, "ours")
    asked, ours = ("process" if text == f"process, {cell.method}" else text for text in texts)
    return asked if asked == ours else f"{asked} ({ours})"
