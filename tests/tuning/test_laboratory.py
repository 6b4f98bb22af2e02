"""
Measuring in this very process: what is loaded, in which order, how often, and what is left behind.
"""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import datasets
from autoloader.tuning import laboratory
from autoloader.tuning.laboratory import Laboratory, NothingToLoadError, Run, _is_enough, _is_half_left, _timed, _told
from tuning.subjects import OneShot, OpenedLater, Slow, Troubled, raise_key_error, raise_stop_iteration, subject

INLINE = {"num_workers": 0}


class Seen(Slow):
    """
    Notes which samples were fetched.
    """

    def __init__(self, length: int = 40) -> None:
        super().__init__(length)
        self.seen: list[int] = []

    def __getitem__(self, index: int) -> torch.Tensor:
        self.seen.append(index)
        return super().__getitem__(index)


def run(laboratory: Laboratory, rounds: int = 2) -> Run:
    """
    Return a run inline.
    """
    return laboratory.run(INLINE, rounds, 0.0, is_busy=False)


def test_profile_is_of_eight_batches() -> None:
    """
    Of four samples each: two tensors' numbers, 16 bytes a sample and what pickle adds.
    """
    profile = Laboratory(subject(Seen())).profile(1 << 20)
    assert (profile.batches, profile.batch_samples, profile.step_seconds) == (8, 4, None)
    assert profile.batch_bytes >= 4 * 16


class Threads(Slow):
    """
    Notes at how many threads torch computes.
    """

    def __init__(self) -> None:
        super().__init__(400)
        self.seen: list[int] = []

    def __getitem__(self, index: int) -> torch.Tensor:
        self.seen.append(torch.get_num_threads())
        return super().__getitem__(index)


@pytest.mark.parametrize("is_single", [True, False], ids=["one-is-no-slower", "all-are-faster"])
def test_inline_loads_at_one_thread_or_at_all_whichever_is_faster(
    is_single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The profile begins as in a worker, and ends at all; the trials go on as a loader without workers would.
    """
    before, dataset = torch.get_num_threads(), Threads()
    monkeypatch.setattr(laboratory, "is_at_one_thread", lambda profile: is_single)
    torch.set_num_threads(2)
    try:
        measuring = Laboratory(subject(dataset))
        assert measuring.profile(1 << 20).inline_batch_seconds is not None
        assert (set(dataset.seen[:16]), set(dataset.seen[-4:])) == ({1}, {2})
        assert dataset.seen == sorted(dataset.seen)
        dataset.seen.clear()
        run(measuring)
        assert set(dataset.seen) == {1 if is_single else 2}
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("length", "batches"), [pytest.param(9, 3, id="three-batches"), pytest.param(1, 1, id="one-sample")]
)
def test_profile_of_a_stream_ends_with_it(length: int, batches: int) -> None:
    """
    Its last batch may be a smaller one.
    """
    profile = Laboratory(subject(datasets.Stream(length))).profile(1 << 20)
    assert profile.batches == batches


@pytest.mark.parametrize(
    ("seconds", "count", "has_enough", "expected"),
    [
        pytest.param(0.05, 8, True, False, id="quick"),
        pytest.param(0.05, 1000, True, True, id="as-quick-as-nothing"),
        pytest.param(0.1, 8, True, True, id="long-enough"),
        pytest.param(0.1, 7, False, False, id="slow"),
    ],
)
def test_profile_of_quick_batches_goes_on(seconds: float, count: int, has_enough: bool, expected: bool) -> None:
    """
    For a tenth of a second, or a thousand of them.
    """
    clock: Any = SimpleNamespace(loading_seconds=seconds, count=count, has_enough_batches=has_enough)
    assert _is_enough(clock) is expected


@pytest.mark.parametrize(
    ("seconds", "count", "expected"),
    [
        pytest.param(0.0, 0, True, id="nothing-yet"),
        pytest.param(0.06, 3, True, id="three-batches"),
        pytest.param(0.06, 4, False, id="four-batches"),
        pytest.param(0.04, 4, True, id="four-quick-ones"),
        pytest.param(0.04, 500, False, id="hundreds-of-quick-ones"),
        pytest.param(0.5, 1, False, id="one-slow-one"),
    ],
)
def test_profile_has_two_halves(seconds: float, count: int, expected: bool) -> None:
    """
    By batches, unless they are quick; by time where they are slow.
    """
    clock: Any = SimpleNamespace(loading_seconds=seconds, count=count)
    assert _is_half_left(clock) is expected


def test_measurements_go_on_where_the_last_one_ended() -> None:
    """
    Eight batches for the profile, then one and two rounds; after ten batches the samples begin anew.
    """
    data = Seen()
    laboratory = Laboratory(subject(data))
    laboratory.profile(1 << 20)
    assert run(laboratory).batches == 2
    assert data.seen == [*range(40), *range(4)]


def test_sampler_that_can_be_drawn_from_once_is_repeated() -> None:
    """
    A generator of indices, for instance.
    """
    data = Seen()
    laboratory = Laboratory(subject(data, sampler=iter([[3, 1], [2]])))
    laboratory.profile(1 << 20)
    assert data.seen == [3, 1, 2] * 4
    assert laboratory.profile(1 << 20).batches == 8


def test_samples_without_batches() -> None:
    """
    As with ``batch_size=None``.
    """
    profile = Laboratory(subject(Seen(), sampler=range(40), makes_batches=False, collate_fn=list)).profile(1 << 20)
    assert (profile.batches, profile.batch_samples) == (8, 1)


def test_dataset_that_fetches_many_at_once_is_asked_so() -> None:
    """
    Its samples cannot be told apart.
    """
    profile = Laboratory(subject(datasets.ManyAtOnce(), collate_fn=list)).profile(1 << 20)
    assert (profile.batch_samples, profile.sample_deviation_seconds) == (4, None)


def test_batch_is_the_last_one_of_the_profile() -> None:
    """
    None is loaded for it.
    """
    data = Seen()
    laboratory = Laboratory(subject(data, collate_fn=datasets.add_hundred))
    laboratory.profile(1 << 20)
    batch = torch.load(io.BytesIO(laboratory.batch()), weights_only=True)
    assert batch.tolist() == [[index + 100, 101] for index in range(28, 32)]
    assert data.seen == list(range(32))


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param(partial(subject, datasets.Numbers(0)), id="no-samples"),
        pytest.param(partial(subject, datasets.Stream(0)), id="empty-stream"),
        pytest.param(partial(subject, datasets.Numbers(), sampler=[]), id="empty-sampler"),
    ],
)
def test_nothing_to_load_is_seen(empty: Callable[[], Any]) -> None:
    """
    By the profile and by a run.
    """
    with pytest.raises(NothingToLoadError):
        Laboratory(empty()).profile(1 << 20)
    with pytest.raises(NothingToLoadError):
        run(Laboratory(empty()))


def test_one_shot_stream_is_used_up_by_the_profile() -> None:
    """
    Nothing is left to try.
    """
    laboratory = Laboratory(subject(OneShot(20)))
    assert laboratory.profile(1 << 20).batches == 5
    with pytest.raises(NothingToLoadError):
        run(laboratory)


@pytest.mark.parametrize("measure", ["profile", "run"])
def test_stop_iteration_of_a_dataset_is_an_error(measure: str) -> None:
    """
    It is not the end of the samples.
    """
    laboratory = Laboratory(subject(Troubled(raise_stop_iteration)))
    with pytest.raises(StopIteration):
        laboratory.profile(1 << 20) if measure == "profile" else run(laboratory)


@pytest.mark.parametrize(
    ("stamps", "ahead", "seconds"),
    [
        pytest.param([1, 2, 3, 4, 5], 1, (1, 1.0, 4), id="inline"),
        pytest.param([2, 2, 2, 2, 4, 4, 6, 6], 4, (2, 1.0, 4), id="two-rounds-of-two-workers"),
        pytest.param([2, 2, 4], 2, (2, 2.0, 1), id="stream-ends-in-the-second-round"),
        pytest.param([2, 2], 2, (2, 1.0, 2), id="stream-ends-in-the-first"),
        pytest.param([3], 1, (3, 3.0, 1), id="one-batch"),
    ],
)
def test_what_comes_after_the_batches_ahead_is_timed(
    stamps: list[float], ahead: int, seconds: tuple[float, float, int]
) -> None:
    """
    From the begin at 0: the first batch, the time of a step, and how many were timed.
    """
    assert _timed(0.0, stamps, ahead) == seconds


def test_dataset_is_left_as_it_was_found(tmp_path: Path) -> None:
    """
    A forked worker would share what the profile has opened.
    """
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(40)))
    data = OpenedLater(path)
    laboratory = Laboratory(subject(data))
    laboratory.profile(1 << 20)
    assert (data.file, data.pid) == (None, 0)
    run(laboratory)
    assert (data.file, data.pid) == (None, 0)


def fails(samples: Any) -> Any:
    """
    Be a collate function that raises from another error.
    """
    try:
        raise_key_error()
    except KeyError as error:
        raise ValueError("cannot collate") from error


def test_error_is_told_without_our_own_calls() -> None:
    """
    With its cause, and with torch's calls and the dataset's.
    """
    with pytest.raises(ValueError, match="cannot collate") as raised:
        Laboratory(subject(datasets.Numbers(), collate_fn=fails)).profile(1 << 20)
    lines = _told(raised.value).splitlines()
    assert lines[-1] == "ValueError: cannot collate"
    assert "KeyError: 'no such sample'" in lines
    assert not [line for line in lines if "/autoloader/" in line]
    assert [line for line in lines if "in raise_key_error" in line]
    assert [line for line in lines if "in fetch" in line]
