"""
Workers begin late, stay where that pays, and always end.
"""

import gc
import itertools
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

import datasets
from autoloader import AutoLoader, auto_loader
from autoloader.engine import processes
from autoloader.errors import LoaderClosedError
from live.running import SOURCE


def children() -> int:
    """
    Return how many child processes this process has.
    """
    return len(multiprocessing.active_children())


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """
    Return whether *condition* became true before the deadline.
    """
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


class NeverComes(Dataset[int]):
    """
    Samples that say when they are asked for, and take for ever.
    """

    def __init__(self, begun: Path) -> None:
        self.begun = begun

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> int:
        self.begun.touch()
        time.sleep(600)
        return index


def test_making_a_loader_starts_nothing_and_runs_nothing_of_the_dataset() -> None:
    """
    Processes start when the loader is iterated, not before.
    """
    loader = auto_loader(datasets.Failing(40, at=0), 4)
    assert (loader.num_workers, children()) == (2, 0)


def test_workers_stay_between_epochs_and_end_with_close() -> None:
    """
    The same processes serve every epoch, until close().
    """
    loader = auto_loader(datasets.Pids(), 4)
    first, second = ({int(pid) for batch in loader for pid in batch} for _ in range(2))
    assert first == second
    assert (len(first), children()) == (2, 2)
    loader.close()
    assert children() == 0
    loader.close()


@pytest.mark.slow_spawn
def test_closed_loader_starts_new_workers_when_iterated_again() -> None:
    """
    close() is no end: another epoch brings new processes.
    """
    loader = auto_loader(datasets.Pids(), 4)
    before = {int(pid) for batch in loader for pid in batch}
    loader.close()
    after = {int(pid) for batch in loader for pid in batch}
    loader.close()
    assert before.isdisjoint(after)


@pytest.mark.slow_spawn
@pytest.mark.parametrize("epochs", [1, None])
def test_with_block_ends_workers_when_its_body_raises(epochs: int | None) -> None:
    """
    An exception in the training step leaves no process behind.
    """

    def train() -> None:
        with auto_loader(datasets.Numbers(), 4, epochs=epochs) as loader:
            for _ in loader:
                raise RuntimeError("training failed")

    with pytest.raises(RuntimeError, match="^training failed$"):
        train()
    assert children() == 0


@pytest.mark.parametrize("epochs", [1, pytest.param(None, marks=pytest.mark.slow_spawn)])
def test_dropped_loader_ends_its_workers(epochs: int | None) -> None:
    """
    A loader that is forgotten after an early break needs no close().
    """
    loader = auto_loader(datasets.Numbers(), 4, epochs=epochs)
    next(iter(loader))
    del loader
    gc.collect()
    assert wait_until(lambda: children() == 0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows stops no process")
def test_dropped_iterator_ends_workers_that_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    SIGTERM alone does not end them, and Python would wait for them at its exit for ever.
    """
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.05)
    iterator = iter(auto_loader(datasets.Numbers(), 4, num_workers=2, persistent_workers=False))
    next(iterator)
    stopped = multiprocessing.active_children()
    assert len(stopped) == 2
    for process in stopped:
        os.kill(process.pid or 0, signal.SIGSTOP)
    try:
        del iterator
        gc.collect()
        assert [process.exitcode for process in stopped] == [-signal.SIGKILL] * 2
    finally:
        for process in stopped:
            process.kill()


@pytest.mark.slow_spawn
def test_early_break_gets_new_workers_for_the_next_epoch() -> None:
    """
    What was asked for and not served is dropped with its workers, as by torch, instead of loaded for nobody.
    """
    with auto_loader(datasets.Numbers(), 4) as loader:
        for _ in loader:
            break
        before = {child.pid for child in multiprocessing.active_children()}
        assert [batch[0, 0].item() for batch in loader] == list(range(0, 40, 4))
        assert {child.pid for child in multiprocessing.active_children()}.isdisjoint(before)


def test_early_break_keeps_workers_that_the_user_wants_kept() -> None:
    """
    persistent_workers=True of the user's means what it means to torch.
    """
    with auto_loader(datasets.Numbers(), 4, num_workers=1, persistent_workers=True) as loader:
        next(iter(loader))
        before = {child.pid for child in multiprocessing.active_children()}
        assert [batch[0, 0].item() for batch in loader] == list(range(0, 40, 4))
        assert {child.pid for child in multiprocessing.active_children()} == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks at open files in /proc")
def test_open_files_do_not_grow_with_epochs() -> None:
    """
    Workers that ended hold no file of this process, also before the garbage collector ran.
    """
    gc.collect()
    gc.disable()
    try:
        loader = auto_loader(datasets.Numbers(8), 4, num_workers=1)
        list(loader)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            list(loader)
        # the thread that feeds the last worker's queue takes its time to end
        assert wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)
    finally:
        gc.enable()


@pytest.mark.slow_spawn
def test_second_iterator_gets_workers_of_its_own() -> None:
    """
    Two iterators of one loader run side by side, each from the first batch on.
    """
    with auto_loader(datasets.Numbers(), 4) as loader:
        pairs = [(a[0, 0].item(), b[0, 0].item()) for a, b in zip(loader, loader, strict=True)]
    assert pairs == [(start, start) for start in range(0, 40, 4)]
    assert children() == 0


def test_iterator_of_a_closed_loader_says_so() -> None:
    """
    A batch after close() is a clear error, not a hang.
    """
    loader = auto_loader(datasets.Numbers(), 4)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    with pytest.raises(LoaderClosedError) as caught:
        next(iterator)
    assert str(caught.value) == (
        "This iterator cannot give another batch: its loader was closed (batches served: 1). "
        "Iterate over the loader again, which starts new workers, or close it later."
    )


@pytest.mark.slow_spawn
def test_loop_that_waits_while_another_thread_closes_its_loader_ends_with_an_error(tmp_path: Path) -> None:
    """
    It neither waits for ever nor ends as if all had been served.
    """
    loader = auto_loader(NeverComes(tmp_path / "begun"), 4, num_workers=2)
    closing = threading.Thread(target=lambda: wait_until((tmp_path / "begun").exists) and loader.close())
    closing.start()
    with pytest.raises(LoaderClosedError):
        list(loader)
    closing.join()
    assert children() == 0


class ClosesItsLoader(datasets.Numbers):
    """
    Numbers whose loader another thread closes while the fifth one is fetched in this process.
    """

    loader: Any = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 4:
            closing = threading.Thread(target=self.loader.close)
            closing.start()
            closing.join()
        return super().__getitem__(index)


def test_batch_that_is_under_way_when_the_loader_is_closed_is_served_and_counted() -> None:
    """
    The error that follows it says so.
    """
    data = ClosesItsLoader(12)
    data.loader = auto_loader(data, 2, num_workers=0)
    batches = iter(data.loader)
    assert [next(batches)[:, 0].tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(LoaderClosedError, match=r"its loader was closed \(batches served: 3\)\. Iterate"):
        next(batches)


@pytest.mark.slow_spawn
def test_exhausted_iterator_stays_exhausted() -> None:
    """
    After the last batch comes StopIteration, again and again, also after close().
    """
    loader = auto_loader(datasets.Numbers(8), 4)
    iterator = iter(loader)
    assert len(list(iterator)) == 2
    assert next(iterator, "end") == "end"
    loader.close()
    assert next(iterator, "end") == "end"


class Sleepy(datasets.Numbers):
    """
    Sleeps for an hour at every sample after the first four.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        if index >= 4:
            time.sleep(3600)
        return super().__getitem__(index)


@pytest.mark.slow_spawn
def test_close_with_sleeping_workers_waits_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The time to end is one deadline for all workers, and then they are terminated.
    """
    monkeypatch.setattr(processes, "CLOSE_SECONDS", 0.2)
    waits: list[float | None] = []
    patience = processes.WorkerGroup.patience

    def noted(self: processes.WorkerGroup, timeout: float | None) -> float | None:
        waits.append(patience(self, timeout))
        return waits[-1]

    monkeypatch.setattr(processes.WorkerGroup, "patience", noted)
    loader = auto_loader(Sleepy(), 4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    assert children() == 0
    assert sum(wait for wait in waits if wait is not None) <= 0.2 * 2


@pytest.mark.slow_spawn
def test_changed_dataset_reaches_workers_that_stay(caplog: pytest.LogCaptureFixture) -> None:
    """
    A plain assignment between epochs counts, as it does with a plain DataLoader.
    """
    dataset = datasets.Numbers(8)
    with caplog.at_level(logging.INFO, "autoloader"), auto_loader(dataset, 4) as loader:
        assert {batch[0, 1].item() for batch in loader} == {1}
        dataset.scale = 5
        assert {batch[0, 1].item() for batch in loader} == {5}
    assert [record.message for record in caplog.records if "dataset-changed" in record.message] == [
        "persistent_workers.dataset-changed: new workers, for what was changed since the last epoch"
    ]


@pytest.mark.slow_spawn
def test_attribute_set_after_construction_is_the_users() -> None:
    """
    loader.num_workers = 1 counts from the next epoch on, and the plan says whose it is.
    """
    with auto_loader(datasets.Pids(), 4) as loader:
        assert len({int(pid) for batch in loader for pid in batch}) == 2
        loader.num_workers = 1
        assert len({int(pid) for batch in loader for pid in batch}) == 1
        assert loader.plan.choices["num_workers"].rule == "num_workers.fixed"
        loader.num_workers = 0
        assert {int(pid) for batch in loader for pid in batch} == {os.getpid()}


def with_pid(samples: list[int]) -> tuple[list[int], int]:
    """
    Be a collate function that tells who called it.
    """
    return samples, os.getpid()


def test_loader_shows_its_dataset_and_settings() -> None:
    """
    As the call that would make it; one that was not made yet shows itself, too.
    """
    loader = auto_loader(datasets.Numbers(40), 4, num_workers=0)
    assert repr(loader) == "AutoLoader(Numbers, batch_size=4, num_workers=0, pin_memory=False)"
    loader.num_workers = 2
    loader.prefetch_factor = 3
    assert repr(loader).startswith("AutoLoader(Numbers, batch_size=4, num_workers=2, prefetch_factor=3, ")
    assert repr(AutoLoader.__new__(AutoLoader)).startswith("<autoloader.loader.auto_loader.AutoLoader object at ")


def test_workers_set_after_construction_on_an_inline_loader_start() -> None:
    """
    A loader that was planned without workers takes the user's number, too.
    """
    with auto_loader([1, 2, 3, 4], 2, collate_fn=with_pid) as loader:
        loader.num_workers = 1
        batches = list(loader)
    assert [samples for samples, _ in batches] == [[1, 2], [3, 4]]
    assert os.getpid() not in {pid for _, pid in batches}


@pytest.mark.slow_spawn
def test_worker_sees_the_users_dataset() -> None:
    """
    loader.dataset is the dataset, and so is get_worker_info().dataset in a worker: no proxy stands between.
    """
    dataset = datasets.WorkerSeesMe()
    with auto_loader(dataset, 4, num_workers=1) as loader:
        assert loader.dataset is dataset
        assert all(bool(batch.all()) for batch in loader)
        assert isinstance(loader, DataLoader)
    assert get_worker_info() is None


def test_state_of_the_process_is_looked_at_when_the_loader_is_iterated(host: Any) -> None:
    """
    A loader made in the training script and used in a daemon loads there without children.
    """
    loader = auto_loader(datasets.Pids(), 4)
    host.change("process", is_daemonic=True)
    assert {int(pid) for batch in loader for pid in batch} == {os.getpid()}


SCRIPT = """
import datasets
from autoloader import auto_loader

if __name__ == "__main__":
    loader = auto_loader(datasets.Numbers(), 4, num_workers=1, {arguments})
    for epoch in range(2):
        for batch in loader:
            {step}
"""


@pytest.mark.parametrize(
    "arguments", ["persistent_workers=True", pytest.param("epochs=1", marks=pytest.mark.slow_spawn)]
)
@pytest.mark.parametrize(
    ("step", "code", "last"),
    [
        pytest.param("pass", 0, [], id="to-the-end", marks=pytest.mark.slow_spawn),
        pytest.param("break", 0, [], id="break", marks=pytest.mark.slow_spawn),
        pytest.param("raise RuntimeError('training failed')", 1, ["RuntimeError: training failed"], id="error"),
    ],
)
def test_script_that_never_closes_its_loader_ends_quietly(
    arguments: str, step: str, code: int, last: list[str], tmp_path: Path
) -> None:
    """
    At the end of the interpreter workers end without a message of their own.
    """
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(arguments=arguments, step=step))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(datasets.__file__).parent), SOURCE))}
    command = [sys.executable, "-W", "error", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert (result.returncode, result.stdout, result.stderr.splitlines()[-1:]) == (code, "", last)
    assert result.stderr.count("Traceback") == code


@pytest.mark.slow_spawn
@pytest.mark.parametrize("how", ["exhausted", "closed"])
def test_iterator_that_has_ended_keeps_no_worker_of_a_loader_that_is_dropped(how: str) -> None:
    """
    Whoever still holds it, the workers that stayed end with their loader.
    """
    loader = auto_loader(datasets.Numbers(12), 2)
    iterator = iter(loader)
    if how == "exhausted":
        list(iterator)
    else:
        loader.close()
        list(loader)
    assert children() == 2
    del loader
    assert wait_until(lambda: children() == 0)
    with pytest.raises(StopIteration if how == "exhausted" else LoaderClosedError):
        next(iterator)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_iterator_that_is_dropped_after_a_death_needs_no_garbage_collector() -> None:
    """
    The error of the death is not kept: its traceback would hold the iterators, and these the workers.
    """
    loader = auto_loader(datasets.Numbers(), 2, num_workers=1, on_worker_death="restart")
    iterator = iter(loader)
    next(iterator)
    gc.collect()
    gc.disable()
    try:
        os.kill(multiprocessing.active_children()[0].pid or 0, 9)
        assert torch.cat(list(itertools.islice(iterator, 3)))[:, 0].tolist() == list(range(2, 8))
        assert (loader.stats().total.restarts, children()) == (1, 1)
        del iterator
        assert wait_until(lambda: children() == 0)
    finally:
        gc.enable()


@pytest.mark.slow_spawn
def test_close_does_not_wait_for_another_thread_that_waits_for_kept_workers(tmp_path: Path) -> None:
    """
    These are stuck in a sample of an epoch that was left.
    """
    loader = auto_loader(NeverComes(tmp_path / "begun"), 1, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    assert wait_until((tmp_path / "begun").exists)
    del iterator
    errors: list[BaseException] = []

    def iterate() -> None:
        try:
            iter(loader)
        except LoaderClosedError as error:
            errors.append(error)

    waiting = threading.Thread(target=iterate)
    waiting.start()
    assert wait_until(lambda: not _is_free(loader._inners.lock))
    loader.close()
    waiting.join(60)
    assert (len(errors), children()) == (1, 0)


def _is_free(lock: Any) -> bool:
    if lock.acquire(blocking=False):
        lock.release()
        return True
    return False
