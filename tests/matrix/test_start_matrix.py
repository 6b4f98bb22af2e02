"""
Loading works under every start method, with every kind of dataset and in every situation: each pair of them.

``python -m tests.matrix`` runs all cells, and writes docs/reference/start-matrix.md.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from matrix.expected import (
    CELLS,
    DATASETS,
    FORK_ONLY,
    LOADABLE,
    METHODS,
    NO_PROCESS,
    OPEN,
    QUIET,
    SITUATIONS,
    UNSAFE_TO_FORK,
    VARIANTS,
    Cell,
    expected,
    pairs_in,
    pairwise,
)
from matrix.page import DATASET_TEXTS, tables
from matrix.running import NEEDS_ROOT, Run, run_cells, why_not

pytestmark = [
    pytest.mark.torch,
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the situations are those of Linux"),
]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "start-matrix.md"
PROCESSES = min(2, os.cpu_count() or 1)
"""
How many cells run at the same time.
"""

Group = tuple[str, str]
Groups = dict[Group, "Future[dict[tuple[str, str], Run]]"]


@pytest.fixture(scope="module")
def groups(request: pytest.FixtureRequest) -> Iterator[Groups]:
    """
    Start one process for each method and situation that selected tests ask for, two at a time, in the background.
    """
    wanted: dict[Group, list[str]] = {}
    for item in request.session.items:
        cell = getattr(item, "callspec", None) and item.callspec.params.get("cell")
        if isinstance(cell, Cell) and why_not(cell.situation) is None:
            wanted.setdefault((cell.method, cell.situation), []).append(cell.dataset)
    with ThreadPoolExecutor(PROCESSES) as pool:
        yield {group: pool.submit(run_cells, *group, datasets, ("two",)) for group, datasets in wanted.items()}
        pool.shutdown(cancel_futures=True)


def marked(cell: Cell) -> object:
    """
    Return a cell with the marks of its situation.
    """
    return pytest.param(cell, id=cell.id, marks=[pytest.mark.root] if cell.situation in NEEDS_ROOT else [])


@pytest.mark.parametrize("cell", [marked(cell) for cell in sorted(pairwise(), key=lambda cell: (cell[0], cell[2]))])
def test_cell_delivers_every_sample_in_order_where_expected(cell: Cell, groups: Groups) -> None:
    """
    Two epochs, by the backend and method of the table, then nothing is left of the loader and the process ends.
    """
    reason = why_not(cell.situation)
    if reason is not None:
        pytest.skip(reason)
    run = groups[cell.method, cell.situation].result()[cell.dataset, "two"]
    assert run.complaints == [], run.output


def test_pairwise_has_every_pair() -> None:
    """
    No pair of values is left to the full matrix.
    """
    assert pairs_in(pairwise()) == pairs_in(CELLS)


def test_axes_are_divided_into_their_kinds() -> None:
    """
    Each dataset and each situation has one kind, by which the expectation is made.
    """
    assert sorted([*LOADABLE, *FORK_ONLY, *OPEN]) == sorted(DATASETS)
    assert sorted([*QUIET, *UNSAFE_TO_FORK, *NO_PROCESS]) == sorted(SITUATIONS)
    assert len(CELLS) == len(METHODS) * 14 * 14


def test_every_cell_is_expected_to_deliver() -> None:
    """
    A plain DataLoader without workers does.
    """
    assert all(expected(cell, variant).delivers for cell in CELLS for variant in VARIANTS)


def test_page_shows_what_is_expected() -> None:
    """
    The page was written by a run in which everything was as expected, and by these expectations.
    """
    written = PAGE.read_text(encoding="utf-8")
    assert tables(lambda cell, variant: str(expected(cell, variant))) in written


def test_page_has_no_words_but_backends_and_methods() -> None:
    """
    Each cell of its tables is one of the few that there can be.
    """
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [
        cells for name, *cells in (line.strip("| ").split(" | ") for line in lines) if name in DATASET_TEXTS.values()
    ]
    assert {cell for row in rows for cell in row} <= {
        *("process", "process, fork", "process, forkserver", "thread", "inline"),
        *("thread (inline)", "process (inline)"),
    }
    assert len(rows) == len(METHODS) * len(DATASETS)
