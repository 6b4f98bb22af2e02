"""
Loaders whose workers really lack memory, shared memory, open files or CPU time: the error says so, and nothing hangs.
"""

import re
import sys
from pathlib import Path

import pytest

from live import test_out_of_memory
from live.running import clean_environment, output_of, run, run_python
from live.test_out_of_memory import MIB, run_python_in
from live.test_probe_limits import NEEDS_ROOT, in_new_mounts, inside

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.torch,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="makes limits as only Linux has them"),
]

group = test_out_of_memory.group  # the fixture

LOADER = """
import logging, multiprocessing, os, resource, sys, tempfile, warnings
import torch
from pathlib import Path
from torch.utils.data import Dataset
from autoloader import auto_loader
from autoloader.errors import WorkerDiedError

class Samples(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return fetch(index)

def tell(loader, kept=None):
    numbers = []
    try:
        for batch in loader:
            numbers.append(int(batch.flatten()[0]))
            if kept is not None:
                kept.append(batch)
    except Exception as error:
        print(type(error).__name__, len(numbers))
        print("\\n".join([str(error), *getattr(error, "__notes__", ())]))
    else:
        print("whole", numbers)
    loader.close()
    print("left", len(multiprocessing.active_children()))
"""

GREEDY = """
def fetch(index):
    if index == 8 and (sys.argv[2] == "always" or Path(sys.argv[2]).exists()):
        if sys.argv[2] != "always":
            Path(sys.argv[2]).unlink()
        Path("/proc/self/oom_score_adj").write_text("1000")
        held = bytearray(1 << 30)
    return torch.tensor(index)

logging.basicConfig(stream=sys.stdout, format="%(message)s")
loader = auto_loader(Samples(), 2, num_workers=2, multiprocessing_context="fork", on_worker_death=sys.argv[1])
tell(loader)
print("restarts", loader.stats().total.restarts)
"""

FULL = """
def fetch(index):
    return torch.full((1 << 20,), float(index))

if __name__ == "__main__":
    size = None if sys.argv[2] == "one-by-one" else 1
    tell(auto_loader(Samples(), size, num_workers=2, multiprocessing_context=sys.argv[1]), kept=[])
"""

KEPT = """
def fetch(index):
    return torch.full((10,), float(index))

class Many(Samples):
    def __len__(self):
        return 400

loader = auto_loader(Many(), 1, num_workers=2, multiprocessing_context="fork")
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
tell(loader, kept=[])
"""

LEAKS = """
def fetch(index):
    files = []
    while index == 5:
        files.append(open(os.devnull))
    return torch.tensor(index)

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
tell(auto_loader(Samples(), 1, num_workers=1, multiprocessing_context="fork"))
"""

BUSY = """
def fetch(index):
    if index == 4:
        used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (used + 1, used + 5))
        while True:
            pass
    return torch.tensor(index)

tell(auto_loader(Samples(), 1, num_workers=1, multiprocessing_context="fork"))
"""

LONG_PATH = """
def fetch(index):
    return torch.tensor([index])

def change(worker):
    tempfile.tempdir = os.environ["LONG"]

tell(auto_loader(Samples(), None, num_workers=1, multiprocessing_context="fork", worker_init_fn=change))
"""

LONG_TMPDIR = """
def fetch(index):
    return torch.tensor([index])

if __name__ == "__main__":
    tell(auto_loader(Samples(), 4, num_workers=2))
"""


@NEEDS_ROOT
@pytest.mark.root
def test_worker_that_the_kernel_kills_for_its_memory_is_told_with_the_groups_numbers(group: Path) -> None:
    """
    The count of the control group rose, its limit stands beside it, and half the workers are the advice.
    """
    (group / "memory.limit_in_bytes").write_text(str(512 * MIB))
    printed = run_python_in(inside(group), LOADER + GREEDY, "raise", "always")
    kind, text, *rest = printed.splitlines()
    assert kind.startswith("WorkerDiedError ")
    found = re.match(
        rf"Worker process \d+ was killed by SIGKILL \(signal 9\) when the batch of samples \[\d+, \d+\] was due: the "
        rf"kernel's out-of-memory killer did it, {re.escape(str(group))}/memory\.oom_control counts 1 out-of-memory "
        r"kill since the workers started \(its control group may hold 512 MiB and now holds (\d+(\.\d+)?) MiB; .+ is "
        r"free now\)\. Pass num_workers=1 instead of 2, ",
        text,
    )
    assert found is not None, text
    assert 20 < float(found[1]) < 512
    assert "[8, 9]" in text
    assert rest[-2:] == ["left 0", "restarts 0"]


@NEEDS_ROOT
@pytest.mark.root
def test_worker_that_the_kernel_kills_once_is_replaced_and_every_sample_comes(group: Path, tmp_path: Path) -> None:
    """
    With on_worker_death="restart" half the workers go on, and one line tells why.
    """
    flag = tmp_path / "greedy"
    flag.touch()
    (group / "memory.limit_in_bytes").write_text(str(512 * MIB))
    printed = run_python_in(inside(group), LOADER + GREEDY, "restart", str(flag)).splitlines()
    assert printed[-3:] == [f"whole {list(range(0, 40, 2))}", "left 0", "restarts 1"]
    told = [line for line in printed if line.startswith("on_worker_death: ")]
    assert len(told) == 1
    assert "counts 1 out-of-memory kill since the workers started" in told[0]


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.parametrize(
    ("method", "how"),
    [("fork", "batches"), ("fork", "one-by-one"), pytest.param("spawn", "batches", marks=pytest.mark.slow_spawn)],
)
def test_shared_memory_of_8_mib_that_is_full_is_told(method: str, how: str, tmp_path: Path) -> None:
    """
    Whether a batch is made there, or moved there as it is sent: its size, and how to start the container.
    """
    script = tmp_path / "train.py"  # spawn looks for the class there
    script.write_text(LOADER + FULL)
    mounted = in_new_mounts("mount -t tmpfs -o size=8m tmpfs /dev/shm")
    printed = output_of(*mounted, sys.executable, str(script), method, how)
    assert printed.startswith("RuntimeError "), printed
    assert "shared memory, through which batches travel, is full or too small (/dev/shm has 8 MiB, " in printed
    assert "Docker: --shm-size=8g" in printed
    assert "pass num_workers=1 instead of 2" in printed
    assert printed.endswith("left 0\n")


@pytest.mark.parametrize("most", [64, 96, 128])
def test_open_files_that_run_out_over_kept_batches_are_told(most: int) -> None:
    """
    The limit, what this process has, and that copies hold none.
    """
    printed = run_python(LOADER + KEPT, str(most))
    assert re.match(r"(RuntimeError|OSError) \d+\n", printed), printed
    assert re.search(rf"Too many files are open \(a process may have {most}, this one has \d+ now\): ", printed), (
        printed
    )
    assert "keep copies instead of the tensors of a batch (tensor.clone())" in printed
    assert printed.endswith("left 0\n")


def test_open_files_that_run_out_in_a_worker_are_told() -> None:
    """
    A sample opens more than there may be, and the error is its own.
    """
    printed = run_python(LOADER + LEAKS)
    assert "[Errno 24] Too many open files" in printed
    assert "Too many files are open (a process may have 128" in printed, printed
    assert printed.startswith("OSError 5\n")
    assert printed.endswith("left 0\n")


def test_worker_that_used_up_its_cpu_time_is_told() -> None:
    """
    The kernel sends SIGXCPU.
    """
    printed = run_python(LOADER + BUSY)
    assert printed.startswith("WorkerDiedError ")
    text = printed.splitlines()[1]
    assert re.match(r"Worker process \d+ was killed by SIGXCPU \(signal 24\) ", text), text
    assert "it used up the CPU time that a process may have here (RLIMIT_CPU)" in text
    assert printed.endswith("left 0\n")


def test_folder_for_sockets_that_becomes_too_long_in_workers_is_told(tmp_path: Path) -> None:
    """
    A worker_init_fn sets tempfile.tempdir; the error is the system's, with what to do about it.
    """
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    printed = run_python(LOADER + LONG_PATH, environment=clean_environment(LONG=str(folder)))
    assert "AF_UNIX path too long" in printed
    assert "The path of a socket is too long" in printed, printed
    assert "what travels between processes is pickled" not in printed
    assert printed.endswith("left 0\n")


def test_long_temporary_folder_starts_no_workers_and_says_so(tmp_path: Path) -> None:
    """
    All batches come, from the training process.
    """
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    script = tmp_path / "train.py"
    script.write_text(LOADER + LONG_TMPDIR)
    done = run(sys.executable, str(script), environment=clean_environment(TMPDIR=str(folder)))
    assert done.stdout == f"whole {list(range(0, 40, 4))}\nleft 0\n"
    assert done.stderr.count("AutoloaderWarning: backend.temp-dir-too-long: num_workers=2 starts no process") == 1
