"""
The order of trials, when they end, and what becomes of those that fail, with a child that exists only as answers.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import pytest

from autoloader.calibration import Trial
from autoloader.policy import Outlook
from autoloader.traits import Profile
from autoloader.tuning.assistant import AssistantError, ChildDiedError, NoBatchError, OutOfTimeError
from autoloader.tuning.candidates import Situation
from autoloader.tuning.laboratory import Run
from autoloader.tuning.trials import MOST_ROUNDS, Outcome, rounds_for, run_trials

PROFILE = Profile(
    batches=8,
    batch_samples=10,
    sample_seconds=0.01,
    sample_cpu_seconds=0.01,
    transfer_seconds=0.0,
    step_seconds=0.05,
    step_cpu_seconds=0.05,
)
"""
A batch takes 0.1 s to load and half of that to train on: the model takes 2 workers, and cannot tell 3 apart.
"""

SITUATION = Situation(PROFILE, 8.0, 3, Outlook(100, 100, 0), fork_seconds=0.025)


class Child:
    """
    Answers with steps by number of workers; an exception in the place of one is raised.
    """

    def __init__(self, steps: Mapping[int, Any]) -> None:
        self.steps = steps
        self.asked: list[int] = []
        self.arguments: list[Any] = []

    def ask(self, question: str, settings: Mapping[str, Any], rounds: int, step: float, *, is_busy: bool) -> Run:
        assert question == "run"
        self.asked.append(settings["num_workers"])
        self.arguments.append((rounds, step, is_busy))
        answer = self.steps[self.asked[-1]]
        if isinstance(answer, BaseException):
            raise answer
        return Run(0.0, answer, 10)


def tried(child: Any, *, only: int | None = None, seconds: float = 600.0) -> Outcome:
    """
    Return what trials with a child see.
    """
    return run_trials(child, SITUATION, lambda workers: {"num_workers": workers}, monotonic() + seconds, only=only)


@pytest.mark.parametrize(
    ("steps", "asked"),
    [
        pytest.param({1: 0.1, 2: 0.05, 3: 0.1}, [2, 3, 1], id="clear-at-once"),
        pytest.param({1: 0.1, 2: 0.05, 3: 0.06}, [2, 3, 1, 2, 3], id="clear-after-two-runs"),
        pytest.param({1: 0.1, 2: 0.05, 3: 0.05}, [2, 3, 1, 2, 3, 2, 3], id="never-clear"),
        pytest.param({0: 0.06, 1: 0.06, 2: 0.09, 3: 0.1}, [2, 3, 1, 0, 0, 1, 0, 1], id="down-to-inline"),
    ],
)
def test_trials_go_on_until_the_order_is_clear(steps: Mapping[int, float], asked: list[int]) -> None:
    """
    The model's choice and its neighbours run in turn, those near the best again, and none more than three times.
    """
    child = Child(steps)
    outcome = tried(child)
    assert child.asked == asked
    assert (outcome.stopped_by, outcome.failed) == ("order clear", {})
    assert {workers: len(runs) for workers, runs in outcome.runs.items()} == {each: asked.count(each) for each in asked}


@pytest.mark.parametrize(
    ("batches", "epochs_left", "elapsed", "asked", "stopped_by"),
    [
        pytest.param(100, 1, 0.0, 7, "order clear", id="all"),
        pytest.param(100, 1, 6.0, 7, "order clear", id="just-all"),
        pytest.param(100, 1, 6.5, 0, "not worth a trial", id="none"),
        pytest.param(100, 99, 6.5, 7, "order clear", id="more-epochs"),
        pytest.param(None, 9, 6.5, 7, "order clear", id="more-of-unknown-length"),
    ],
)
def test_trials_end_where_they_take_a_twentieth_of_a_training(
    batches: int | None, epochs_left: int, elapsed: float, asked: int, stopped_by: str
) -> None:
    """
    With two workers 3,000 batches of 0.05 s take 150 s, of which 7.5 are the limit; a trial takes about 1.1.
    """
    child, situation = (
        Child({1: 0.1, 2: 0.05, 3: 0.05}),
        SITUATION._replace(outlook=Outlook(batches, batches, epochs_left)),
    )
    outcome = run_trials(
        child, situation, lambda workers: {"num_workers": workers}, monotonic() + 600, begun=monotonic() - elapsed
    )
    assert (len(child.asked), outcome.stopped_by) == (asked, stopped_by)


def test_trials_end_in_the_middle_where_the_best_so_far_is_quicker_than_expected() -> None:
    """
    What remains is less then: 3,000 batches of 0.01 s, a twentieth of which is 1.5 s.
    """
    child = Child({1: 0.1, 2: 0.01, 3: 0.01})
    outcome = run_trials(
        child, SITUATION, lambda workers: {"num_workers": workers}, monotonic() + 600, begun=monotonic() - 1.0
    )
    assert (child.asked, outcome.stopped_by) == ([2], "no gain")


def test_trial_is_told_how_long_to_time_and_what_the_training_does() -> None:
    """
    Four rounds of 0.1 s with two workers, three of 0.15 with three and inline; steps of 0.05 s keep the CPU busy.
    """
    child = Child({0: 0.15, 1: 1.0, 2: AssistantError("failed"), 3: AssistantError("failed")})
    tried(child)
    assert dict(zip(child.asked, child.arguments, strict=True)) == {
        2: (4, 0.05, True),
        3: (3, 0.05, True),
        0: (3, 0.05, True),
    }


@pytest.mark.parametrize(
    ("profile", "workers", "rounds", "seconds"),
    [
        pytest.param(PROFILE, 2, 4, 2 * 0.025 + 7 * 0.1, id="workers"),
        pytest.param(PROFILE, 0, 3, 6 * 0.15, id="inline"),
    ],
)
def test_rounds_fill_the_time_of_a_trial(profile: Profile, workers: int, rounds: int, seconds: float) -> None:
    """
    0.4 s are timed, after a start and three rounds.
    """
    assert rounds_for(SITUATION._replace(profile=profile), workers) == (rounds, pytest.approx(seconds))


def test_rounds_of_batches_that_take_nothing_are_limited() -> None:
    """
    And those of batches that take seconds are at least one.
    """
    nothing = Profile(batches=8, batch_samples=1, sample_seconds=0.0, sample_cpu_seconds=0.0)
    assert rounds_for(SITUATION._replace(profile=nothing), 0)[0] == MOST_ROUNDS
    much = Profile(batches=1, batch_samples=1, sample_seconds=2.0, sample_cpu_seconds=0.0)
    assert rounds_for(SITUATION._replace(profile=much), 0) == (1, 8.0)


def test_inline_is_tried_where_all_workers_fail() -> None:
    """
    A dataset may well raise in workers only; the last line says why.
    """
    child = Child({0: 0.15, 2: AssistantError("Traceback\nValueError: two"), 3: AssistantError("three")})
    outcome = tried(child)
    assert child.asked == [2, 3, 0]
    assert outcome == ({0: [Run(0.0, 0.15, 10)]}, {2: "ValueError: two", 3: "three"}, "order clear")


def test_number_that_fails_is_not_tried_again() -> None:
    """
    Nor does a first run of it count that went well.
    """
    outcome = tried(Child({1: 0.1, 2: 0.05, 3: AssistantError("three")}))
    assert {workers: len(runs) for workers, runs in outcome.runs.items()} == {1: 1, 2: 1}
    assert outcome.failed == {3: "three"}


def test_all_trials_may_fail() -> None:
    """
    A one-shot stream has nothing left.
    """
    outcome = tried(Child(dict.fromkeys(range(4), NoBatchError("the dataset gave no batch"))))
    assert outcome == ({}, dict.fromkeys((2, 3, 0), "the dataset gave no batch"), "no trial possible")


def test_number_that_the_user_has_set_runs_alone_three_times() -> None:
    """
    What it takes is of interest all the same.
    """
    child = Child({3: 0.1})
    assert tried(child, only=3) == ({3: [Run(0.0, 0.1, 10)] * 3}, {}, "order clear")


@pytest.mark.parametrize("error", [AssistantError("raised"), OutOfTimeError("no batch came")])
def test_number_that_the_user_has_set_and_that_fails_is_an_error(error: AssistantError) -> None:
    """
    There is nothing else to take.
    """
    with pytest.raises(type(error), match=str(error)):
        tried(Child({3: error}), only=3)


def test_number_that_the_user_has_set_may_find_nothing_left() -> None:
    """
    The profile has used a stream up.
    """
    outcome = tried(Child({3: NoBatchError("the dataset gave no batch")}), only=3)
    assert outcome == ({}, {3: "the dataset gave no batch"}, "no trial possible")


@pytest.mark.parametrize(
    ("error", "failed", "stopped_by"),
    [
        pytest.param(OutOfTimeError("no batch came"), {3: "no batch came"}, "budget", id="hangs"),
        pytest.param(KeyboardInterrupt(), {}, "interrupt", id="ctrl-c"),
    ],
)
def test_what_was_seen_before_the_end_counts(error: BaseException, failed: Mapping[int, str], stopped_by: str) -> None:
    """
    A trial that hangs takes all the time that is left.
    """
    assert tried(Child({2: 0.05, 3: error})) == ({2: [Run(0.0, 0.05, 10)]}, failed, stopped_by)


def test_no_trial_begins_that_would_not_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The first one takes half a second and a half more; none is possible in less.
    """
    assert tried(Child({}), seconds=0.5) == ({}, {}, "no trial possible")
    moments = iter([0.0, 599.0])
    monkeypatch.setattr("autoloader.tuning.trials.monotonic", lambda: next(moments))
    child = Child({2: 0.05})
    outcome = run_trials(child, SITUATION, lambda workers: {"num_workers": workers}, 600.0)  # type: ignore[arg-type]
    assert outcome == ({2: [Run(0.0, 0.05, 10)]}, {}, "budget")


def test_death_of_the_child_ends_the_trials_as_a_failure_of_the_number_that_was_tried() -> None:
    """
    What was seen counts, and without that it is an error: then nobody knows that it was the number of workers.
    """
    death = ChildDiedError("the process that measures ended with exit code -9")
    child = Child({2: 0.05, 3: death})
    assert tried(child) == ({2: [Run(0.0, 0.05, 10)]}, {3: str(death)}, "death")
    assert child.asked == [2, 3]
    with pytest.raises(ChildDiedError):
        tried(Child({2: death}))


def test_progress_names_what_is_tried() -> None:
    """
    In the words of a user.
    """
    told: list[str] = []
    child = Child({0: 0.06, 1: 0.06, 2: 0.09, 3: 0.1})
    settings = dict.fromkeys(("num_workers",))
    run_trials(
        child, SITUATION, lambda workers: {**settings, "num_workers": workers}, monotonic() + 600, progress=told.append
    )  # type: ignore[arg-type]
    assert told[:4] == ["2 workers", "3 workers", "1 worker", "inline"]


def test_record_of_a_number_has_the_medians_of_its_runs() -> None:
    """
    By number of workers, with what the model expected: 0.05 s with 2 workers, 0.15 inline.
    """
    runs = {2: [Run(3.0, 0.06, 10), Run(1.0, 0.04, 20), Run(2.0, 0.05, 10)], 0: [Run(0.5, 0.2, 7)]}
    inline = {"num_workers": 0, "step_seconds": 0.2, "first_batch_seconds": 0.5, "runs": 1, "batches": 7}
    two = {"num_workers": 2, "step_seconds": 0.05, "first_batch_seconds": 2.0, "runs": 3, "batches": 40}
    assert Outcome(runs, {}, "order clear").trials(SITUATION) == (
        Trial(**inline, expected_seconds=pytest.approx(0.15)),
        Trial(**two, expected_seconds=0.05),
    )
