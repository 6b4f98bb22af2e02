"""
The program that times reads, on files of this machine, and the child that runs it.
"""

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autoloader.probe import timed_reads, timing_child
from autoloader.probe.host_io import RealHost
from autoloader.probe.questions import TimedReads
from autoloader.probe.timed_reads import Reader, answers, find_files, read_in_sequence, time_reads
from autoloader.records import from_json

ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux' page cache")
ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="this system has no such files")

DEADLINE_SECONDS = 60


def found(path: Path, reader: Reader | None = None) -> TimedReads:
    """
    Return what the program finds at a path, put together.
    """
    lines = json.loads(json.dumps([*answers(str(path), reader or Reader())]))
    return from_json(TimedReads, dict(pair for line in lines for pair in line.items()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """
    Return a folder with 20 files of 64 KiB, some of them in folders below.
    """
    for number in range(20):
        file = tmp_path / ("a", "b/c", ".")[number % 3] / f"{number}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([number]) * (64 << 10))
    return tmp_path


class Way(Reader):
    """
    A reader that reads in the ways from one on.
    """

    def __init__(self, way: str) -> None:
        super().__init__()
        self._ways = self._ways[self._ways.index(way) :]


# What is read.


def test_folder_is_read_at_random_places_of_its_files(folder: Path) -> None:
    """
    All files are found, and as many reads done as there should be, whatever the system offers to get past its cache.
    """
    seen = found(folder)
    assert (seen.problem, seen.is_reached, seen.files, seen.unreadable) == (None, True, 20, 0)
    assert len(seen.seconds) + seen.cached == timed_reads.MOST_READS
    assert seen.bytes == 20 * (64 << 10)
    assert all(took > 0 for took in seen.seconds)


def test_file_is_read_as_a_folder_of_one(folder: Path) -> None:
    """
    A dataset may be one file; none of its 16 blocks is read twice.
    """
    seen = found(folder / "a" / "0.bin")
    assert (seen.files, seen.bytes) == (1, 64 << 10)
    assert 1 <= len(seen.seconds) + seen.cached <= 16


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 12_289])
def test_file_of_any_size_is_read(size: int, tmp_path: Path) -> None:
    """
    Also the part of a block at its end.
    """
    (tmp_path / "file").write_bytes(b"x" * size)
    seen = found(tmp_path)
    assert (seen.unreadable, seen.bytes) == (0, size)
    assert len(seen.seconds) + seen.cached >= 1


def test_empty_folder_and_empty_files_have_no_reads(tmp_path: Path) -> None:
    """
    There is nothing to read, and nothing is wrong.
    """
    assert found(tmp_path) == TimedReads(is_reached=True)
    (tmp_path / "empty").touch()
    seen = found(tmp_path)
    assert (seen.problem, seen.files, seen.seconds, seen.cached, seen.unreadable) == (None, 1, (), 0, 0)


def test_path_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """
    It is not reached, and the reason is the system's.
    """
    with pytest.raises(FileNotFoundError) as caught:
        os.stat(tmp_path / "gone")
    assert found(tmp_path / "gone") == TimedReads(problem=caught.value.strerror)
    assert found(Path(f"{tmp_path}/a\0b")).is_reached is False


@ON_POSIX
def test_nothing_but_files_is_read(folder: Path) -> None:
    """
    Links to files count; those to folders, pipes and what leads nowhere do not.
    """
    (folder / "link").symlink_to(folder / "a" / "0.bin")
    (folder / "folder").symlink_to(folder / "a")
    (folder / "loop").symlink_to(folder)
    (folder / "dangling").symlink_to(folder / "gone")
    os.mkfifo(folder / "pipe")
    assert found(folder).files == 21
    names = {os.path.relpath(path, folder) for path in find_files(str(folder), time.perf_counter)}
    assert "link" in names
    assert not names & {"pipe", "dangling"}
    assert not [name for name in names if name.startswith(("folder", "loop"))]


@ON_POSIX
def test_path_of_a_pipe_or_a_device_is_not_opened(tmp_path: Path) -> None:
    """
    A pipe would wait for whoever writes to it.
    """
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        assert found(path) == TimedReads(is_reached=True)


AS_NOBODY = """
import json, os, sys
sys.path.append(sys.argv[1])
from timed_reads import Reader, answers
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for path in sys.argv[2:]:
    print(json.dumps(dict(pair for line in answers(path, Reader()) for pair in line.items())))
"""


@ON_POSIX
def test_files_and_folders_without_permission_are_unreadable(folder: Path) -> None:
    """
    A file that this user may not open is counted, and one that it does not own is read (root first becomes nobody).
    """
    closed, secret = folder / "b", folder / "a"
    for file in secret.iterdir():
        file.chmod(0)
    closed.chmod(0)
    for above in folder.parents[:3]:
        above.chmod(above.stat().st_mode | 0o055)
    folder.chmod(0o755)
    program = [sys.executable, "-c", AS_NOBODY, os.path.dirname(timed_reads.__file__)]
    try:
        done = subprocess.run([*program, folder, secret, closed], capture_output=True, text=True, check=True)
    finally:
        closed.chmod(0o700)
    some, none, unlisted = (json.loads(line) for line in done.stdout.splitlines())
    assert some["files"] == 13
    assert some["unreadable"] > 0
    assert len(some["seconds"]) + some["cached"] > 0
    assert (none["files"], none["seconds"], none["cached"]) == (7, [], 0)
    assert none["unreadable"] > 0
    assert unlisted == {"problem": os.strerror(errno.EACCES)}


def test_files_that_change_nothing_are_left_as_they_are(folder: Path) -> None:
    """
    No file is written or made; a second look has the same names, sizes and times.
    """

    def looked_at() -> list[Any]:
        return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*"))

    before = looked_at()
    found(folder)
    assert looked_at() == before


# How it is read.


@pytest.mark.parametrize("way", timed_reads.WAYS)
def test_every_way_reads_what_it_can(way: str, folder: Path) -> None:
    """
    What a system does not offer gives way to what it does.
    """
    seen = found(folder, Way(way))
    assert timed_reads.WAYS.index(seen.way) >= timed_reads.WAYS.index(way)
    assert len(seen.seconds) + seen.cached == timed_reads.MOST_READS
    assert seen.unreadable == 0


@ON_LINUX
def test_blocks_that_stay_in_the_page_cache_are_told_from_others(tmp_path: Path) -> None:
    """
    What a process has mapped and locked is not dropped; the blocks of a file that nobody uses are.
    """
    import mmap

    file = tmp_path / "file"
    file.write_bytes(b"x" * (256 << 10))
    os.sync()
    free = time_reads([str(file)], Way("dropped"), 60.0)
    if free.cached > len(free.seconds):
        pytest.skip("this file system drops nothing")
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert mapped[:: mmap.PAGESIZE]
        kept = time_reads([str(file)], Way("dropped"), 60.0)
    assert kept.cached > len(kept.seconds)


def test_error_that_is_not_of_the_way_counts_the_file(folder: Path) -> None:
    """
    A disk that fails is no reason to read in another way.
    """

    class Failing(Reader):
        def read(self, *arguments: Any) -> float | None:
            raise OSError(errno.EIO, "disk")

    reader = Failing()
    times = time_reads([str(folder / "a" / "0.bin")], reader, 60.0)
    assert (times.seconds, times.cached) == ([], 0)
    assert times.unreadable > 0


def test_each_way_gives_way_once_and_the_last_to_none() -> None:
    """
    After that an error is the file's.
    """
    reader, refused = Reader(), OSError(errno.EINVAL, "no")
    assert [reader.gives_way(OSError(errno.EIO, "disk")), reader.way] == [False, "direct"]
    assert [(reader.gives_way(refused), reader.way) for _ in range(3)] == [
        (True, "dropped"),
        (True, "plain"),
        (False, "plain"),
    ]


def clock_of(*steps: float) -> Callable[[], float]:
    """
    Return a clock that goes on by these steps, over and over.
    """
    times = itertools.accumulate(itertools.cycle(steps))
    return lambda: next(times)


def test_reads_end_when_their_time_is_over(folder: Path) -> None:
    """
    By a clock on which each look takes a quarter of a second.
    """
    files = find_files(str(folder), time.perf_counter)
    reader = Way("plain")
    reader.clock = clock_of(0.25)
    times = time_reads(files, reader, 1.5)
    assert times.seconds == [0.25, 0.25]


def test_list_of_files_ends_when_its_time_is_over(folder: Path) -> None:
    """
    By a clock on which each look takes a third of a second.
    """
    assert 1 <= len(find_files(str(folder), clock_of(0.34))) < 20


def test_list_of_files_ends_when_there_are_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A folder may hold millions.
    """
    monkeypatch.setattr(timed_reads, "MOST_FILES", 7)
    assert len(find_files(str(folder), time.perf_counter)) == 7


def test_slow_storage_is_read_by_several_at_once(folder: Path) -> None:
    """
    By a clock that goes on by five milliseconds at each look.
    """
    reader = Way("plain")
    reader.clock = clock_of(0.005)
    seen = found(folder, reader)
    assert {*seen.seconds} == {0.005}
    assert len(seen.together_seconds) > 0


def test_fast_storage_is_not_read_by_several_at_once(folder: Path) -> None:
    """
    By a clock that goes on by a tenth of a millisecond.
    """
    reader = Way("plain")
    reader.clock = clock_of(0.0001)
    assert found(folder, reader).together_seconds == ()


def test_large_file_is_read_in_sequence(tmp_path: Path) -> None:
    """
    As far as the bound, or to its end; a small one is not.
    """
    file = tmp_path / "file"
    file.write_bytes(bytes(9 << 20))
    assert read_in_sequence(str(file), Way("plain"))[0] == 9 << 20
    reader = Way("plain")
    reader.clock = clock_of(0.2)
    assert read_in_sequence(str(file), reader)[0] == 2 << 20
    seen = found(tmp_path)
    assert (seen.sequential is not None) == (seen.way == "direct")


# The child.


@pytest.mark.real_host
def test_child_finds_what_the_program_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    All of it, in the record's types; relative paths are those of this process.
    """
    seen = RealHost().timed_reads(str(folder))
    assert seen is not None
    assert (seen.problem, seen.is_reached, seen.files, seen.bytes) == (None, True, 20, 20 * (64 << 10))
    assert len(seen.seconds) + seen.cached == timed_reads.MOST_READS
    monkeypatch.chdir(folder.parent)
    assert (RealHost().timed_reads(folder.name) or TimedReads()).files == 20


def children() -> set[int]:
    """
    Return the processes that this one has started and that have not gone.
    """
    return {child.pid for child in psutil.Process().children(recursive=True)}


HANGING = 'import json, sys, time; print(json.dumps({"is_reached": True, "files": 3}), flush=True); time.sleep(600)'
CUT_OFF = 'import sys; sys.stdout.write("{\\"is_reached\\": true}\\n{\\"files\\": 3, \\"sec")'


def asked_patiently(path: Path) -> TimedReads:
    """
    Return what a child that hangs had said: the patience grows until it had time to say something.
    """
    for patience in (1.0, 4.0, 16.0, DEADLINE_SECONDS):
        seen = timing_child.ask(sys.executable, str(path), ("-c", HANGING), patience=patience)
        assert seen is not None
        assert seen.problem == f"no answer in {patience:g} s"
        if seen.is_reached:
            return seen
    raise AssertionError("a Python takes longer to start")


def test_child_that_hangs_is_ended_and_what_it_said_is_kept(tmp_path: Path) -> None:
    """
    A mount that never answers takes no longer than the patience, and no process is left.
    """
    before = children()
    seen = asked_patiently(tmp_path)
    assert seen == TimedReads(is_reached=True, files=3, problem=seen.problem)
    assert children() <= before


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("raise SystemExit(3)", None, id="says-nothing"),
        pytest.param("print('Traceback')", None, id="says-something-else"),
        pytest.param('print(\'{"files": "x"}\')', None, id="another-type"),
        pytest.param("print('{\"colour\": 1}')", None, id="another-field"),
        pytest.param(CUT_OFF, TimedReads(is_reached=True), id="cut-off"),
    ],
)
def test_child_that_makes_no_sense_is_no_answer(code: str, expected: TimedReads | None, tmp_path: Path) -> None:
    """
    What it had said before it ended counts.
    """
    assert timing_child.ask(sys.executable, str(tmp_path), ("-c", code)) == expected


def test_child_that_cannot_start_is_no_answer(tmp_path: Path) -> None:
    """
    A program that is not there, and a path that no program can be given.
    """
    assert timing_child.ask(str(tmp_path / "gone"), str(tmp_path)) is None
    assert timing_child.ask(sys.executable, "a\0b") is None


@pytest.mark.real_host
@pytest.mark.parametrize(
    "changes", [{"interpreter": lambda _: None}, {"is_frozen": lambda _: True}, {"interpreter": lambda _: "/bin/app"}]
)
def test_program_that_is_no_python_starts_no_child(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A frozen program would run itself once more.
    """
    for name, answer in changes.items():
        monkeypatch.setattr(RealHost, name, answer)
    assert RealHost().timed_reads("/") is None


WAITING = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"


@ON_POSIX
def test_interrupt_ends_the_child(tmp_path: Path) -> None:
    """
    Ctrl-C while it reads: the exception arrives, and no process is left.
    """
    before, mark = children(), tmp_path / "started"
    end = time.monotonic() + DEADLINE_SECONDS

    def interrupt() -> None:
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            timing_child.ask(sys.executable, str(mark), ("-c", WAITING), patience=DEADLINE_SECONDS)
    finally:
        thread.join()
    assert children() <= before


@pytest.fixture
def stuck() -> Iterator[Any]:
    """
    Make a child's end wait for ever, as that of a read which nobody answers; undo it, and end the child.
    """
    made: list[Any] = []
    kill = subprocess.Popen.kill

    class Stuck(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

        def kill(self) -> None:
            pass

    yield Stuck
    for child in made:
        kill(child)
        child.wait()


@ON_POSIX
def test_child_that_cannot_be_ended_is_left_behind(stuck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A read in the kernel that nobody answers outlives SIGKILL: what was said is returned all the same.
    """
    monkeypatch.setattr(subprocess, "Popen", stuck)
    assert asked_patiently(tmp_path).files == 3
