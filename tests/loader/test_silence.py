"""
A worker that does not answer is told of, and what it cannot send is an error in the place of its batch.
"""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing import connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import datasets
from autoloader import auto_loader
from autoloader.engine import watch
from autoloader.engine.watch import Silence
from autoloader.errors import AutoloaderError, CannotSendError
from autoloader.loader import silence
from autoloader.loader.silence import SilenceReport
from autoloader.loader.statistics import EpochRecorder
from loader.chosen import NEEDS_FORK, chosen
from loader.deadly import Heavy, as_they_are, pids, wait_until, warnings_in
from loader.silent import Stuck, Unsendable, UnsendableIndices, UnsendableStream

METHODS = [
    pytest.param("fork", marks=NEEDS_FORK),
    pytest.param("forkserver", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
    pytest.param("spawn", marks=pytest.mark.slow_spawn),
]
HAS_STACKS = sys.platform != "win32"


@pytest.mark.parametrize(
    ("waits", "seconds", "told"),
    [
        pytest.param([], [1, 59, 61, 179, 180, 181, 359, 360, 719, 720], [180, 360, 720], id="first-batch"),
        pytest.param([0.1], [1, 59, 60, 61, 119, 120, 121, 240], [60, 120, 240], id="after-a-minute"),
        pytest.param([10.0, 1.0, 30.0], [60, 199, 201, 401, 402], [201, 402], id="after-twenty-medians"),
        pytest.param([0.1], [61, 100, 1, 59, 61, 3, 62], [61, 61, 62], id="each-wait-anew"),
        pytest.param([0.1], [1, 2, 1, 2], [], id="never"),
    ],
)
def test_silence_is_told_after_some_time_and_then_as_it_doubles(
    waits: list[float], seconds: list[float], told: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """
    A minute, or twenty medians of the waits before; three times as long for a first batch.
    """
    record = EpochRecorder(0, 0.0)
    inner: Any = SimpleNamespace(issued=None, stacks=None)
    report = SilenceReport(inner, record)
    for number, wait in enumerate([0.0, *waits] if waits else []):
        record.note(100.0 * number, 100.0 * number + wait, 1)
    for each in seconds:
        report.note(Silence(os.getpid(), each))
    assert seconds_told(caplog) == told


def test_first_batch_of_other_workers_has_three_minutes_in_the_middle_of_an_epoch_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    They may still import what they need, however quickly the batches before them came.
    """
    record = EpochRecorder(0, 0.0)
    for number in range(3):
        record.note(100.0 * number, 100.0 * number + 0.1, 1)
    inner: Any = SimpleNamespace(issued=None, stacks=None)
    report = SilenceReport(inner, record)
    report.note(Silence(os.getpid(), 179))
    report.note(Silence(os.getpid(), 181))
    record.note(300.0, 481.0, 1)
    report.note(Silence(os.getpid(), 61))
    assert seconds_told(caplog) == [181, 61]


def seconds_told(caplog: pytest.LogCaptureFixture) -> list[int]:
    """
    Return how long each warning says that it has waited.
    """
    return [int(re.findall(r"for (\d+) s", text)[0]) for text in warnings_in(caplog)]


class Opens(logging.Handler):
    """
    Touches a file when the second warning comes.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self.path = path
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if self.count == 2:
            self.path.touch()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Look around often, and tell of what lasts a moment.
    """
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(silence, "LEAST_SECONDS", 0.2)
    monkeypatch.setattr(silence, "MEDIANS", 0)


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Opens]:
    """
    Let stuck workers go on after they were told of twice.
    """
    handler = Opens(tmp_path / "end")
    logger = logging.getLogger("autoloader")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.mark.parametrize(
    ("method", "how", "state"),
    [
        pytest.param("fork", "in_sleep", "sleeping", marks=NEEDS_FORK),
        pytest.param("fork", "in_a_python_loop", "running", marks=NEEDS_FORK),
        pytest.param("fork", "in_c_that_holds_the_gil", "sleeping", marks=NEEDS_FORK),
        pytest.param("forkserver", "in_a_python_loop", "running", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
        pytest.param("spawn", "in_sleep", "sleeping", marks=pytest.mark.slow_spawn),
    ],
)
def test_stuck_worker_is_told_of_with_its_stack_and_then_the_epoch_goes_on(
    method: str,
    how: str,
    state: str,
    tmp_path: Path,
    opens: Opens,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    """
    Process, state, samples, and the line at which it is; nothing is raised, and no batch is missing.
    """
    dataset = Stuck(20, tmp_path, at=4, how=how)
    with chosen(dataset, 1, batch_size=2, multiprocessing_context=method) as loader:
        iterator = iter(loader)
        found = [next(iterator)[0, 0].item() for _ in range(2)]
        request.getfixturevalue("impatient")  # not before the worker has started, which takes its time
        (tmp_path / "begin").touch()
        (pid,) = pids()
        found += [batch[0, 0].item() for batch in iterator]
    assert found == list(range(0, 20, 2))
    told = warnings_in(caplog)
    assert len(told) == opens.count >= 2
    seconds = []
    for text in told[:2]:
        match = re.match(
            rf"No batch has come for (\d+) s\. Worker process {pid}, which is waited for, is (.+?); ", text
        )
        assert match is not None, text
        seconds.append(int(match[1]))
        assert match[2] in ({state, "running"} if HAS_STACKS else {"running"})
        assert "; samples due: [4, 5]. Where it is:\n\n" in text
        assert "\n\nThe loader goes on waiting. Look at " in text
        if HAS_STACKS:
            stack = text.partition("Where it is:\n\n")[2].partition("\n\nThe loader")[0].splitlines()
            calls = [line.rpartition(" in ")[2] for line in stack]
            assert calls[calls.index(how) + 1] == "__getitem__", text
            assert calls[-1] == "fetch"
            assert all(re.fullmatch(r'  File ".*", line \d+ in .*', line) for line in stack), text
    assert seconds == sorted(seconds)


def test_worker_that_is_stuck_while_others_overtake_it_is_told_of(
    tmp_path: Path, opens: Opens, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """
    With in_order=False nothing is due before all others have come.
    """
    dataset = Stuck(20, tmp_path, at=4, how="in_sleep")
    with chosen(dataset, 2, batch_size=2, in_order=False) as loader:
        iterator, found = iter(loader), set()
        while not {0, 2} <= found:  # until both workers have started, which takes its time
            found.add(next(iterator)[0, 0].item())
        request.getfixturevalue("impatient")
        (tmp_path / "begin").touch()
        found |= {batch[0, 0].item() for batch in iterator}
    assert found == set(range(0, 20, 2))
    told = [text for text in warnings_in(caplog) if "in_sleep" in text or not HAS_STACKS]
    assert told
    assert "; samples due: [4, 5]. " in told[0]


def test_batches_that_come_in_time_are_not_told_of(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    """
    Nor is a training loop that takes its time.
    """
    with chosen(datasets.Numbers(12), 1, batch_size=2) as loader:
        iterator = iter(loader)
        next(iterator)
        assert wait_until(lambda: loader.stats().in_flight > 0)
        list(iterator)
    assert [text for text in warnings_in(caplog) if "No batch has come for" in text and "starting" not in text] == []


@pytest.mark.slow_spawn
def test_time_out_says_where_the_worker_is(tmp_path: Path) -> None:
    """
    The error is torch's, with the report in its text.
    """
    dataset = Stuck(20, tmp_path, at=4, how="in_sleep")
    with auto_loader(dataset, 2, num_workers=1, timeout=1) as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        (tmp_path / "begin").touch()
        with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 1 seconds") as caught:
            next(iterator)
        (pid,) = pids()
        (tmp_path / "end").touch()
    text = str(caught.value)
    assert f"Worker process {pid}, which was waited for, is " in text
    assert "samples due: [4, 5]" in text
    assert " in in_sleep\n" in text or not HAS_STACKS


class GoesOn(logging.Handler):
    """
    Lets a stopped process go on when the second warning comes.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(logging.WARNING)
        self.pid = pid
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        if len(self.texts) == 2:
            os.kill(self.pid, signal.SIGCONT)


def stop_in_mid_message(iterator: Any) -> int:
    """
    Stop the only worker while it writes a batch for which the pipe is too small, and return its number.
    """
    (pid,) = pids()
    assert connection.wait([iterator.source._worker_result_queue._reader], 60)
    os.kill(pid, signal.SIGSTOP)
    return pid


@NEEDS_FORK
def test_worker_that_stops_in_the_middle_of_a_message_is_told_of(request: pytest.FixtureRequest) -> None:
    """
    Something has come of the batch, and the wait for the rest of it is a wait like any other.
    """
    arguments = {"collate_fn": as_they_are, "multiprocessing_context": "fork"}
    with auto_loader(Heavy(6), None, num_workers=1, prefetch_factor=1, **arguments) as loader:
        iterator = iter(loader)
        found = [next(iterator)[0] for _ in range(2)]
        request.getfixturevalue("impatient")
        pid = stop_in_mid_message(iterator)
        handler, deadline = GoesOn(pid), threading.Timer(60, os.kill, (pid, signal.SIGCONT))
        logging.getLogger("autoloader").addHandler(handler)
        deadline.start()
        try:
            found += [sample[0] for sample in iterator]
        finally:
            logging.getLogger("autoloader").removeHandler(handler)
            deadline.cancel()
    assert found == list(range(6))
    assert len(handler.texts) >= 2
    for text in handler.texts[:2]:
        assert f"Worker process {pid}, which is waited for, is stopped; samples due: 2." in text


@NEEDS_FORK
def test_time_out_in_the_middle_of_a_message_costs_no_batch() -> None:
    """
    What has come of the batch is kept until the rest comes.
    """
    arguments = {"collate_fn": as_they_are, "multiprocessing_context": "fork", "timeout": 1}
    with auto_loader(Heavy(6), None, num_workers=1, prefetch_factor=1, **arguments) as loader:
        iterator = iter(loader)
        found = [next(iterator)[0] for _ in range(2)]
        pid = stop_in_mid_message(iterator)
        deadline = threading.Timer(60, os.kill, (pid, signal.SIGCONT))
        deadline.start()
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 1 seconds"):
                next(iterator)
        deadline.cancel()
        os.kill(pid, signal.SIGCONT)
        found += [sample[0] for sample in iterator]
    assert found == list(range(6))


@pytest.mark.slow_spawn
def test_kept_worker_that_is_stuck_in_the_last_epoch_is_told_of_as_another_begins(
    tmp_path: Path, opens: Opens, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """
    The epoch that was left early has a batch on the way, for which the next one waits.
    """
    dataset = Stuck(20, tmp_path, at=4, how="in_sleep")
    with auto_loader(dataset, 2, num_workers=1, persistent_workers=True) as loader:
        iterator = iter(loader)
        assert [next(iterator)[0, 0].item() for _ in range(2)] == [0, 2]
        request.getfixturevalue("impatient")
        (tmp_path / "begin").touch()
        assert wait_until((tmp_path / "stuck").exists)
        (pid,) = pids()
        del iterator
        assert [batch[0, 0].item() for batch in loader] == list(range(0, 20, 2))
        assert pids() == [pid]
    told = [text for text in warnings_in(caplog) if "No batch has come for" in text]
    assert len(told) >= 2
    for text in told[:2]:
        assert f"Worker process {pid}, which is waited for, is " in text
        assert "; samples due: not known. Where it is:\n\n" in text


CANNOT_SEND = (
    r"Worker process \d+ cannot send a batch of type list: what travels between processes is pickled, and this cannot "
    r"be \(.+\)\. Return tensors, arrays, numbers and text from __getitem__ and collate_fn, no open file, lock, "
    r"generator or lambda; or pass num_workers=0\."
)
CANNOT_GET_INDICES = (
    r"The indices of a batch cannot be sent to a worker: what travels between processes is pickled, and what the "
    r"sampler gave cannot be \(.+\)\. Let the sampler yield numbers, text or tuples of these, or pass num_workers=0\."
)


def drawn(iterator: Any) -> tuple[list[Any], list[Exception]]:
    """
    Return what an epoch gives, an error's class in the place of a batch, and the errors.
    """
    found: list[Any] = []
    errors: list[Exception] = []
    for _ in range(20):
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except Exception as error:
            if "timed out" in str(error):
                raise
            found.append(type(error))
            errors.append(error)
    return found, errors


LOCAL = ("local-error", RuntimeError, r"\bLocalError: no sample 4\b")


@pytest.mark.parametrize(
    ("method", "what", "kind", "text"),
    [
        *(
            pytest.param(*method.values, "lambda", CannotSendError, CANNOT_SEND, marks=method.marks)
            for method in METHODS
        ),
        pytest.param("fork", *LOCAL, marks=NEEDS_FORK),
        pytest.param("forkserver", *LOCAL, marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
        pytest.param("fork", "two-arguments", RuntimeError, r"\bTwoArgumentsError: no sample 4\b", marks=NEEDS_FORK),
    ],
)
def test_sample_that_cannot_be_sent_is_an_error_in_its_place(
    method: str, what: str, kind: type[Exception], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    Python would print a traceback and drop the batch, for which the training would wait for ever.
    """
    dataset = Unsendable(10, 4, what)
    with chosen(dataset, 2, batch_size=2, collate_fn=as_they_are, multiprocessing_context=method, timeout=60) as loader:
        alive = set()
        for epoch in range(2):
            found, (error,) = drawn(iter(loader))
            assert found == [[0, 1], [2, 3], kind, [6, 7], [8, 9]]
            assert re.search(text, str(error)), str(error)
            assert isinstance(error, AutoloaderError) == (kind is CannotSendError)
            assert loader.stats().epochs[epoch].is_exhausted
            alive |= set(pids())
        assert len(alive) == 2
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("method", METHODS)
def test_indices_that_cannot_be_sent_are_an_error_in_their_place(
    method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    No worker has heard of them, and none is to blame.
    """
    arguments: dict[str, Any] = {"collate_fn": as_they_are, "multiprocessing_context": method, "timeout": 60}
    with chosen(Unsendable(10, -1, ""), 2, batch_sampler=UnsendableIndices(), **arguments) as loader:
        found, (error,) = drawn(iter(loader))
        assert found == [[0, 1], [2, 3], CannotSendError, [6, 7], [8, 9]]
        assert re.search(CANNOT_GET_INDICES, str(error)), str(error)
        assert loader.stats().epochs[0].is_exhausted
    assert "Traceback" not in capfd.readouterr().err


def test_sample_of_a_stream_that_cannot_be_sent_is_an_error_in_its_place() -> None:
    """
    The stream goes on after it.
    """
    with auto_loader(UnsendableStream(10, 4, "lambda"), 2, num_workers=1, collate_fn=as_they_are, timeout=60) as loader:
        found, (error,) = drawn(iter(loader))
        assert found == [[0, 1], [2, 3], CannotSendError, [6, 7], [8, 9]]
        assert re.search(CANNOT_SEND, str(error))


@pytest.mark.slow_spawn
def test_batch_that_cannot_be_sent_is_an_error_in_any_order() -> None:
    """
    With in_order=False the others come, and the epoch is exhausted.
    """
    arguments: dict[str, Any] = {"batch_size": 2, "collate_fn": as_they_are, "in_order": False, "timeout": 60}
    with chosen(Unsendable(10, 4, "lambda"), 2, **arguments) as loader:
        found, errors = drawn(iter(loader))
        assert [type(error) for error in errors] == [CannotSendError]
        assert sorted(batch for batch in found if isinstance(batch, list)) == [[0, 1], [2, 3], [6, 7], [8, 9]]
        assert loader.stats().epochs[0].is_exhausted
