"""
Tells what was measured: a table with a row a workload, and JSON with all raw numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from . import peers
from .measure import CONTROL, Effort, Measured
from .paired import Median, geometric_mean, median_with_interval

INTERVAL = "order-statistic interval of the median (David and Nagaraja, Order Statistics, 3rd edition, section 7.1)"


def render(found: Sequence[Measured], effort: Effort, left_out: Sequence[str] = ()) -> str:
    """
    Return the table: the seconds of the best setting by a peer's own, 1.00 being as fast as the best found.

    Args:
        found: One for each workload that ran.
        effort: What was tried.
        left_out: Names of the workloads that a quick run had no time for.
    """
    header = ["workload", "best setting", "seconds", *peers.PEERS, "A/A"]
    rows = [header, *(_row(each) for each in found), *_summary(found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += ["", *_intervals(found), "", _explanation(effort)]
    if left_out:
        lines.append(f"Not run, for want of time: {', '.join(left_out)}. Run them with --only, or without --quick.")
    return "\n".join([*lines, *(f"error: {error}" for each in found for error in each.errors())])


def _row(measured: Measured) -> list[str]:
    seconds = sorted(measured.seconds(measured.best))
    keys = [*(measured.peers[peer] for peer in peers.PEERS), CONTROL]
    ratios = ["failed" if (ratio := measured.ratio(key)) is None else f"{ratio.value:.2f}" for key in keys]
    return [measured.workload, measured.best, f"{seconds[len(seconds) // 2]:.2f}", *ratios]


def _summary(found: Sequence[Measured]) -> list[list[str]]:
    """
    Return the rows with each peer's geometric mean and minimum over the workloads; a failed one has none.
    """
    rows = [["geometric mean", "", ""], ["minimum", "", ""]]
    for peer in peers.PEERS:
        ratios = [ratio.value for each in found if (ratio := each.ratio(each.peers[peer]))]
        rows[0].append(f"{geometric_mean(ratios):.2f}" if len(ratios) == len(found) > 0 else "-")
        rows[1].append(f"{min(ratios):.2f}" if len(ratios) == len(found) > 0 else "-")
    return [[*row, ""] for row in rows]


def _intervals(found: Sequence[Measured]) -> list[str]:
    lines = ["Intervals of policy, auto_loader, calibrated and the control, and what the calibration took:"]
    for each in found:
        keys = (peers.POLICY, peers.OURS, peers.CALIBRATED, CONTROL)
        told = [f"{key} {_interval(each.ratio(key))}" for key in keys]
        took = [run.calibration_seconds for run in each.rounds[peers.CALIBRATED] if run.calibration_seconds is not None]
        lines.append(f"  {each.workload}: {', '.join([*told, *(f'{seconds:.1f} s' for seconds in took)])}")
    return lines


def _interval(ratio: Median | None) -> str:
    return "failed" if ratio is None else f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def _explanation(effort: Effort) -> str:
    coverage = median_with_interval(range(effort.rounds)).coverage_fraction
    kind = (
        f"Quick: {effort.rounds} rounds, fewer batches and fewer screened counts {effort.counts}; an interval is the "
        f"range of the rounds and holds the median with probability {coverage:.2f} only."
        if effort.is_quick
        else f"{effort.rounds} rounds; an interval holds the median with probability {coverage:.3f}."
    )
    return f"Ratios are best / own by round, their median, and an {INTERVAL}.\n{kind}"


def as_json(
    found: Sequence[Measured], effort: Effort, facts: peers.Facts, seed: int | None, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """
    Return all raw numbers, and the ratios made of them, as JSON's types.
    """
    return {
        "facts": asdict(facts),
        "effort": asdict(effort),
        "interval": INTERVAL,
        "seed": seed,
        "left_out": list(left_out),
        "workloads": [_workload(each) for each in found],
    }


def _workload(measured: Measured) -> dict[str, Any]:
    ratios = {key: measured.ratio(key) for key in measured.rounds}
    raw = asdict(measured)
    for runs in (raw["screening"].values(), *raw["rounds"].values()):
        for run in runs:
            run["wall_seconds"] = None if run["error"] else run["wall_seconds"]
    told = {key: None if ratio is None else asdict(ratio) for key, ratio in ratios.items()}
    return {**raw, "best": measured.best, "ratios_best_by_own": told}
