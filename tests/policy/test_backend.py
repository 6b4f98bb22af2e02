"""
The truth table of the backend, and of what keeps worker processes from starting.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.findings import CATALOGUE
from autoloader.plan import Choice
from autoloader.policy import fallback, find_obstacle, find_obstacle_to, obstacle
from autoloader.policy.backend import LONGEST_TEMP_DIR, choose_backend
from policy.baseline import (
    FORKSERVER,
    ITERABLE,
    NO_ACCELERATOR,
    SPAWN,
    THREADS,
    WINDOWS,
    decision,
    plan_for,
    situation,
)

MAIN = {"process.reimported_main": "train.py"}
MAIN_MISSING = {"process.reimported_main": "<stdin>", "process.is_main_missing": True}
NOT_PYTHON = {"process.interpreter": "/opt/blender/blender", "process.is_interpreter_python": False}
NESTED = {"process.is_dataloader_worker": True}
DAEMONIC = {"process.is_daemonic": True}
READ_ONLY = {"shared_memory.is_writable": False}
NO_SEMAPHORES = {"process.has_semaphores": False}
LONG_TEMP_DIR = {"limits.temp_dir": "/" + "x" * 75}
NO_PROCESSES = {"limits.pids_headroom": 3.0}
ONE = {"fixed.num_workers": 1}
TWO = {"fixed.num_workers": 2}

WORKERS_ROWS = [
    pytest.param({}, "process", "backend.workers", id="baseline"),
    pytest.param(NO_ACCELERATOR, "process", "backend.workers", id="no-accelerator"),
    pytest.param(SPAWN, "process", "backend.workers", id="spawn"),
    pytest.param({**SPAWN, **MAIN}, "process", "backend.workers", id="spawn-imports-main"),
    pytest.param({**FORKSERVER, **MAIN}, "process", "backend.workers", id="quiet-process-forks"),
    pytest.param({**FORKSERVER, **THREADS, **MAIN}, "process", "backend.workers", id="forkserver-imports-main"),
    pytest.param(TWO, "process", "backend.workers", id="fixed-2"),
    pytest.param({"fixed.prefetch_factor": 2}, "process", "backend.workers", id="prefetching-fixed"),
    pytest.param({**ITERABLE, "traits.num_shards": 4}, "process", "backend.workers", id="iterable-of-4-shards"),
    pytest.param({**ITERABLE, **TWO}, "process", "backend.workers", id="iterable-with-the-user's-workers"),
    pytest.param({"traits.is_in_memory": True}, "inline", "backend.no-workers", id="in-memory"),
    pytest.param({"traits.is_in_memory": True, **DAEMONIC}, "inline", "backend.no-workers", id="in-memory-in-a-daemon"),
    pytest.param({"fixed.num_workers": 0}, "inline", "backend.no-workers", id="fixed-0"),
    pytest.param({"fixed.num_workers": 0, **DAEMONIC}, "inline", "backend.no-workers", id="fixed-0-in-a-daemon"),
    pytest.param(ITERABLE, "inline", "backend.no-workers", id="iterable-not-sharded"),
    pytest.param({**ITERABLE, **NESTED}, "inline", "backend.no-workers", id="iterable-not-sharded-in-a-worker"),
    pytest.param({"traits.open_handle": "file"}, "inline", "backend.no-workers", id="open-file"),
    pytest.param({"limits.pids_headroom": 4.0}, "inline", "backend.no-workers", id="half-of-4-tasks-is-no-worker"),
]

OBSTACLE_ROWS = [
    pytest.param(NESTED, "thread", "backend.nested-worker", id="in-a-worker"),
    pytest.param({**NESTED, **TWO}, "thread", "backend.nested-worker", id="in-a-worker-fixed-2"),
    pytest.param({**NESTED, **DAEMONIC}, "thread", "backend.nested-worker", id="a-worker-is-daemonic-too"),
    pytest.param(DAEMONIC, "thread", "backend.daemonic", id="daemonic"),
    pytest.param({**DAEMONIC, **TWO}, "thread", "backend.daemonic", id="daemonic-fixed-2"),
    pytest.param({**DAEMONIC, "fixed.prefetch_factor": 2}, "thread", "backend.daemonic", id="daemonic-needed"),
    pytest.param(READ_ONLY, "thread", "backend.shared-memory-read-only", id="shm-read-only"),
    pytest.param({**READ_ONLY, **TWO}, "thread", "backend.shared-memory-read-only", id="shm-read-only-fixed-2"),
    pytest.param(NO_SEMAPHORES, "thread", "backend.no-semaphores", id="no-semaphores"),
    pytest.param({**NO_SEMAPHORES, **TWO}, "thread", "backend.no-semaphores", id="no-semaphores-fixed-2"),
    pytest.param(LONG_TEMP_DIR, "thread", "backend.temp-dir-too-long", id="temp-dir-of-76-bytes"),
    pytest.param({**LONG_TEMP_DIR, **TWO}, "thread", "backend.temp-dir-too-long", id="temp-dir-of-76-bytes-fixed-2"),
    pytest.param({**LONG_TEMP_DIR, **WINDOWS}, "process", "backend.workers", id="temp-dir-of-76-bytes-on-windows"),
    pytest.param(NO_PROCESSES, "thread", "backend.few-processes", id="3-tasks"),
    pytest.param({"limits.pids_headroom": 15.0, "fixed.num_workers": 4}, "thread", "backend.few-processes", id="15-4"),
    pytest.param({"limits.pids_headroom": 16.0, "fixed.num_workers": 4}, "process", "backend.workers", id="16-4"),
    pytest.param({**SPAWN, **NOT_PYTHON}, "thread", "backend.not-python", id="spawn-of-an-application"),
    pytest.param({**SPAWN, **NOT_PYTHON, **TWO}, "thread", "backend.not-python", id="spawn-of-an-application-fixed-2"),
    pytest.param(NOT_PYTHON, "process", "backend.workers", id="fork-of-an-application"),
    pytest.param(
        {**NOT_PYTHON, "fixed.multiprocessing_context": "forkserver"},
        "thread",
        "backend.not-python",
        id="forkserver-of-the-user's-of-an-application",
    ),
    pytest.param({**SPAWN, **MAIN_MISSING}, "thread", "backend.main-missing", id="spawn-of-standard-input"),
    pytest.param({**SPAWN, **MAIN_MISSING, **TWO}, "thread", "backend.main-missing", id="spawn-of-stdin-fixed-2"),
    pytest.param({**MAIN_MISSING, **THREADS}, "thread", "backend.main-missing", id="forkserver-for-a-thread-of-stdin"),
    pytest.param(MAIN_MISSING, "process", "backend.workers", id="fork-of-standard-input"),
]


@pytest.mark.parametrize(("changes", "value", "rule"), [*WORKERS_ROWS, *OBSTACLE_ROWS])
def test_backend_truth_table(changes: Mapping[str, Any], value: str, rule: str) -> None:
    """
    Batches load in worker processes where there are workers that may start, else in the training process.
    """
    assert decision(changes, "backend") == (value, rule)


OBSTACLES = [
    pytest.param(NESTED, id="nested-worker"),
    pytest.param(DAEMONIC, id="daemonic"),
    pytest.param(READ_ONLY, id="shared-memory-read-only"),
    pytest.param(NO_SEMAPHORES, id="no-semaphores"),
    pytest.param(LONG_TEMP_DIR, id="temp-dir-too-long"),
    pytest.param(NO_PROCESSES, id="few-processes"),
    pytest.param({**SPAWN, **NOT_PYTHON}, id="not-python"),
    pytest.param({**SPAWN, **MAIN_MISSING}, id="main-missing"),
]


@pytest.mark.parametrize("changes", OBSTACLES)
def test_obstacle_for_an_iterable_style_dataset_means_inline(changes: Mapping[str, Any]) -> None:
    """
    A stream is never tried in a thread, whose first batch might have to be loaded again.
    """
    sharded = plan_for({**ITERABLE, "traits.num_shards": 4, **changes})
    asked = plan_for({**ITERABLE, **TWO, **changes})
    assert (sharded.value("num_workers"), sharded.value("backend")) == (0, "inline")
    assert (asked.value("num_workers"), asked.value("backend")) == (2, "inline")
    assert sharded.choices["backend"].rule == asked.choices["backend"].rule != "backend.no-workers"


@pytest.mark.parametrize("changes", OBSTACLES)
def test_obstacle_has_one_reason_in_workers_backend_and_note(changes: Mapping[str, Any]) -> None:
    """
    What keeps our workers from starting sets their number, the backend and the note, all in the same words.
    """
    plan = plan_for(changes)
    workers, backend = plan.choices["num_workers"], plan.choices["backend"]
    assert workers.rule.partition(".")[2] == backend.rule.partition(".")[2]
    assert workers.because == backend.because
    assert [(note.finding, backend.because in note.text) for note in plan.notes] == [
        (f"process.{backend.rule.partition('.')[2]}", True)
    ]


EMOJI = "/tmp/" + "\N{GRINNING FACE}" * 18
"""
77 bytes, though only 23 characters.
"""
NOT_UTF_8 = "/tmp/" + "\udcff" * 71
"""
76 bytes of which the last 71 are not UTF-8, as ``os.fsdecode`` gives them.
"""

FIND_ROWS = [
    pytest.param({}, 1, None, None, id="none"),
    pytest.param(
        {
            "process.is_dataloader_worker": None,
            "process.is_daemonic": None,
            "process.has_semaphores": None,
            "shared_memory.is_writable": None,
            "limits.temp_dir": None,
            "limits.pids_headroom": None,
        },
        99,
        None,
        None,
        id="state-unknown",
    ),
    pytest.param(
        {**NESTED, **DAEMONIC},
        1,
        "nested-worker",
        "this process is itself a worker of a DataLoader",
        id="a-worker-is-daemonic-too",
    ),
    pytest.param(
        {**DAEMONIC, **READ_ONLY},
        1,
        "daemonic",
        "this process is daemonic, and Python lets it have no children",
        id="daemonic",
    ),
    pytest.param(
        {**READ_ONLY, **NO_SEMAPHORES},
        1,
        "shared-memory-read-only",
        "this process may not write to /dev/shm, through which batches travel",
        id="read-only-shm-has-no-semaphores-either",
    ),
    pytest.param(
        {**NO_SEMAPHORES, **LONG_TEMP_DIR},
        1,
        "no-semaphores",
        "the system grants no semaphore, which every queue between processes needs",
        id="no-semaphores",
    ),
    pytest.param({"limits.temp_dir": "/" + "x" * 74}, 1, None, None, id="temp-dir-of-75-bytes"),
    pytest.param(
        {**LONG_TEMP_DIR, **NO_PROCESSES},
        1,
        "temp-dir-too-long",
        f"the temporary folder /{'x' * 75} is 76 bytes long, and sockets between processes fit up to 75",
        id="temp-dir-of-76-bytes",
    ),
    pytest.param({**LONG_TEMP_DIR, "system.platform": "windows"}, 1, None, None, id="windows-has-no-such-sockets"),
    pytest.param({"limits.temp_dir": ""}, 1, None, None, id="temp-dir-empty"),
    pytest.param(
        {"limits.temp_dir": EMOJI},
        1,
        "temp-dir-too-long",
        f"the temporary folder {EMOJI} is 77 bytes long, and sockets between processes fit up to 75",
        id="bytes-count-not-characters",
    ),
    pytest.param(
        {"limits.temp_dir": NOT_UTF_8},
        1,
        "temp-dir-too-long",
        f"the temporary folder {NOT_UTF_8} is 76 bytes long, and sockets between processes fit up to 75",
        id="bytes-that-are-not-utf-8",
    ),
    pytest.param({"limits.pids_headroom": 4.0}, 1, None, None, id="4-tasks-are-one-worker"),
    pytest.param({"limits.pids_headroom": 12.0}, 3, None, None, id="3-workers-of-12-tasks"),
    pytest.param(
        {"limits.pids_headroom": 11.0},
        3,
        "few-processes",
        "num_workers=3 needs about 12 processes and threads, and 11 more are allowed",
        id="3-workers-of-11-tasks",
    ),
    pytest.param(
        {"limits.pids_headroom": 0.0},
        2,
        "few-processes",
        "num_workers=2 needs about 8 processes and threads, and 0 more are allowed",
        id="no-task-left",
    ),
    pytest.param({"limits.processes_soft": 1.0}, 3, None, None, id="root-is-exempt-from-the-user's-limit"),
    pytest.param({"limits.processes_soft": 50.0, "limits.processes_now": 42}, 2, None, None, id="8-left-for-2"),
    pytest.param(
        {"limits.processes_soft": 50.0, "limits.processes_now": 43},
        2,
        "few-processes",
        "num_workers=2 needs about 8 processes and threads, and 7 more are allowed",
        id="7-left-for-2",
    ),
    pytest.param(
        {"limits.processes_soft": 50.0, "limits.processes_now": 60},
        1,
        "few-processes",
        "num_workers=1 needs about 4 processes and threads, and 0 more are allowed",
        id="limit-was-lowered",
    ),
]


@pytest.mark.parametrize(("changes", "num_workers", "rule", "because"), FIND_ROWS)
def test_obstacle_names_why_no_worker_may_start(
    changes: Mapping[str, Any], num_workers: int, rule: str | None, because: str | None
) -> None:
    """
    What keeps workers from starting by any method has a rule and a reason; of two, what comes first is named.
    """
    facts, _, _ = situation(changes)
    found = find_obstacle(facts, num_workers)
    assert (found and found.rule, found and found.because) == (rule, because)


def test_longest_temp_dir_leaves_room_for_a_socket_of_multiprocessing() -> None:
    """
    108 bytes of an address, with the folder and the name that multiprocessing adds and the zero at its end.
    """
    assert len("/pymp-xxxxxxxx" + "/listener-xxxxxxxx" + "\0") + LONGEST_TEMP_DIR == 108


OTHER_PYTHON = {**NOT_PYTHON, "process.interpreter": None}
SPAWN_NOT_PYTHON = "spawn would start /opt/blender/blender for each worker, which is not a Python interpreter"
FORKSERVER_NOT_PYTHON = "forkserver would start no program for each worker, which is not a Python interpreter"
SPAWN_NO_MAIN = "each worker that spawn starts would import <stdin>, which does not exist"
FORKSERVER_NO_MAIN = "each worker that forkserver starts would import <stdin>, which does not exist"


@pytest.mark.parametrize(
    ("method", "changes", "rule", "because"),
    [
        pytest.param("fork", {**NOT_PYTHON, **MAIN_MISSING}, None, None, id="fork-has-none"),
        pytest.param(None, {**NOT_PYTHON, **MAIN_MISSING}, None, None, id="method-unknown"),
        pytest.param("spawn", {}, None, None, id="spawn"),
        pytest.param("spawn", MAIN, None, None, id="spawn-with-main"),
        pytest.param(
            "spawn",
            {"process.is_interpreter_python": None, "process.is_main_missing": None, "process.interpreter": None},
            None,
            None,
            id="state-unknown",
        ),
        pytest.param("spawn", NOT_PYTHON, "not-python", SPAWN_NOT_PYTHON, id="spawn-of-an-application"),
        pytest.param("forkserver", OTHER_PYTHON, "not-python", FORKSERVER_NOT_PYTHON, id="forkserver-of-nothing"),
        pytest.param("spawn", MAIN_MISSING, "main-missing", SPAWN_NO_MAIN, id="spawn-of-standard-input"),
        pytest.param("forkserver", MAIN_MISSING, "main-missing", FORKSERVER_NO_MAIN, id="forkserver-of-standard-input"),
        pytest.param("spawn", {**MAIN_MISSING, **NOT_PYTHON}, "not-python", SPAWN_NOT_PYTHON, id="both"),
    ],
)
def test_obstacle_to_a_start_method_names_what_a_child_would_lack(
    method: str | None, changes: Mapping[str, Any], rule: str | None, because: str | None
) -> None:
    """
    Spawn and forkserver start a program, which imports the main module; a forked worker has both already.
    """
    facts, _, _ = situation(changes)
    found = find_obstacle_to(method, facts)
    assert (found and found.rule, found and found.because) == (rule, because)


def test_obstacle_takes_its_words_from_the_catalogue() -> None:
    """
    The sentence of a finding becomes a clause, and its fix stays as it is.
    """
    found = obstacle("process.main-missing", method="spawn", main="train.py")
    assert found.rule == "main-missing"
    assert found.because == "each worker that spawn starts would import train.py, which does not exist"
    assert found.fix == "Save the code as a file and run that, or pass num_workers=0."
    assert (found.note.finding, found.note.text) == (
        "process.main-missing",
        (
            "No worker process starts: each worker that spawn starts would import train.py, which does not exist. "
            "Save the code as a file and run that, or pass num_workers=0."
        ),
    )


def test_obstacle_of_an_unknown_finding_is_a_mistake_of_ours() -> None:
    """
    An obstacle without words in the catalogue never passes silently.
    """
    with pytest.raises(KeyError):
        obstacle("process.no-such-thing")


@pytest.mark.parametrize(
    ("style", "value"), [pytest.param("map", "thread", id="map"), pytest.param("iterable", "inline", id="iterable")]
)
def test_fallback_depends_on_whether_the_first_batch_can_be_loaded_twice(style: str, value: str) -> None:
    """
    A map-style dataset loads in a thread; a stream could lose items by a second attempt, so it loads inline.
    """
    choice = fallback(obstacle("process.daemonic"), style)
    assert choice == Choice(
        value=value, rule="backend.daemonic", because="this process is daemonic, and Python lets it have no children"
    )


@pytest.mark.parametrize(
    ("number", "rule", "expected"),
    [
        pytest.param(0, "num_workers.daemonic", "backend.daemonic", id="none-because-of-the-obstacle"),
        pytest.param(0, "num_workers.in-memory", "backend.no-workers", id="none-for-another-reason"),
        pytest.param(0, "num_workers.fixed", "backend.no-workers", id="none-by-the-user"),
        pytest.param(3, "num_workers.fixed", "backend.daemonic", id="some-by-the-user"),
        pytest.param(3, "num_workers.cpu-count", "backend.daemonic", id="some-of-ours"),
    ],
)
def test_backend_names_an_obstacle_only_where_workers_are_wanted(number: int, rule: str, expected: str) -> None:
    """
    Where there is nothing to start, what keeps it from starting is no reason.
    """
    facts, _, _ = situation(DAEMONIC)
    workers = Choice(value=number, rule=rule, because="")
    assert choose_backend(facts, workers, "fork", "map").rule == expected


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "worker processes can start here", id="workers"),
        pytest.param({"traits.is_in_memory": True}, "there are no workers", id="no-workers"),
        pytest.param({**TWO, **NESTED}, "this process is itself a worker of a DataLoader", id="nested-worker"),
        pytest.param({**THREADS, **MAIN_MISSING}, FORKSERVER_NO_MAIN, id="main-missing"),
    ],
)
def test_backend_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names what keeps workers from starting.
    """
    assert plan_for(changes).choices["backend"].because == because


def test_every_obstacle_is_a_finding_with_rules_of_both_arguments() -> None:
    """
    What find_obstacle and find_obstacle_to name stands in the catalogue of findings.
    """
    rules = [plan_for(row.values[0]).choices["backend"].rule for row in OBSTACLES]
    assert [row.id for row in OBSTACLES] == [rule.removeprefix("backend.") for rule in rules]
    assert [f"process.{row.id}" in CATALOGUE for row in OBSTACLES] == [True] * len(OBSTACLES)
