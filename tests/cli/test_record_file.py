"""
Files that a host is recorded in: written whole or not at all.
"""

import os
import stat
import threading
from pathlib import Path

import pytest

from autoloader.cli import main, record_file

pytestmark = pytest.mark.real_host

ON_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")

ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="this system has no such files")

IS_ROOT = hasattr(os, "getuid") and os.getuid() == 0


def test_file_keeps_its_content_where_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whatever goes wrong on the way, and nothing else is left.
    """
    file = tmp_path / "host.json"
    file.write_text("precious")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(record_file.ArgumentError, match=r"No space left on device\. Free some space, or name"):
        record_file.write_record(str(file), "new")
    with pytest.raises(record_file.ArgumentError, match="surrogates not allowed"):
        record_file.write_record(str(file), "\ud800")
    assert file.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [file]


@ON_POSIX
def test_file_keeps_its_mode_and_a_link_its_target(tmp_path: Path) -> None:
    """
    A link stays a link, also where the file that it leads to is not there yet.
    """
    file, link, dangling = tmp_path / "host.json", tmp_path / "link", tmp_path / "dangling"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    dangling.symlink_to(tmp_path / "later")
    record_file.write_record(str(link), "new")
    record_file.write_record(str(dangling), "new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode), link.is_symlink()) == ("new", 0o640, True)
    assert ((tmp_path / "later").read_text(), dangling.is_symlink()) == ("new", True)


@ON_POSIX
def test_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    """
    Who reads at its other end gets the document; it stays a pipe.
    """
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    record_file.write_record(str(pipe), "new")
    reader.join(timeout=60)
    assert got == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(os.name != "posix" or IS_ROOT, reason="root may write anywhere")
def test_file_in_a_folder_that_takes_no_new_one_is_written_in_place(tmp_path: Path) -> None:
    """
    As long as the file itself may be written.
    """
    file = tmp_path / "host.json"
    file.write_text("old")
    tmp_path.chmod(0o555)
    try:
        record_file.write_record(str(file), "new")
    finally:
        tmp_path.chmod(0o755)
    assert file.read_text() == "new"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "nowhere/x", "No such file or directory. Name a file in a folder that exists, where you ", id="gone"
        ),
        pytest.param("", "Is a directory. Name a file in it.", id="folder", marks=ON_POSIX),
        pytest.param("x" * 300, "File name too long. Choose a shorter name.", id="long", marks=ON_POSIX),
        pytest.param(
            "loop", "Too many levels of symbolic links. Name a file, or a link that leads ", id="loop", marks=ON_POSIX
        ),
    ],
)
def test_file_that_cannot_be_written_is_one_error(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The advice fits the reason.
    """
    if name == "loop":
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main(["probe", "--record", str(tmp_path / name)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert f"cannot be written: {text}" in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("-", "'-' cannot be written: a record is a file. Name a file, or /dev/stdout where ", id="dash"),
        pytest.param("", "'' cannot be written: No such file or directory. Name a file in a folder", id="empty"),
        pytest.param(
            "/dev/full", "'/dev/full' cannot be written: No space left on device. Free some ", id="full", marks=ON_FULL
        ),
    ],
)
@ON_POSIX
def test_name_that_is_no_file_is_one_error(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Nothing is made in the working directory.
    """
    monkeypatch.chdir(tmp_path)
    assert main(["probe", "--record", file]) == 2
    assert capsys.readouterr().err.startswith(f"error: {text}")
    assert list(tmp_path.iterdir()) == []
