"""
The commands, as a user calls them: output, remarks and exit codes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autoloader import __version__
from autoloader.cli import COMMANDS, main

pytestmark = pytest.mark.real_host


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Return a file with factories, good and bad.
    """
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "my_data.py"
    path.write_text(
        """
class Files:
    def __init__(self):
        self.root = "/data/train"

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        raise AssertionError("a sample was fetched")

ready = Files()
numbers = [1, 2, 3]

def factory():
    return Files()

def fails():
    raise OSError("no such data")

def gives_none():
    return None
"""
    )
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """
    Run the command line in a process of its own.
    """
    command = [sys.executable, "-m", "autoloader", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_probe_prints_facts_and_ends_with_0() -> None:
    """
    The text has a line for each group of facts.
    """
    result = run("probe")
    names = [line[:13].strip() for line in result.stdout.splitlines()]
    assert names == [
        *("system", "environment", "CPU", "usable CPUs", "CPU limits", "NUMA nodes", "memory", "shared memory"),
        *("limits", "storage", "accelerator", "start methods", "job"),
    ]
    assert (result.returncode, result.stderr) == (0, "")


def test_probe_json_is_the_facts() -> None:
    """
    --json prints one document with its schema number.
    """
    facts = json.loads(run("probe", "--json").stdout)
    assert facts["schema"] == 1
    assert facts["cpu"]["sources"]["usable_cpus"].startswith("the smallest of the limits")


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        pytest.param((), "usage: python -m autoloader", id="no-command"),
        pytest.param(("prob",), "usage: python -m autoloader", id="unknown-command"),
        pytest.param(("plan",), "usage: python -m autoloader plan", id="no-target"),
        pytest.param(("probe", "--jsn"), "usage: python -m autoloader", id="unknown-option"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], start: str) -> None:
    """
    The usage goes to stderr, nothing to stdout.
    """
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(start)


def test_no_command_shows_all_commands() -> None:
    """
    Somebody who knows nothing yet finds the next step there.
    """
    lines = run().stderr.splitlines()
    (probe,) = (line.split(maxsplit=1) for line in lines if line.startswith("    probe"))
    assert probe == ["probe", COMMANDS["probe"]]
    assert [line.split()[0] for line in lines if line.startswith("    ") and line[4] != " "] == list(COMMANDS)


def test_version_is_the_distributions() -> None:
    """
    --version names distribution and version.
    """
    assert run("--version").stdout == f"torch-autoloader {__version__}\n"


@pytest.mark.torch
@pytest.mark.parametrize("name", ["factory", "Files", "ready"])
def test_plan_of_a_file_prints_each_setting_and_fetches_no_sample(
    name: str, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    TARGET may be a function, a class or the dataset itself.
    """
    assert main(["plan", f"{target}:{name}", "--batch-size", "10"]) == 0
    settings = [line.partition("=")[0] for line in capsys.readouterr().out.splitlines() if "=" in line]
    assert settings[:3] == ["num_workers", "prefetch_factor", "persistent_workers"]


@pytest.mark.torch
def test_plan_of_a_module_is_found_from_the_current_folder(target: Path) -> None:
    """
    module:factory is imported as Python imports it.
    """
    command = [sys.executable, "-m", "autoloader", "plan", "my_data:numbers", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=target.parent)
    assert json.loads(result.stdout)["choices"]["num_workers"]["rule"] == "num_workers.in-memory"


@pytest.mark.torch
def test_plan_explain_shows_rule_and_what_did_not_bind(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    --explain shows one argument with the limits that did not decide.
    """
    assert main(["plan", f"{target}:factory", "--explain", "num_workers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("num_workers = ")
    assert lines[1].startswith("  rule: num_workers.")
    assert any(line.startswith("  did not bind: num_workers.memory allows ") for line in lines)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("nothing", "does not exist: {path} has no 'nothing'", id="no-such-name"),
        pytest.param("fails", "failed: it raised OSError: no such data.", id="raises"),
        pytest.param(
            "gives_none", "gave no dataset: it is of type NoneType. Return the dataset itself", id="no-dataset"
        ),
    ],
)
def test_plan_of_a_bad_target_is_one_error(
    name: str, text: str, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The error is one line on stderr, without a traceback, and the exit code is 2.
    """
    assert main(["plan", f"{target}:{name}"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"error: TARGET={f'{target}:{name}'!r} {text.format(path=target)}")
    assert output.err.count("\n") == 1


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ("no-colon",),
            "error: TARGET='no-colon' does not name a factory: a module or file, a ':' and",
            id="no-colon",
        ),
        pytest.param(("gone.py:x",), "error: TARGET='gone.py:x' does not exist: there is no file 'gone.py'", id="file"),
        pytest.param(("gone:x",), "error: TARGET='gone:x' does not exist: there is no module 'gone'", id="module"),
        pytest.param(
            ("json:loads", "--epochs", "0"), "error: TARGET='json:loads' failed: it raised TypeError", id="fn"
        ),
    ],
)
def test_plan_of_a_missing_target_is_one_error(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    What is missing is named.
    """
    assert main(["plan", *arguments]) == 2
    assert capsys.readouterr().err.startswith(text)


@pytest.mark.torch
def test_plan_with_a_bad_count_is_one_error(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The loader's own check speaks on the command line, too.
    """
    assert main(["plan", f"{target}:factory", "--epochs", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: epochs=0 is too small: ")


@pytest.mark.torch
def test_plan_with_a_bad_batch_size_is_one_error(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A batch has at least one sample.
    """
    assert main(["plan", f"{target}:factory", "--batch-size", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: batch_size=0 is too small: ")


@pytest.mark.torch
def test_plan_as_json_is_not_disturbed_by_what_the_target_prints(
    target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The target's own output goes to stderr, so that stdout stays one document; --debug may stand before the command.
    """
    target.write_text(target.read_text() + "\nprint('loading')\n")
    assert main(["--debug", "plan", f"{target}:factory", "--json"]) == 0
    output = capsys.readouterr()
    assert (json.loads(output.out)["schema"], output.err) == (1, "loading\n")


@pytest.mark.torch
def test_plan_of_a_script_that_exits_is_one_error(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A file that parses arguments or ends the interpreter at its top is named, and nothing ends here.
    """
    target.write_text("raise SystemExit(3)")
    assert main(["plan", f"{target}:factory"]) == 2
    named = f"{target}:factory"
    assert f"TARGET={named!r} failed: it raised SystemExit: 3." in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_that_cannot_be_written_is_one_error() -> None:
    """
    A full disk is named, without a traceback.
    """
    command = [sys.executable, "-m", "autoloader", "probe"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (
        1,
        "error: The output cannot be written: No space left on device. Free some space, or write somewhere else.\n",
    )


@pytest.mark.torch
def test_plan_that_explains_an_unknown_argument_is_one_error(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The error names the arguments that a plan decides.
    """
    assert main(["plan", f"{target}:factory", "--explain", "workers"]) == 2
    assert capsys.readouterr().err.startswith("error: name='workers' is not in this plan: it decides num_workers, ")


def test_command_that_needs_torch_ends_with_4_without_it(tmp_path: Path) -> None:
    """
    Where torch cannot be imported the error says so, and how to install it.
    """
    (tmp_path / "torch.py").write_text("raise ImportError('torch is hidden')")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from autoloader.cli import main; sys.exit(main())"
    for command in (("plan", "my_data:numbers"), ("demo",)):
        arguments = [sys.executable, "-c", script, *command]
        result = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
        assert (result.returncode, result.stdout) == (4, "")
        assert result.stderr == (
            f"error: '{command[0]}' needs torch, and torch cannot be imported: torch is hidden. "
            f"Install it with 'pip install torch'; if it is there, '{sys.executable} -c \"import torch\"' shows what "
            "is wrong.\n"
        )


@pytest.mark.torch
def test_demo_shows_three_rates_and_the_plan() -> None:
    """
    The newcomer's first minute: real JPEG files, three loaders, and the reason for each value.
    """
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    result = run("demo")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "200 JPEG files, batches of 32, 8 epochs, start-up included:"
    assert [line[:19].strip() for line in lines[1:4]] == ["torch's defaults", "num_workers=4", "auto_loader"]
    assert all(float(line[19:].split()[0]) > 0 for line in lines[1:4])
    assert sum(line.endswith("images/s (fastest)") for line in lines[1:4]) == 1
    assert lines[6] == "What auto_loader chose here, and why:"
    assert any(line.startswith("num_workers=") and line.endswith("]") for line in lines[7:])
