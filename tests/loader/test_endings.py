"""
Everything that a loader starts also ends: by close(), with the script, by Ctrl-C, with the death of the parent.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and sends signals to a group of processes"),
]

METHODS = ["fork", "forkserver", "spawn"]
JOBS = Path(__file__).parent
PATIENCE_SECONDS = 120


@contextmanager
def job(method: str, after: int, how: str, asleep: Path) -> Iterator[subprocess.Popen[str]]:
    """
    Start the script in a session of its own, and wait until it is ready.
    """
    quiet = ("-W", "ignore:This DataLoader will create")  # four workers on two CPUs
    command = [sys.executable, *quiet, str(JOBS / "sleepy_job.py"), method, str(after), how]
    environment = {**os.environ, "ASLEEP": str(asleep)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options = {"text": True, "start_new_session": True, "preexec_fn": _let_interrupts_through}
    with subprocess.Popen(command, env=environment, **options, **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate(timeout=PATIENCE_SECONDS)
            yield process
        finally:
            if members_of(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


def _let_interrupts_through() -> None:
    """
    Undo what a shell does to its background jobs, to which this test run may belong: they ignore Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def members_of(session: int) -> list[int]:
    """
    Return the processes of a session that are alive.
    """
    alive = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, its_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state != "Z":
            alive.append(int(entry.name))
    return alive


def wait_until_gone(session: int, seconds: float) -> list[int]:
    """
    Return the processes of a session that are still there after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while (left := members_of(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_is_the_users_keyboard_interrupt_and_nothing_else(method: str, tmp_path: Path) -> None:
    """
    A terminal sends it to the workers, too; one traceback comes, and no process stays.
    """
    with job(method, 4, "loop", tmp_path) as process:
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert wait_until_gone(process.pid, 10) == []
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1
    assert errors.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize("method", METHODS)
def test_workers_end_with_a_parent_that_is_killed(method: str, tmp_path: Path) -> None:
    """
    They sleep in a sample for an hour, and are gone within ten seconds, with all they had in shared memory.
    """
    before = set(os.listdir("/dev/shm"))
    with job(method, 4, "loop", tmp_path) as process:
        pids = [int(name) for name in os.listdir(tmp_path)]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_SECONDS)
        assert wait_until_gone(process.pid, 10) == []
    assert len(pids) == 2
    mine = (str(process.pid), *map(str, pids))
    assert [name for name in set(os.listdir("/dev/shm")) - before if any(pid in name for pid in mine)] == []


@pytest.mark.parametrize("method", METHODS)
def test_close_with_four_workers_asleep_has_one_deadline(method: str, tmp_path: Path) -> None:
    """
    All four together get five seconds, where torch gives five to each.
    """
    with job(method, 4, "close", tmp_path) as process:
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert wait_until_gone(process.pid, 10) == []
    assert (process.returncode, errors) == (0, "")
    assert float(output) < 6


@pytest.mark.parametrize("method", METHODS)
def test_script_that_ends_beside_a_running_iterator_leaves_nothing(method: str, tmp_path: Path) -> None:
    """
    Nobody closed the loader, and Python ends without a word of complaint.
    """
    with job(method, 1000, "exit", tmp_path) as process:
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert wait_until_gone(process.pid, 10) == []
    assert (process.returncode, errors) == (0, "")


SENDING = """
import multiprocessing, os, pathlib, sys, time
import torch
from autoloader import auto_loader

class Sent(int):
    def __reduce__(self):
        deadline = time.monotonic() + 0.5
        pathlib.Path(os.environ["BEGUN"]).touch()
        while time.monotonic() < deadline:
            torch.zeros(1000) + 1
        return int, (int(self),)

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return Sent(index) if index else 0

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with auto_loader(Numbers(), batch_size=None, num_workers=1) as loader:
        iterator = iter(loader)
        next(iterator)
        deadline = time.monotonic() + 60
        while not os.path.exists(os.environ["BEGUN"]) and time.monotonic() < deadline:
            time.sleep(0.01)
"""
"""
A script that closes its loader while a batch is being pickled in its worker, by a thread that computes with torch.
"""


@pytest.mark.parametrize("method", METHODS)
def test_worker_that_ends_while_it_sends_a_batch_says_nothing(method: str, tmp_path: Path) -> None:
    """
    Python that ends under a spawned worker's thread would abort the process: "terminate called ...".
    """
    (tmp_path / "job.py").write_text(SENDING)
    environment = {**os.environ, "BEGUN": str(tmp_path / "begun")}
    command = [sys.executable, str(tmp_path / "job.py"), method]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert (tmp_path / "begun").exists()


@pytest.mark.parametrize("method", METHODS)
def test_nothing_grows_over_a_thousand_epochs(method: str) -> None:
    """
    Two live workers: the same processes, open files, threads and shared memory after 1,000 epochs as after 100.
    """
    command = [sys.executable, str(JOBS / "epochs_job.py"), method, "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    early, late = json.loads(done.stdout)
    assert len(early["workers"]) == 2
    for name in ("workers", "files", "files of workers", "threads", "threads of workers"):
        assert early[name] == late[name], name
    growth = [after - before for before, after in zip(early["resident"], late["resident"], strict=True)]
    assert max(growth) < 4 << 20, growth
    pids = tuple(map(str, early["workers"]))
    assert [name for name in late["shared"] if any(pid in name for pid in pids)] == []


SETS_NOTHING = """
import multiprocessing, multiprocessing.resource_tracker, torch
from autoloader import auto_loader

class Few(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return index

loader = auto_loader(Few(), 2, num_workers=2)
made = multiprocessing.get_start_method(allow_none=True), multiprocessing.resource_tracker._resource_tracker._pid
assert len(list(loader)) == 4
used = multiprocessing.get_start_method(allow_none=True), multiprocessing.resource_tracker._resource_tracker._pid
print(made, used, loader.plan.value("multiprocessing_context"))
"""


def test_forked_workers_fix_no_start_method_and_start_no_tracker() -> None:
    """
    Neither making a loader nor a whole epoch decides for the process how its other children start.
    """
    done = subprocess.run(
        [sys.executable, "-c", SETS_NOTHING], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.stdout, done.stderr) == ("(None, None) (None, None) fork\n", "")
