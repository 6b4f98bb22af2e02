"""
The command that checks source: places, exit codes, and files that cannot be read.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from autoloader.cli import main

ROOT = Path(__file__).parents[2]

WRONG = """\
from torch.utils.data import DataLoader
for batch in DataLoader(range(8), num_workers=2):
    print(batch)
"""

RIGHT = WRONG.replace("num_workers=2", "num_workers=0")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """
    Return a script with one finding, on its second line.
    """
    path = tmp_path / "train.py"
    path.write_text(WRONG, encoding="utf-8")
    return path


def test_finding_is_a_line_with_its_place_and_ends_with_7(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Editors and people find the place; the summary stays out of the data.
    """
    assert main(["check", str(wrong)]) == 7
    output = capsys.readouterr()
    assert output.out == (
        f"{wrong}:2:1: check.unguarded-iteration 'for batch in DataLoader(range(8), num_workers=2):' starts workers, "
        "and no main guard is around it: workers that start by spawn or forkserver import this file, and would come to "
        "this line, too. Put it into a function, and call that under 'if __name__ == \"__main__\":', or pass "
        "num_workers=0.\n"
    )
    assert output.err == "1 finding in 1 of 1 file\n"


def test_nothing_found_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A right script prints nothing on stdout.
    """
    (tmp_path / "a.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "b.py").write_text("", encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", "nothing found in 2 files\n")


def test_json_is_one_document(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    --json tells the findings, how many files there were, and which could not be checked.
    """
    (wrong.parent / "old.py").write_text("print 'python 2'", encoding="utf-8")
    assert main(["check", "--json", str(wrong.parent)]) == 7
    document = json.loads(capsys.readouterr().out)
    (finding,) = document["findings"]
    assert (document["schema"], document["files"]) == (1, 2)
    assert list(document["not_checked"]) == [str(wrong.parent / "old.py")]
    assert {name: finding[name] for name in ("id", "path", "line", "column")} == {
        "id": "check.unguarded-iteration",
        "path": str(wrong),
        "line": 2,
        "column": 1,
    }


def test_path_that_does_not_exist_is_one_error(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Nothing is checked, and the exit code is that of a wrong call.
    """
    assert main(["check", str(wrong), "gone.py"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        "error: PATH='gone.py' cannot be checked: there is no such file or folder. "
        "Write the path of a Python file, or of a folder with Python files.\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("old.py", b"print 'python 2'", "it is not valid Python 3", id="python-2"),
        pytest.param("bytes.py", b"x = '\xff'", "invalid or missing encoding declaration", id="no-utf-8"),
        pytest.param("cookie.py", b"# coding: klingon\n", "unknown encoding", id="unknown-encoding"),
        pytest.param("null.py", b"x = 1\0", "it is not valid Python 3", id="null-byte"),
        pytest.param("a.ipynb", b"{}", "notebooks are not read; export it with", id="notebook"),
    ],
)
def test_file_that_cannot_be_checked_is_a_remark(
    name: str, content: bytes, reason: str, wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    It is named on stderr, and the other files are checked.
    """
    path = wrong.parent / name
    path.write_bytes(content)
    assert main(["check", str(path)]) == 0
    remark, summary = capsys.readouterr().err.splitlines()
    assert remark.startswith(f"{path}: not checked: {reason}")
    assert summary == "nothing found in 0 files"
    assert main(["check", str(path), str(wrong)]) == 7


def test_source_is_decoded_as_python_decodes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A coding line and a byte order mark count; columns are characters.
    """
    latin = f"# coding: latin-1\nname = 'é'; {WRONG}".replace(
        "\nfor", "\nname = 'é'; list(DataLoader(x, num_workers=1))\nfor"
    )
    (tmp_path / "latin.py").write_bytes(latin.encode("latin-1"))
    (tmp_path / "mark.py").write_bytes(b"\xef\xbb\xbf" + WRONG.encode())
    assert main(["check", str(tmp_path)]) == 7
    places = [line.partition(": ")[0].rpartition(os.sep)[2] for line in capsys.readouterr().out.splitlines()]
    assert places == ["latin.py:3:13", "latin.py:4:1", "mark.py:2:1"]


def test_folders_of_others_are_skipped_and_a_file_is_checked_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Hidden folders, virtual environments, installed and built code are left out, unless they are named themselves.
    """
    for folder in (".git", "node_modules", "build", "dist", "__pycache__", "lib/site-packages", "env", "mine/deep"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "notes.txt").write_text(WRONG, encoding="utf-8")
    assert main(["check", str(tmp_path), str(tmp_path / "mine" / "deep" / "a.py")]) == 7
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{tmp_path / 'mine' / 'deep' / 'a.py'}:2:1: ")
    assert main(["check", str(tmp_path / "build")]) == 7


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there, and pipes have no path")
def test_links_and_pipes_do_not_hang_it(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A circle of links ends, and what is not a regular file is not opened.
    """
    folder = wrong.parent
    (folder / "circle").symlink_to(folder, target_is_directory=True)
    (folder / "itself.py").symlink_to(folder / "itself.py")
    (folder / "again.py").symlink_to(wrong)
    os.mkfifo(folder / "pipe.py")
    assert main(["check", str(folder)]) == 7
    assert capsys.readouterr().out.count("\n") == 1
    assert main(["check", str(folder / "pipe.py")]) == 0
    assert capsys.readouterr().err.startswith(f"{folder / 'pipe.py'}: not checked: it is not a regular file\n")


def test_check_loads_no_torch(wrong: Path) -> None:
    """
    The command works where torch is not installed, and is fast where it is.
    """
    script = (
        f"import sys; from autoloader.cli import main; print(main(['check', {str(wrong)!r}]), 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[-1] == "7 False"


def test_hook_calls_the_command() -> None:
    """
    The repository's pre-commit hook is the command, for Python files.
    """
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    hook = dict(re.findall(r"^[- ] (\w+): (.*)$", text, re.MULTILINE))
    assert (hook["id"], hook["entry"]) == ("autoloader-check", "python -m autoloader check")
    assert (hook["language"], hook["types"]) == ("python", "[python]")
