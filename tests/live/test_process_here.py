"""
What the probe says of a real process: the threads that run in it, and how it was started.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from autoloader.probe.interpreter import HARMLESS_THREADS
from live.running import output_of, run_python

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how many threads a process has"),
]

NEEDS_NUMPY = pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="needs numpy")

SAY = """
import json, os
from autoloader.probe import probe_process

def say():
    process = probe_process().process
    print(json.dumps({**process._asdict(), "tasks": len(os.listdir("/proc/self/task"))}))
"""


def process_after(code: str) -> dict[str, Any]:
    """
    Return the state of a fresh process that ran *code*, with the number of its threads as the kernel counts them.
    """
    return dict(json.loads(run_python(f"{SAY}\n{code}\nsay()")))


def test_process_that_did_nothing_is_quiet() -> None:
    """
    A fresh Python has one thread, may start children, and has nothing that a fork could break.
    """
    process = process_after("")
    assert process["tasks"] == 1
    assert (process["other_threads"], process["native_threads"], process["fork_unsafe_modules"]) == ([], 0, [])
    assert (process["is_daemonic"], process["is_dataloader_worker"]) == (False, False)
    assert (process["is_interpreter_python"], process["interpreter"]) == (True, sys.executable)
    assert (process["has_semaphores"], process["reimported_main"], process["is_main_missing"]) == (True, None, False)


THREAD = """
import threading, time
done = threading.Event()
thread = threading.Thread(target=done.wait, name="writer")
thread.start()
say()
done.set()
thread.join()
deadline = time.monotonic() + 10
while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:  # up to Python 3.12 it ends after join()
    pass
"""


def test_python_thread_is_named_and_gone_when_it_ended() -> None:
    """
    A thread of Python's is none of a library's.
    """
    running, ended = map(json.loads, run_python(f"{SAY}\n{THREAD}\nsay()").splitlines())
    assert (running["other_threads"], running["native_threads"]) == (["writer"], 0)
    assert (ended["other_threads"], ended["native_threads"]) == ([], 0)


NATIVE = """
import _thread, sys
lock = _thread.allocate_lock()
lock.acquire()
for _ in range(3):
    _thread.start_new_thread(lock.acquire, ())
say()
sys.stdout.flush()
os._exit(0)
"""


def test_threads_that_python_does_not_know_are_native() -> None:
    """
    Threads that were started without the module ``threading`` are like those of a library that keeps no pool.
    """
    process = json.loads(run_python(f"{SAY}\n{NATIVE}"))
    assert (process["other_threads"], process["native_threads"], process["tasks"]) == ([], 3, 4)


@NEEDS_NUMPY
def test_pool_of_numpy_is_none_of_the_native_threads() -> None:
    """
    A matrix product starts the threads of BLAS, which survive a fork.
    """
    process = process_after("import numpy\nones = numpy.ones((700, 700))\nones @ ones")
    assert (process["other_threads"], process["native_threads"]) == ([], 0)


TORCH_PRODUCT = "import torch\ntorch.set_num_threads(2)\nones = torch.ones(800, 800)\nones @ ones\n"
TORCH_CONVOLUTION = """
import torch
torch.set_num_threads(2)
images = torch.ones(8, 3, 64, 64, requires_grad=True)
torch.nn.Conv2d(3, 16, 3)(images).sum().backward()
"""
TORCH_AND_NUMPY = f"import numpy\nnumpy.ones((700, 700)) @ numpy.ones((700, 700))\n{TORCH_PRODUCT}"


@pytest.mark.torch
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(TORCH_PRODUCT, id="product"),
        pytest.param(TORCH_CONVOLUTION, id="convolution-and-its-gradient"),
        pytest.param(TORCH_AND_NUMPY, id="after-numpy's", marks=NEEDS_NUMPY),
        pytest.param(f"{TORCH_PRODUCT}torch.set_num_threads(1)", id="fewer-threads-later"),
    ],
)
def test_pools_of_torch_are_none_of_the_native_threads(code: str) -> None:
    """
    A product and a convolution on two threads start the pools of OpenMP, which do not stand in the way of a fork.
    """
    process = process_after(code)
    assert process["tasks"] > 1
    assert (process["other_threads"], process["native_threads"]) == ([], 0)


FEEDER = "import multiprocessing\nitems = multiprocessing.Queue()\nitems.put(1)\n"
MONITOR = "import tqdm\nbar = tqdm.tqdm(total=2, file=open(os.devnull, 'w'))\n"
NEEDS_TQDM = pytest.mark.skipif(importlib.util.find_spec("tqdm") is None, reason="needs tqdm")


@pytest.mark.parametrize("code", [pytest.param(FEEDER, id="queue"), pytest.param(MONITOR, id="tqdm", marks=NEEDS_TQDM)])
def test_thread_that_holds_nothing_is_left_out(code: str) -> None:
    """
    The feeder of a queue and the monitor of a progress bar run, and are no reason not to fork.
    """
    process = process_after(f"import threading\n{code}assert threading.active_count() == 2")
    assert (process["other_threads"], process["native_threads"], process["tasks"]) == ([], 0, 2)


def test_threads_of_an_executor_are_named() -> None:
    """
    They run what they are given, and may hold any lock.
    """
    code = """
import concurrent.futures
pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="reader")
pool.submit(int).result()
"""
    assert process_after(code)["other_threads"] == ["reader_0"]


@pytest.mark.torch
def test_thread_with_which_torch_pins_memory_is_one_of_the_harmless() -> None:
    """
    The function that the thread of torch's own loader runs lies where we look for it.
    """
    from torch.utils.data._utils.pin_memory import _pin_memory_loop

    runs = f"{_pin_memory_loop.__module__}.{_pin_memory_loop.__qualname__}"
    assert runs.startswith(HARMLESS_THREADS)


def test_script_from_standard_input_is_a_main_that_is_missing() -> None:
    """
    A child would have to import ``<stdin>``, which no child can.
    """
    process = json.loads(output_of(sys.executable, "-", stdin=None, input=f"{SAY}\nsay()\n"))
    assert (process["reimported_main"], process["is_main_missing"]) == ("<stdin>", True)


def test_script_in_a_file_is_a_main_that_is_there(tmp_path: Path) -> None:
    """
    A child imports it by the path under which it was started.
    """
    (tmp_path / "train.py").write_text(f"{SAY}\nsay()\n")
    process = json.loads(output_of(sys.executable, "train.py", cwd=tmp_path))
    assert process["reimported_main"] in {"train.py", str(tmp_path / "train.py")}
    assert process["is_main_missing"] is False
