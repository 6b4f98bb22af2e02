"""
Screening and scoring with a runner that only looks up its answer.
"""

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.measure import (
    CONTROL,
    Effort,
    Measured,
    Run,
    Setting,
    _finish,
    _start,
    _wait_for_imports,
    measure,
    parse_run,
    peer_settings,
    plain,
    proved,
    score,
    screen,
)
from benchmarks.peers import Facts
from benchmarks.report import main, render, render_markdown, render_summary, with_results, with_table
from benchmarks.results import Host, Results, as_json, merge, parse

from benchmarks import report

EFFORT = Effort(counts=(0, 1, 2, 4), refined=2, finalists=3, rounds=3)
FACTS = Facts(cpus=2, usable_cpus=2, platform="linux")
HOST = Host(cpu="Some CPU", system="linux x86_64 Some Linux", python="CPython 3.12.1", torch="2.9", autoloader="1.0")


class Lookup:
    """
    Answers a setting's seconds by its key, and keeps what was asked.
    """

    def __init__(self, seconds: Mapping[str, float | str], other: float = 9.0) -> None:
        self.seconds = seconds
        self.other = other
        self.asked: list[str] = []

    def __call__(self, settings: Sequence[Setting]) -> list[Run]:
        self.asked += [each.key for each in settings]
        found = [self.seconds.get(each.key, self.other) for each in settings]
        return [
            Run(error=each) if isinstance(each, str) else Run(wall_seconds=each, choosing_seconds=0.5) for each in found
        ]


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


def test_run_that_is_too_short_after_all_is_made_longer() -> None:
    """An expensive start was most of it; a run that fails says nothing."""
    asked: list[int] = []

    def run_for(epochs: int) -> Lookup:
        asked.append(epochs)
        return Lookup({"0w": 5.0 + 0.1 * epochs})

    assert (
        proved(run_for, plain(0), 20, 12.0) == 82
    )  # of 20, 42 and 66 epochs that take 7, 9.2 and 11.6 s, each time a fifth more than needed
    assert asked == [20, 42, 66]
    assert proved(lambda _: Lookup({"0w": "ended"}), plain(0), 20, 12.0) == 20
    assert proved(run_for, plain(0), 20, 0.0) == 20


def test_setting_that_takes_far_longer_is_not_scored() -> None:
    """Where runs last it could not be the best, and would take most of the time."""
    run = Lookup({"0w": 1.0, "1w prefetch 2 persistent": 2.0, "2w prefetch 2 persistent": 2.1})
    _, finalists = screen(run, replace(EFFORT, least_seconds=10.0), epochs=1)
    assert [each.key for each in finalists] == ["0w", "1w prefetch 2 persistent"]


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


def measured(name: str = "waiting", missing: Sequence[str] = (), **other: float | str) -> Measured:
    """
    Return a workload whose best setting takes a second, a calibrated one 1.25, auto_loader two, all else nine.
    """
    run = Lookup({"2w prefetch 2": 1.0, "auto_loader": 2.0, "calibrated": 1.25, **other})
    return measure(name, lambda epochs: run, EFFORT, 1, peer_settings(FACTS, missing))


def results(*workloads: Measured, **other: Any) -> Results:
    """
    Return the results of some workloads, with what differs.
    """
    return Results(**{"host": HOST, "facts": FACTS, "effort": EFFORT, "workloads": workloads, **other})


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
        "paddle": 0.111,
        "loadtune": 0.111,
        "efficio": 0.111,
        "policy": 0.111,
        "auto_loader": 0.5,
        "calibrated": 0.8,
    }


def test_best_may_be_a_peers_setting_that_the_screening_had_missed() -> None:
    """A single run of it was slow; who searches or is ours is no setting to be compared with."""
    runs = iter([Lookup({"0w": 9.5, "4w prefetch 2": 1.0}), Lookup({"0w": 0.5, "auto_loader": 0.1}, other=3.0)])
    effort = replace(EFFORT, finalists=1, counts=(0, 4), refined=0)
    found = measure("waiting", lambda epochs: next(runs), effort, 1, peer_settings(FACTS))
    assert (found.finalists, found.best) == (("4w prefetch 2",), "0w")


def test_long_runs_have_as_many_epochs_as_the_best_needs_and_workers_that_stay() -> None:
    """
    Best is another setting where runs last: it is looked for in 10 epochs, for three seconds and a fifth.

    Twelve seconds and a fifth are 24 epochs of 0.6 seconds then. Other peers have no column.
    """
    effort = replace(EFFORT, screened_seconds=3.0, least_seconds=12.0, scored=("policy", "auto_loader"))
    short = Lookup({"0w": 0.37})
    longer = Lookup({"2w prefetch 2 persistent": 6.1, "0w": 6.5, "1w prefetch 2 persistent": 8.0}, other=20.0)
    scored = Lookup({"0w": 14.0, "auto_loader": 28.0}, other=15.0)
    found = measure(
        "waiting",
        {1: short, 10: longer, 24: scored}.__getitem__,
        effort,
        1,
        peer_settings(FACTS, scored=effort.scored),
    )
    assert found.epochs == 24
    assert found.finalists == ("2w prefetch 2 persistent", "0w", "1w prefetch 2 persistent")
    assert set(longer.asked) == set(found.screening)
    assert all(key == "0w" or key.endswith(" persistent") for key in [*short.asked, *longer.asked])
    assert set(scored.asked) == {*found.finalists, "policy", "auto_loader"}
    assert found.best == "0w"
    lines = render(results(found, effort=effort)).splitlines()
    assert lines[0].split() == ["workload", "best", "setting", "seconds", "policy", "auto_loader", "A/A"]
    assert lines[1].split()[-3:] == ["0.93", "0.50", "1.00"]
    assert lines[-1].endswith("A run has as many epochs as the best takes 12 s for.")


def test_error_of_a_package_among_the_peers_can_be_left_out() -> None:
    """
    It is told once for all rounds, and is no failure of the measurement.
    """
    found = measured(loadtune="it shuffles", policy="no")
    assert found.errors() == ["waiting, loadtune: it shuffles", "waiting, policy: no"]
    assert found.errors(but=("loadtune", "efficio")) == ["waiting, policy: no"]


def test_render_has_a_row_a_workload_and_the_summary() -> None:
    """The table ends with the geometric mean and the minimum."""
    lines = render(results(measured(), left_out=("left",))).splitlines()
    assert lines[0].split() == [
        *("workload", "best", "setting", "seconds", "torch", "tutorial", "cpu-count", "lightning", "table"),
        *("paddle", "loadtune", "efficio", "policy", "auto_loader", "calibrated", "A/A"),
    ]
    ratios = ["0.11", "0.11", "1.00", "0.11", "0.11", "0.11", "0.11", "0.11", "0.11", "0.50", "0.80"]
    assert lines[1].split() == ["waiting", "2w", "prefetch", "2", "1.00", *ratios, "1.00"]
    assert lines[2].split() == ["geometric", "mean", *ratios]
    assert lines[3].split() == ["minimum", *ratios]
    assert "paddle 0.5 s, loadtune 0.5 s" in lines[6]
    assert "Not run, for want of time: left." in lines[-1]


def test_render_of_a_failed_peer_says_so_and_gives_it_no_mean() -> None:
    """A mean over the workloads that went well would flatter it."""
    lines = render(results(measured(policy="lost a sample"))).splitlines()
    assert lines[1].split()[-4:] == ["failed", "0.50", "0.80", "1.00"]
    assert lines[2].split()[-3:] == ["-", "0.50", "0.80"]
    assert lines[-1] == "error: waiting, policy: lost a sample"


def test_render_of_what_is_not_installed_says_so_and_how_to_install_it() -> None:
    """It has no mean either, and is no error."""
    found = results(measured(), measured("other", missing=["loadtune"]))
    lines = render(found).splitlines()
    assert "not installed" not in lines[1]
    assert "not installed" in lines[2]
    assert lines[3].split()[7:] == ["0.11", "-", "0.11", "0.11", "0.50", "0.80"]
    assert lines[-1] == "Not installed: loadtune. `python -m benchmarks.environments` installs them."
    assert found.workloads[1].errors() == []


def test_as_json_can_be_read_again_also_where_a_run_failed() -> None:
    """The ratios are there for readers, and made anew from the raw rounds."""
    found = results(measured(policy="lost a sample"), measured("other", missing=["efficio"]), seeds=(7,))
    text = json.dumps(as_json(found), allow_nan=False)
    told = json.loads(text)
    assert told["workloads"][0]["rounds"]["policy"][0]["wall_seconds"] is None
    assert told["workloads"][0]["ratios_best_by_own"]["auto_loader"]["value"] == 0.5
    assert parse(text) == found


def test_merge_has_the_workloads_of_all_parts() -> None:
    """What one part left out and another measured is not left out; a merged file can be merged again."""
    one = results(measured(), seeds=(7,), left_out=("other", "left"))
    whole = merge({"one": one, "two": results(measured("other"))})
    assert whole == results(measured(), measured("other"), seeds=(7,), left_out=("left",))
    assert merge({"whole": whole}) == whole


@pytest.mark.parametrize(
    ("other", "error"),
    [
        pytest.param({"facts": replace(FACTS, cpus=4)}, "two cannot join one, because its facts is Facts", id="facts"),
        pytest.param({"host": replace(HOST, torch="2.8")}, "two cannot join one, because its host is Host", id="host"),
        pytest.param({"effort": replace(EFFORT, rounds=5)}, "two cannot join one, because its effort is", id="effort"),
        pytest.param({}, "two cannot join one, because both have waiting. Leave one out.", id="twice"),
    ],
)
def test_merge_refuses_what_does_not_belong_together(other: dict[str, Any], error: str) -> None:
    """One table compares what was measured alike."""
    with pytest.raises(ValueError, match=error):
        merge({"one": results(measured()), "two": results(measured(), **other)})


def test_report_prints_one_table_of_several_files_and_writes_them_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table is Markdown, and the file what the table is made of."""
    paths = [tmp_path / "one.json", tmp_path / "two.json", tmp_path / "all.json"]
    parts = [results(measured()), results(measured("other"))]
    for path, part in zip(paths, parts, strict=False):
        path.write_text(json.dumps(as_json(part)), encoding="utf-8")
    assert main([*map(str, paths[:2]), "--json", str(paths[2])]) == 0
    whole = parse(paths[2].read_text(encoding="utf-8"))
    assert whole == results(measured(), measured("other"))
    printed = capsys.readouterr().out
    assert printed == render_markdown(whole) + "\n"
    lines = printed.splitlines()
    assert lines[0].startswith("| workload | best setting | seconds | torch |")
    assert lines[1] == "| --- " * 15 + "|"
    assert lines[3].startswith("| other | 2w prefetch 2 | 1.00 | 0.11 |")
    assert "Measured on Some CPU, 2 usable CPUs, linux x86_64 Some Linux, CPython 3.12.1, torch 2.9" in printed


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("[]", "cannot be read: It is no file of python -m benchmarks --json", id="list"),
        pytest.param("{", "cannot be read: Expecting", id="no-json"),
        pytest.param('{"workloads": []}', "cannot be read: Results lacks the field 'host'", id="lacking"),
    ],
)
def test_report_of_another_file_is_an_error(
    text: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file."""
    path = tmp_path / "one.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit):
        main([str(path)])
    assert f"{path} {error}" in capsys.readouterr().err


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


def test_summary_counts_the_workloads_that_a_peer_ran() -> None:
    """The geometric mean of 0.5 and 0.125 is 0.25; a package that failed on one of two workloads has the other's."""
    found = results(measured("one"), measured("two", auto_loader=8.0, loadtune="no"))
    lines = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in render_summary(found).splitlines()}
    assert lines["**`auto_loader(dataset)` as it comes**"] == ["0.25", "0.12", "2 |"]
    assert lines["the package loadtune, which searches at each start"] == ["0.11", "0.11", "1 |"]


def test_table_of_a_page_is_replaced_and_nothing_else() -> None:
    """It is known by its first cell; a page without one is an error."""
    page = "# Page\n\n| a | b |\n| --- | --- |\n| old | 1 |\n\nText.\n"
    assert with_table(page, "| a | c |\n| --- | --- |") == "# Page\n\n| a | c |\n| --- | --- |\n\nText.\n"
    assert with_table("\n| a | b |\n", "| a | c |") == "\n| a | c |\n"
    with pytest.raises(ValueError, match="the page has no table that begins with '| other'"):
        with_table(page, "| other | c |")


def test_pages_show_the_committed_runs() -> None:
    """README and docs have the tables of the raw numbers; ``python -m benchmarks.report --write`` puts them there."""
    short, long = (parse(path.read_text(encoding="utf-8")) for path in (report.COMMITTED, report.COMMITTED_LONG))
    readme, page = (path.read_text(encoding="utf-8") for path in (report.README, report.PAGE))
    assert with_table(readme, render_summary(short)) == readme
    assert with_table(readme, render_summary(long)) == readme
    assert with_results(page, short, long) == page
    assert page.count(render_markdown(long)) == 1
    assert len(short.workloads) == 20
    assert long.effort.least_seconds == 10


def test_results_of_a_page_are_made_anew_below_its_own_text() -> None:
    """A second table has a heading and a text of its own; what was told below the first one goes."""
    first, second = results(measured("one")), results(measured("two"))
    page = "# Page\n\nText.\n\n| workload | old |\n\nOld note.\n\n## More\n\nOther text.\n\n| workload | older |\n"
    made = f"# Page\n\nText.\n\n{render_markdown(first)}\n\n## More\n\nOther text.\n\n{render_markdown(second)}\n"
    assert with_results(page, first, second) == made
    assert with_results(made, first, second) == made


def test_finish_ends_a_process_that_takes_too_long() -> None:
    """There is no status then, and no wait for the process's own end."""
    with contextlib.ExitStack() as stack:
        process = _start([sys.executable, "-c", "import time; print('imported', flush=True); time.sleep(600)"], stack)
        _wait_for_imports(process)
        assert _finish(process, 0.2) == (None, "", "")


def test_no_process_runs_before_it_is_told_to() -> None:
    """It has printed what comes before that, and the rest when it was told; one that is never told ends."""
    text = "print('a library greets'); print('imported', flush=True); input(); print('done')"
    with contextlib.ExitStack() as stack:
        one, other = (_start([sys.executable, "-c", text], stack) for _ in range(2))
        for process in (one, other):
            _wait_for_imports(process)
        assert (one.poll(), other.poll()) == (None, None)
        assert _finish(one, 60) == (0, "done\n", "")
    assert other.poll() is not None


def test_process_that_cannot_import_is_told_of() -> None:
    """There is a status, and a complaint."""
    with contextlib.ExitStack() as stack:
        process = _start([sys.executable, "-c", "import nothing_of_this_name"], stack)
        _wait_for_imports(process)
        status, _, complaint = _finish(process, 60)
    assert status == 1
    assert "nothing_of_this_name" in complaint
