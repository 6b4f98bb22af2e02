"""
The command cache: what is kept, and that only that is deleted.
"""

import json
import os
from pathlib import Path

import pytest

from autoloader.cli import cache, main
from autoloader.store import Store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Let the command find a store of the test's own, with one entry.
    """
    monkeypatch.setattr(cache, "probe_environment", lambda: {"AUTOLOADER_CACHE_DIR": str(tmp_path / "cache")})
    Store(tmp_path / "cache").write("plan", {"a": 1}, "x")
    (path,) = (tmp_path / "cache").glob("plan-*.json")
    os.utime(path, (0, 0))
    return tmp_path / "cache"


def test_show_lists_what_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A line each on stdout, the sum on stderr.
    """
    (path,) = folder.glob("plan-*.json")
    assert main(["cache", "show"]) == 0
    said = capsys.readouterr()
    assert said.out == f"1970-01-01T00:00:00+00:00  plan       {path.stat().st_size:>8} bytes  {path.name}\n"
    assert said.err.startswith(f"1 kept in {folder}, ")
    assert path.exists()


def test_line_ends_with_what_a_file_says_that_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Characters that a terminal would obey are escaped there; a file that cannot be used is listed, and says why.
    """
    (path,) = folder.glob("plan-*.json")
    path.write_text(json.dumps({"schema": 1, "about": "Images of 3 samples\x1b[2J"}), encoding="utf-8")
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out.endswith(f"{path.name}  Images of 3 samples\\x1b[2J\n")
    other, empty = "  was not written by this version", "  cannot be read: Expecting value: line 1 column 1 (char 0)"
    for content, told in (('{"schema": 1, "about": 5}', ""), ('{"about": "x"}', other), ("[]", other), ("", empty)):
        path.write_text(content, encoding="utf-8")
        assert main(["cache", "show"]) == 0
        assert capsys.readouterr().out.endswith(f" bytes  {path.name}{told}\n")


def test_json_has_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Times are UTC.
    """
    Store(folder).write("plan", {"a": 1}, "x", about="three files")
    (path,) = folder.glob("plan-*.json")
    os.utime(path, (0, 0))
    assert main(["cache", "show", "--json"]) == 0
    size, when = path.stat().st_size, "1970-01-01T00:00:00+00:00"
    entry = {"file": path.name, "kind": "plan", "about": "three files", "written": when, "bytes": size, "problem": None}
    assert json.loads(capsys.readouterr().out) == {"folder": str(folder), "entries": [entry]}


def test_clear_deletes_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Nothing is shown after that.
    """
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().err.startswith(f"1 deleted in {folder}, ")
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out == ""


def test_folder_without_our_tag_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Exit code 6, and all files stay.
    """
    (folder / "CACHEDIR.TAG").unlink()
    assert main(["cache", "clear"]) == 6
    assert f"error: {folder} is not cleared: it has no CACHEDIR.TAG of autoloader's" in capsys.readouterr().err
    assert len(list(folder.glob("plan-*.json"))) == 1


def test_nothing_is_shown_where_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Exit code 6 with what to do.
    """
    monkeypatch.setattr(cache, "probe_environment", lambda: {"AUTOLOADER_NO_CACHE": "1"})
    assert main(["cache", "show"]) == 6
    assert "Unset it, or name a folder in AUTOLOADER_CACHE_DIR." in capsys.readouterr().err


def test_file_that_cannot_be_deleted_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    What else can be deleted is.
    """

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert main(["cache", "clear"]) == 6
    assert "The cache could not be cleared: " in capsys.readouterr().err
