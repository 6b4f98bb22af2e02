"""
Where workers cannot start: what is tried, where batches load instead, and what is said.
"""

import itertools
import multiprocessing
import os
import pickle
import signal
import sqlite3
import sys
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import datasets
from autoloader import AutoloaderWarning, auto_loader, plan_loader
from autoloader.errors import ArgumentError, MissingMainGuardError, WorkersCannotStartError
from autoloader.start import main_guard, round_trip
from autoloader.start.main_guard import Place
from autoloader.start.round_trip import ChildStartError, Unloadable

NEEDS_FORK = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")

PLACE = Place("/home/me/train.py", 7, "main()", '    if __name__ == "__main__":\n        main()')


class Trips:
    """
    Stands for the child that tries to load the dataset: what it would say, and the methods it was asked for.
    """

    def __init__(self) -> None:
        self.answer: Unloadable | Exception | None = None
        self.methods: list[str] = []

    def __call__(self, method: str, parts: dict[str, Any]) -> Unloadable | None:
        assert list(parts) == ["dataset", "collate_fn", "worker_init_fn"]
        self.methods.append(method)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture(autouse=True)
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """
    Let the round trip answer what a test says.
    """
    known = Trips()
    monkeypatch.setattr(round_trip, "find_unloadable", known)
    return known


LAMBDA = Unloadable("dataset.transform", "it is a lambda", "Make it a function at the top level of a module")


def backend(loader: Any) -> tuple[str, str]:
    """
    Return where batches load, and the rule.
    """
    choice = loader.plan.choices["backend"]
    return choice.value, choice.rule


def context(loader: Any) -> tuple[str, str]:
    """
    Return the start method, and the rule.
    """
    choice = loader.plan.choices["multiprocessing_context"]
    return choice.value, choice.rule.partition(".")[2]


def pids(loader: Any) -> set[int]:
    """
    Return the processes that fetched the samples of one epoch.
    """
    return {int(pid) for batch in loader for pid in batch}


OBSTACLES = [
    pytest.param(
        "process",
        {"is_daemonic": True},
        "daemonic",
        "this process is daemonic, and Python lets it have no children",
        "Iterate in a process that is not daemonic (multiprocessing.Process(daemon=False), concurrent.futures), "
        "or pass num_workers=0.",
        id="daemonic",
    ),
    pytest.param(
        "process",
        {"is_dataloader_worker": True},
        "nested-worker",
        "this process is itself a worker of a DataLoader",
        "Load in the training process what the worker loads here, or pass num_workers=0 to the inner loader.",
        id="worker",
    ),
    pytest.param(
        "process",
        {"has_semaphores": False},
        "no-semaphores",
        "the system grants no semaphore, which every queue between processes needs",
        "Mount a writable tmpfs at /dev/shm, or pass num_workers=0.",
        id="semaphores",
    ),
    pytest.param(
        "limits",
        {"temp_dir": "/tmp/" + "x" * 85},
        "temp-dir-too-long",
        f"the temporary folder /tmp/{'x' * 85} is 90 bytes long, and sockets between processes fit up to 75",
        "Set TMPDIR to a shorter path before Python starts (export TMPDIR=/tmp), or pass num_workers=0.",
        id="temp-dir",
        marks=pytest.mark.skipif(sys.platform == "win32", reason="pipes of Windows do not lie in a folder"),
    ),
]


@pytest.mark.parametrize(("group", "facts", "rule", "because", "fix"), OBSTACLES)
def test_users_workers_that_cannot_start_are_one_warning(
    host: Any, group: str, facts: dict[str, Any], rule: str, because: str, fix: str
) -> None:
    """
    The batches come all the same, the user's number stands, and the reason is said once, at the user's line.
    """
    host.change(group, **facts)
    loader = auto_loader(datasets.Pids(), 4, num_workers=2, prefetch_factor=3)
    with pytest.warns(AutoloaderWarning) as caught:
        assert pids(loader) == {os.getpid()}
    assert len(list(loader)) == 10
    assert (loader.num_workers, *backend(loader)) == (2, "thread", f"backend.{rule}")
    text = (
        f"backend.{rule}: num_workers=2 starts no process, because {because}; batches load in the training process. "
        f"{fix} To silence this: warnings.filterwarnings('ignore', 'backend.{rule}')."
    )
    assert [str(warning.message) for warning in caught] == [text]
    assert caught[0].filename == __file__
    assert loader.plan.notes[-1].finding == f"process.{rule}"


@pytest.mark.parametrize(("group", "facts", "rule", "because", "fix"), OBSTACLES[:2])
def test_our_workers_that_cannot_start_are_no_warning_where_nothing_can_be_done(
    host: Any, group: str, facts: dict[str, Any], rule: str, because: str, fix: str
) -> None:
    """
    In a daemonic process and in a worker we choose none, and the plan says why.
    """
    host.change(group, **facts)
    loader = auto_loader(datasets.Pids(), 4)
    assert pids(loader) == {os.getpid()}
    choice = loader.plan.choices["num_workers"]
    assert (choice.value, choice.rule, choice.because) == (0, f"num_workers.{rule}", because)
    assert backend(loader) == ("thread", f"backend.{rule}")


def test_our_workers_that_cannot_start_are_a_warning_where_something_can_be_done(host: Any) -> None:
    """
    A system without semaphores costs us the workers, too.
    """
    host.change("process", has_semaphores=False)
    loader = auto_loader(datasets.Pids(), 4)
    with pytest.warns(AutoloaderWarning, match="^backend.no-semaphores: no worker process starts"):
        assert pids(loader) == {os.getpid()}


def test_warning_is_left_to_the_first_rank_of_a_node(host: Any) -> None:
    """
    Eight ranks say it once, not eight times.
    """
    host.change("process", is_daemonic=True)
    host.change("job", local_rank=3)
    assert len(list(auto_loader(datasets.Pids(), 4, num_workers=2))) == 10


def test_iterable_dataset_is_not_moved_to_a_thread(host: Any) -> None:
    """
    A stream whose first batch failed in a thread could not be asked for it again, so it loads inline.
    """
    host.change("process", is_daemonic=True)
    loader = auto_loader(datasets.SharedStream(8), 2, num_workers=2)
    with pytest.warns(AutoloaderWarning):
        assert torch.cat(list(loader)).tolist() == list(range(8))
    assert backend(loader) == ("inline", "backend.daemonic")


class Seeks(datasets.FromFile):
    """
    Takes a moment between its seek and its read.
    """

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> int:
        self.file.seek(index)
        time.sleep(0.002)
        return self.file.read(1)[0]


@pytest.mark.filterwarnings("ignore:backend")
@pytest.mark.parametrize("num_workers", [None, 2])
def test_threads_of_two_iterators_do_not_move_each_others_file(
    num_workers: int | None, host: Any, tmp_path: Path
) -> None:
    """
    Of one that was left while its thread loads on, and of two side by side.
    """
    host.change("process", is_daemonic=True)
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(200)))
    with path.open("rb", buffering=0) as file:
        loader = auto_loader(Seeks(file), 4, num_workers=num_workers)
        for _ in range(4):
            assert torch.cat(list(itertools.islice(loader, 5))).tolist() == list(range(20))
        expected = torch.arange(40).split(4)
        for one, two, right in zip(loader, loader, expected, strict=False):
            assert (one.tolist(), two.tolist()) == (right.tolist(), right.tolist())
        assert loader.plan.value("backend") == "thread"
        loader.close()


def test_dataset_that_a_thread_cannot_use_loads_inline(host: Any) -> None:
    """
    A sqlite connection answers only the thread that opened it: a batch is loaded again, and all come once.
    """
    host.change("process", is_daemonic=True)
    dataset = datasets.Numbers(12)
    dataset.connection = sqlite3.connect(":memory:")  # type: ignore[attr-defined]
    loader = auto_loader(datasets.Asks(dataset, lambda: dataset.connection.execute("select 1")), 4)
    assert torch.cat(list(loader))[:, 0].tolist() == list(range(12))
    choice = loader.plan.choices["backend"]
    because = "a batch could not be loaded in a thread (ProgrammingError)"
    assert (choice.value, choice.rule, choice.because) == ("inline", "backend.not-in-a-thread", because)


def test_dataset_that_draws_random_numbers_loads_inline(host: Any) -> None:
    """
    Draws of a thread would mix with the training loop's: the batches are those of workers instead.
    """
    drawn = []
    for is_daemonic in (False, True):
        host.change("process", is_daemonic=is_daemonic)
        torch.manual_seed(3)
        with auto_loader(datasets.Draws(12), 4, shuffle=True) as loader:
            drawn.append([batch.tolist() for batch in loader])
    assert drawn[0] == drawn[1]
    assert backend(loader) == ("inline", "backend.not-in-a-thread")


@NEEDS_FORK
def test_dataset_that_cannot_be_loaded_keeps_fork_in_a_quiet_process(host: Any, trips: Trips) -> None:
    """
    The process's own method is tried first; the plan says what it could not load.
    """
    host.change("start_methods", in_force="forkserver")
    trips.answer = LAMBDA
    with auto_loader(datasets.Pids(), 4, num_workers=2) as loader:
        assert os.getpid() not in pids(loader)
        assert context(loader) == ("fork", "unloadable")
        because = loader.plan.choices["multiprocessing_context"].because
    text = "fork is safe enough here, and a worker that forkserver starts cannot load dataset.transform: it is a lambda"
    assert because == text
    assert trips.methods == ["forkserver"]
    assert loader.plan.notes == ()


@NEEDS_FORK
def test_dataset_that_cannot_be_loaded_beside_a_thread_loads_in_a_thread(host: Any, trips: Trips) -> None:
    """
    Neither fork nor the fork server will do; the warning names the thread, the lambda and both ways out.
    """
    host.change("process", other_threads=("writer",))
    trips.answer = LAMBDA
    loader = auto_loader(datasets.Pids(), 4, num_workers=2)
    with pytest.warns(AutoloaderWarning) as caught:
        assert pids(loader) == {os.getpid()}
    assert backend(loader) == ("thread", "backend.unloadable")
    assert [str(warning.message) for warning in caught] == [
        (
            "backend.unloadable: num_workers=2 starts no process, because fork is not safe: other threads run in this "
            "process ('writer'), and a lock that one holds would never be released, and a worker that forkserver "
            "starts cannot load dataset.transform: it is a lambda; batches load in the training process. Make it a "
            "function at the top level of a module. Or pass multiprocessing_context='fork', if fork is safe here after "
            "all. "
            "To silence this: warnings.filterwarnings('ignore', 'backend.unloadable')."
        )
    ]


@NEEDS_FORK
def test_dataset_that_cannot_be_loaded_keeps_fork_beside_an_accelerator(host: Any, trips: Trips) -> None:
    """
    A forked worker that does not touch the accelerator is fine, and faster than a thread.
    """
    host.change("process", is_accelerator_initialised=True)
    trips.answer = LAMBDA
    with auto_loader(datasets.Pids(), 4, num_workers=2) as loader:
        assert os.getpid() not in pids(loader)
        assert context(loader) == ("fork", "unloadable")


@NEEDS_FORK
def test_open_file_is_not_shared_by_forked_workers(host: Any, trips: Trips, tmp_path: Any) -> None:
    """
    Forked workers would read each other's data, so the file stays in this process.
    """
    (tmp_path / "data").write_bytes(bytes(range(12)))
    trips.answer = Unloadable("dataset.file", "it is open", "Open it later")
    with open(tmp_path / "data", "rb") as file, pytest.warns(AutoloaderWarning, match="dataset.file is open"):
        batches = list(auto_loader(datasets.FromFile(file), 4, num_workers=2))
    assert torch.cat(batches).tolist() == list(range(12))


@NEEDS_FORK
def test_fork_of_the_users_own_in_a_process_with_threads_is_one_warning(host: Any) -> None:
    """
    What the user sets stands; that it may hang is said.
    """
    host.change("process", other_threads=("writer",))
    loader = auto_loader(datasets.Pids(), 4, num_workers=1, multiprocessing_context="fork")
    with pytest.warns(AutoloaderWarning) as caught:
        assert os.getpid() not in pids(loader)
    assert [str(warning.message) for warning in caught] == [
        (
            "backend.fork-unsafe: workers are forked, as you set it, but other threads run in this process ('writer'), "
            "and a lock that one holds would never be released; they may hang. Leave multiprocessing_context out and "
            "autoloader chooses. To silence this: warnings.filterwarnings('ignore', 'backend.fork-unsafe')."
        )
    ]
    assert caught[0].filename == __file__


@NEEDS_FORK
def test_dataset_whose_copies_do_not_fit_is_not_copied_where_torch_would_share_it(host: Any) -> None:
    """
    Forked workers would share it; where fork is not safe, copies for two workers are over half of what is free.
    """
    host.change("process", other_threads=("writer",))
    host.change("memory", headroom_bytes=float(15 << 20))
    dataset = datasets.Pids()
    dataset.table = np.zeros(4 << 20, dtype=np.uint8)  # type: ignore[attr-defined]
    loader = auto_loader(dataset, 4, num_workers=2)
    with pytest.warns(
        AutoloaderWarning,
        match="^backend.too-large: .* copies of the dataset for 2 workers would take 8 MiB, and 15 MiB",
    ):
        assert pids(loader) == {os.getpid()}
    assert backend(loader) == ("thread", "backend.too-large")
    host.change("process", other_threads=())
    with auto_loader(dataset, 4, num_workers=2) as forked:
        assert os.getpid() not in pids(forked)


@NEEDS_FORK
def test_workers_that_are_not_forked_where_torch_would_fork_them_are_one_warning(host: Any) -> None:
    """
    They import the modules anew, and do not have what was set in global variables since.
    """
    host.change("process", other_threads=("writer",))
    with auto_loader(datasets.Pids(), 4, num_workers=1, persistent_workers=True) as loader:
        with pytest.warns(AutoloaderWarning) as caught:
            assert os.getpid() not in pids(loader)
        assert os.getpid() not in pids(loader)
    assert context(loader) == ("forkserver", "fork-unsafe")
    assert [str(warning.message) for warning in caught] == [
        (
            "multiprocessing_context.fork-unsafe: workers start by forkserver, because fork is not safe: other threads "
            "run in this process ('writer'), and a lock that one holds would never be released; they import your "
            "modules anew, so that global variables, the environment and torch's defaults are not as you set them at "
            "run time. Pass multiprocessing_context='forkserver' if that is fine, or 'fork' if fork is safe here after "
            "all. To silence this: warnings.filterwarnings('ignore', 'multiprocessing_context.fork-unsafe')."
        )
    ]
    assert caught[0].filename == __file__


@pytest.fixture
def _unguarded(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let the process be a script that spawns, and that stands at a line without a main guard.
    """
    host.change("start_methods", in_force="spawn")
    host.change("process", reimported_main="/home/me/train.py")
    monkeypatch.setattr(main_guard, "find_unguarded", lambda: PLACE)


@pytest.mark.usefixtures("_unguarded")
def test_missing_guard_with_workers_of_the_users_is_an_error(trips: Trips) -> None:
    """
    It names file and line and shows what to write; nothing was started to see it.
    """
    loader = auto_loader(datasets.Pids(), 4, num_workers=2)
    with pytest.raises(MissingMainGuardError) as raised:
        iter(loader)
    assert str(raised.value) == (
        "num_workers=2 cannot start: each worker that spawn starts imports /home/me/train.py again, and line 7 of it, "
        "'main()', would start workers there, too. Write it like this:\n\n"
        '    if __name__ == "__main__":\n        main()\n\nThen only this process runs it.'
    )
    assert trips.methods == []


@pytest.mark.usefixtures("_unguarded")
def test_missing_guard_with_workers_of_ours_loads_without_processes() -> None:
    """
    What ran with a plain DataLoader runs, and what is missing is said once.
    """
    loader = auto_loader(datasets.Pids(), 4)
    with pytest.warns(AutoloaderWarning, match="^backend.missing-main-guard: .*line 7 of it"):
        assert pids(loader) == {os.getpid()}
    assert backend(loader) == ("thread", "backend.missing-main-guard")


@pytest.mark.usefixtures("_unguarded")
def test_missing_guard_is_an_error_where_the_user_wants_one() -> None:
    """
    on_unsafe="raise" asks for it also where the workers are our own choice.
    """
    with pytest.raises(MissingMainGuardError):
        iter(auto_loader(datasets.Pids(), 4, on_unsafe="raise"))


@NEEDS_FORK
def test_missing_guard_does_not_matter_where_plain_workers_would_fork(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A script that forks by default, and has a thread, loads in a thread: its author cannot know of any guard.
    """
    host.change("process", other_threads=("writer",), reimported_main="/home/me/train.py")
    monkeypatch.setattr(main_guard, "find_unguarded", lambda: PLACE)
    loader = auto_loader(datasets.Pids(), 4, num_workers=2)
    with pytest.warns(AutoloaderWarning, match="^backend.missing-main-guard"):
        assert pids(loader) == {os.getpid()}


def test_unsafe_start_is_an_error_where_the_user_wants_one(host: Any) -> None:
    """
    on_unsafe="raise" turns every fallback into an error, with the same reason and the same way out.
    """
    host.change("process", is_daemonic=True)
    with pytest.raises(WorkersCannotStartError) as raised:
        iter(auto_loader(datasets.Pids(), 4, num_workers=2, on_unsafe="raise"))
    assert str(raised.value).startswith("num_workers=2 cannot start: this process is daemonic, and Python lets it have")


def test_unsafe_start_is_an_error_for_workers_of_ours_too(host: Any) -> None:
    """
    The text does not speak of a number that nobody set.
    """
    host.change("process", is_daemonic=True)
    with pytest.raises(WorkersCannotStartError, match="^A worker process cannot start: this process is daemonic"):
        iter(auto_loader(datasets.Pids(), 4, on_unsafe="raise"))


def test_on_unsafe_takes_two_words() -> None:
    """
    Anything else is an error at once.
    """
    with pytest.raises(ArgumentError) as raised:
        auto_loader(datasets.Numbers(), on_unsafe="ignore")
    assert str(raised.value) == (
        "on_unsafe='ignore' is not known: the argument takes 'fallback' or 'raise'. "
        "Pass one of these, or leave on_unsafe out."
    )


def test_child_that_cannot_be_started_is_an_obstacle(host: Any, trips: Trips) -> None:
    """
    Where not even one child starts, no worker would.
    """
    host.change("start_methods", in_force="spawn", available=("spawn",))
    trips.answer = ChildStartError("OSError: no more processes")
    loader = auto_loader(datasets.Pids(), 4, num_workers=2)
    with pytest.warns(AutoloaderWarning, match="could not be started: OSError: no more processes"):
        assert pids(loader) == {os.getpid()}
    assert backend(loader) == ("thread", "backend.start-failed")


def test_worker_that_the_system_does_not_start_ends_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The first worker starts and the second does not: the first is ended, and all batches come once.
    """
    start, calls = BaseProcess.start, iter([True])

    def start_once(process: BaseProcess) -> None:
        if not next(calls, False):
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(BaseProcess, "start", start_once)
    loader = auto_loader(datasets.Numbers(12), 4, num_workers=2)
    with pytest.warns(AutoloaderWarning, match="BlockingIOError") as said:
        assert torch.cat(list(loader))[:, 0].tolist() == list(range(12))
    assert [warning.filename for warning in said] == [__file__]
    assert backend(loader) == ("thread", "backend.start-failed")


@NEEDS_FORK
def test_kept_workers_that_died_where_no_others_start_end_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is said as where the first ones do not start.
    """

    def refuse(process: BaseProcess) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with auto_loader(datasets.Pids(), 4, num_workers=2, persistent_workers=True) as loader:
        for pid in pids(loader):
            os.kill(pid, signal.SIGKILL)
        for child in multiprocessing.active_children():
            child.join()
        monkeypatch.setattr(BaseProcess, "start", refuse)
        with pytest.warns(AutoloaderWarning, match="BlockingIOError"):
            assert pids(loader) == {os.getpid()}
        assert backend(loader) == ("thread", "backend.start-failed")


@pytest.mark.slow_spawn
def test_workers_are_tried_again_in_the_next_epoch(host: Any) -> None:
    """
    What stood in the way may be gone: nothing is remembered against the loader.
    """
    host.change("process", is_daemonic=True)
    loader = auto_loader(datasets.Pids(), 4, num_workers=2)
    with pytest.warns(AutoloaderWarning):
        assert pids(loader) == {os.getpid()}
    host.change("process", is_daemonic=False)
    with loader:
        assert os.getpid() not in pids(loader)
    assert loader.plan.notes == ()


def test_loader_that_was_planned_without_workers_stays_without_when_the_obstacle_goes(host: Any) -> None:
    """
    It loads inline then, as its plan has no workers; a new loader would have some.
    """
    host.change("process", is_daemonic=True)
    loader = auto_loader(datasets.Pids(), 4)
    host.change("process", is_daemonic=False)
    assert pids(loader) == {os.getpid()}
    assert backend(loader) == ("inline", "backend.no-workers")


def test_limit_that_holds_no_worker_at_all_is_an_obstacle(host: Any) -> None:
    """
    Four processes and threads a worker do not fit into three.
    """
    host.change("limits", pids_headroom=3.0)
    loader = auto_loader(datasets.Pids(), 4)
    with pytest.warns(AutoloaderWarning, match="^backend.few-processes: no worker process starts"):
        assert pids(loader) == {os.getpid()}
    assert backend(loader) == ("thread", "backend.few-processes")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no thread to CPUs")
def test_workers_get_the_cpus_back_that_openmp_took_away(host: Any) -> None:
    """
    They would inherit the mask of the thread that starts them.
    """
    before = os.sched_getaffinity(0)
    host.change("cpu", affinity=tuple(sorted(before)), affinity_now=(min(before),))
    os.sched_setaffinity(0, {min(before)})
    try:
        with auto_loader(datasets.Masks(4), 1, num_workers=1, collate_fn=list) as loader:
            assert list(loader) == [[before]] * 4
    finally:
        os.sched_setaffinity(0, before)


def test_plan_loader_sees_whether_a_worker_could_load_the_dataset(host: Any, trips: Trips) -> None:
    """
    It is asked for settings of a plain DataLoader, which has no fallback.
    """
    host.change("start_methods", in_force="spawn", available=("spawn",))
    trips.answer = LAMBDA
    plan = plan_loader(datasets.Pids(), 4)
    assert trips.methods == ["spawn"]
    assert plan.as_kwargs() == {"num_workers": 0, "pin_memory": False}
    assert [note.finding for note in plan.notes] == ["process.unloadable"]


def test_making_a_loader_tries_nothing(host: Any, trips: Trips) -> None:
    """
    Constructing is legal anywhere: no child, no look at the stack.
    """
    host.change("start_methods", in_force="spawn")
    loader = auto_loader(datasets.Pids(), 4, num_workers=2)
    assert trips.methods == []
    assert pickle.loads(pickle.dumps(loader)).num_workers == 2


def test_loader_in_a_worker_that_is_still_starting_neither_probes_nor_speaks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    The script is imported again there: making a loader is fine, iterating is not.
    """
    monkeypatch.setattr(main_guard, "is_starting_worker", lambda: True)
    with caplog.at_level("INFO", "autoloader"):
        loader = auto_loader(datasets.Numbers(), 4, num_workers=2)
    assert caplog.records == []
    with pytest.raises(MissingMainGuardError, match="^This process is a worker that is importing"):
        iter(loader)


def test_thread_backend_leaves_no_thread_after_an_early_break(host: Any) -> None:
    """
    Dropping the iterator ends the thread, after the batch in progress.
    """
    host.change("process", is_daemonic=True)
    loader = auto_loader(datasets.Numbers(400), 4)
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    threads = [thread for thread in threading.enumerate() if thread.name == "autoloader"]
    del iterator
    for thread in threads:
        thread.join(10)
    assert len(threads) == 1
    assert not threads[0].is_alive()


def test_error_in_the_thread_names_the_sample(host: Any) -> None:
    """
    The user's own error with the traceback of the sample, its index, and the batches after it.
    """
    host.change("process", is_daemonic=True)
    iterator = iter(auto_loader(datasets.Failing(12, at=6), 4))
    next(iterator)
    with pytest.raises(KeyError) as raised:
        next(iterator)
    assert raised.traceback[-1].name == "__getitem__"
    if sys.version_info >= (3, 11):
        assert raised.value.__notes__ == ["autoloader: this is from sample 6, in batch 1 of the epoch"]
    assert [batch[:, 0].tolist() for batch in iterator] == [[8, 9, 10, 11]]
