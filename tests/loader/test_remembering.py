"""
What was measured is found again by the next loader, as long as it fits.
"""

import functools
import itertools
import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, get_worker_info

from autoloader import auto_loader, calibrate
from autoloader.errors import CalibrationError, MissingMainGuardError
from autoloader.loader import calibrating, knowledge, remembering
from autoloader.tuning import trials
from autoloader.tuning.trials import Outcome
from loader.chosen import NEEDS_FORK
from loader.test_opening import Waits, fetched

pytestmark = [pytest.mark.usefixtures("measuring"), NEEDS_FORK]

SECONDS = {"now": 0.01}
"""
What a sample of :class:`Varies` takes; no part of the dataset, so that it is the same dataset.
"""


class Varies(Dataset[tuple[int, int]]):
    """
    Samples that take as long as the storage takes.
    """

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> tuple[int, int]:
        time.sleep(SECONDS["now"])
        return index, os.getpid()


@pytest.fixture(autouse=True)
def store(host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Keep what is measured in a folder of the test's own.
    """
    folder = tmp_path / "cache"
    host.environment.clear()
    host.environment["AUTOLOADER_CACHE_DIR"] = str(folder)
    monkeypatch.setitem(SECONDS, "now", 0.01)
    return folder


def first_pids(dataset: Any, **arguments: Any) -> list[int]:
    """
    Return the processes that fetched the first two batches of a new loader.
    """
    with auto_loader(dataset, 4, **arguments) as loader:
        samples, pids = fetched(loader)
    assert samples == list(range(len(dataset)))
    return pids[:8]


def files(store: Path) -> list[Path]:
    """
    Return what is kept.
    """
    return sorted(store.glob("plan-*.json"))


def test_second_loader_starts_its_workers_at_once(store: Path) -> None:
    """
    What the first one has measured is kept, and nothing of the second one loads in this process.
    """
    assert set(first_pids(Varies())) == {os.getpid()}
    assert len(files(store)) == 1
    assert os.getpid() not in first_pids(Varies())
    with auto_loader(Varies(), 4) as loader:
        assert loader.plan.choices["num_workers"].rule == "num_workers.measured"
    about = json.loads(files(store)[0].read_text(encoding="utf-8"))["about"]
    assert re.fullmatch(r"Varies of 160 samples: a batch of 4 takes \d+(\.\d+)? ms", about)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"drop_last": True, "epochs": 3}, id="epochs"),
        pytest.param({"prefetch_factor": 3}, id="an-argument"),
        pytest.param({"collate_fn": torch.utils.data.default_convert}, id="collate-fn"),
        pytest.param({"sampler": range(40)}, id="batches"),
    ],
)
def test_other_arguments_are_measured_anew(other: dict[str, Any]) -> None:
    """
    A measurement holds for what was asked, and for nothing else.
    """
    first_pids(Varies())
    with auto_loader(Varies(), 4, **other) as loader:
        assert loader.plan.choices["num_workers"].rule != "num_workers.measured"


def test_other_machines_and_versions_are_measured_anew(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Limits of the host, its ranks, and the version of the rules stand in the key.
    """
    first_pids(Varies())

    def is_found() -> bool:
        with auto_loader(Varies(), 4) as loader:
            return loader.plan.choices["num_workers"].rule == "num_workers.measured"

    assert is_found()
    with monkeypatch.context() as patch:
        patch.setattr(remembering, "POLICY", 0)
        assert not is_found()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "2.0")
        assert not is_found()
    for group, values in (
        ("cpu", {"usable_cpus": 4.0}),
        ("job", {"local_world_size": 2}),
        ("storage", {"kind": "hdd"}),
    ):
        before = host.facts
        host.change(group, **values)
        assert not is_found()
        host.facts = before
    assert is_found()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut"),
        pytest.param("[]", id="another-type"),
        pytest.param(None, id="no-profile"),
    ],
)
def test_file_that_is_not_ours_is_measured_anew(store: Path, text: str | None) -> None:
    """
    And is replaced then.
    """
    first_pids(Varies())
    (path,) = files(store)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["value"]["profile"] = {"batches": "two"}
    path.write_text(json.dumps(document) if text is None else text, encoding="utf-8")
    assert set(first_pids(Varies())) == {os.getpid()}
    assert os.getpid() not in first_pids(Varies())


def test_folder_that_cannot_be_used_costs_nothing(store: Path) -> None:
    """
    Each loader measures for itself then.
    """
    store.write_text("a file", encoding="utf-8")
    for _ in range(2):
        assert set(first_pids(Varies())) == {os.getpid()}


def test_nothing_is_kept_where_the_user_wants_nothing(host: Any, store: Path) -> None:
    """
    AUTOLOADER_NO_CACHE turns it off.
    """
    host.environment["AUTOLOADER_NO_CACHE"] = "1"
    for _ in range(2):
        assert set(first_pids(Varies())) == {os.getpid()}
    assert not store.exists()


@pytest.mark.parametrize("factor", [4.0, 0.1])
def test_what_does_not_fit_any_more_is_measured_anew(factor: float, caplog: pytest.LogCaptureFixture) -> None:
    """
    The first batches of the workers tell; the epoch goes on as it is, and the next one is measured.
    """
    first_pids(Varies())
    SECONDS["now"] *= factor
    with auto_loader(Varies(), 4) as loader, caplog.at_level(logging.INFO, "autoloader"):
        workers = loader.num_workers
        assert os.getpid() not in fetched(loader)[1]
        assert [each.message for each in caplog.records if "does not fit any more" in each.message] != []
        samples, pids = fetched(loader)
        assert samples == list(range(160))
        assert set(pids[:4]) == {os.getpid()}
        assert loader.num_workers != workers
    assert os.getpid() not in first_pids(Varies())


def test_what_fits_stays(caplog: pytest.LogCaptureFixture) -> None:
    """
    Kept workers go on into the next epoch, and nothing is timed any more.
    """
    first_pids(Varies())
    with auto_loader(Varies(), 4) as loader, caplog.at_level(logging.INFO, "autoloader"):
        first, second = fetched(loader)[1], fetched(loader)[1]
        assert set(first) == set(second)
        assert os.getpid() not in first
    assert [each.message for each in caplog.records if "does not fit" in each.message] == []


def test_epochs_that_are_left_early_tell_as_well_what_does_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    """
    Though they load here, and never get to the batches of all workers.
    """
    first_pids(Varies())
    SECONDS["now"] *= 4
    with auto_loader(Varies(), 4) as loader, caplog.at_level(logging.INFO, "autoloader"):
        for _ in range(5):
            assert sum(len(samples) for samples, _ in itertools.islice(loader, 2)) == 8
    assert len([each.message for each in caplog.records if "does not fit any more" in each.message]) == 1


def trained(loader: Any, step_seconds: float) -> list[int]:
    """
    Return the samples of an epoch of a training that takes a while for each batch.
    """
    found = []
    for samples, _ in loader:
        found += samples.tolist()
        time.sleep(step_seconds)
    return found


@pytest.mark.parametrize(("before", "after"), [(0.08, 0.001), (0.001, 0.08)], ids=["quicker", "slower"])
def test_training_that_takes_another_time_for_a_batch_gets_other_workers(
    before: float, after: float, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """
    For the rest of the epoch where it pays, and from the begin in the next run; no sample is lost.

    One worker keeps up with steps of 80 ms, and not with those of one.
    """
    with auto_loader(Varies(), 4) as loader:
        assert trained(loader, before) == list(range(160))
        first = loader.num_workers
    with auto_loader(Varies(), 4) as loader, caplog.at_level(logging.INFO, "autoloader"):
        assert loader.num_workers == first
        assert trained(loader, after) == list(range(160))
        second = loader.num_workers
        assert [each.message for each in caplog.records if "unlike in an earlier run" in each.message] != []
        assert trained(loader, after) == list(range(160))
        assert loader.num_workers == second
    assert (second > first) is (after < before)
    assert second != first
    assert len(files(store)) == 1
    with auto_loader(Varies(), 4) as loader:
        assert loader.num_workers == second


def test_what_loads_inline_is_timed_again_and_stays_inline(store: Path) -> None:
    """
    That costs nothing, as its batches are served.
    """
    for _ in range(2):
        with auto_loader(Waits(4000, 0), 4) as loader:
            assert set(fetched(loader)[1]) == {os.getpid()}
    assert len(files(store)) == 1


def test_calibration_is_found_by_the_next_loader() -> None:
    """
    With the number that its trials found best.
    """
    found = calibrate(Varies(), 4, budget_seconds=6)
    assert found.plan.choices["num_workers"].rule == "num_workers.calibrated"
    with auto_loader(Varies(), 4) as loader:
        assert loader.plan.choices["num_workers"] == found.plan.choices["num_workers"]
        assert os.getpid() not in fetched(loader)[1]


def test_calibrate_true_tries_before_the_first_epoch_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The second loader finds what the first one has found.
    """
    calls: list[Any] = []

    def counted(loader: Any, **how: Any) -> Any:
        calls.append(loader)
        return quick(loader, **how)

    quick = functools.partial(calibrating.calibrate_loader, budget_seconds=6)
    monkeypatch.setattr(calibrating, "calibrate_loader", counted)
    for _ in range(2):
        with auto_loader(Varies(), 4, calibrate=True) as loader:
            assert loader.plan.choices["num_workers"].rule != "num_workers.fixed"
            for _ in range(2):
                samples, pids = fetched(loader)
                assert samples == list(range(160))
                assert os.getpid() not in pids
            assert loader.plan.choices["num_workers"].rule == "num_workers.calibrated"
    assert len(calls) == 1


def test_calibration_that_needed_no_trial_is_not_made_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Quick samples need none: the first batches have said it all.
    """
    calls: list[Any] = []
    calibrate_it = calibrating.calibrate_loader

    def counted(loader: Any, **how: Any) -> Any:
        calls.append(loader)
        return calibrate_it(loader, **how)

    monkeypatch.setattr(calibrating, "calibrate_loader", counted)
    monkeypatch.setitem(SECONDS, "now", 0.0)
    monkeypatch.setattr(knowledge, "is_like", lambda *_: True)  # however busy this machine is
    for _ in range(3):
        with auto_loader(Varies(), 4, calibrate=True) as loader:
            assert fetched(loader)[0] == list(range(160))
            assert loader.plan.choices["num_workers"].rule == "num_workers.inline-is-faster"
    (kept,) = (json.loads(path.read_text(encoding="utf-8")) for path in files(store))
    assert '"best": null' in json.dumps(kept)
    assert len(calls) == 1


def test_calibration_that_fails_lets_training_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One warning with the reason, and the first batches are timed as ever.
    """

    def fail(loader: Any, **_: Any) -> Any:
        raise CalibrationError("No process can start.\n\nTraceback")

    monkeypatch.setattr(calibrating, "calibrate_loader", fail)
    with auto_loader(Varies(), 4, calibrate=True) as loader:
        said = r"^calibration\.went-on: calibrate=True found nothing \(No process can start\), and training goes on"
        with pytest.warns(UserWarning, match=said):
            samples, pids = fetched(loader)
        assert samples == list(range(160))
        assert set(pids[:8]) == {os.getpid()}
        fetched(loader)


def test_missing_main_guard_fails_a_calibration_only_where_the_user_wants_no_fallback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Training goes on then, as it does where workers cannot start.
    """

    def fail(loader: Any, **_: Any) -> Any:
        raise MissingMainGuardError("There is no guard.")

    monkeypatch.setattr(calibrating, "calibrate_loader", fail)
    with (
        auto_loader(Varies(), 4, calibrate=True, on_unsafe="raise") as loader,
        pytest.raises(MissingMainGuardError, match="^There is no guard.$"),
    ):
        iter(loader)
    with auto_loader(Varies(), 4, calibrate=True) as loader, pytest.warns(UserWarning, match=r"\(There is no guard\)"):
        assert next(iter(loader))[0].tolist() == [0, 1, 2, 3]


class FailsInWorkers(Varies):
    """
    Samples that no worker can fetch.
    """

    def __getitem__(self, index: int) -> tuple[int, int]:
        if get_worker_info() is not None:
            raise OSError("there is no network in workers")
        return super().__getitem__(index)


def test_workers_that_failed_in_trials_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Neither in the epoch before which they were tried nor later, though by the model they would be faster.
    """
    monkeypatch.setattr(trials, "WORTH", 100.0)
    monkeypatch.setattr(knowledge, "is_like", lambda *_: True)  # however busy this machine is
    with auto_loader(FailsInWorkers(), 4, calibrate=True) as loader:
        for _ in range(3):
            samples, pids = fetched(loader)
            assert samples == list(range(160))
            assert set(pids) == {os.getpid()}
        assert loader.plan.choices["num_workers"].rule == "num_workers.calibrated"


def test_calibration_takes_the_place_of_what_an_earlier_run_has_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Even where a sample takes another time by now, and trials were all that told against workers.
    """
    first_pids(Varies())
    SECONDS["now"] = 0.03
    monkeypatch.setattr(calibrating, "run_trials", lambda *_, **__: Outcome({}, {2: "no network"}, "order clear"))
    assert set(first_pids(Varies(), calibrate=True)) == {os.getpid()}


def test_number_that_is_none_is_a_miss(store: Path) -> None:
    """
    A damaged file costs a measurement, and no error.
    """
    first_pids(Varies())
    (path,) = files(store)
    document = json.loads(path.read_text(encoding="utf-8"))
    for damage in (
        {"best": ""},
        {"best": -1},
        {"failed": 3},
        {"failed": ["x"]},
        {"steps": [[1, 2]]},
        {"train_seconds": "x"},
    ):
        path.write_text(json.dumps({**document, "value": {**document["value"], **damage}}), encoding="utf-8")
        assert set(first_pids(Varies())) == {os.getpid()}


def test_calibration_that_was_cut_off_before_a_trial_ended_is_not_kept(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It says nothing of this dataset but that it was slow just then; this run goes on with it.
    """
    monkeypatch.setattr(calibrating, "run_trials", lambda *_, **__: Outcome({}, {2: "no batch came"}, "budget"))
    with auto_loader(Varies(), 4, calibrate=True) as loader:
        iter(loader)
        choice = loader.plan.choices["num_workers"]
        assert (choice.value, choice.rule) == (0, "num_workers.calibrated")
        assert files(store) == []
        assert fetched(loader)[0] == list(range(160))
    kept = [json.loads(path.read_text(encoding="utf-8"))["value"] for path in files(store)]
    assert [(each["best"], each["steps"], each["failed"]) for each in kept] == [(None, [], [])] * len(kept)


def test_calibration_that_is_interrupted_is_not_kept_and_interrupts_the_training(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Who calls calibrate() gets the best so far; who trains wanted to stop.
    """
    monkeypatch.setattr(calibrating, "run_trials", lambda *_, **__: Outcome({}, {}, "interrupt"))
    assert calibrate(Varies(), 4).stopped_by == "interrupt"
    with auto_loader(Varies(), 4, calibrate=True) as loader, pytest.raises(KeyboardInterrupt):
        iter(loader)
    assert files(store) == []


def test_calibration_needs_no_argument_that_older_versions_of_torch_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    DataLoader has in_order since 2.6.
    """
    tried: list[dict[str, Any]] = []

    def run(_assistant: Any, _situation: Any, settings: Any, _deadline: float = 0, **_: Any) -> Outcome:
        tried.append(settings(2))
        return Outcome({}, {}, "budget")

    monkeypatch.setattr(calibrating, "run_trials", run)
    with auto_loader(Varies(), 4) as loader:
        loader.__dict__.pop("in_order", None)
        calibrating.calibrate_loader(loader)
    assert (tried[0]["num_workers"], "in_order" in tried[0]) == (2, False)


def test_number_of_the_users_is_neither_kept_nor_found(store: Path) -> None:
    """
    There is nothing to choose.
    """
    for workers in (0, 2):
        with auto_loader(Varies(), 4, num_workers=workers) as loader:
            fetched(loader)
    assert files(store) == []
