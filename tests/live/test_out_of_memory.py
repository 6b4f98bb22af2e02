"""
Real lack of memory, shared memory and open files, and what is said of it.
"""

import json
import re
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoloader.facts import HostFacts
from autoloader.records import from_json
from live.running import run_python
from live.test_probe_limits import NEEDS_ROOT, in_new_mounts, inside, own_groups, removed

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="makes limits as only Linux has them"),
]

MIB = 1 << 20

KILLED_CHILD = """
import json, subprocess, sys
from autoloader.probe import probe_memory
from autoloader.records import to_json

GREEDY = "open('/proc/self/oom_score_adj', 'w').write('1000'); held = bytearray(1 << 30)"
before = probe_memory()
child = subprocess.Popen([sys.executable, "-S", "-c", GREEDY])
child.wait()
print(json.dumps([to_json(before), child.pid, child.returncode, to_json(probe_memory())]))
"""

TORCH_ERROR = """
import resource, sys, torch
from torch.utils.data import DataLoader
from autoloader.loader.diagnosis import explain_error
from autoloader.probe import probe_memory

size, most_files = int(sys.argv[1]), int(sys.argv[2])
probe_memory()
resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
kept = []
try:
    for batch in DataLoader([torch.zeros(size)] * 400, num_workers=2, multiprocessing_context="fork"):
        kept.append(batch)
except Exception as error:
    found = error
else:
    found = RuntimeError("no error at all")
print(explain_error(found, probe_memory(), num_workers=2))
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """
    Make a control group that may hold 256 MiB, swap not counted, and remove it.
    """
    folder = own_groups("memory") / f"autoloader-test-{uuid.uuid4().hex}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(256 * MIB))
        (folder / "memory.swappiness").write_text("0")
        yield folder
    finally:
        deadline = time.monotonic() + 10
        while not removed(folder) and time.monotonic() < deadline:
            pass
        assert not folder.exists()


def killed_in(group: Path) -> tuple[HostFacts, int, int, HostFacts]:
    """
    Let the kernel kill a child for its memory; return what was read before, its number and exit code, and after.
    """
    printed = run_python_in(inside(group), KILLED_CHILD)
    before, pid, exit_code, after = json.loads(printed)
    return from_json(HostFacts, before), pid, exit_code, from_json(HostFacts, after)


def run_python_in(before: tuple[str, ...], code: str, *arguments: str) -> str:
    """
    Return what a piece of Python prints that another command starts.
    """
    start = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    return run_python(start, *before, sys.executable, "-c", code, *arguments)


@NEEDS_ROOT
@pytest.mark.root
def test_child_that_the_kernel_killed_is_counted(group: Path) -> None:
    """
    The count of the group in which this process runs rises by one, and the limit stands beside it.
    """
    before, _, exit_code, after = killed_in(group)
    assert exit_code == -9
    assert (before.memory.oom_kills, after.memory.oom_kills) == (0, 1)
    assert after.memory.sources["oom_kills"] == f"{group}/memory.oom_control"
    assert after.memory.cgroup_limit_bytes == 256 * MIB
    assert after.memory.cgroup_usage_bytes is not None
    assert 0 < after.memory.cgroup_usage_bytes < 128 * MIB
    assert after.memory.sources["cgroup_usage_bytes"] == f"{group}/memory.usage_in_bytes"


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.torch
def test_death_of_that_child_is_told_as_lack_of_memory(group: Path) -> None:
    """
    The text names the counter, the limit of the group, and half the workers.
    """
    from autoloader.loader.diagnosis import Death, explain_deaths

    before, pid, exit_code, after = killed_in(group)
    found = explain_deaths(
        [Death(pid, exit_code, had_served=True)],
        num_workers=4,
        method="fork",
        indices="[5]",
        before=before.memory,
        now=after,
    )
    assert (found.finding, found.is_memory) == ("worker.out-of-memory", True)
    assert found.text.startswith(
        f"Worker process {pid} was killed by SIGKILL (signal 9) when the batch of samples [5] was due: the kernel's "
        f"out-of-memory killer did it, {group}/memory.oom_control counts 1 out-of-memory kill since the workers "
        "started (its control group may hold 256 MiB and now holds "
    )
    assert " Pass num_workers=2 instead of 4, " in found.text


@NEEDS_ROOT
@pytest.mark.root
@pytest.mark.torch
def test_shared_memory_of_8_mib_is_told_when_it_is_full() -> None:
    """
    Torch's own error of today gets the size, and how to start the container.
    """
    mounted = in_new_mounts("mount -t tmpfs -o size=8m tmpfs /dev/shm")
    printed = run_python_in(mounted, TORCH_ERROR, str(MIB), "1024")
    assert printed.startswith(
        "A batch could not be passed on: shared memory, through which batches travel, is full or too small (/dev/shm "
        "has 8 MiB, "
    )
    assert "Docker: --shm-size=8g" in printed


@pytest.mark.torch
def test_batches_that_are_kept_are_told_when_files_run_out() -> None:
    """
    Torch's own error of today gets the limit, and that it cannot be raised from here.
    """
    printed = run_python(TORCH_ERROR, "10", "128")
    assert re.match(r"Too many files are open \(a process may have 128(, this one has 1[12]\d now)?\): ", printed)
    assert "Have the limit raised (/etc/security/limits.conf" in printed
