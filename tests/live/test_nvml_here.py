"""
NVIDIA's management library, in the shape of one that notes each call: the probe leaves nothing of it behind.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from live.running import clean_environment, run_python

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library is built for Linux"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler builds the library"),
    pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="nvidia-ml-py is not installed"),
]

CODE = """
import json, os, sys, threading
from autoloader.probe import RealHost

def state():
    return sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), threading.active_count()

host = RealHost()
host.nvml() if len(sys.argv) > 1 else None  # the first call loads modules
before = state()
found = host.nvml()
after = state()
child = os.fork()
if child == 0:
    os._exit(0 if host.nvml() == found else 1)
_, status = os.waitpid(child, 0)
print(json.dumps({"found": found, "same": before == after, "child": status, "pid": os.getpid()}))
"""


@pytest.fixture
def library(tmp_path: Path) -> dict[str, str]:
    """
    Build the library, and return an environment in which it is found.
    """
    target, source = tmp_path / "libnvidia-ml.so.1", Path(__file__).with_name("fake_nvml.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(target), str(source)], check=True, capture_output=True)
    return clean_environment(LD_LIBRARY_PATH=str(tmp_path), FAKE_NVML_LOG=str(tmp_path / "log"))


def ask(environment: dict[str, str]) -> Any:
    """
    Ask the library twice in a process, and once in a fork of it.
    """
    return json.loads(run_python(CODE, environment=environment))


def test_library_is_asked_and_shut_down_again(library: dict[str, str]) -> None:
    """
    Each start has its end, and no call computes; a device without rates leaves them unknown.
    """
    answer = ask(library)
    assert answer["found"] == ["555.42.06", [["GPU-1", 1 << 30, 0.75], ["GPU-2", 2 << 30, None]]]
    calls = [line.split() for line in Path(library["FAKE_NVML_LOG"]).read_text(encoding="utf-8").splitlines()]
    for pid in {pid for _, pid in calls}:
        names = [name for name, caller in calls if caller == pid]
        assert (names[0], names[-1]) == ("nvmlInitWithFlags", "nvmlShutdown")
        assert Counter(names)["nvmlInitWithFlags"] == Counter(names)["nvmlShutdown"]
    assert {name for name, _ in calls} == {
        *("nvmlInitWithFlags", "nvmlShutdown", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount"),
        *("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"),
        "nvmlDeviceGetUtilizationRates",
    }


def test_process_that_asked_the_library_can_be_forked(library: dict[str, str]) -> None:
    """
    No file, no thread stays open, and the child can start the library anew.
    """
    answer = ask(library)
    assert (answer["same"], answer["child"]) == (True, 0)
    calls = Path(library["FAKE_NVML_LOG"]).read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("nvmlInitWithFlags") and line.split()[1] != str(answer["pid"]) for line in calls)


def test_library_that_is_missing_is_no_answer() -> None:
    """
    Without a driver the package is of no use, and says so by an error of its own.
    """
    assert ask(clean_environment(LD_LIBRARY_PATH=os.devnull))["found"] is None


def test_default_probe_does_not_ask_the_library_here(library: dict[str, str]) -> None:
    """
    Files of the driver tell what a loader needs; the library may take a second to start.
    """
    run_python("import autoloader; autoloader.probe_host()", environment=library)
    assert not Path(library["FAKE_NVML_LOG"]).exists()
