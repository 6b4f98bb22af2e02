"""
calibrate: what it chooses, what it leaves alone, and what it says where nothing can be measured.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import torch
from torch.utils.data import RandomSampler

import datasets
from autoloader import auto_loader, calibrate
from autoloader.calibration import Trial
from autoloader.errors import CalibrationError, LoaderClosedError
from autoloader.loader.calibrating import trials_text
from autoloader.tuning import trials
from loader.chosen import NEEDS_FORK, global_states, seed_all
from tuning.subjects import (
    Noting,
    OneShot,
    OpenedLater,
    Troubled,
    Unsendable,
    hang,
    kill,
    raise_key_error,
    still_running,
)

pytestmark = [NEEDS_FORK, pytest.mark.slow_spawn]


class Waits(datasets.Numbers):
    """
    A sample takes 10 ms, in which the CPU is free.
    """

    def __getitem__(self, index: int) -> torch.Tensor:
        sleep(0.01)
        return super().__getitem__(index)


class WaitingStream(datasets.SharedStream):
    """
    The same as a stream that shares itself among workers.
    """

    num_shards = 2

    def __iter__(self) -> Any:
        for number in super().__iter__():
            sleep(0.01)
            yield number


def thoroughly(*args: Any, **arguments: Any) -> Any:
    """
    Calibrate with the time for all trials, though nobody trains long enough with so little data.
    """
    return calibrate(*args, budget_seconds=20, **arguments)


def choice_of(found: Any) -> tuple[int, str]:
    """
    Return the number of workers, and the rule that decided.
    """
    choice = found.plan.choices["num_workers"]
    return choice.value, choice.rule


def test_more_workers_are_chosen_where_samples_wait() -> None:
    """
    By real trials, whose numbers stand in the plan, which a loader takes.
    """
    found = thoroughly(Waits(200), 4)
    workers, rule = choice_of(found)
    assert workers >= 2
    assert rule == "num_workers.calibrated"
    assert workers in [trial.num_workers for trial in found.trials]
    assert (found.profile.batches, found.profile.batch_samples, found.profile.step_seconds) == (8, 4, 0.0)
    with auto_loader(Waits(8), 4, plan=found.plan) as loader:
        assert [batch[:, 0].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("arguments", "choice"),
    [
        pytest.param({"num_workers": 2}, (2, "num_workers.fixed"), id="workers"),
        pytest.param({"num_workers": 0}, (0, "num_workers.fixed"), id="inline"),
    ],
)
def test_number_that_the_user_has_set_is_measured_alone(arguments: dict[str, Any], choice: tuple[int, str]) -> None:
    """
    Three times.
    """
    found = thoroughly(Waits(), 4, **arguments)
    assert choice_of(found) == choice
    assert [(trial.num_workers, trial.runs) for trial in found.trials] == [(choice[0], 3)]


def test_no_more_workers_are_tried_than_there_are_batches() -> None:
    """
    Two batches an epoch.
    """
    found = thoroughly(Waits(16), 8)
    assert max(trial.num_workers for trial in found.trials) <= 2


@pytest.mark.parametrize(
    ("dataset", "arguments", "choice"),
    [
        pytest.param(
            lambda: datasets.Stream(200), {}, (0, "num_workers.iterable-not-sharded"), id="stream-not-sharded"
        ),
        pytest.param(lambda: OneShot(20), {}, (0, "num_workers.iterable-not-sharded"), id="one-shot-stream"),
        pytest.param(
            Unsendable, {"collate_fn": list}, (0, "num_workers.cannot-send"), id="batch-that-cannot-be-pickled"
        ),
        pytest.param(
            lambda: Troubled(raise_key_error, only_in_workers=True),
            {},
            (0, "num_workers.calibrated"),
            id="raises-in-workers",
        ),
        pytest.param(
            lambda: Troubled(kill, only_in_workers=True), {}, (0, "num_workers.calibrated"), id="dies-in-workers"
        ),
    ],
)
def test_inline_is_chosen_where_workers_do_not_do(
    dataset: Callable[[], Any], arguments: dict[str, Any], choice: tuple[int, str]
) -> None:
    """
    What loads here still loads.
    """
    assert choice_of(thoroughly(dataset(), 4, epochs=20, **arguments)) == choice


def test_stream_in_two_shards_has_at_most_two_workers() -> None:
    """
    The shards limit what is tried.
    """
    found = thoroughly(WaitingStream(100), 4)
    assert choice_of(found) == (2, "num_workers.calibrated")
    assert {trial.num_workers for trial in found.trials} <= {0, 1, 2}


def test_workers_that_hang_end_in_time_and_inline_is_chosen(tmp_path: Path) -> None:
    """
    And none of the processes is left.
    """
    found = calibrate(Waiting(Noting(tmp_path, hang, only_in_workers=True)), 4, budget_seconds=4)
    assert (choice_of(found), found.stopped_by, found.trials) == ((0, "num_workers.calibrated"), "budget", ())
    assert found.plan.choices["num_workers"].because.endswith("it failed (no batch came)")
    assert len(list(tmp_path.iterdir())) >= 2
    assert still_running(tmp_path) == []


class Waiting(datasets.Numbers):
    """
    The samples of another dataset, 10 ms later.
    """

    def __init__(self, data: Any) -> None:
        super().__init__(len(data))
        self.data = data

    def __getitem__(self, index: int) -> Any:
        sleep(0.01)
        return self.data[index]


@pytest.mark.parametrize("arguments", [{}, {"multiprocessing_context": "fork"}], ids=["chosen", "fork"])
def test_open_file_is_one_error_and_does_not_move(arguments: dict[str, Any], tmp_path: Path) -> None:
    """
    A forked child would share its position, and no other one can load it.
    """
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(40)))
    with path.open("rb") as file:
        file.read(5)
        place = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        with pytest.raises(CalibrationError, match="dataset.file is open"):
            calibrate(datasets.FromFile(file), 4, **arguments)
        assert (os.lseek(file.fileno(), 0, os.SEEK_CUR), file.tell()) == (place, 5)


def test_file_that_is_opened_later_is_each_workers_own(tmp_path: Path) -> None:
    """
    The dataset asserts it, and is as it was afterwards.
    """
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(40)))
    data = OpenedLater(path)
    found = thoroughly(Waiting(data), 4)
    assert choice_of(found)[0] >= 2
    assert (data.file, data.pid) == (None, 0)


def test_process_is_the_same_afterwards() -> None:
    """
    Generators, the sampler's state, attributes, environment, threads and open files; the batches that follow, too.
    """
    calibrate(datasets.Draws(), 4, budget_seconds=2)
    data, generator = datasets.Draws(), torch.Generator().manual_seed(3)
    sampler = RandomSampler(data, generator=generator)

    def state() -> Any:
        return (
            global_states(),
            generator.get_state().tolist(),
            dict(vars(data)),
            dict(os.environ),
            threading.enumerate(),
            multiprocessing.active_children(),
            sorted(os.listdir("/proc/self/fd")) if sys.platform == "linux" else None,
        )

    seed_all()
    before = state()
    thoroughly(data, 4, sampler=sampler)
    assert state() == before
    after = [batch.tolist() for batch in auto_loader(data, 4, sampler=sampler, num_workers=0)]
    seed_all()
    generator.manual_seed(3)
    assert after == [batch.tolist() for batch in auto_loader(data, 4, sampler=sampler, num_workers=0)]


def test_one_shot_sampler_and_stream_are_not_drawn_from() -> None:
    """
    They still give all that they have.
    """
    sampler, data = iter(range(40)), OneShot(20)
    thoroughly(datasets.Numbers(), 4, sampler=sampler)
    thoroughly(data, 4)
    assert (list(sampler), list(data)) == (list(range(40)), list(range(20)))


def test_step_is_called_here_with_a_batch() -> None:
    """
    Four times, the first of which is not timed.
    """
    batches: list[Any] = []
    found = thoroughly(Waits(), 4, step=batches.append, num_workers=0)
    assert [batch.tolist() for batch in batches] == [[[index, 1] for index in range(28, 32)]] * 4
    assert found.profile.step_seconds is not None


def test_calibration_takes_no_more_than_it_can_gain() -> None:
    """
    By default: of what is quick anyway, trials would take longer than they could ever save.
    """
    found = calibrate(datasets.Numbers(1000), 4)
    assert (found.trials, found.stopped_by) == ((), "not worth a trial")
    assert "without a trial, which would have taken over 5 % of a training of 3,000 batches" in str(found)
    assert thoroughly(datasets.Numbers(1000), 4).trials


def test_slow_step_is_called_as_often_as_there_is_time() -> None:
    """
    A quarter of it, and at least once.
    """
    calls: list[int] = []
    found = calibrate(Waits(), 4, step=lambda batch: (calls.append(1), sleep(0.6)), budget_seconds=2)
    assert len(calls) == 1
    assert found.profile.step_seconds >= 0.6


def test_error_of_the_step_is_the_users_own() -> None:
    """
    No process is left.
    """
    with pytest.raises(ZeroDivisionError):
        calibrate(datasets.Numbers(), 4, step=lambda batch: 1 // 0)


def test_ctrl_c_while_trials_run_returns_what_is_known(tmp_path: Path) -> None:
    """
    And ends the child with its workers.
    """
    data = Waiting(Noting(tmp_path, partial(sleep, 60), only_in_workers=True))

    def interrupt() -> None:
        deadline = monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and monotonic() < deadline:
            sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Timer(0, interrupt)
    thread.start()
    found = thoroughly(data, 4)
    thread.join()
    assert found.stopped_by == "interrupt"
    assert still_running(tmp_path) == []


@pytest.mark.usefixtures("measuring")
def test_closing_the_loader_ends_a_calibration_before_its_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Though its trial would never end; and the next epoch calibrates.
    """
    monkeypatch.setattr(trials, "WORTH", 1000.0)
    data = Noting(tmp_path, hang, only_in_workers=True)
    loader = auto_loader(Waiting(data), 4, calibrate=True, epochs=20)

    def close() -> None:
        deadline = monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and monotonic() < deadline:
            sleep(0.01)
        loader.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(LoaderClosedError, match="batches served: 0"):
        iter(loader)
    thread.join()
    assert still_running(tmp_path) == []
    data.trouble = partial(sleep, 0)
    with loader:
        assert len(list(loader)) == 10
    assert loader.plan.choices["num_workers"].rule == "num_workers.calibrated"


def test_trials_are_told_the_fastest_first_with_what_failed() -> None:
    """
    Four of them at most, and one reason.
    """
    seen = [
        Trial(num_workers=each, step_seconds=step, first_batch_seconds=1.0, runs=1, batches=9, expected_seconds=1.0)
        for each, step in ((0, 0.5), (1, 0.25), (2, 0.125), (3, 0.1), (5, 1.0))
    ]
    rates = "batches a second in trials, by number of workers: 3: 10, 2: 8, 1: 4, 0: 2"
    assert trials_text(seen, {}) == rates
    assert trials_text(seen, {8: "KeyError: 1", 12: "no"}) == f"{rates}; with 8 it failed (KeyError: 1)"
    assert trials_text((), {8: "no batch came"}) == "with 8 it failed (no batch came)"
