"""
Tells what was measured: a table with a row a workload, and what it means.

``python -m benchmarks.report FILE...`` puts together what several runs wrote with ``--json``, and prints Markdown. With
``--write`` it puts the tables of the committed runs into the README and the docs.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from . import peers
from .measure import CONTROL, Effort, Measured
from .paired import Median, geometric_mean, median_with_interval
from .results import INTERVAL, Results, as_json, merge, parse

ROOT = Path(__file__).parent.parent
COMMITTED = Path(__file__).parent / "results" / "full.json"
COMMITTED_LONG = COMMITTED.with_name("long.json")
README, PAGE = ROOT / "README.md", ROOT / "docs" / "reference" / "benchmark.md"

WHO = {
    "torch": "torch's default: no workers",
    "tutorial": "4 workers, as in torch's tutorials",
    "cpu-count": "a worker for each CPU",
    "lightning": "Lightning's warnings, followed",
    "table": "the table of many blog posts",
    peers.PADDLE: "Paddle's search, at each start",
    peers.LOADTUNE: "the package loadtune, which searches at each start",
    peers.EFFICIO: "the package efficio",
    peers.POLICY: "autoloader's rules, with nothing measured",
    peers.OURS: "**`auto_loader(dataset)` as it comes**",
    peers.CALIBRATED: "**`auto_loader(dataset)` after `calibrate`**",
}
"""
What the README calls the peers.
"""


_FIRST_CELL = "| workload |"


def render_summary(results: Results) -> str:
    """
    Return as Markdown how far each peer is from the best settings, over all workloads that it ran.
    """
    length = results.effort.least_seconds
    header = f"in runs of about {length:g} seconds" if length else "who chooses the settings"
    rows = [f"| {header} | geometric mean | minimum | workloads |", "| --- | --- | --- | --- |"]
    for peer in results.effort.scored:
        ratios = _ratios(results.workloads, peer)
        mean, least = (f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}") if ratios else ("-", "-")
        rows.append(f"| {WHO[peer]} | {mean} | {least} | {len(ratios)} |")
    return "\n".join(rows)


def with_table(text: str, table: str) -> str:
    """
    Return a page with *table* in the place of the one that has the same first cell.

    Raises:
        ValueError: It has none.
    """
    begin = "\n" + table[: table.index("|", 1)]
    at = text.find(begin)
    if at < 0:
        raise ValueError(f"the page has no table that begins with {begin.strip()!r}")
    end = text.find("\n\n", at)
    return f"{text[: at + 1]}{table}{text[end:] if end >= 0 else chr(10)}"


def with_results(page: str, *results: Results) -> str:
    """
    Return the docs' page with its tables, and all that is told below them, made anew.

    What stands before the first of them stays, and so does each heading of a further one, with its text.
    """
    before, *further = page.split("\n## ")
    heads = [before.partition(_FIRST_CELL)[0], *("\n## " + each.partition(_FIRST_CELL)[0] for each in further)]
    return "".join(f"{head}{render_markdown(found)}\n" for head, found in zip(heads, results, strict=True))


def write_pages(short: Results, long: Results) -> None:
    """
    Put the tables into the README and the page of the docs.
    """
    readme = README.read_text(encoding="utf-8")
    for results in (short, long):
        readme = with_table(readme, render_summary(results))
    README.write_text(readme, encoding="utf-8")
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8"), short, long), encoding="utf-8")


def render(results: Results) -> str:
    """
    Return the table: the seconds of the best setting by a peer's own, 1.00 being as fast as the best found.
    """
    rows = _rows(results)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", TOLD, *(f"  {line}" for line in _told(results)), "", *_notes(results)])


def render_markdown(results: Results) -> str:
    """
    Return the same as Markdown, with where it was measured.
    """
    header, *rows = ("| " + " | ".join(row) + " |" for row in _rows(results))
    table = [header, "| --- " * len(_rows(results)[0]) + "|", *rows]
    told = [TOLD, "", *(f"- {line}" for line in _told(results))]
    return "\n".join([*table, "", *told, "", "\n\n".join([_place(results), *_notes(results)])])


def _rows(results: Results) -> list[list[str]]:
    scored = results.effort.scored
    header = ["workload", "best setting", "seconds", *scored, "A/A"]
    return [header, *(_row(each, scored) for each in results.workloads), *_summary(results.workloads, scored)]


def _row(measured: Measured, scored: Sequence[str]) -> list[str]:
    seconds = measured.seconds(measured.best)
    ratios = [_ratio(measured, measured.peers.get(peer)) for peer in scored]
    return [measured.workload, measured.best, f"{statistics.median(seconds):.2f}", *ratios, _ratio(measured, CONTROL)]


def _ratio(measured: Measured, key: str | None) -> str:
    if key is None:
        return "not installed"
    ratio = measured.ratio(key)
    return "failed" if ratio is None else f"{ratio.value:.2f}"


def _summary(found: Sequence[Measured], scored: Sequence[str]) -> list[list[str]]:
    """
    Return the rows with each peer's geometric mean and minimum over the workloads; without a ratio of each, none.
    """
    rows = [["geometric mean", "", ""], ["minimum", "", ""]]
    for peer in scored:
        ratios = _ratios(found, peer)
        rows[0].append(f"{geometric_mean(ratios):.2f}" if len(ratios) == len(found) > 0 else "-")
        rows[1].append(f"{min(ratios):.2f}" if len(ratios) == len(found) > 0 else "-")
    return [[*row, ""] for row in rows]


def _ratios(found: Sequence[Measured], peer: str) -> list[float]:
    """
    Return a peer's ratio for each workload on which it ran.
    """
    keys = [(each, each.peers.get(peer)) for each in found]
    return [ratio.value for each, key in keys if key and (ratio := each.ratio(key))]


TOLD = "Intervals of policy, auto_loader, calibrated and the control, and what calibrating and searching took:"


def _told(results: Results) -> list[str]:
    lines = []
    for each in results.workloads:
        keys = (peers.POLICY, peers.OURS, peers.CALIBRATED, CONTROL)
        told = [f"{key} {_interval(each.ratio(key))}" for key in keys if key in each.rounds]
        took = [
            run.calibration_seconds
            for run in each.rounds.get(peers.CALIBRATED, ())
            if run.calibration_seconds is not None
        ]
        told += [f"calibration {seconds:.1f} s" for seconds in took]
        for peer in (peers.PADDLE, peers.LOADTUNE):
            took = [run.choosing_seconds for run in each.rounds.get(peer, ()) if run.choosing_seconds is not None]
            told += [f"{peer} {statistics.median(took):.1f} s"] if took else []
        lines.append(f"{each.workload}: {', '.join(told)}")
    return lines


def _interval(ratio: Median | None) -> str:
    return "failed" if ratio is None else f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def _place(results: Results) -> str:
    host = results.host
    machine = f"{host.cpu or 'unknown CPU'}, {results.facts.usable_cpus} usable CPUs, {host.system}"
    return f"Measured on {machine}, {host.python}, torch {host.torch}, autoloader {host.autoloader}."


def _notes(results: Results) -> list[str]:
    """
    Return what the table means, and what is not in it.
    """
    notes = [_explanation(results.effort)]
    absent = [peer for peer in results.effort.scored if any(peer not in each.peers for each in results.workloads)]
    if absent:
        notes.append(f"Not installed: {', '.join(absent)}. `python -m benchmarks.environments` installs them.")
    if results.left_out:
        left_out = ", ".join(results.left_out)
        notes.append(f"Not run, for want of time: {left_out}. Run them with --only, or without --quick.")
    return [*notes, *(f"error: {error}" for each in results.workloads for error in each.errors())]


def _explanation(effort: Effort) -> str:
    coverage = median_with_interval(range(effort.rounds)).coverage_fraction
    length = (
        f" A run has as many epochs as the best takes {effort.least_seconds:g} s for." if effort.least_seconds else ""
    )
    kind = (
        f"Quick: {effort.rounds} rounds, fewer batches and fewer screened counts {effort.counts}; an interval is the "
        f"range of the rounds and holds the median with probability {coverage:.2f} only."
        if effort.is_quick
        else f"{effort.rounds} rounds; an interval holds the median with probability {coverage:.3f}.{length}"
    )
    return f"Ratios are best / own by round, their median, and an {INTERVAL}.\n{kind}"


def main(argv: Sequence[str] | None = None) -> int:
    """
    Print one table of all files, and write them as one.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=main.__doc__)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="what python -m benchmarks --json wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all raw numbers, to be read again")
    parser.add_argument("--write", action="store_true", help="put the tables into the README and the docs")
    options = parser.parse_args(argv)
    try:
        results = merge({str(path): _read(path) for path in options.files or [COMMITTED]})
        if options.json:
            options.json.write_text(json.dumps(as_json(results), indent=1) + "\n", encoding="utf-8")
        if options.write:
            write_pages(_read(COMMITTED), _read(COMMITTED_LONG))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(render_markdown(results))
    return 0


def _read(path: Path) -> Results:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}. Measure again with --json.") from error


if __name__ == "__main__":
    sys.exit(main())
