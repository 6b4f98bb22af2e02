"""
Starts the processes of the matrix from outside, under limits that are made for real, and judges what they print.
"""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import autoloader

from .expected import Cell, Variant, expected, expected_places

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(HERE.parent), str(Path(autoloader.__file__).parent.parent)])

CELL_SECONDS = 120.0
"""
How long one loader may take, on a machine that is busy with other things.
"""

START_SECONDS = 60.0
"""
How long a process may take besides: to import torch, to make its situation, and to end.
"""

GONE_SECONDS = 10.0
"""
How long processes may outlive the one that started them.
"""

NEEDS_ROOT = ("read-only-shm", "few-processes")
"""
Situations that only root can make.
"""

_OTHERS = re.compile(
    r"(SLURM|OMPI|PMI|MPI|PBS|LSB|TORCHELASTIC|OMP|COVERAGE|AUTOLOADER)_.*"
    r"|RANK|LOCAL_RANK|LOCAL_WORLD_SIZE|NCPUS|NSLOTS|PYTHON_CPU_COUNT|TMPDIR|TEMP|TMP|PYTHONWARNINGS"
)
"""
Variables that change what a loader chooses.
"""


class Run(NamedTuple):
    """
    What became of one cell in one variant.
    """

    result: dict[str, Any] | None
    """What the process printed, ``None`` where it ended before."""
    complaints: list[str]
    """What is not as expected."""
    output: str
    """All that the process printed."""

    @property
    def shown(self) -> str:
        """
        Return where batches loaded, for the table.
        """
        if self.result is None or self.complaints:
            return "failed"
        backend, method = self.result["epochs"][0]["planned"]
        return str(backend) if method is None else f"{backend}, {method}"


@functools.cache
def why_not(situation: str) -> str | None:
    """
    Return why a situation cannot be made here, ``None`` where it can.
    """
    if situation in NEEDS_ROOT and os.geteuid() != 0:
        return "needs root, for control groups or mount namespaces"
    if situation == "few-processes" and _pids_hierarchy() is None:
        return "cgroup v1 with the controller 'pids' is not mounted here"
    if situation == "read-only-shm" and _run_briefly("unshare", "-m", "true") != 0:
        return "this machine does not let even root make a mount namespace"
    return None


def _run_briefly(*command: str) -> int:
    return subprocess.run(command, capture_output=True, timeout=START_SECONDS, check=False).returncode


def _pids_hierarchy() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] == "cgroup" and "pids" in after.split()[2].split(","):
            return Path(before.split()[4])
    return None


def run_cells(
    method: str, situation: str, datasets: Sequence[str], variants: Sequence[Variant]
) -> dict[tuple[str, Variant], Run]:
    """
    Run some datasets one after the other in one process, and go on in another one if it ends too early.
    """
    done: dict[tuple[str, Variant], Run] = {}
    for variant in variants:
        waiting = list(datasets)
        while waiting:
            results, trouble, output = _run_process(method, situation, waiting, variant)
            for result in results:
                dataset = waiting.pop(0)
                complaints = [*judge(result, Cell(method, dataset, situation), variant), *trouble]
                done[dataset, variant] = Run(result, complaints, output)
            if waiting:
                done[waiting.pop(0), variant] = Run(None, ["the process ended too early", *trouble], output)
    return done


def judge(result: dict[str, Any], cell: Cell, variant: Variant) -> list[str]:
    """
    Return what of a result is not as expected.
    """
    wanted = expected(cell, variant)
    if result["error"] is not None:
        return [result["error"]]
    return [*_judge_epochs(result["epochs"], wanted.backend, wanted.method), *_judge_end(result, wanted.is_said)]


def _judge_epochs(epochs: list[dict[str, Any]], backend: str, method: str | None) -> Iterator[str]:
    for number, epoch in enumerate(epochs):
        if epoch["numbers"] != list(range(12)):
            yield f"epoch {number}: samples {epoch['numbers']}"
        if epoch["planned"] != [backend, method]:
            yield f"epoch {number}: planned {epoch['planned']}, expected {backend}, {method}"
        if epoch["backends"] != expected_places(backend):
            yield f"epoch {number}: loaded in {epoch['backends']}, expected {expected_places(backend)}"
        if epoch["methods"] != ([] if method is None else [method]):
            yield f"epoch {number}: workers by {epoch['methods']}, expected {method}"
    if len(epochs) != 2:
        yield f"{len(epochs)} epochs"


def _judge_end(result: dict[str, Any], is_said: bool | None) -> Iterator[str]:
    said = result["warnings"]
    if len(said) > 1 or (is_said is not None and len(said) != is_said):
        yield f"{len(said)} warnings: {said}"
    if result["left"]:
        yield f"left after close(): {result['left']}"


def _run_process(
    method: str, situation: str, datasets: Sequence[str], variant: Variant
) -> tuple[list[dict[str, Any]], list[str], str]:
    """
    Run one process to its end; return its results, what is wrong with its end, and all that it printed.
    """
    with _folder() as folder, _surroundings(situation, folder) as (before, environment):
        arguments = method, situation, str(folder), str(CELL_SECONDS), variant, ",".join(datasets)
        printed = folder / "printed.txt"
        with printed.open(
            "w"
        ) as stream:  # a pipe would be waited for as long as anything holds it that was left behind
            process = subprocess.Popen(
                [*before, sys.executable, str(HERE / "cell.py"), *arguments],
                env={**_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        trouble = list(_wait_for(process, START_SECONDS + CELL_SECONDS * len(datasets)))
        output = printed.read_text(errors="replace")
    lines = [line for line in output.splitlines() if line.startswith('{"dataset"')]
    return [json.loads(line) for line in lines], trouble, output


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> Iterator[str]:
    """
    Wait for a process and all that it started, end what is left, and yield what is wrong with that.
    """
    try:
        code = process.wait(seconds)
        if code != 0:
            yield f"exit code {code}"
    except subprocess.TimeoutExpired:
        _kill([process.pid])
        process.wait(START_SECONDS)
        yield f"the process did not end within {seconds:.0f} seconds"
    yield from (f"left after the end: {each}" for each in _wait_until_gone(process.pid))


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="matrix-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _surroundings(situation: str, folder: Path) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """
    Yield the command that starts another under the limits of a situation, and the variables that it needs.
    """
    if situation == "long-tmpdir":
        long = folder / ("x" * (89 - len(str(folder))))
        long.mkdir()
        yield (), {"TMPDIR": str(long)}
    elif situation == "read-only-shm":
        script = 'mount --make-rprivate / && mount -t tmpfs -o ro,size=64m tmpfs /dev/shm && exec "$@"'
        yield ("unshare", "-m", "bash", "-c", script, "bash"), {}
    elif situation == "few-processes":
        with _pids_group() as group:
            yield (
                ("bash", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group)),
                {"AUTOLOADER_TEST_PIDS": str(group)},
            )
    else:
        yield (), {}


@contextmanager
def _pids_group() -> Iterator[Path]:
    hierarchy = _pids_hierarchy()
    assert hierarchy is not None
    group = hierarchy / f"autoloader-test-{uuid.uuid4().hex}"
    group.mkdir()
    try:
        yield group
    finally:
        deadline = time.monotonic() + GONE_SECONDS
        while not _is_removed(group) and time.monotonic() < deadline:
            time.sleep(0.01)


def _is_removed(group: Path) -> bool:
    """
    Try to remove a group, which the kernel refuses for a moment after its last process ended.
    """
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not _OTHERS.fullmatch(name)}
    return {**kept, "PYTHONPATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"}


def _members_of(session: int) -> dict[int, str]:
    """
    Return the processes of a session with their commands; those that have ended and only wait to be noticed are none.
    """
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it has ended
            state, _, _, its_session = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found[int(pid)] = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def _wait_until_gone(session: int) -> list[str]:
    """
    Return the processes that outlive the first one of their session, and end them.
    """
    deadline = time.monotonic() + GONE_SECONDS
    while (left := _members_of(session)) and time.monotonic() < deadline:
        time.sleep(0.01)
    _kill(left)
    return [f"process {pid}: {command}" for pid, command in left.items()]


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
