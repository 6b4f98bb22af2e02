"""
The truth tables of multiprocessing_context: what is tried first, what is tried then, and what makes fork unsafe.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from autoloader.facts import HostFacts, ProcessFacts, SystemFacts
from autoloader.plan import Choice
from autoloader.policy import find_hazard, start_candidates
from autoloader.policy.multiprocessing_context import choose_multiprocessing_context, method_name
from policy.baseline import (
    ACCELERATOR_IN_USE,
    FORKSERVER,
    MACOS,
    SPAWN,
    THREADS,
    WINDOWS,
    decision,
    plan_for,
    situation,
)

WORKERS = {"fixed.num_workers": 4}
FORK_SET = {"start_methods.in_force": "fork"}
SPAWN_SET = {"start_methods.in_force": "spawn"}
FORKSERVER_SET = {"start_methods.in_force": "forkserver"}
UNSAFE_MODULE = {"process.fork_unsafe_modules": ("polars", "jax")}
NATIVE_THREADS = {"process.native_threads": 3}
OPEN_HANDLE = {"traits.open_handle": "file"}
NO_FORKSERVER = {"start_methods.available": ("fork", "spawn")}
UNKNOWN_METHODS = {"start_methods.available": (), "start_methods.default": None}
UNKNOWN_PROCESS = {
    "process.other_threads": None,
    "process.native_threads": None,
    "process.is_accelerator_initialised": None,
}


def candidates(changes: Mapping[str, Any]) -> tuple[Choice[Any], ...]:
    """
    Return what would be tried in the baseline with *changes*.
    """
    facts, traits, request = situation(changes)
    return start_candidates(facts, request, traits.open_handle)


QUIET_ROWS = [
    pytest.param({}, "fork", "multiprocessing_context.process-default", id="baseline"),
    pytest.param(FORK_SET, "fork", "multiprocessing_context.set-by-process", id="fork-set-by-the-process"),
    pytest.param(FORKSERVER, "fork", "multiprocessing_context.quiet-process", id="python-3.14"),
    pytest.param(
        {**FORKSERVER, **FORK_SET}, "fork", "multiprocessing_context.set-by-process", id="python-3.14-fork-set"
    ),
    pytest.param(
        {**FORKSERVER, **FORKSERVER_SET},
        "forkserver",
        "multiprocessing_context.set-by-process",
        id="python-3.14-forkserver-set",
    ),
    pytest.param(SPAWN_SET, "spawn", "multiprocessing_context.set-by-process", id="spawn-set-by-the-process"),
    pytest.param(FORKSERVER_SET, "forkserver", "multiprocessing_context.set-by-process", id="forkserver-set"),
    pytest.param(UNKNOWN_PROCESS, "fork", "multiprocessing_context.process-default", id="process-unknown"),
    pytest.param(
        {**FORKSERVER, **UNKNOWN_PROCESS}, "fork", "multiprocessing_context.quiet-process", id="3.14-process-unknown"
    ),
    pytest.param({"system.platform": None}, "fork", "multiprocessing_context.process-default", id="system-unknown"),
    pytest.param(
        {"start_methods.default": None}, "fork", "multiprocessing_context.quiet-process", id="default-unknown"
    ),
    pytest.param(UNKNOWN_METHODS, None, "multiprocessing_context.process-default", id="methods-unknown"),
    pytest.param(WINDOWS, "spawn", "multiprocessing_context.process-default", id="windows"),
    pytest.param({**WINDOWS, **SPAWN_SET}, "spawn", "multiprocessing_context.set-by-process", id="windows-spawn-set"),
]

HAZARD_ROWS = [
    pytest.param(THREADS, "forkserver", "multiprocessing_context.fork-unsafe", id="a-thread"),
    pytest.param(UNSAFE_MODULE, "forkserver", "multiprocessing_context.fork-unsafe", id="an-unsafe-module"),
    pytest.param(NATIVE_THREADS, "forkserver", "multiprocessing_context.fork-unsafe", id="native-threads"),
    pytest.param(OPEN_HANDLE, "forkserver", "multiprocessing_context.fork-unsafe", id="an-open-file"),
    pytest.param(ACCELERATOR_IN_USE, "forkserver", "multiprocessing_context.fork-unsafe", id="an-accelerator"),
    pytest.param({**THREADS, **NO_FORKSERVER}, "spawn", "multiprocessing_context.fork-unsafe", id="no-forkserver"),
    pytest.param({**THREADS, **FORK_SET}, "forkserver", "multiprocessing_context.fork-unsafe", id="fork-set-a-thread"),
    pytest.param(
        {**ACCELERATOR_IN_USE, **FORK_SET},
        "forkserver",
        "multiprocessing_context.fork-unsafe",
        id="fork-set-an-accelerator",
    ),
    pytest.param({**THREADS, **SPAWN_SET}, "spawn", "multiprocessing_context.set-by-process", id="spawn-set-a-thread"),
    pytest.param(
        {**THREADS, **FORKSERVER_SET}, "forkserver", "multiprocessing_context.set-by-process", id="forkserver-set-too"
    ),
    pytest.param(
        {**FORKSERVER, **THREADS}, "forkserver", "multiprocessing_context.process-default", id="python-3.14-a-thread"
    ),
    pytest.param(
        {**FORKSERVER, **ACCELERATOR_IN_USE},
        "forkserver",
        "multiprocessing_context.process-default",
        id="python-3.14-an-accelerator",
    ),
    pytest.param(
        {**FORKSERVER, **THREADS, **FORK_SET},
        "forkserver",
        "multiprocessing_context.fork-unsafe",
        id="python-3.14-fork-set-a-thread",
    ),
    pytest.param({**WINDOWS, **THREADS}, "spawn", "multiprocessing_context.process-default", id="windows-a-thread"),
    pytest.param(MACOS, "spawn", "multiprocessing_context.process-default", id="macos"),
    pytest.param({**MACOS, **FORK_SET}, "spawn", "multiprocessing_context.fork-unsafe", id="macos-fork-set"),
    pytest.param(
        {**MACOS, "start_methods.default": "fork"},
        "spawn",
        "multiprocessing_context.fork-unsafe",
        id="macos-old-python",
    ),
    pytest.param(
        {**MACOS, **FORKSERVER_SET}, "forkserver", "multiprocessing_context.set-by-process", id="macos-forkserver-set"
    ),
]

FIXED_ROWS = [
    pytest.param({"fixed.multiprocessing_context": "spawn"}, "spawn", "multiprocessing_context.fixed", id="spawn"),
    pytest.param({"fixed.multiprocessing_context": None}, None, "multiprocessing_context.fixed", id="none"),
    pytest.param(
        {"fixed.multiprocessing_context": "fork", **THREADS},
        "fork",
        "multiprocessing_context.fixed",
        id="fork-beside-a-thread",
    ),
    pytest.param(
        {"fixed.multiprocessing_context": "fork", **MACOS}, "fork", "multiprocessing_context.fixed", id="fork-on-macos"
    ),
    pytest.param(
        {"fixed.multiprocessing_context": "spawn", **FORK_SET},
        "spawn",
        "multiprocessing_context.fixed",
        id="goes-before-the-process's",
    ),
]


@pytest.mark.parametrize(("changes", "value", "rule"), [*QUIET_ROWS, *HAZARD_ROWS, *FIXED_ROWS])
def test_first_candidate_truth_table(changes: Mapping[str, Any], value: str | None, rule: str) -> None:
    """
    A quiet process forks unless it has set another method; one in which fork is not safe uses what it has besides.
    """
    first = candidates(changes)[0]
    assert (first.value, first.rule) == (value, rule)


@pytest.mark.parametrize(
    ("changes", "value", "rule"),
    [
        pytest.param({}, None, None, id="baseline"),
        pytest.param(FORK_SET, None, None, id="fork-set"),
        pytest.param(FORKSERVER, None, None, id="python-3.14"),
        pytest.param(UNKNOWN_METHODS, None, None, id="methods-unknown"),
        pytest.param(WINDOWS, None, None, id="windows-has-no-fork"),
        pytest.param(SPAWN_SET, "fork", "multiprocessing_context.unloadable", id="spawn-set"),
        pytest.param(FORKSERVER_SET, "fork", "multiprocessing_context.unloadable", id="forkserver-set"),
        pytest.param({**SPAWN_SET, **UNKNOWN_PROCESS}, "fork", "multiprocessing_context.unloadable", id="unknown"),
        pytest.param(ACCELERATOR_IN_USE, "fork", "multiprocessing_context.unloadable", id="an-accelerator"),
        pytest.param(
            {**ACCELERATOR_IN_USE, **FORK_SET},
            "fork",
            "multiprocessing_context.unloadable",
            id="an-accelerator-fork-set",
        ),
        pytest.param(
            {**ACCELERATOR_IN_USE, **SPAWN_SET},
            "fork",
            "multiprocessing_context.unloadable",
            id="an-accelerator-spawn-set",
        ),
        pytest.param(
            {**ACCELERATOR_IN_USE, **FORKSERVER},
            "fork",
            "multiprocessing_context.unloadable",
            id="an-accelerator-python-3.14",
        ),
        pytest.param(
            {**ACCELERATOR_IN_USE, **NATIVE_THREADS},
            "fork",
            "multiprocessing_context.unloadable",
            id="an-accelerator-has-native-threads",
        ),
        pytest.param({**ACCELERATOR_IN_USE, **THREADS}, None, None, id="an-accelerator-and-a-thread"),
        pytest.param({**ACCELERATOR_IN_USE, **UNSAFE_MODULE}, None, None, id="an-accelerator-and-an-unsafe-module"),
        pytest.param({**ACCELERATOR_IN_USE, **OPEN_HANDLE}, None, None, id="an-accelerator-and-an-open-file"),
        pytest.param(THREADS, None, None, id="a-thread"),
        pytest.param({**THREADS, **SPAWN_SET}, None, None, id="a-thread-spawn-set"),
        pytest.param({**UNSAFE_MODULE, **FORKSERVER_SET}, None, None, id="an-unsafe-module-forkserver-set"),
        pytest.param({**NATIVE_THREADS, **SPAWN_SET}, None, None, id="native-threads-spawn-set"),
        pytest.param({**OPEN_HANDLE, **SPAWN_SET}, None, None, id="an-open-file-spawn-set"),
        pytest.param(MACOS, None, None, id="macos"),
        pytest.param({**MACOS, **SPAWN_SET}, None, None, id="macos-spawn-set"),
        pytest.param({**MACOS, **ACCELERATOR_IN_USE}, None, None, id="macos-an-accelerator"),
        pytest.param({"fixed.multiprocessing_context": "spawn"}, None, None, id="fixed"),
        pytest.param({"fixed.multiprocessing_context": "fork"}, None, None, id="fork-fixed"),
    ],
)
def test_second_candidate_truth_table(changes: Mapping[str, Any], value: str | None, rule: str | None) -> None:
    """
    Fork is left for a dataset that another method cannot load, but only where nothing certain speaks against it.
    """
    others = candidates(changes)[1:]
    assert [(other.value, other.rule) for other in others] == ([] if rule is None else [(value, rule)])


@pytest.mark.parametrize(
    ("changes", "value", "rule"),
    [
        pytest.param(WORKERS, "fork", "multiprocessing_context.process-default", id="workers"),
        pytest.param({}, "fork", "multiprocessing_context.process-default", id="workers-of-ours"),
        pytest.param({"fixed.num_workers": 0}, None, "multiprocessing_context.no-workers", id="no-workers"),
        pytest.param(
            {"process.is_daemonic": True}, None, "multiprocessing_context.no-workers", id="no-workers-may-start"
        ),
        pytest.param(
            {"fixed.multiprocessing_context": "spawn", "fixed.num_workers": 0},
            "spawn",
            "multiprocessing_context.fixed",
            id="fixed-without-workers",
        ),
        pytest.param(
            {**WORKERS, **OPEN_HANDLE},
            "fork",
            "multiprocessing_context.process-default",
            id="an-open-file-is-looked-for-when-workers-start",
        ),
    ],
)
def test_multiprocessing_context_of_a_plan_truth_table(
    changes: Mapping[str, Any], value: str | None, rule: str
) -> None:
    """
    A plan without workers has no start method, unless the user gave one.
    """
    assert decision(changes, "multiprocessing_context") == (value, rule)


@pytest.mark.parametrize("changes", [row.values[0] for row in (*QUIET_ROWS, *HAZARD_ROWS, *FIXED_ROWS)])
def test_chosen_context_is_the_first_candidate(changes: Mapping[str, Any]) -> None:
    """
    The policy plans with what would be tried first; whether a dataset can be loaded so is seen when a worker starts.
    """
    facts, _, request = situation(changes)
    assert choose_multiprocessing_context(facts, request) == start_candidates(facts, request)[0]


@pytest.mark.parametrize(
    ("changes", "value", "rule"),
    [
        pytest.param({}, "forkserver", "multiprocessing_context.handle-opened", id="baseline"),
        pytest.param(FORKSERVER, "forkserver", "multiprocessing_context.process-default", id="python-3.14"),
        pytest.param(SPAWN, "spawn", "multiprocessing_context.process-default", id="spawn"),
    ],
)
def test_files_that_fetching_has_opened_exclude_fork(changes: Mapping[str, Any], value: str, rule: str) -> None:
    """
    Where samples that were fetched here have left files open, no candidate forks.
    """
    facts, _, request = situation(changes)
    assert [(each.value, each.rule) for each in start_candidates(facts, request, has_opened=True)] == [(value, rule)]


A_THREAD = (
    "fork is not safe: other threads run in this process ('Thread-1 (watch)'), and a lock that one holds would never "
    "be released"
)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        pytest.param({}, "Python's default on this system is fork", id="default"),
        pytest.param(UNKNOWN_METHODS, "Python's default on this system is not known", id="unknown"),
        pytest.param(FORKSERVER, "no thread and no accelerator is in use in this process, so fork is safe", id="quiet"),
        pytest.param(SPAWN_SET, "the start method of this process is set to spawn already", id="set-by-process"),
        pytest.param(FORK_SET, "the start method of this process is set to fork already", id="fork-set-by-process"),
        pytest.param({"fixed.multiprocessing_context": "fork"}, "you set it", id="fixed"),
        pytest.param(MACOS, "Python's default on this system is spawn", id="macos"),
        pytest.param(
            {**MACOS, **FORK_SET},
            "fork is not safe: the system libraries of macOS do not survive it",
            id="macos-fork-set",
        ),
        pytest.param(THREADS, A_THREAD, id="a-thread"),
        pytest.param(
            UNSAFE_MODULE, "fork is not safe: polars is loaded, which does not survive it", id="an-unsafe-module"
        ),
        pytest.param(
            OPEN_HANDLE,
            "fork is not safe: dataset.file is open, and forked workers would share its position",
            id="an-open-file",
        ),
        pytest.param(
            ACCELERATOR_IN_USE, "fork is not safe: an accelerator is in use in this process", id="an-accelerator"
        ),
        pytest.param(
            NATIVE_THREADS, "fork is not safe: 3 threads of libraries run in this process", id="native-threads"
        ),
    ],
)
def test_candidate_says_because_of_which_fact(changes: Mapping[str, Any], because: str) -> None:
    """
    The reason names the state of the process.
    """
    assert candidates(changes)[0].because == because


def test_multiprocessing_context_without_workers_says_that_none_is_started() -> None:
    """
    A plan that starts no process says so, and not which method it would use.
    """
    assert plan_for({"fixed.num_workers": 0}).choices["multiprocessing_context"].because == "no process is started"


@pytest.mark.parametrize(
    ("changes", "because", "is_certain"),
    [
        pytest.param({}, None, None, id="quiet"),
        pytest.param({**WINDOWS, "process.other_threads": ()}, None, None, id="quiet-on-windows"),
        pytest.param({**MACOS, **THREADS}, "the system libraries of macOS do not survive it", True, id="macos-first"),
        pytest.param({**THREADS, **UNSAFE_MODULE}, A_THREAD.partition(": ")[2], True, id="threads-before-modules"),
        pytest.param(
            {"process.other_threads": ("a", "b", "c", "d", "e")},
            "other threads run in this process ('a', 'b', 'c'), and a lock that one holds would never be released",
            True,
            id="three-threads-are-named",
        ),
        pytest.param(
            {"process.other_threads": ("it's",)},
            'other threads run in this process ("it\'s"), and a lock that one holds would never be released',
            True,
            id="thread-with-a-quote-in-its-name",
        ),
        pytest.param(
            {"process.fork_unsafe_modules": ("jax",), **OPEN_HANDLE},
            "jax is loaded, which does not survive it",
            True,
            id="modules-before-files",
        ),
        pytest.param(
            {**OPEN_HANDLE, **ACCELERATOR_IN_USE},
            "dataset.file is open, and forked workers would share its position",
            True,
            id="files-before-the-accelerator",
        ),
        pytest.param(
            {**ACCELERATOR_IN_USE, **NATIVE_THREADS},
            "an accelerator is in use in this process",
            False,
            id="native-threads-are-the-accelerator's",
        ),
        pytest.param(NATIVE_THREADS, "3 threads of libraries run in this process", True, id="native-threads"),
        pytest.param(
            {**NATIVE_THREADS, "process.is_accelerator_initialised": None},
            "3 threads of libraries run in this process",
            True,
            id="native-threads-accelerator-unknown",
        ),
    ],
)
def test_hazard_is_the_first_that_speaks_against_fork(
    changes: Mapping[str, Any], because: str | None, is_certain: bool | None
) -> None:
    """
    Of several hazards one that is certain is named, so that an accelerator never hides it.
    """
    facts, traits, _ = situation(changes)
    found = find_hazard(facts, traits.open_handle)
    assert (found and found.because, found and found.is_certain) == (because, is_certain)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(HostFacts(), id="host-unknown"),
        pytest.param(HostFacts(system=SystemFacts(platform="linux"), process=ProcessFacts()), id="process-unknown"),
    ],
)
def test_hazard_of_an_unknown_process_is_none(facts: HostFacts) -> None:
    """
    What is unknown speaks against nothing.
    """
    assert find_hazard(facts) is None


class Context:
    def get_start_method(self) -> str:
        return "forkserver"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("spawn", "spawn", id="name"),
        pytest.param(Context(), "forkserver", id="context"),
    ],
)
def test_method_name_of_a_name_or_a_context_is_the_method(value: Any, name: str | None) -> None:
    """
    A context object stands for the method that it starts processes with.
    """
    assert method_name(value) == name


def test_multiprocessing_context_of_the_user_counts_by_its_method() -> None:
    """
    A context object of the user's has the obstacles of its method.
    """
    missing = {"process.reimported_main": "<stdin>", "process.is_main_missing": True}
    plan = plan_for({"fixed.multiprocessing_context": Context(), **missing})
    assert plan.choices["num_workers"].rule == "num_workers.needed"
    assert plan.choices["backend"].rule == "backend.main-missing"
    assert plan_for({"fixed.multiprocessing_context": Context(), **SPAWN}).value("backend") == "process"


def test_method_of_somebody_elses_making_counts_as_none() -> None:
    """
    Workers of joblib set "loky" for themselves, which torch would refuse.
    """
    facts, _, request = situation({"start_methods.in_force": "loky"})
    candidates = [(each.value, each.rule) for each in start_candidates(facts, request)]
    assert candidates == [("fork", "multiprocessing_context.process-default")]
