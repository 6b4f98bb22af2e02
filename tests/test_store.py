"""
The store: what is kept is found again, and what is wrong with it is a miss that says why.
"""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autoloader.store import Store, open_store

KEY = {"processor": "x", "cpus": [0, 1]}


def only_file(folder: Path) -> Path:
    """
    Return the one file with a value.
    """
    (path,) = folder.glob("kind-*.json")
    return path


def test_value_that_is_written_is_read_again(tmp_path: Path) -> None:
    """
    By the same kind and key only; tuples in a key are the lists that JSON makes of them.
    """
    store = Store(tmp_path / "a" / "b")
    assert store.write("kind", {**KEY, "cpus": (0, 1)}, {"answer": 42})
    assert Store(tmp_path / "a" / "b").read("kind", KEY) == {"answer": 42}
    assert store.read("other", KEY) is None
    assert store.read("kind", {**KEY, "processor": "y"}) is None
    assert store.problem is None


def test_value_that_is_written_again_is_the_last(tmp_path: Path) -> None:
    """
    One file a key.
    """
    store = Store(tmp_path)
    assert all(store.write("kind", KEY, number) for number in range(3))
    assert store.read("kind", KEY) == 2
    only_file(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files")
def test_folder_and_files_are_for_this_user_alone(tmp_path: Path) -> None:
    """
    What a machine is, and which datasets it reads, is nobody else's business; the folder says that it is a cache.
    """
    store = Store(tmp_path / "cache")
    store.write("kind", KEY, 1)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()} == {0o600}
    tag = (tmp_path / "cache" / "CACHEDIR.TAG").read_text(encoding="utf-8")
    assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "cannot be read", id="empty"),
        pytest.param(b"{", "cannot be read", id="cut"),
        pytest.param(b"\xff\xfe\x00", "cannot be read", id="binary"),
        pytest.param(b"[" * 100_000, "cannot be read", id="deep"),
        pytest.param(b"[1]", "was not written by this version", id="foreign"),
        pytest.param(b'{"schema": 0, "kind": "kind", "value": 1}', "was not written by this version", id="older"),
        pytest.param(
            b'{"schema": 1, "kind": "kind", "key": {"processor": "z"}, "value": 1}',
            "was not written by this version",
            id="of-another-key",
        ),
    ],
)
def test_file_that_makes_no_sense_is_a_miss_that_says_why(tmp_path: Path, content: bytes, problem: str) -> None:
    """
    Nothing is raised, and the next write mends it.
    """
    store = Store(tmp_path)
    store.write("kind", KEY, 1)
    path = only_file(tmp_path)
    path.write_bytes(content)
    assert store.read("kind", KEY) is None
    assert store.problem is not None
    assert store.problem.startswith(str(path))
    assert problem in store.problem
    assert store.write("kind", KEY, 2)
    assert (store.read("kind", KEY), store.problem) == (2, None)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("/dev/null/x", id="below-a-file"),
        pytest.param("/proc/nowhere", id="where-nobody-may-write"),
        pytest.param("/tmp/" + "x" * 300, id="name-too-long"),
        pytest.param("/tmp/a\0b", id="no-path-at-all"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="names files of Linux")
def test_folder_that_is_no_use_keeps_nothing_and_says_why(folder: str) -> None:
    """
    A missing cache costs time, and is no reason to stop.
    """
    store = Store(Path(folder))
    assert store.write("kind", KEY, 1) is False
    assert store.problem is not None
    assert "cannot be written" in store.problem
    assert store.read("kind", KEY) is None


@pytest.mark.skipif(sys.platform == "win32", reason="makes a pipe with a name")
def test_pipe_in_the_place_of_a_file_is_a_miss(tmp_path: Path) -> None:
    """
    Who opened it would wait for a writer for ever.
    """
    store = Store(tmp_path)
    store.write("kind", KEY, 1)
    path = only_file(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert store.read("kind", KEY) is None
    assert store.problem == f"{path} is not a file"


@pytest.mark.parametrize("folder", ["~nobody-of-this-name/cache", "~a\0b"])
def test_home_of_nobody_is_a_folder_that_cannot_be_used(folder: str) -> None:
    """
    A cache is no reason to stop; nothing is made in the working directory either.
    """
    store = open_store({"AUTOLOADER_CACHE_DIR": folder})
    assert store.folder is None or not store.folder.exists()


def test_value_that_json_does_not_take_is_not_kept(tmp_path: Path) -> None:
    """
    No half of a file is left behind.
    """
    store = Store(tmp_path)
    assert store.write("kind", KEY, float("nan")) is False
    assert [path.name for path in tmp_path.iterdir() if path.name != "CACHEDIR.TAG"] == []


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        pytest.param({"AUTOLOADER_CACHE_DIR": "/x"}, "/x", id="chosen"),
        pytest.param({"AUTOLOADER_CACHE_DIR": "/x", "AUTOLOADER_NO_CACHE": "0"}, "/x", id="not-turned-off"),
        pytest.param({"AUTOLOADER_CACHE_DIR": "/x", "AUTOLOADER_NO_CACHE": "False"}, "/x", id="off-is-false"),
        pytest.param({"AUTOLOADER_CACHE_DIR": "/x", "AUTOLOADER_NO_CACHE": "1"}, None, id="turned-off"),
    ],
)
def test_place_of_the_store_is_by_the_environment(environment: dict[str, str], folder: str | None) -> None:
    """
    A variable names the folder; another one turns the store off, which then keeps and finds nothing.
    """
    store = open_store(environment)
    assert store.folder == (None if folder is None else Path(folder))
    if folder is None:
        assert store.write("kind", KEY, 1) is False
        assert store.read("kind", KEY) is None


def test_place_of_the_store_is_the_systems_for_caches_otherwise() -> None:
    """
    As platformdirs knows it.
    """
    import platformdirs

    assert open_store({}).folder == Path(platformdirs.user_cache_dir("autoloader", appauthor=False))


def test_file_that_another_process_has_open_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Windows does not replace a file that is being read; for any other refusal there is nothing to wait.
    """
    refusals, replace = [32, 5, None], Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if refusals[0] is None:
            return replace(path, target)
        error = PermissionError(13, "Access is denied")
        error.winerror = refusals.pop(0)
        raise error

    monkeypatch.setattr(Path, "replace", refuse)
    store = Store(tmp_path)
    assert store.write("kind", KEY, 1)
    refusals[:] = [1, None]
    assert store.write("kind", KEY, 2) is False
    assert store.read("kind", KEY) == 1


WRITER = """
import sys
from pathlib import Path
from autoloader.store import Store
store, me = Store(Path(sys.argv[1])), int(sys.argv[2])
for number in range(60):
    assert store.write("kind", {"a": 1}, [me, number] * 500), store.problem
    found = store.read("kind", {"a": 1})
    assert found is not None and found == found[:2] * 500, store.problem
"""


def test_eight_processes_that_write_at_once_never_leave_half_a_file(tmp_path: Path) -> None:
    """
    Each reads whole values only, its own or another's.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(me)], env=environment, stderr=subprocess.PIPE
        )
        for me in range(8)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert (writer.returncode, errors.decode()) == (0, "")
    assert json.loads(only_file(tmp_path).read_text(encoding="utf-8"))["schema"] == 1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".TAG", ".json"]


def test_entries_are_what_is_kept_the_oldest_first(tmp_path: Path) -> None:
    """
    Files of others, folders and half-written ones are none.
    """
    store = Store(tmp_path)
    store.write("plan", {"a": 1}, "x")
    store.write("processor", {"b": 1}, "y")
    for number, path in enumerate(sorted(tmp_path.glob("*.json"), reverse=True)):
        os.utime(path, (1000 + number, 1000 + number))
    (tmp_path / "notes.json").write_text("{}", encoding="utf-8")
    (tmp_path / f"plan-{'0' * 32}.json").mkdir()
    (tmp_path / f".plan-{'0' * 32}.json.12-ab").write_text("half", encoding="utf-8")
    entries = store.entries()
    assert [entry.kind for entry in entries] == ["processor", "plan"]
    assert [entry.written for entry in entries] == [1000, 1001]
    assert [entry.bytes for entry in entries] == [entry.path.stat().st_size for entry in entries]
    assert Store(None).entries() == Store(tmp_path / "missing").entries() == []


def test_clear_deletes_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    """
    What is left of writes that were killed goes, too; the tag and the files of others stay.
    """
    store = Store(tmp_path)
    store.write("plan", {"a": 1}, "x")
    (tmp_path / "notes.json").write_text("{}", encoding="utf-8")
    (tmp_path / f".plan-{'0' * 32}.json.12-ab").write_text("half", encoding="utf-8")
    assert store.clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["CACHEDIR.TAG", "notes.json"]
    assert store.clear()


def test_folder_is_ours_only_with_our_tag(tmp_path: Path) -> None:
    """
    Others mark their caches, too. A folder that does not exist has nothing of anybody's.
    """
    assert Store(None).is_ours()
    assert Store(tmp_path / "missing").is_ours()
    assert not Store(tmp_path).is_ours()
    (tmp_path / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n", encoding="utf-8")
    assert not Store(tmp_path).is_ours()
    (tmp_path / "CACHEDIR.TAG").unlink()
    Store(tmp_path).write("plan", {}, 1)
    assert Store(tmp_path).is_ours()


def test_tag_that_could_not_be_written_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A full disk leaves half of it, by which the folder would be somebody else's ever after.
    """
    store = Store(tmp_path)

    def fill(path: Path, text: str) -> None:
        path.write_text(text[:5], encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("autoloader.store._write_privately", fill)
        assert not store.write("kind", KEY, 1)
    assert store.write("kind", KEY, 1)
    assert store.is_ours()


def test_key_may_hold_numbers_of_other_libraries(tmp_path: Path) -> None:
    """
    As numpy's, which users pass as epochs.
    """

    class Number:
        def __index__(self) -> int:
            return 7

    store = Store(tmp_path)
    assert store.write("kind", {"epochs": Number()}, 1)
    assert store.read("kind", {"epochs": 7}) == 1
