"""
OpenMP binds the training process to one CPU, and the workers get all of them back.
"""

import os
import sys
from pathlib import Path

import pytest

from start.running import run, write

pytestmark = [
    pytest.mark.torch,
    pytest.mark.real_host,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets OpenMP bind a thread"),
]

JOB = """
import json, os, sys
import autoloader
from data import Numbers, auto_loader

class Cpus(Numbers):
    def __getitem__(self, index):
        return len(os.sched_getaffinity(0))

if __name__ == "__main__":
    seen = {"here": len(os.sched_getaffinity(0))}
    for method in ("fork", "forkserver", "spawn"):
        with auto_loader(Cpus(), 4, num_workers=1, multiprocessing_context=method) as loader:
            seen[method] = sorted({cpus for batch in loader for cpus in batch.tolist()})
    seen["after"] = len(os.sched_getaffinity(0))
    print(json.dumps(seen))
"""


def test_workers_of_every_start_method_have_all_cpus(tmp_path: Path) -> None:
    """
    They were seen when autoloader was imported, before torch; the training process is left as OpenMP bound it.
    """
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        pytest.skip("one CPU is not enough to see it")
    write(tmp_path, {"job.py": JOB})
    ran = run(tmp_path, "job.py", OMP_PLACES="cores")
    assert (ran.code, ran.errors) == (0, "")
    [said] = ran.lines
    assert '"here": 1,' in said
    assert said.endswith(f'"fork": [{cpus}], "forkserver": [{cpus}], "spawn": [{cpus}], "after": 1}}')
