"""
Waits, steps and rates of made-up clocks, and the line that tells them.
"""

import copy
import json
import pickle

import pytest

from autoloader.loader.statistics import EpochRecorder, EpochStats, LoaderStats, Recorder
from autoloader.processes import ProcessUse
from autoloader.records import from_json

UNKNOWN = {
    "wait_seconds": 0.0,
    "step_seconds": 0.0,
    "wait_fraction": None,
    "batches_per_second": None,
    "samples_per_second": None,
    "wait_percentiles_seconds": {},
    "step_percentiles_seconds": {},
}
"""
What is not known before the second batch.
"""


def fields(stats: object) -> dict[str, object]:
    """
    Return the fields of a record by their names.
    """
    return {name: getattr(stats, name) for name in stats.__dataclass_fields__}


def note_waits(epoch: EpochRecorder, waits: list[float], *, step: float = 4.0, samples: int = 1) -> None:
    """
    Note a first batch at 1.0, and then one with each of *waits*, a *step* after the other.
    """
    epoch.note(0.0, 1.0, samples)
    for number, wait in enumerate(waits, 1):
        ended = 1.0 + number * step
        epoch.note(ended - wait, ended, samples)


def test_epoch_without_a_batch_knows_nothing() -> None:
    """
    Counts are 0, and what would need a batch is None.
    """
    assert fields(EpochRecorder(3, 10.0).stats()) == {
        "epoch": 3,
        "batches": 0,
        "samples": 0,
        "first_batch_seconds": None,
        "restarts": 0,
        "is_exhausted": False,
        **UNKNOWN,
    }


def test_first_batch_sets_the_time_from_the_begin_of_the_epoch_alone() -> None:
    """
    Start-up counts from the begin of the epoch, not from next(), and is neither wait nor step.
    """
    epoch = EpochRecorder(0, 10.0)
    epoch.note(10.25, 10.75, 64)
    assert fields(epoch.stats()) == {
        "epoch": 0,
        "batches": 1,
        "samples": 64,
        "first_batch_seconds": 0.75,
        "restarts": 0,
        "is_exhausted": False,
        **UNKNOWN,
    }


def test_batches_after_the_first_have_wait_and_step() -> None:
    """
    A step is from the end of one next() to the end of the following; samples of the first batch are in no rate.
    """
    epoch = EpochRecorder(0, 10.0)
    epoch.note(10.0, 10.5, 100)
    epoch.note(10.75, 11.0, 4)
    epoch.note(11.25, 12.5, 2)
    epoch.is_exhausted = True
    epoch.restarts += 1
    assert fields(epoch.stats()) == {
        "epoch": 0,
        "batches": 3,
        "samples": 106,
        "first_batch_seconds": 0.5,
        "wait_seconds": 1.5,
        "step_seconds": 2.0,
        "wait_fraction": 0.75,
        "batches_per_second": 1.0,
        "samples_per_second": 3.0,
        "wait_percentiles_seconds": {"p50": 0.25, "p90": 1.25, "p99": 1.25},
        "step_percentiles_seconds": {"p50": 0.5, "p90": 1.5, "p99": 1.5},
        "restarts": 1,
        "is_exhausted": True,
    }


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(1, (1, 1, 1), id="one"),
        pytest.param(2, (1, 2, 2), id="two"),
        pytest.param(3, (2, 3, 3), id="three"),
        pytest.param(10, (5, 9, 10), id="ten"),
        pytest.param(100, (50, 90, 99), id="hundred"),
        pytest.param(101, (51, 91, 100), id="hundred-and-one"),
        pytest.param(1000, (500, 900, 990), id="thousand"),
        pytest.param(1500, (1000, 1400, 1490), id="the-last-thousand-of-more"),
    ],
)
def test_percentiles_are_waits_that_were_measured(count: int, expected: tuple[int, int, int]) -> None:
    """
    Of waits of 1, 2, 3, ... seconds, by nearest rank, and of the last 1,000 only.
    """
    epoch = EpochRecorder(0, 0.0)
    note_waits(epoch, [float(wait) for wait in range(1, count + 1)], step=2048.0)
    stats = epoch.stats()
    assert tuple(stats.wait_percentiles_seconds.items()) == tuple(zip(("p50", "p90", "p99"), expected, strict=True))
    assert stats.step_percentiles_seconds == {"p50": 2048.0, "p90": 2048.0, "p99": 2048.0}
    assert stats.wait_seconds == count * (count + 1) / 2
    assert [len(values) for values in epoch.recent()] == [min(count, 1000)] * 2


def test_percentiles_do_not_need_waits_in_order() -> None:
    """
    They are sorted first.
    """
    epoch = EpochRecorder(0, 0.0)
    note_waits(epoch, [3.0, 1.0, 2.0])
    assert epoch.stats().wait_percentiles_seconds == {"p50": 2.0, "p90": 3.0, "p99": 3.0}


def test_clock_that_stands_still_gives_no_rate() -> None:
    """
    Windows' clock may show the same time twice.
    """
    epoch = EpochRecorder(0, 5.0)
    epoch.note(5.0, 5.0, 1)
    epoch.note(5.0, 5.0, 1)
    stats = epoch.stats()
    assert (stats.batches, stats.wait_fraction, stats.batches_per_second, stats.samples_per_second) == (
        2,
        None,
        None,
        None,
    )
    assert stats.wait_percentiles_seconds == {"p50": 0.0, "p90": 0.0, "p99": 0.0}


def test_wait_fraction_is_never_above_one() -> None:
    """
    Two threads that draw from one iterator wait at the same time: 1 s passed, and together they waited 1.5 s.
    """
    epoch = EpochRecorder(0, 0.0)
    epoch.note(0.0, 1.0, 1)
    epoch.note(0.5, 2.0, 1)
    stats = epoch.stats()
    assert (stats.wait_seconds, stats.step_seconds, stats.wait_fraction) == (1.5, 1.0, 1.0)


def test_samples_that_nobody_knows_have_no_rate() -> None:
    """
    A rate of 0 samples would be untrue.
    """
    epoch = EpochRecorder(0, 0.0)
    note_waits(epoch, [1.0], samples=0)
    stats = epoch.stats()
    assert (stats.samples, stats.samples_per_second, stats.batches_per_second) == (0, None, 0.25)


def test_stats_follow_what_is_noted_after_they_were_asked() -> None:
    """
    Nothing that was worked out before is told again once it is old.
    """
    epoch = EpochRecorder(0, 0.0)
    note_waits(epoch, [1.0])
    assert epoch.stats().wait_seconds == 1.0
    epoch.note(6.0, 9.0, 1)
    assert epoch.stats().wait_seconds == 4.0
    epoch.restarts = 2
    assert epoch.stats().restarts == 2
    epoch.is_exhausted = True
    assert epoch.stats().is_exhausted
    earlier = epoch.stats()
    assert epoch.stats() is earlier


def test_total_adds_up_epochs() -> None:
    """
    Sums and rates are over all steps, first batches a mean, and percentiles over both epochs.
    """
    recorder = Recorder()
    one = recorder.begin(0, 0.0)
    note_waits(one, [1.0, 2.0], step=4.0, samples=8)
    one.restarts = 1
    two = recorder.begin(1, 97.0)
    two.note(97.0, 100.0, 4)
    two.note(101.0, 104.0, 4)
    two.is_exhausted = True
    stats = recorder.stats(5)
    assert fields(stats.total) == {
        "epochs": 2,
        "batches": 5,
        "samples": 32,
        "first_batch_seconds": 2.0,
        "wait_seconds": 6.0,
        "step_seconds": 12.0,
        "wait_fraction": 0.5,
        "batches_per_second": 0.25,
        "samples_per_second": 20 / 12,
        "wait_percentiles_seconds": {"p50": 2.0, "p90": 3.0, "p99": 3.0},
        "step_percentiles_seconds": {"p50": 4.0, "p90": 4.0, "p99": 4.0},
        "restarts": 1,
    }
    assert stats.epochs == (one.stats(), two.stats())
    assert (stats.in_flight, stats.workers) == (5, ())


def test_first_batch_of_the_total_leaves_out_epochs_without_a_batch() -> None:
    """
    An epoch that has just begun does not make the mean smaller.
    """
    recorder = Recorder()
    recorder.begin(0, 0.0).note(0.0, 3.0, 1)
    recorder.begin(1, 9.0)
    assert recorder.stats(0).total.first_batch_seconds == 3.0


def test_epochs_that_overlap_are_noted_apart() -> None:
    """
    Two iterators of one loader do not see each other's batches.
    """
    recorder = Recorder()
    one, two = recorder.begin(0, 0.0), recorder.begin(1, 0.5)
    one.note(0.0, 1.0, 2)
    two.note(0.5, 2.0, 3)
    one.note(2.0, 3.0, 2)
    two.note(3.0, 6.0, 3)
    stats = recorder.stats(0)
    assert [(each.epoch, each.samples, each.wait_seconds, each.step_seconds) for each in stats.epochs] == [
        (0, 4, 1.0, 2.0),
        (1, 6, 3.0, 4.0),
    ]
    assert (stats.total.samples, stats.total.wait_fraction) == (10, 4 / 6)


def test_recorder_keeps_the_last_hundred_epochs_and_the_sums_of_all() -> None:
    """
    However many there were; those that broke early count as well.
    """
    recorder = Recorder()
    for number in range(250):
        epoch = recorder.begin(number, 0.0)
        note_waits(epoch, [1.0] if number % 2 else [2.0, 3.0])
        epoch.restarts = 1
    stats = recorder.stats(0)
    assert [each.epoch for each in stats.epochs] == list(range(150, 250))
    total = stats.total
    assert (total.epochs, total.batches, total.samples, total.restarts) == (250, 625, 625, 250)
    assert (total.wait_seconds, total.step_seconds, total.first_batch_seconds) == (750.0, 1500.0, 1.0)
    assert (total.wait_fraction, total.batches_per_second) == (0.5, 0.25)
    assert len(recorder._state[1]) == 100


def test_epochs_that_were_left_are_told_by_the_longest_of_them() -> None:
    """
    Only where the last ones all were, and there were so many.
    """
    recorder = Recorder()
    for number, (batches, is_exhausted) in enumerate([(3, False), (5, False), (9, True), (2, False), (4, False)]):
        epoch = recorder.begin(number, 0.0)
        note_waits(epoch, [0.5] * (batches - 1))
        epoch.is_exhausted = is_exhausted
        expected = {1: 5, 4: 4}.get(number)
        assert recorder.most_before_leaving(2) == expected


def test_percentiles_of_the_total_are_over_the_last_thousand_batches() -> None:
    """
    The newest epochs first: of 600 waits of 3 s and then 520 of 1 s, 480 and 520 are taken.
    """
    recorder = Recorder()
    note_waits(recorder.begin(0, 0.0), [9.0] * 100, step=16.0)
    note_waits(recorder.begin(1, 0.0), [3.0] * 600)
    note_waits(recorder.begin(2, 0.0), [1.0] * 520)
    assert recorder.stats(0).total.wait_percentiles_seconds == {"p50": 1.0, "p90": 3.0, "p99": 3.0}
    assert recorder.stats(0).total.step_percentiles_seconds == {"p50": 4.0, "p90": 4.0, "p99": 4.0}


def test_epoch_that_outlives_a_hundred_others_is_counted_up_to_then() -> None:
    """
    Its iterator goes on noting, which harms nobody.
    """
    recorder = Recorder()
    old = recorder.begin(0, 0.0)
    old.note(0.0, 1.0, 1)
    for number in range(1, 101):
        recorder.begin(number, 0.0)
    old.note(1.0, 2.0, 1)
    total = recorder.stats(0).total
    assert (total.epochs, total.batches) == (101, 1)


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda recorder: pickle.loads(pickle.dumps(recorder)), id="pickle"),
    ],
)
def test_copy_of_a_recorder_has_noted_nothing(copied) -> None:
    """
    A copied loader has served no batch; the original goes on as it was.
    """
    recorder = Recorder()
    epoch = recorder.begin(0, 0.0)
    epoch.note(0.0, 1.0, 1)
    other = copied(recorder)
    assert isinstance(other, Recorder)
    assert other.stats(0) == Recorder().stats(0)
    other.begin(7, 0.0)
    assert [each.epoch for each in recorder.stats(0).epochs] == [0]


def recorder_of(*epochs: list[tuple[float, float, int]]) -> Recorder:
    """
    Return a recorder of epochs that began at 0, each with these batches.
    """
    recorder = Recorder()
    for number, batches in enumerate(epochs):
        epoch = recorder.begin(number, 0.0)
        for batch in batches:
            epoch.note(*batch)
    return recorder


FIRST = (0.0, 0.41, 64)


@pytest.mark.parametrize(
    ("recorder", "in_flight", "text"),
    [
        pytest.param(recorder_of(), 0, "no epochs yet", id="nothing"),
        pytest.param(
            recorder_of([]),
            4,
            "1 epoch, 0 batches: waiting and rate not known yet, 4 in flight, 0 restarts",
            id="no-batch",
        ),
        pytest.param(
            recorder_of([FIRST]),
            3,
            "1 epoch, 1 batch: waiting and rate not known yet, first batch 0.41 s, 3 in flight, 0 restarts",
            id="one-batch",
        ),
        pytest.param(
            recorder_of([FIRST], [(0.0, 0.21, 64)]),
            0,
            "2 epochs, 2 batches: waiting and rate not known yet, first batch 0.31 s (mean), 0 in flight, 0 restarts",
            id="one-batch-in-each",
        ),
        pytest.param(
            recorder_of([FIRST, (0.885, 0.91, 64), (1.4025, 1.41, 32)]),
            3,
            "1 epoch, 3 batches: waiting 3 % of the time, 2 batches/s (96 samples/s), first batch 0.41 s, "
            "wait p50/p90/p99 7.5/25.0/25.0 ms, 3 in flight, 0 restarts",
            id="three-batches",
        ),
        pytest.param(
            recorder_of([(0.0, 1.0, 0), (1.0, 1.0625, 0)]),
            0,
            "1 epoch, 2 batches: waiting 100 % of the time, 16 batches/s, first batch 1.00 s, "
            "wait p50/p90/p99 62.5/62.5/62.5 ms, 0 in flight, 0 restarts",
            id="samples-not-known",
        ),
        pytest.param(
            recorder_of([(0.0, 1.0, 5000), (1.0, 1.03, 5000)]),
            0,
            "1 epoch, 2 batches: waiting 100 % of the time, 33.3 batches/s (166667 samples/s), first batch 1.00 s, "
            "wait p50/p90/p99 30.0/30.0/30.0 ms, 0 in flight, 0 restarts",
            id="rates-are-rounded",
        ),
    ],
)
def test_line_tells_what_is_known(recorder: Recorder, in_flight: int, text: str) -> None:
    """
    One line, and no number that nobody measured.
    """
    assert str(recorder.stats(in_flight)) == text


def test_line_counts_restarts() -> None:
    """
    One restart, and more.
    """
    recorder = Recorder()
    epoch = recorder.begin(0, 0.0)
    epoch.restarts = 1
    assert str(recorder.stats(0)).endswith(", 0 in flight, 1 restart")
    epoch.restarts = 2
    assert str(recorder.stats(0)).endswith(", 0 in flight, 2 restarts")


def test_stats_through_json_are_equal() -> None:
    """
    Epochs, total and workers come back as they were; what is not known is null.
    """
    recorder = recorder_of([FIRST, (0.5, 1.41, 64)], [FIRST], [])
    workers = (ProcessUse(pid=7, rss_bytes=1 << 30, open_files=12, threads=1, state="sleeping"), ProcessUse(pid=8))
    stats = recorder.stats(2, workers)
    assert stats.workers == workers
    data = json.loads(stats.to_json())
    assert from_json(LoaderStats, data) == stats
    assert data["epochs"][2]["wait_fraction"] is None
    assert list(data["epochs"][0]["wait_percentiles_seconds"]) == ["p50", "p90", "p99"]


def test_records_cannot_be_changed() -> None:
    """
    They are what was at one moment.
    """
    stats: EpochStats = EpochRecorder(0, 0.0).stats()
    with pytest.raises(AttributeError):
        stats.batches = 1
