"""
Ranks that a launcher starts on this machine: whose mask they have, and how many CPUs each takes for its workers.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from live.running import clean_environment, run

HAS_TWO = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="gives masks by the tools of Linux"),
    pytest.mark.skipif(not HAS_TWO, reason="this machine has one CPU: two masks cannot differ"),
]

RANK = """
import json
from autoloader.policy.limits import cpus_of_rank
from autoloader.probe import probe_host
facts = probe_host()
print(json.dumps([facts.cpu.affinity, facts.cpu.launcher_affinity, cpus_of_rank(facts)]), flush=True)
"""

LAUNCHER = """
import os, subprocess, sys
before, code = sys.argv[1:3]
numbers = {"RANK": "{}", "LOCAL_RANK": "{}", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "2"}
ranks = []
for rank in range(2):
    words = [word.replace("CPU", sys.argv[3 + rank]) for word in before.split("|") if word]
    environment = {**os.environ, **{name: value.format(rank) for name, value in numbers.items()}}
    ranks.append(subprocess.Popen([*words, sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE))
for rank in ranks:
    sys.stdout.buffer.write(rank.communicate()[0])
sys.exit(max(rank.returncode for rank in ranks))
"""
"""
Starts two ranks one after another, each by a command in which CPU stands for one of its own; then shows what they say.
"""

SPAWNING = """
import multiprocessing, os, sys

def rank(number, code):
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), LOCAL_WORLD_SIZE="2")
    exec(code)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    for number in range(2):
        process = context.Process(target=rank, args=(number, sys.argv[1]))
        process.start()
        process.join()
"""

NO_WRAPPER = ""
BOUND = "taskset|-c|CPU"
BOUND_IN_A_SHELL = 'sh|-c|taskset -c CPU "$@"; true|sh'
SHELL = 'sh|-c|"$@"; true|sh'
PYTHON = f"{sys.executable}|-c|import subprocess, sys; subprocess.run(sys.argv[1:], check=True)"


def two_cpus() -> tuple[int, int]:
    """
    Return two CPUs that this process may use.
    """
    first, second, *_ = sorted(os.sched_getaffinity(0))
    return first, second


def started(*command: str) -> list[Any]:
    """
    Return what the ranks print that a command starts.
    """
    done = run(*command, environment=clean_environment())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def launched(*before: str, wrapper: str) -> list[Any]:
    """
    Return what two ranks print whose launcher is started behind *before*, and they behind *wrapper*.
    """
    return started(*before, sys.executable, "-c", LAUNCHER, wrapper, RANK, *map(str, two_cpus()))


@pytest.mark.parametrize("wrapper", [NO_WRAPPER, SHELL, PYTHON], ids=["plain", "in-a-shell", "in-a-python"])
def test_ranks_of_a_launcher_on_one_cpu_share_it(wrapper: str) -> None:
    """
    ``taskset -c 0 torchrun``: each rank's mask would fit beside the other's, and is the same.
    """
    cpu, _ = two_cpus()
    assert launched("taskset", "-c", str(cpu), wrapper=wrapper) == [[[cpu], [cpu], 0.5]] * 2


@pytest.mark.parametrize("wrapper", [NO_WRAPPER, SHELL], ids=["plain", "in-a-shell"])
def test_ranks_of_a_launcher_on_all_cpus_share_them(wrapper: str) -> None:
    """
    Nobody gave a mask to anybody.
    """
    cpus = sorted(os.sched_getaffinity(0))
    [one, other] = launched(wrapper=wrapper)
    assert one == other
    assert one[:2] == [cpus, cpus]
    assert one[2] <= len(cpus) / 2


@pytest.mark.parametrize("wrapper", [BOUND, BOUND_IN_A_SHELL], ids=["bound", "bound-in-a-shell"])
def test_ranks_that_were_bound_have_a_cpu_each(wrapper: str) -> None:
    """
    As by ``mpirun --bind-to core``, or a wrapper around each rank; a shell that stays above the rank is no launcher.
    """
    cpus = sorted(os.sched_getaffinity(0))
    assert launched(wrapper=wrapper) == [[[cpu], cpus, 1.0] for cpu in two_cpus()]


def test_ranks_of_a_script_on_one_cpu_that_spawns_them_share_it(tmp_path: Path) -> None:
    """
    Ranks that number themselves, as with torch.multiprocessing.spawn: their environment never told of them.
    """
    cpu, _ = two_cpus()
    script = tmp_path / "launch.py"
    script.write_text(SPAWNING)
    assert started("taskset", "-c", str(cpu), sys.executable, str(script), RANK) == [[[cpu], [cpu], 0.5]] * 2


@pytest.mark.torch
@pytest.mark.parametrize("is_bound", [False, True])
def test_ranks_of_torchrun_share_its_mask_or_have_their_own(is_bound: bool) -> None:
    """
    The real one, on one CPU, and on all of them with ranks that are bound.
    """
    pytest.importorskip("torch")
    cpu, _ = two_cpus()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    bind = f'exec taskset -c $(set -- {" ".join(map(str, two_cpus()))}; shift $LOCAL_RANK; echo $1) "$@"'
    if is_bound:
        found = started(*torchrun, "sh", "-c", bind, "sh", sys.executable, "-c", RANK)
        assert sorted(found) == [[[each], sorted(os.sched_getaffinity(0)), 1.0] for each in two_cpus()]
    else:
        found = started("taskset", "-c", str(cpu), *torchrun, sys.executable, "-c", RANK)
        assert found == [[[cpu], [cpu], 0.5]] * 2
