"""
Deaths of workers that end an epoch: one error that tells which worker, how it ended, and over what.
"""

import contextlib
import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Sampler
from torch.utils.data._utils import signal_handling

import datasets
from autoloader import auto_loader
from autoloader.engine import processes
from autoloader.engine.inner import InnerLoader
from autoloader.errors import ArgumentError, AutoloaderError, WorkerDiedError
from autoloader.loader import beginning
from loader.chosen import chosen, seed_all
from loader.conftest import Host
from loader.deadly import (
    TOLD,
    WAYS_TO_DIE,
    Bomb,
    Deadly,
    DeadlyInit,
    DeadlyStream,
    kill,
    pids,
    wait_until,
    warnings_in,
    workers,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers end by signals, which Windows has not")

UNKNOWN_WORD = (
    "on_worker_death='ignore' is not known: the argument takes 'raise' or 'restart'. Pass one of these, or leave "
    "on_worker_death out."
)


@pytest.fixture(autouse=True)
def _memory_is_known(host: Host) -> None:
    """
    Let the kernel count no out-of-memory kill.
    """
    host.change("memory", oom_kills=0)


def first_numbers(loader: Any) -> list[int]:
    """
    Return the first number of each batch of an epoch.
    """
    return [int(batch[0, 0]) for batch in loader]


@pytest.mark.slow_spawn
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("how", ["SIGKILL", "exit-3", "sys-exit"])
def test_death_is_an_error_that_names_process_end_and_samples(how: str, method: str, tmp_path: Path) -> None:
    """
    It is a RuntimeError, as with torch alone, and the number is that of a worker of this loader.
    """
    # what comes before sample 10 is served: a single worker that dies takes along what it has not sent yet
    with auto_loader(
        Deadly(20, Bomb(tmp_path, how), at=(10,)), 2, num_workers=1, prefetch_factor=1, multiprocessing_context=method
    ) as loader:
        iterator = iter(loader)
        mine = pids()
        with pytest.raises(WorkerDiedError) as caught:
            list(iterator)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, AutoloaderError)
    text = str(caught.value)
    found = re.match(rf"Worker process (\d+) {re.escape(TOLD[how])} (when|before) ", text)
    assert found is not None, text
    assert int(found[1]) in mine
    assert re.search(r"batch of samples \[(8, 9|10, 11)\] was due", text), text
    assert warning_free(text)


def warning_free(text: str) -> bool:
    """
    Return whether a text is filled in, and ends as a sentence does.
    """
    return "{" not in text and text.rstrip()[-1] in ".)"


@pytest.mark.slow_spawn
def test_segmentation_fault_is_told_with_its_line_of_python(tmp_path: Path) -> None:
    """
    The worker's last words come back: the innermost calls first, down to torch's fetcher.
    """
    with (
        auto_loader(Deadly(20, Bomb(tmp_path, "SIGSEGV"), at=(10,)), 2, num_workers=1) as loader,
        pytest.raises(WorkerDiedError) as caught,
    ):
        list(loader)
    text, _, stack = str(caught.value).partition("\n\nIt was here, the innermost call first:\n\n")
    assert "was killed by SIGSEGV (signal 11)" in text
    calls = re.findall(r'^  File "([^"]+)", line \d+ in (\S+)$', stack, re.MULTILINE)
    assert [name for _, name in calls[:3]] == ["<lambda>", "__call__", "__getitem__"]
    assert calls[0][0] == WAYS_TO_DIE["SIGSEGV"].__code__.co_filename
    assert calls[-1][1] == "fetch"


@pytest.mark.slow_spawn
@pytest.mark.parametrize("how", ["SIGKILL", "exit-0"])
@pytest.mark.parametrize("number", [1, 2])
def test_next_after_a_death_raises_again_and_does_not_hang(number: int, how: str, tmp_path: Path) -> None:
    """
    Each time the same worker is named; another epoch has new workers, and every batch.
    """
    with chosen(Deadly(20, Bomb(tmp_path, how), at=(10,)), number, batch_size=2) as loader:
        iterator = iter(loader)
        with pytest.raises(WorkerDiedError) as first:
            list(iterator)
        for _ in range(5):
            with pytest.raises(WorkerDiedError) as later:
                next(iterator)
            assert str(later.value).split()[:3] == str(first.value).split()[:3]
        assert loader.stats().total.restarts == 0
        assert first_numbers(loader) == list(range(0, 20, 2))


@pytest.mark.slow_spawn
def test_death_between_two_batches_is_an_error_of_the_next_one() -> None:
    """
    In the loop's body nothing is raised.
    """
    with chosen(datasets.Numbers(20), 2, batch_size=2) as loader:
        iterator = iter(loader)
        next(iterator)
        victim = workers()[0]
        kill([victim])
        with pytest.raises(WorkerDiedError, match=rf"^Worker process {victim.pid} was killed by SIGKILL \(signal 9\) "):
            list(iterator)
        assert first_numbers(loader) == list(range(0, 20, 2))


@pytest.mark.slow_spawn
def test_deaths_of_several_workers_are_one_error() -> None:
    """
    One is named, and the others are counted.
    """
    with chosen(datasets.Numbers(20), 3, batch_size=2) as loader:
        iterator = iter(loader)
        next(iterator)
        kill(workers())
        with pytest.raises(WorkerDiedError, match=r"^Worker process \d+ was killed .* \(2 more died (of|by|from|: )?"):
            list(iterator)


@pytest.mark.slow_spawn
def test_sample_that_always_kills_is_an_error_after_three_restarts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Batches before it are served, its samples are named, and no process is left.
    """
    served = []
    with chosen(Deadly(20, Bomb(tmp_path, fuses=100), at=(7,)), 2, batch_size=2, on_worker_death="restart") as loader:
        iterator = iter(loader)
        with pytest.raises(WorkerDiedError) as caught:
            served.extend(int(batch[0, 0]) for batch in iterator)
        assert served == [0, 2, 4]
        assert str(caught.value).startswith(
            "Workers were started anew 3 times in a row, and died each time before the batch came that was due "
            "(samples [6, 7]). Load these samples in this process, by dataset[index] or with num_workers=0, to see "
            "what they do. Worker process "
        )
        with pytest.raises(WorkerDiedError):
            next(iterator)
        assert loader.stats().total.restarts in range(3, 10)  # deaths over the three batches before it are no progress
    assert multiprocessing.active_children() == []
    assert len(warnings_in(caplog)) == loader.stats().total.restarts


@pytest.mark.slow_spawn
def test_worker_init_fn_that_always_kills_is_an_error_after_three_restarts(tmp_path: Path) -> None:
    """
    Nothing was served, and nothing hangs.
    """
    with chosen(
        datasets.Numbers(20),
        2,
        batch_size=2,
        worker_init_fn=DeadlyInit(Bomb(tmp_path, "exit-3", fuses=100)),
        on_worker_death="restart",
    ) as loader:
        with pytest.raises(
            WorkerDiedError, match="^Workers were started anew 3 times in a row, .* with exit code 3 before"
        ):
            list(loader)
        assert (loader.stats().total.restarts, loader.stats().total.batches) == (3, 0)


@pytest.mark.parametrize("word", ["raise", "restart"])
def test_death_that_torchs_handler_tells_of_before_anything_was_asked(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It raises its error wherever the training process is then: here in iter(), which is to raise nothing.
    """
    install, told = signal_handling._set_SIGCHLD_handler, []

    def install_and_see_a_death() -> None:
        install()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            os.kill(os.getpid(), signal.SIGCHLD)
        except RuntimeError as error:
            told.append(str(error))
            raise

    monkeypatch.setattr(signal_handling, "_set_SIGCHLD_handler", install_and_see_a_death)
    with chosen(
        datasets.Numbers(12),
        2,
        batch_size=1,
        worker_init_fn=DeadlyInit(Bomb(tmp_path, "exit-3")),
        on_worker_death=word,
        multiprocessing_context="fork",
    ) as loader:
        iterator = iter(loader)
        assert len(told) == 1
        assert re.match(r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code 3\.", told[0])
        monkeypatch.undo()
        if word == "restart":
            assert first_numbers(iterator) == list(range(12))
            assert loader.stats().total.restarts == 1
        else:
            with pytest.raises(WorkerDiedError, match="with exit code 3 "):
                next(iterator)


@pytest.mark.slow_spawn
@pytest.mark.parametrize("how", ["SIGKILL", "exit-0"])
def test_death_over_iterable_style_data_is_an_error_at_once(how: str, tmp_path: Path) -> None:
    """
    Nobody knows where the worker's copy stood, so that "restart" cannot go on.
    """
    arguments: dict[str, Any] = {"num_workers": 1, "on_worker_death": "restart"}
    with auto_loader(DeadlyStream(Bomb(tmp_path, how), at=8), 2, **arguments) as loader:
        iterator = iter(loader)
        for _ in range(2):
            with pytest.raises(WorkerDiedError, match=rf"^Worker process \d+ {re.escape(TOLD[how])}(:| )"):
                list(iterator)
        assert loader.stats().total.restarts == 0
        assert [batch.tolist() for batch in loader] == [[number, number + 1] for number in range(0, 12, 2)]


@pytest.mark.slow_spawn
def test_workers_that_cannot_be_started_again_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It tells of the death first, and why no other one starts; a later epoch may try again.
    """

    def refuse(process: Any) -> None:
        raise processes.WorkerStartError("BlockingIOError: [Errno 11] Resource temporarily unavailable")

    with chosen(datasets.Numbers(20), 2, batch_size=2, on_worker_death="restart") as loader:
        iterator = iter(loader)
        next(iterator)
        kill(workers()[:1])
        with monkeypatch.context() as patch:
            patch.setattr(processes._Member, "start", refuse)
            for _ in range(2):
                with pytest.raises(WorkerDiedError) as caught:
                    list(iterator)
                assert re.match(r"Worker process \d+ was killed by SIGKILL ", str(caught.value))
                assert "BlockingIOError: [Errno 11] Resource temporarily unavailable" in str(caught.value)
        assert multiprocessing.active_children() == []
        assert first_numbers(loader) == list(range(0, 20, 2))


@pytest.mark.slow_spawn
def test_word_that_is_set_later_counts_from_the_next_epoch(tmp_path: Path) -> None:
    """
    on_worker_death is an attribute like those of torch's DataLoader.
    """
    loader = chosen(Deadly(20, Bomb(tmp_path, fuses=2), at=(10,)), 1, batch_size=2)
    assert loader.on_worker_death == "raise"
    with loader:
        iterator = iter(loader)
        loader.on_worker_death = "restart"
        with pytest.raises(WorkerDiedError):
            list(iterator)
        assert first_numbers(loader) == list(range(0, 20, 2))
        assert loader.stats().total.restarts == 1


def test_unknown_word_is_an_error_at_once() -> None:
    """
    Given to the loader, or set later.
    """
    with pytest.raises(ArgumentError) as caught:
        auto_loader(datasets.Numbers(), 4, on_worker_death="ignore")
    assert str(caught.value) == UNKNOWN_WORD
    loader = auto_loader(datasets.Numbers(), 4)
    with pytest.raises(ArgumentError) as caught:
        loader.on_worker_death = "ignore"
    assert str(caught.value) == UNKNOWN_WORD
    assert loader.on_worker_death == "raise"


class Unhurried(Sampler[int]):
    """
    Yields its indices from the third on when a worker has ended, which it waits for.
    """

    def __init__(self, length: int, bomb: Bomb) -> None:
        self.length = length
        self.bomb = bomb

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        for index in range(self.length):
            if index == 2:
                assert wait_until(lambda: len(workers()) < 2, 20)
            yield index


@pytest.mark.slow_spawn
@pytest.mark.parametrize("word", ["raise", "restart"])
def test_death_while_an_epoch_begins_is_the_first_batchs(word: str, tmp_path: Path) -> None:
    """
    iter() itself raises nothing, though a worker ends while the first indices are handed out.
    """
    bomb = Bomb(tmp_path, "exit-3")
    with chosen(
        datasets.Numbers(12),
        2,
        batch_size=1,
        sampler=Unhurried(12, bomb),
        worker_init_fn=DeadlyInit(bomb, only=0),
        on_worker_death=word,
    ) as loader:
        iterator = iter(loader)
        if word == "restart":
            assert first_numbers(iterator) == list(range(12))
            assert loader.stats().total.restarts == 1
        else:
            with pytest.raises(WorkerDiedError, match="with exit code 3 "):
                next(iterator)


@pytest.mark.slow_spawn
@pytest.mark.parametrize("word", ["raise", "restart"])
def test_death_of_kept_workers_as_an_epoch_begins_costs_nothing(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    They were alive when they were looked at, and dead when they were asked: nothing was served yet, so others start.
    """
    seed_all()
    with chosen(datasets.Numbers(12), 2, batch_size=2, on_worker_death=word) as loader:
        list(loader)
        kill(workers())
        with monkeypatch.context() as patch:
            patch.setattr(InnerLoader, "may_serve_again", lambda inner, after_break: True)
            iterator = iter(loader)
        assert first_numbers(iterator) == list(range(0, 12, 2))
        assert first_numbers(loader) == list(range(0, 12, 2))


@pytest.mark.slow_spawn
def test_memory_is_read_when_workers_start_and_not_in_each_epoch(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A death is explained by what has changed since then.
    """
    reads: list[Any] = []

    def read() -> Any:
        reads.append(host.facts)
        return host.facts

    monkeypatch.setattr(beginning, "probe_memory", read)
    with chosen(datasets.Numbers(12), 2, batch_size=2) as loader:
        for _ in range(3):
            assert first_numbers(loader) == list(range(0, 12, 2))
    assert len(reads) == 1


@pytest.mark.slow_spawn
def test_error_of_a_sample_is_no_death() -> None:
    """
    It is the sample's own, no worker is replaced, and the epoch goes on.
    """
    with chosen(datasets.Failing(20, at=7), 2, batch_size=2, on_worker_death="restart") as loader:
        iterator = iter(loader)
        mine, served = pids(), []
        for _ in range(9):
            with contextlib.suppress(KeyError):
                served.append(int(next(iterator)[0, 0]))
        assert served == [0, 2, 4, 8, 10, 12, 14, 16]
        assert (pids(), loader.stats().total.restarts) == (mine, 0)
    assert os.getpid() not in mine
    assert torch.utils.data.get_worker_info() is None
