"""
Screening and scoring with a runner that only looks up its answer.
"""

import json
import sys
from collections.abc import Mapping

import pytest
from benchmarks.measure import (
    CONTROL,
    Effort,
    Measured,
    Run,
    Setting,
    _finish,
    measure,
    parse_run,
    plain,
    score,
    screen,
)
from benchmarks.peers import Facts
from benchmarks.report import as_json, render

EFFORT = Effort(counts=(0, 1, 2, 4), refined=2, finalists=3, rounds=3)
FACTS = Facts(cpus=2, usable_cpus=2, platform="linux")


class Lookup:
    """
    Answers a setting's seconds by its key, and keeps what was asked.
    """

    def __init__(self, seconds: Mapping[str, float | str], other: float = 9.0) -> None:
        self.seconds = seconds
        self.other = other
        self.asked: list[str] = []

    def __call__(self, setting: Setting) -> Run:
        self.asked.append(setting.key)
        found = self.seconds.get(setting.key, self.other)
        return Run(error=found) if isinstance(found, str) else Run(wall_seconds=found)


def test_screen_refines_the_best_counts_and_returns_the_best_first() -> None:
    """Prefetching is tried at the two best counts; the default of two is not run again."""
    run = Lookup({"4w prefetch 2": 1.0, "2w prefetch 2": 2.0, "2w prefetch 4": 0.5})
    tried, finalists = screen(run, EFFORT, epochs=1)
    assert [each.key for each in finalists] == ["2w prefetch 4", "4w prefetch 2", "2w prefetch 2"]
    assert run.asked == [*("0w", "1w prefetch 2", "2w prefetch 2", "4w prefetch 2"), "4w prefetch 4", "2w prefetch 4"]
    assert list(tried) == run.asked


def test_screen_tries_persistence_where_there_is_a_second_epoch() -> None:
    """Workers that stay are a setting of their own."""
    run = Lookup({"2w prefetch 2": 2.0, "2w prefetch 2 persistent": 1.0})
    _, finalists = screen(run, EFFORT, epochs=2)
    assert finalists[0].key == "2w prefetch 2 persistent"
    assert "2w prefetch 4 persistent" in run.asked


def test_screen_leaves_out_a_failed_setting() -> None:
    """What did not run is no finalist, however it is ranked."""
    _, finalists = screen(Lookup({"0w": "ended by signal 9"}), EFFORT, epochs=1)
    assert "0w" not in [each.key for each in finalists]


def test_screen_where_nothing_runs_is_an_error() -> None:
    """There is no best setting then."""
    failing = dict.fromkeys(("0w", "1w prefetch 2", "2w prefetch 2", "4w prefetch 2"), "no")
    with pytest.raises(ValueError, match="No screened setting ran: 0w: no"):
        screen(Lookup(failing), EFFORT, epochs=1)


def test_score_runs_equal_settings_once_a_round() -> None:
    """Four settings, two of them the same, and the control: four runs a round."""
    run = Lookup({})
    runs = score(run, [plain(0), Setting(maker="torch", settings={}), plain(2), plain(4)], plain(0), 3, seed="waiting")
    assert {key: len(each) for key, each in runs.items()} == {
        "0w": 3,
        "2w prefetch 2": 3,
        "4w prefetch 2": 3,
        CONTROL: 3,
    }
    rounds = [run.asked[at : at + 4] for at in range(0, 12, 4)]
    assert all(sorted(each) == sorted(["0w", "0w", "2w prefetch 2", "4w prefetch 2"]) for each in rounds)


def measured(**other: float | str) -> Measured:
    """
    Return a workload whose best setting takes a second, a calibrated one 1.25, auto_loader two, all else nine.
    """
    run = Lookup({"2w prefetch 2": 1.0, "auto_loader": 2.0, "calibrated": 1.25, **other})
    return measure("waiting", run, EFFORT, 1, FACTS)


def test_measure_compares_best_with_each() -> None:
    """The ratio is the best setting's seconds by one's own."""
    found = measured()
    assert found.best == "2w prefetch 2"
    ratios = {peer: found.ratio(key) for peer, key in found.peers.items()}
    values = {peer: ratio and round(ratio.value, 3) for peer, ratio in ratios.items()}
    assert values == {
        "torch": 0.111,
        "tutorial": 0.111,
        "cpu-count": 1.0,
        "lightning": 0.111,
        "table": 0.111,
        "policy": 0.111,
        "auto_loader": 0.5,
        "calibrated": 0.8,
    }


def test_render_has_a_row_a_workload_and_the_summary() -> None:
    """The table ends with the geometric mean and the minimum."""
    lines = render([measured()], EFFORT, ["left"]).splitlines()
    assert lines[0].split() == [
        *("workload", "best", "setting", "seconds", "torch", "tutorial"),
        *("cpu-count", "lightning", "table", "policy", "auto_loader", "calibrated", "A/A"),
    ]
    assert lines[1].split() == [
        "waiting",
        *["2w", "prefetch", "2", "1.00", "0.11", "0.11", "1.00", "0.11", "0.11", "0.11", "0.50", "0.80", "1.00"],
    ]
    assert lines[2].split()[:3] == ["geometric", "mean", "0.11"]
    assert lines[3].split()[-2:] == ["0.50", "0.80"]
    assert "Not run, for want of time: left." in lines[-1]


def test_render_of_a_failed_peer_says_so_and_gives_it_no_mean() -> None:
    """A mean over the workloads that went well would flatter it."""
    lines = render([measured(policy="lost a sample")], EFFORT).splitlines()
    assert "failed" in lines[1]
    assert lines[2].split() == ["geometric", "mean", "0.11", "0.11", "1.00", "0.11", "0.11", "-", "0.50", "0.80"]
    assert lines[-1] == "error: waiting, policy: lost a sample"


def test_as_json_is_json_also_where_a_run_failed() -> None:
    """Infinity is not JSON: a failed run has no seconds."""
    told = as_json([measured(policy="lost a sample")], EFFORT, FACTS, None)
    told = json.loads(json.dumps(told, allow_nan=False))
    assert told["workloads"][0]["rounds"]["policy"][0]["wall_seconds"] is None
    assert told["workloads"][0]["ratios_best_by_own"]["auto_loader"]["value"] == 0.5


@pytest.mark.parametrize(
    ("samples", "total", "error"),
    [
        pytest.param(8, 12, None, id="all"),
        pytest.param(7, 12, "samples and the sum of their numbers are (7, 12), not (8, 12)", id="lost"),
        pytest.param(8, 11, "samples and the sum of their numbers are (8, 11), not (8, 12)", id="one-twice"),
    ],
)
def test_parse_run_refuses_lost_and_doubled_samples(samples: int, total: int, error: str | None) -> None:
    """Two epochs of the samples 0 to 3 are eight, and sum to twelve."""
    told = {"wall_seconds": 1.0, "first_seconds": 0.5, "workers": 2, "epochs": 2, "samples": samples, "sum": total}
    found = parse_run("a line of the dataset's own\n" + json.dumps(told), 8, 2)
    assert (found.error is None) if error is None else (found.error or "").startswith(error)


def test_finish_ends_a_process_that_takes_too_long() -> None:
    """There is no status then, and no wait for the process's own end."""
    assert _finish([sys.executable, "-c", "import time; time.sleep(600)"], 0.2) == (None, "", "")
