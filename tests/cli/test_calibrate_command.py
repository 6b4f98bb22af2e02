"""
``calibrate`` on the command line: what goes to standard output, what to standard error, and how it ends.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from autoloader.calibration import Calibration
from autoloader.cli import main

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.torch,
    pytest.mark.slow_spawn,
    pytest.mark.skipif(sys.platform == "win32", reason="each process takes seconds to start under Wine"),
]

DATA = """
import os, time
from pathlib import Path

print("importing")


class Waits:
    def __len__(self):
        return 200

    def __getitem__(self, index):
        if index == 0:
            print("fetching", flush=True)
        (Path(__file__).parent / "seen" / str(os.getpid())).touch()
        time.sleep(0.005)
        return index


class Raises(Waits):
    def __getitem__(self, index):
        raise KeyError(f"no sample {index}")


def fails():
    raise OSError("no such data")
"""

UNGUARDED = """
import multiprocessing

from autoloader import calibrate
from my_data import Waits

multiprocessing.set_start_method("spawn")
calibrate(Waits(), 4)
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Return a file with factories, good and bad.
    """
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "my_data.py"
    path.write_text(DATA)
    (tmp_path / "seen").mkdir()
    return path


def command(*arguments: object) -> list[str]:
    """
    Return how the command line is called in a process of its own.
    """
    return [sys.executable, "-m", "autoloader", "calibrate", *map(str, arguments)]


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """
    Run it.
    """
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, check=False)


def error_of(result: "subprocess.CompletedProcess[str]") -> list[str]:
    """
    Return the lines on standard error but for those that the dataset printed.
    """
    return [line for line in result.stderr.splitlines() if line not in {"importing", "fetching"}]


def test_text_goes_to_stdout_and_what_the_dataset_prints_to_stderr(target: Path) -> None:
    """
    Verdict, parts and curve, in ASCII; the picture is a remark.
    """
    picture = target.parent / "curve.png"
    result = run(f"{target}:Waits", "--batch-size", 4, "--budget", 6, "--plot", picture)
    assert result.returncode == 0
    assert result.stdout.startswith("num_workers=")
    assert "\n\nWhere the time of a batch of 4 goes:\n" in result.stdout
    assert "\n\nBatches a second by number of workers, measured (#) and by the model (.):\n" in result.stdout
    assert " <- chosen\n" in result.stdout
    assert result.stdout.isascii()
    assert "fetching" not in result.stdout
    assert {"importing", "fetching"} <= set(result.stderr.splitlines())
    assert error_of(result)[-1] == f"drawn: {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_plan_shows_what_was_calibrated(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Both shuffle, as a training does.
    """
    monkeypatch.setenv("AUTOLOADER_CACHE_DIR", str(target.parent / "cache"))
    monkeypatch.delenv("AUTOLOADER_NO_CACHE", raising=False)
    asked = (f"{target}:Waits", "--batch-size", "4")
    found = run(*asked, "--budget", 6)
    planned = subprocess.run(
        [sys.executable, "-m", "autoloader", "plan", *asked], capture_output=True, text=True, timeout=300, check=True
    )
    chosen = found.stdout.partition(":")[0]
    assert planned.stdout.startswith(f"{chosen} ")
    assert "[num_workers.calibrated]" in planned.stdout


def test_json_is_the_calibration(target: Path) -> None:
    """
    And nothing else, and its plan is of use.
    """
    picture = target.parent / "curve.svg"
    result = run(f"{target}:Waits", "--batch-size", 4, "--budget", 5, "--json", "--plot", picture)
    found = Calibration.from_json(json.loads(result.stdout))
    assert json.loads(found.to_json()) == json.loads(result.stdout)
    assert found.profile.batch_samples == 4
    assert found.plan.as_kwargs()["num_workers"] == found.num_workers
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf"])
def test_budget_that_is_no_time_ends_with_2(budget: str, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    One line, and nothing is measured.
    """
    assert main(["calibrate", f"{target}:Waits", f"--budget={budget}"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines()[-1] == (
        f"error: budget_seconds={float(budget)!r} is no time to measure in. "
        "Pass a number of seconds above 0; 20 is the default."
    )
    assert list((target.parent / "seen").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ("{target}:Waits", "--plot", "curve.pdf"),
            "error: --plot 'curve.pdf' cannot be drawn: its ending is neither .png nor .svg. "
            "Name a file that ends with one of them.",
            id="plot-ending",
        ),
        pytest.param(
            ("{target}:Waits", "--batch-size", "0"),
            "error: batch_size=0 is too small: it counts the samples of a batch, and the smallest is 1. "
            "Pass 1 or more, or leave batch_size out.",
            id="batch-size",
        ),
        pytest.param(("gone:x",), "error: TARGET='gone:x' does not exist: there is no module 'gone'.", id="no-module"),
        pytest.param(("{target}:fails",), "failed: it raised OSError: no such data.", id="factory-raises"),
    ],
)
def test_request_that_makes_no_sense_ends_with_2(
    arguments: tuple[str, ...], text: str, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    One line on standard error, before anything is measured.
    """
    assert main(["calibrate", *(each.format(target=target) for each in arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert text in output.err.splitlines()[-1]
    assert list((target.parent / "seen").iterdir()) == []


def test_plot_that_cannot_be_written_is_known_before_anything_is_measured(
    target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The folder does not exist.
    """
    path = target.parent / "nowhere" / "curve.png"
    assert main(["calibrate", f"{target}:Waits", "--plot", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {str(path)!r} cannot be used: No such file or directory.")
    assert list((target.parent / "seen").iterdir()) == []


def test_dataset_that_raises_ends_with_5(target: Path) -> None:
    """
    Its own traceback stands below the error, and no empty picture is left.
    """
    picture = target.parent / "curve.png"
    result = run(f"{target}:Raises", "--plot", picture)
    lines = error_of(result)
    assert (result.returncode, result.stdout) == (5, "")
    assert lines[0].startswith("error: Nothing could be measured, because loading failed: KeyError: 'no sample ")
    assert lines[0].endswith("Mend the dataset: list(DataLoader(dataset, num_workers=0)) shows the same error here.")
    assert lines[2] == "Traceback (most recent call last):"
    assert lines[-1].startswith("KeyError: 'no sample ")
    assert not picture.exists()


def test_script_without_a_main_guard_under_spawn_is_told_so(target: Path) -> None:
    """
    Before a process starts that would run it again.
    """
    script = target.parent / "train.py"
    script.write_text(UNGUARDED)
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 1
    assert "MissingMainGuardError: Nothing can be measured, because no process can start for it: " in result.stderr
    assert "train.py" in result.stderr
    assert list((target.parent / "seen").iterdir()) == []


def test_ctrl_c_ends_with_what_is_known(target: Path) -> None:
    """
    As a terminal sends it, to all processes of the job, once trials run.
    """
    seen = target.parent / "seen"
    arguments = command(f"{target}:Waits", "--batch-size", 4, "--budget", 60)
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = monotonic() + 120
    while len(list(seen.iterdir())) < 3 and monotonic() < deadline:
        sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert output.startswith("num_workers=")
    assert ", ended by an interrupt.\n" in output
