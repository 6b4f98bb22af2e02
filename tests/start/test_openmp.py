"""
GNU's OpenMP across a fork: a child that computes with two threads hangs, unless the pool was released before.
"""

import sys
from pathlib import Path

import pytest

from start.running import run, write

pytestmark = [
    pytest.mark.torch,
    pytest.mark.real_host,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux tells which OpenMP runtime is loaded"),
]

JOB = """
import os, signal, sys, time
from autoloader.start import openmp
import torch

def compute():
    return float(torch.ones(1 << 20).exp().sum())

def does_child_end(seconds):
    pid = os.fork()
    if pid == 0:
        compute()
        os._exit(0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False

torch.set_num_threads(2)
expected = compute()
if not openmp._mapped_runtimes():
    print("other runtime")
    sys.exit()
print(does_child_end(float(sys.argv[1])))
openmp.release_pool()
print(does_child_end(60), compute() == expected)
openmp.release_pool()
openmp.release_pool()
print(does_child_end(60))
"""


def test_forked_child_computes_with_two_threads_after_the_pool_was_released(tmp_path: Path) -> None:
    """
    Without that it waits for a thread that it does not have; here the pool comes back with the next operation.
    """
    write(tmp_path, {"job.py": JOB})
    ran = run(tmp_path, "job.py", "5")
    assert (ran.code, ran.errors) == (0, "")
    if ran.lines == ["other runtime"]:
        pytest.skip("torch was not built with GNU's OpenMP")
    assert ran.lines == ["False", "True True", "True"]
