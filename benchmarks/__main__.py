"""
``python -m benchmarks``: autoloader's settings beside the best that trying finds, and beside its peers'.

``python -m benchmarks.environments``, once, installs the packages among the peers. A run in parts, each with ``--only``
and ``--json``, is put together by ``python -m benchmarks.report``.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from . import environments, peers, report, workloads
from .child import Job
from .measure import LONG, QUICK, Effort, Measured, Runner, Setting, measure, peer_settings, runner
from .packages import PACKAGES
from .results import Results, as_json, read_host

QUICK_SECONDS = 14 * 60
"""
A quick run starts no workload that is not likely to end by then.
"""


def measure_workload(
    workload: workloads.Workload, effort: Effort, seed: int | None, theirs: Mapping[str, Setting], folder: Path
) -> Measured:
    """
    Make the workload's files, and screen and score it beside *theirs*, the peers' settings.
    """
    batches = workload.quick_batches if effort.is_quick else workload.batches
    samples = batches * workload.batch_size
    workload.make_dataset(samples, folder)

    def run_for(epochs: int) -> Runner:
        told = {"workload": workload.name, "seed": seed, "batches": batches, "epochs": epochs, "folder": str(folder)}
        return runner(Job(**told, maker="torch", settings={}), samples * epochs, effort.timeout_seconds)

    return measure(workload.name, run_for, effort, workload.epochs, theirs)


def measure_all(
    chosen: Sequence[workloads.Workload], effort: Effort, seed: int | None, keep: Callable[[list[Measured]], object]
) -> tuple[list[Measured], list[str]]:
    """
    Return what was measured, and the names of those that a quick run had no time for.

    What there is is given to *keep* after each workload, so that an interrupted run loses only the last one.
    """
    begun, longest = time.monotonic(), 0.0
    theirs = peer_settings(peers.read_facts(), environments.missing(), effort.scored)
    found: list[Measured] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in chosen:
            started = time.monotonic()
            if effort.is_quick and started - begun + longest > QUICK_SECONDS:
                left_out.append(workload.name)
                continue
            found.append(measure_workload(workload, effort, seed, theirs, Path(folder)))
            keep(found)
            took = time.monotonic() - started
            longest = max(longest, took)
            print(f"{workload.name}: {took:.0f} s", file=sys.stderr)
    return found, left_out


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """
    Return the options of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="under 15 minutes: fewer batches, counts and rounds")
    length.add_argument("--long", action="store_true", help="score runs of about 10 seconds, of autoloader only")
    parser.add_argument("--only", metavar="NAME", action="append", help="only this workload; may be given again")
    parser.add_argument("--seed", type=int, metavar="N", help="add three unseen workloads drawn from N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all raw numbers")
    options = parser.parse_args(argv)
    try:
        names = [workloads.find(name, options.seed) for name in options.only or ()]
    except ValueError as error:
        parser.error(str(error))
    if options.json:
        try:
            options.json.open("a", encoding="utf-8").close()
        except OSError as error:
            parser.error(f"--json: {error}. Name a file where you may write.")
    drawn = () if options.seed is None else workloads.unseen(options.seed)
    options.chosen = names or [*drawn, *workloads.WORKLOADS]
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """
    Measure, and print the table; 1 where a scored run failed that was no package's among the peers.
    """
    options = parse_arguments(argv)
    effort = QUICK if options.quick else LONG if options.long else Effort()
    seeds = () if options.seed is None else (options.seed,)
    empty = Results(host=read_host(), facts=peers.read_facts(), effort=effort, seeds=seeds)

    def keep(found: Sequence[Measured], left_out: Sequence[str] = ()) -> Results:
        results = replace(empty, workloads=tuple(found), left_out=tuple(left_out))
        if options.json:
            options.json.write_text(json.dumps(as_json(results), indent=2) + "\n", encoding="utf-8")
        return results

    results = keep(*measure_all(options.chosen, effort, options.seed, keep))
    print(report.render(results))
    return 1 if any(each.errors(but=PACKAGES) for each in results.workloads) else 0


if __name__ == "__main__":
    sys.exit(main())
