"""
Finds good settings by trying, and then measures them beside autoloader and its peers.

Each run is a process of its own, in the environment of its peer where that has one. Some processes at a time are made,
which import side by side; then one after the other runs, while the others wait. *Screening* tries numbers of
workers, and then prefetching and persistence at the best of them, once each; nothing of it is scored. *Scoring* runs
the best again beside the peers, in rounds whose order is drawn anew, with a control: the best of the screening once
more. Settings that are the same share their runs, so that their ratio is one as it should be; who chooses in the run
does so in each round. Where runs are to last some seconds, they have more epochs, the scored ones most, and workers
that stay. The best setting is the one with the least median of the scored rounds, of those that the
screening found and those that peers have by rule; being chosen from these very rounds, it has luck on its side,
against ours.
"""

import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from . import peers
from .child import IMPORTED, Job
from .environments import python_of
from .paired import Median, median_with_interval, paired_ratios

CONTROL = "control"

MOST_PROOFS = 3
"""
So often a run that is to last some seconds is made longer.
"""

HOPELESS = 2.0
"""
Where runs last, a setting that took so many times as long as the best in the screening is not scored.
"""

MARGIN = 1.2
"""
Runs that are to last some seconds are planned so much longer: no two take the same time, and later epochs take less.
"""

AT_A_TIME = 8
"""
So many processes are made at a time: each keeps a few hundred megabytes.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """
    One choice of settings, and who makes the loader with it.
    """

    maker: str
    """See :func:`benchmarks.peers.make_loader`."""
    settings: Mapping[str, Any]
    """Arguments for the DataLoader; empty where the maker chooses."""

    @property
    def key(self) -> str:
        """
        Return the same text for settings that are the same to torch, and a short one to read.
        """
        if self.maker != "torch":
            return self.maker
        workers = self.settings.get("num_workers", 0)
        prefetched = self.settings.get("prefetch_factor", 2)
        stays = self.settings.get("persistent_workers", False)
        return f"{workers}w" + (f" prefetch {prefetched}" + (" persistent" if stays else "") if workers else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """
    What one run took, or why there is no result.
    """

    wall_seconds: float | None = None
    """From before the loader is made until the last batch was taken; ``None`` where the run failed."""
    first_seconds: float | None = None
    """From the same moment until the first batch."""
    choosing_seconds: float | None = None
    """What making the loader took of it, with all search for settings."""
    calibration_seconds: float | None = None
    """What a calibration before the run took, which does not count; ``None`` where there was none."""
    workers: int | None = None
    """Worker processes that the loader had."""
    error: str | None = None
    """Why the run failed; ``None`` where it did not."""


Runner = Callable[[Sequence[Setting]], list[Run]]
"""
Runs each of several settings, one after the other.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """
    How much is tried.
    """

    counts: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    """Numbers of workers that are screened."""
    refined: int = 3
    """How many of them, the best, are tried with other prefetching and persistence."""
    finalists: int = 5
    """How many settings of the screening are scored."""
    rounds: int = 7
    """Runs of each scored setting."""
    timeout_seconds: float = 300.0
    """When a run is ended."""
    is_quick: bool = False
    """Whether each epoch has the workload's *quick_batches*."""
    screened_seconds: float = 0.0
    """How long the screening's best run lasts at least, by more epochs: starting workers weighs less then."""
    least_seconds: float = 0.0
    """How long a scored run of the best setting lasts at least: it has as many epochs as that takes."""
    scored: tuple[str, ...] = peers.PEERS
    """The peers that are scored."""


QUICK = Effort(counts=(0, 2, 4, 8), refined=1, finalists=2, rounds=3, timeout_seconds=60.0, is_quick=True)
LONG = Effort(finalists=3, screened_seconds=1.0, least_seconds=10.0, scored=(peers.OURS, peers.CALIBRATED))


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """
    All runs of one workload.
    """

    workload: str
    """Its name."""
    screening: Mapping[str, Run]
    """One run for each setting tried, by its key."""
    rounds: Mapping[str, tuple[Run, ...]]
    """The runs of each scored setting by key, one a round, and of the control."""
    finalists: tuple[str, ...]
    """Keys of the best of the screening, best first."""
    peers: Mapping[str, str]
    """The key of each peer's setting; those that are not installed, or not scored, have none."""
    epochs: int
    """Passes over the dataset in each scored run."""

    @property
    def best(self) -> str:
        """
        Return the key of the setting with the least median in the scored rounds, of the finalists and those by rule.
        """
        ruled = (self.peers[name] for name in peers.RULES if name in self.peers)
        return min((*self.finalists, *ruled), key=lambda key: statistics.median(self.seconds(key)))

    def seconds(self, key: str) -> list[float]:
        """
        Return the wall seconds of the setting *key* in each round; infinite where a run failed.
        """
        return [math.inf if run.wall_seconds is None else run.wall_seconds for run in self.rounds[key]]

    def ratio(self, key: str) -> Median | None:
        """
        Return the best setting's seconds by those of *key*, paired by round; ``None`` where a run of either failed.
        """
        if key == CONTROL:
            return self._ratio(self.finalists[0], CONTROL)
        return self._ratio(self.best, key)

    def _ratio(self, above: str, below: str) -> Median | None:
        if any(run.error for run in (*self.rounds[above], *self.rounds[below])):
            return None
        return median_with_interval(paired_ratios(self.seconds(above), self.seconds(below)))

    def errors(self, but: Container[str] = ()) -> list[str]:
        """
        Return what went wrong in scored runs, each once; not in those of the keys in *but*.
        """
        told = {key: [run.error for run in runs if run.error] for key, runs in self.rounds.items() if key not in but}
        return list(
            dict.fromkeys(f"{self.workload}, {key}: {error}" for key, errors in told.items() for error in errors)
        )


def plain(num_workers: int, **settings: Any) -> Setting:
    """
    Return a plain DataLoader's setting.
    """
    return Setting(maker="torch", settings={"num_workers": num_workers, **settings})


def screen(run: Runner, effort: Effort, epochs: int) -> tuple[dict[str, Run], list[Setting]]:
    """
    Try settings once each, and return all runs by key and the finalists, best first.

    Persistence is tried only where there is a second epoch: it changes nothing before. Where runs are to last, workers
    stay in all of them, and what is hopeless is no finalist.

    Raises:
        ValueError: No run succeeded.
    """
    tried: dict[str, tuple[Setting, Run]] = {}

    def run_all(settings: Iterable[Setting]) -> None:
        new = list({each.key: each for each in settings if each.key not in tried}.values())
        tried.update((each.key, (each, result)) for each, result in zip(new, run(new), strict=True))

    lasts = effort.least_seconds > 0
    run_all(kept(plain(count)) if lasts else plain(count) for count in effort.counts)
    best = ranked(tried.values())[: effort.refined]
    stays = (True,) if lasts else (False, True) if epochs > 1 else (False,)
    run_all(other for each in best for other in refinements(each, stays))
    finalists = ranked(tried.values(), HOPELESS if lasts else math.inf)[: effort.finalists]
    if not finalists:
        reasons = "; ".join(f"{key}: {result.error}" for key, (_, result) in tried.items())
        raise ValueError(f"No screened setting ran: {reasons}. Mend the workload.")
    return {key: result for key, (_, result) in tried.items()}, finalists


def ranked(tried: Iterable[tuple[Setting, Run]], most_times: float = math.inf) -> list[Setting]:
    """
    Return the settings whose runs succeeded, the fastest first, and none that took over *most_times* as long as that.
    """
    good = [(result.wall_seconds, setting) for setting, result in tried if result.wall_seconds is not None]
    least = min((seconds for seconds, _ in good), default=0.0)
    return [setting for seconds, setting in sorted(good, key=lambda pair: pair[0]) if seconds <= most_times * least]


def refinements(setting: Setting, stays: Sequence[bool]) -> list[Setting]:
    """
    Return *setting* with each prefetching, and persistence as in *stays*; none without workers.
    """
    workers = setting.settings["num_workers"]
    if workers == 0:
        return []
    return [plain(workers, prefetch_factor=each, persistent_workers=stay) for each in (2, 4) for stay in stays]


def peer_settings(
    facts: peers.Facts, missing: Container[str] = (), scored: Container[str] = peers.PEERS
) -> dict[str, Setting]:
    """
    Return each scored peer's setting but those of the *missing*; who chooses in the run has a setting of its own.
    """
    ruled = {name: Setting(maker="torch", settings=rule(None, 0, facts)) for name, rule in peers.RULES.items()}
    choosing = {name: Setting(maker=name, settings={}) for name in peers.CHOOSING if name not in missing}
    return {name: setting for name, setting in {**ruled, **choosing}.items() if name in scored}


def score(run: Runner, settings: Iterable[Setting], control: Setting, rounds: int, seed: str) -> dict[str, list[Run]]:
    """
    Return the runs of each distinct setting and of the control, round by round, each round in an order of its own.
    """
    distinct = {setting.key: setting for setting in settings} | {CONTROL: control}
    order, drawn = list(distinct), random.Random(seed)
    runs: dict[str, list[Run]] = {key: [] for key in distinct}
    for _ in range(rounds):
        drawn.shuffle(order)
        for key, result in zip(order, run([distinct[key] for key in order]), strict=True):
            runs[key].append(result)
    return runs


def measure(
    name: str, run_for: Callable[[int], Runner], effort: Effort, epochs: int, theirs: Mapping[str, Setting]
) -> Measured:
    """
    Screen one workload, and score the best settings beside *theirs*, the peers'.

    Args:
        name: The workload's.
        run_for: Returns what runs it for so many epochs.
        effort: What to try.
        epochs: Passes over the dataset in a run, unless that is too short.
        theirs: The peers' settings.
    """
    screening, finalists = screen(run_for(epochs), effort, epochs)
    longer = lengthened(epochs, screening[finalists[0].key], effort.screened_seconds)
    if longer > epochs:
        screening, finalists = screen(run_for(longer), effort, longer)
    longer = lengthened(longer, screening[finalists[0].key], effort.least_seconds)
    longer = proved(run_for, finalists[0], longer, effort.least_seconds)
    runs = score(run_for(longer), [*finalists, *theirs.values()], finalists[0], effort.rounds, name)
    return Measured(
        workload=name,
        screening=screening,
        rounds={key: tuple(each) for key, each in runs.items()},
        finalists=tuple(dict.fromkeys(setting.key for setting in finalists)),
        peers={peer: setting.key for peer, setting in theirs.items()},
        epochs=longer,
    )


def lengthened(epochs: int, run: Run, least_seconds: float) -> int:
    """
    Return how many epochs let a run last so long, and a little longer; no fewer than it had.
    """
    return max(epochs, math.ceil(epochs * MARGIN * least_seconds / (run.wall_seconds or math.inf)))


def proved(run_for: Callable[[int], Runner], setting: Setting, epochs: int, least_seconds: float) -> int:
    """
    Return how many epochs let *setting* run so long, by running it: what is done once is much of a short run.
    """
    for _ in range(MOST_PROOFS if least_seconds else 0):
        (run,) = run_for(epochs)([setting])
        if run.wall_seconds is None or run.wall_seconds >= least_seconds:
            break
        epochs = lengthened(epochs, run, least_seconds)
    return epochs


def kept(setting: Setting) -> Setting:
    """
    Return *setting* with workers that stay between epochs, if it has any.
    """
    workers = setting.settings.get("num_workers", 0)
    return plain(**{**setting.settings, "persistent_workers": True}) if workers else setting


def runner(job: Job, samples: int, timeout_seconds: float) -> Runner:
    """
    Return what runs *job* with each setting in a process of its own.

    Args:
        job: The workload; its maker and settings are replaced.
        samples: What all epochs of a run must yield; the sum of their numbers is checked, too.
        timeout_seconds: When a run and its workers are ended.
    """
    told = asdict(job)

    def command_of(setting: Setting) -> list[str]:
        asked = json.dumps({**told, "maker": setting.maker, "settings": dict(setting.settings)})
        return [python_of(setting.maker), "-W", "ignore", "-m", "benchmarks.child", asked]

    def run(settings: Sequence[Setting]) -> list[Run]:
        found: list[Run] = []
        for first in range(0, len(settings), AT_A_TIME):
            with contextlib.ExitStack() as stack:
                some = [_start(command_of(each), stack) for each in settings[first : first + AT_A_TIME]]
                for process in some:
                    _wait_for_imports(process)
                found += [_result(*_finish(process, timeout_seconds)) for process in some]
        return found

    def _result(status: int | None, printed: str, complaints: str) -> Run:
        if status is None:
            return Run(error=f"ran longer than {timeout_seconds:g} s")
        if status != 0:
            return Run(error=f"exit status {status}: {complaints.strip().splitlines()[-1:]}")
        return parse_run(printed, samples, job.batches)

    return run


def parse_run(printed: str, samples: int, batches: int) -> Run:
    """
    Return the run that a child's last line tells, an error where it lost or doubled a sample.
    """
    found = json.loads(printed.strip().splitlines()[-1])
    epochs = found["epochs"]
    each = samples // epochs
    wanted = (samples, epochs * (each * (each - 1) // 2))
    if (found["samples"], found["sum"]) != wanted:
        got = (found["samples"], found["sum"])
        return Run(error=f"samples and the sum of their numbers are {got}, not {wanted} ({batches} batches an epoch)")
    names = (each.name for each in fields(Run) if each.name != "error")
    return Run(**{name: found.get(name) for name in names})


def _start(command: list[str], stack: contextlib.ExitStack) -> "subprocess.Popen[str]":
    """
    Start a process that ends with *stack*, and its workers with it.
    """
    root = Path(__file__).parent.parent
    # As where people train: there, imports in a run find compiled modules.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, cwd=root, env=environment, start_new_session=True, text=True, **pipes)
    stack.enter_context(process)
    stack.callback(_end, process)
    return process


def _end(process: "subprocess.Popen[str]") -> None:
    """
    End a process that still runs, and its workers.
    """
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _wait_for_imports(process: "subprocess.Popen[str]") -> None:
    """
    Return when a process has imported all it needs, or has ended.
    """
    assert process.stdout is not None
    for line in process.stdout:
        if line.rstrip() == IMPORTED:
            return


def _finish(process: "subprocess.Popen[str]", timeout_seconds: float) -> tuple[int | None, str, str]:
    """
    Let a process run that waits, and return its exit status, ``None`` after the time-out, and what was printed.
    """
    try:
        printed, told = process.communicate("run\n", timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        process.communicate()
        return None, "", ""
    return process.returncode, printed, told
