"""
The command ``python -m autoloader probe`` where things are missing or broken: homes, modules, streams, folders.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from live.running import SOURCE, clean_environment, output_of, probe_command, probe_json, probe_lines, run, run_python

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with the tools of Linux"),
]


@pytest.mark.parametrize(
    "home",
    [
        pytest.param(None, id="unset"),
        pytest.param("", id="empty"),
        pytest.param("/nonexistent", id="missing"),
        pytest.param("/proc", id="read-only"),
    ],
)
def test_home_that_is_no_use_changes_nothing(home: str | None, lines: dict[str, str]) -> None:
    """
    The probe keeps nothing there.
    """
    found = probe_lines(environment=clean_environment(HOME=home))
    steady = ("system", "environment", "CPU", "usable CPUs", "CPU limits", "NUMA nodes", "start methods", "job")
    assert {name: found[name] for name in steady} == {name: lines[name] for name in steady}


def test_probe_leaves_no_file(tmp_path: Path) -> None:
    """
    Nothing appears in the home folder, the one for temporary files or the working directory.
    """
    for name in ("home", "temp", "work"):
        (tmp_path / name).mkdir()
    environment = clean_environment(
        HOME=str(tmp_path / "home"),
        TMPDIR=str(tmp_path / "temp"),
        PYTHONDONTWRITEBYTECODE=None,
        PYTHONPYCACHEPREFIX=None,
    )
    probe_json(cwd=tmp_path / "work", environment={**environment, "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")})
    assert [path for name in ("home", "temp", "work") for path in (tmp_path / name).iterdir()] == []


@pytest.fixture
def broken_psutil(tmp_path: Path) -> dict[str, str]:
    """
    Return an environment whose psutil raises PermissionError when it is imported.
    """
    (tmp_path / "psutil.py").write_text('raise PermissionError(13, "Permission denied", "/proc/stat")\n')
    return clean_environment(PYTHONPATH=os.pathsep.join([str(tmp_path), SOURCE]))


def test_psutil_that_fails_at_import_is_not_needed_here(broken_psutil: dict[str, str], lines: dict[str, str]) -> None:
    """
    Linux is read without psutil.
    """
    assert probe_lines(environment=broken_psutil)["system"] == lines["system"]
    assert probe_json(environment=broken_psutil)["memory"]["total_bytes"] is not None


def test_psutil_that_fails_at_import_leaves_memory_unknown_elsewhere(broken_psutil: dict[str, str]) -> None:
    """
    The backend of other systems asks psutil, and takes its failure for no answer.
    """
    code = """
from autoloader.probe import probe_host
from autoloader.report import render_facts
print(render_facts(probe_host(platform="freebsd14")))
"""
    printed = run_python(code, environment=broken_psutil).splitlines()
    assert "memory         unknown available of unknown, cgroup limit unknown" in printed
    assert "shared memory  unknown" in printed


def test_torch_that_cannot_be_imported_is_not_needed(tmp_path: Path, lines: dict[str, str]) -> None:
    """
    The probe is the same where ``import torch`` fails, and loads none of the heavy packages.
    """
    (tmp_path / "sitecustomize.py").write_text(
        """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is not installed, says this test")

sys.meta_path.insert(0, NoTorch())
"""
    )
    environment = clean_environment(PYTHONPATH=os.pathsep.join([str(tmp_path), SOURCE]))
    code = """
import sys
from autoloader.cli import main
code = main(["probe"])
heavy = ("torch", "numpy", "psutil", "rich", "platformdirs", "cpuinfo", "subprocess")
print(code, [name for name in heavy if name in sys.modules])
try:
    import torch
except ImportError as error:
    print(error)
"""
    *printed, state, error = run_python(code, environment=environment).splitlines()
    assert printed[0] == f"system         {lines['system']}"
    assert (state, error) == ("0 []", "torch is not installed, says this test")


def test_torch_that_is_installed_is_not_imported() -> None:
    """
    Python's own record of imports names nothing heavy.
    """
    done = run(sys.executable, "-X", "importtime", "-m", "autoloader", "probe", "--json")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert "autoloader" in imported
    assert imported.isdisjoint({"torch", "numpy", "psutil", "rich", "platformdirs", "cpuinfo", "subprocess"})


def test_probe_with_every_warning_an_error_is_silent() -> None:
    """
    Development mode also shows files that were not closed.
    """
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "autoloader", "probe", "--json"]
    assert json.loads(output_of(*command))["schema"] == 1


@pytest.mark.parametrize(
    ("redirection", "is_printed"),
    [
        pytest.param("<&-", True, id="stdin"),
        pytest.param("2>&-", True, id="stderr"),
        pytest.param("<&- 2>&-", True, id="stdin-and-stderr"),
        pytest.param(">&-", False, id="stdout"),
        pytest.param("<&- >&- 2>&-", False, id="all"),
    ],
)
def test_probe_with_closed_streams_ends_well(redirection: str, is_printed: bool) -> None:
    """
    As under a service manager that gives a program no streams.
    """
    printed = output_of("bash", "-c", f'exec "$@" {redirection}', "bash", *probe_command("--json"))
    assert (json.loads(printed)["schema"] == 1) if is_printed else (printed == "")


def test_probe_in_a_removed_working_directory_has_no_storage(tmp_path: Path) -> None:
    """
    ``getcwd`` fails there.
    """
    shell = 'mkdir "$0" && cd "$0" && rmdir "$0" && exec "$@"'
    before = ("bash", "-c", shell, str(tmp_path / "gone"))
    storage = probe_json(*before)["storage"]
    assert storage["path"] is None
    assert probe_lines(*before)["storage"] == "unknown"


@pytest.mark.parametrize("unbuffered", [pytest.param(None, id="buffered"), pytest.param("1", id="unbuffered")])
@pytest.mark.parametrize("options", [pytest.param([], id="text"), pytest.param(["--json"], id="json")])
def test_probe_into_a_closed_pipe_ends_in_silence(unbuffered: str | None, options: list[str]) -> None:
    """
    As in ``probe | head``: nobody reads, and that is no error.
    """
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*probe_command(*options), stdout=writer, environment=clean_environment(PYTHONUNBUFFERED=unbuffered))
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        pytest.param("täst", "ascii", id="stream-takes-ascii-only"),
        pytest.param(b"\xff", "utf-8", id="name-is-not-utf-8"),
    ],
)
def test_probe_in_a_folder_whose_name_cannot_be_printed_ends_well(
    tmp_path: Path, name: str | bytes, encoding: str
) -> None:
    """
    The name is written some other way.
    """
    folder = os.fsencode(tmp_path) + b"/" + os.fsencode(name)
    os.mkdir(folder)
    found = probe_lines(cwd=folder, environment=clean_environment(PYTHONIOENCODING=encoding))
    assert f"at {tmp_path.resolve()}" in found["storage"]
