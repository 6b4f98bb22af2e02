"""
What one process uses, by a psutil of each system, a broken one, and this machine's own.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from autoloader.processes import ProcessUse, read_process
from autoloader.records import from_json, to_json
from live.running import SOURCE

NEEDS_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with /proc")


class GoneError(Exception):
    pass


class ZombieError(GoneError):
    pass


class DeniedError(Exception):
    pass


def raising(error: Exception) -> Callable[[], Any]:
    """
    Return a question to which *error* is the answer.
    """

    def refuse() -> Any:
        raise error

    return refuse


ANSWERS: dict[str, Callable[[], Any]] = {
    "memory_info": lambda: SimpleNamespace(rss=3000),
    "memory_full_info": lambda: SimpleNamespace(rss=3000, uss=1000, pss=2000),
    "num_fds": lambda: 12,
    "num_threads": lambda: 5,
    "status": lambda: "sleeping",
    "oneshot": nullcontext,
}
"""
What psutil on Linux answers of a worker.
"""

WORKER = {"pid": 77, "rss_bytes": 3000, "pss_bytes": 2000, "open_files": 12, "threads": 5, "state": "sleeping"}


@pytest.fixture
def fake_psutil(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """
    Return a function that puts a psutil in place: Linux' own, with other answers, or None for a question it lacks.
    """

    def put(*, is_linux: bool = True, **changed: Callable[[], Any] | None) -> None:
        answers = {name: answer for name, answer in {**ANSWERS, **changed}.items() if answer is not None}
        module: Any = ModuleType("psutil")
        module.NoSuchProcess, module.ZombieProcess, module.LINUX = GoneError, ZombieError, is_linux
        module.Process = lambda pid: SimpleNamespace(pid=pid, **answers)
        monkeypatch.setitem(sys.modules, "psutil", module)

    return put


def test_read_process_on_linux_has_every_field(fake_psutil: Callable[..., None]) -> None:
    """
    Each field has psutil's number.
    """
    fake_psutil()
    assert read_process(77) == ProcessUse(**WORKER)


def test_read_process_takes_the_pss_of_a_newer_psutil(fake_psutil: Callable[..., None]) -> None:
    """
    Where memory_footprint exists, memory_full_info would warn that it is deprecated.
    """
    fake_psutil(
        memory_footprint=lambda: SimpleNamespace(uss=1, pss=2500), memory_full_info=raising(DeprecationWarning("old"))
    )
    assert read_process(77) == ProcessUse(**{**WORKER, "pss_bytes": 2500})


def test_read_process_on_windows_counts_handles(fake_psutil: Callable[..., None]) -> None:
    """
    Windows has handles instead of descriptors, and no PSS, whose slow question is not asked.
    """
    asked: list[str] = []
    fake_psutil(
        is_linux=False,
        num_fds=None,
        num_handles=lambda: 345,
        status=lambda: "running",
        memory_full_info=lambda: asked.append("memory_full_info"),
    )
    assert read_process(77) == ProcessUse(pid=77, rss_bytes=3000, open_files=345, threads=5, state="running")
    assert asked == []


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ("memory_info", "rss_bytes"),
        ("memory_full_info", "pss_bytes"),
        ("num_fds", "open_files"),
        ("num_threads", "threads"),
        ("status", "state"),
    ],
)
@pytest.mark.parametrize("error", [DeniedError(), ZombieError(), OSError(5, "I/O error"), NotImplementedError()])
def test_refused_field_is_none_and_hides_no_other(
    question: str, field: str, error: Exception, fake_psutil: Callable[..., None]
) -> None:
    """
    What may not be read is None; the other fields are still there.
    """
    fake_psutil(**{question: raising(error)})
    assert read_process(77) == ProcessUse(**{**WORKER, field: None})


def test_pss_is_none_where_the_kernel_has_none(fake_psutil: Callable[..., None]) -> None:
    """
    A Linux without smaps, gVisor for one, answers with the plain memory.
    """
    fake_psutil(memory_full_info=lambda: SimpleNamespace(rss=3000))
    assert read_process(77) == ProcessUse(**{**WORKER, "pss_bytes": None})


@pytest.mark.parametrize("question", ["oneshot", "memory_info", "memory_full_info", "num_fds", "num_threads", "status"])
def test_process_that_goes_while_asked_is_none(question: str, fake_psutil: Callable[..., None]) -> None:
    """
    Half an answer would look like a process that is there.
    """
    fake_psutil(**{question: raising(GoneError())})
    assert read_process(77) is None


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param("running", "running", id="one-word"),
        pytest.param("disk-sleep", "disk sleep", id="D"),
        pytest.param("tracing-stop", "tracing stop", id="t"),
        pytest.param("zombie", "zombie", id="Z"),
    ],
)
def test_state_is_psutils_in_plain_words(status: str, state: str, fake_psutil: Callable[..., None]) -> None:
    """
    Words are apart by spaces.
    """
    fake_psutil(status=lambda: status)
    assert read_process(77) == ProcessUse(**{**WORKER, "state": state})


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("raise ImportError('no psutil here')", id="missing"),
        pytest.param("raise PermissionError(13, 'Permission denied', '/proc/stat')", id="no-proc-stat"),
        pytest.param("raise RuntimeError('broken')", id="broken"),
        pytest.param("", id="another-module-of-that-name"),
    ],
)
def test_psutil_that_cannot_be_loaded_leaves_the_pid(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whatever importing psutil raises, nothing is raised, and nothing but the pid is known.
    """
    (tmp_path / "psutil.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "psutil", None)  # remembers what to put back
    del sys.modules["psutil"]
    assert read_process(os.getpid()) == ProcessUse(pid=os.getpid())


def test_process_use_through_json_is_equal() -> None:
    """
    A record comes back as it was, unknown fields too.
    """
    for use in (ProcessUse(**WORKER), ProcessUse(pid=1)):
        assert from_json(ProcessUse, json.loads(json.dumps(to_json(use)))) == use


@pytest.fixture
def child() -> Iterator["subprocess.Popen[str]"]:
    """
    A process that says "ready", waits for its standard input to be closed, and ends.
    """
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@NEEDS_LINUX
@pytest.mark.real_host
def test_real_process_is_as_the_kernel_shows_it(child: "subprocess.Popen[str]") -> None:
    """
    Descriptors and threads are those that /proc lists; what is shared makes the PSS smaller than the RSS.
    """
    deadline = time.monotonic() + 30
    while (use := read_process(child.pid)) is None or use.state != "sleeping":
        assert time.monotonic() < deadline, use
    folder = Path(f"/proc/{child.pid}")
    pages = int((folder / "statm").read_text().split()[1])
    assert use.rss_bytes == pages * os.sysconf("SC_PAGE_SIZE")
    assert use.open_files == len(list((folder / "fd").iterdir()))
    assert use.threads == 1
    if (folder / "smaps_rollup").exists():
        assert 0 < use.pss_bytes < use.rss_bytes


@NEEDS_LINUX
@pytest.mark.real_host
def test_positions_are_those_of_files_that_are_read_and_of_no_log(tmp_path: Path) -> None:
    """
    A job's output may go to a file that could be read, and moves on with each line.
    """
    code = (
        "from autoloader.processes import positions_of_files\n"
        "data = open('data', 'rb', buffering=0)\n"
        "data.read(3)\n"
        "print(sorted(positions_of_files().values()), flush=True)\n"
        "print(sorted(key[0] > 2 for key in positions_of_files()))\n"
    )
    (tmp_path / "data").write_bytes(bytes(10))
    with open(tmp_path / "log", "w+", encoding="utf-8") as log:
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        subprocess.run(command, cwd=tmp_path, env=environment, stdout=log, stderr=log, check=True)
        log.seek(0)
        assert log.read() == "[3]\n[True]\n"


@NEEDS_LINUX
@pytest.mark.real_host
def test_real_process_that_ended_is_a_zombie_and_then_gone(child: "subprocess.Popen[str]") -> None:
    """
    It stays until its parent asks for the exit code.
    """
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    use = read_process(child.pid)
    assert use is not None
    assert (use.pid, use.state) == (child.pid, "zombie")
    assert not use.rss_bytes
    child.wait()
    assert read_process(child.pid) is None
