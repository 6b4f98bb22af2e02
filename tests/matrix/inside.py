"""
What happens in the process of a cell: the situation is made, and a loader goes over the data twice.
"""

import faulthandler
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import psutil
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from autoloader import AutoloaderWarning, auto_loader
from autoloader.loader import warn

from .kinds import GATE, USES_OPENMP, made, run_openmp

BATCH_SIZE = 2
EPOCHS = 2
HOLD_SECONDS = 1.0
"""
How long a thread holds the lock that the dataset wants, unless a batch arrives before.
"""

GONE_SECONDS = 5.0
"""
How long processes and threads may take to be gone after the loader was closed.
"""

PIDS_GROUP = "AUTOLOADER_TEST_PIDS"
"""
The variable with the folder of the control group that limits the processes.
"""


class Order(NamedTuple):
    """
    What one process is to do.
    """

    situation: str
    folder: Path
    seconds: float
    """How long one loader may take before the process ends, with a traceback of all threads."""
    variants: list[str]
    datasets: list[str]


def run_in(situation: str, order: Order) -> None:
    """
    Run all loaders where the situation wants them to be: in this process, or in a child of it, or in a thread.
    """
    if situation == "daemonic":
        child = multiprocessing.Process(target=run_all, args=(order,), daemon=True)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    if situation == "nested":
        assert list(DataLoader(_Outer(order), batch_size=None, num_workers=1)) == [0]
    elif situation == "off-main-thread":
        thread = threading.Thread(target=run_all, args=(order,), name="trainer")
        thread.start()
        thread.join()
    else:
        run_all(order)


class _Outer(Dataset[Any]):
    """
    A dataset whose one sample has loaders of its own.
    """

    def __init__(self, order: Order) -> None:
        self.order = order

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        run_all(self.order)
        return index


def run_all(order: Order) -> None:
    """
    Run one loader after the other and print what each came to.
    """
    prepare(order.situation)
    for dataset in order.datasets:
        for variant in order.variants:
            faulthandler.dump_traceback_later(order.seconds, exit=True)
            before_each(order.situation)
            result = {"dataset": dataset, "variant": variant, **run_one(order, dataset, variant)}
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps(result), flush=True)


def prepare(situation: str) -> None:
    """
    Make the situation, as far as it lasts as long as the process, and see that it is as it should be.
    """
    if situation == "thread":
        threading.Thread(target=threading.Event().wait, name="parent's own", daemon=True).start()
    elif situation == "openmp":
        os.environ[USES_OPENMP] = "1"
        torch.set_num_threads(max(2, torch.get_num_threads()))
        threads = len(os.listdir("/proc/self/task"))
        run_openmp()
        assert len(os.listdir("/proc/self/task")) > threads
    elif situation == "fork-unsafe-module":
        sys.modules["polars"] = ModuleType("polars")
    elif situation == "no-semaphores":
        _multiprocessing: Any = sys.modules["_multiprocessing"]
        _multiprocessing.SemLock = _NoSemaphore
    elif situation == "few-files":
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    assert IS_MADE.get(situation, lambda: True)(), f"{situation} is not what it should be"


class _NoSemaphore:
    """
    What makes semaphores where the system has none, as on AWS Lambda.
    """

    SEM_VALUE_MAX = 1

    def __init__(self, *arguments: object) -> None:
        raise OSError(38, "Function not implemented")


def _shared_memory_is_read_only() -> bool:
    return bool(os.statvfs("/dev/shm").f_flag & os.ST_RDONLY)


IS_MADE: dict[str, Callable[[], bool]] = {
    "daemonic": lambda: multiprocessing.current_process().daemon and get_worker_info() is None,
    "nested": lambda: get_worker_info() is not None,
    "off-main-thread": lambda: threading.current_thread() is not threading.main_thread(),
    "long-tmpdir": lambda: len(tempfile.gettempdir()) == 90,
    "read-only-shm": _shared_memory_is_read_only,
}


def before_each(situation: str) -> None:
    """
    Make what a loader before this one may have changed.
    """
    warn._said.clear()
    if situation == "sigchld-ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    elif situation == "few-processes":
        group = Path(os.environ[PIDS_GROUP])
        (group / "pids.max").write_text(str(int((group / "pids.current").read_text()) + 6))


def run_one(order: Order, dataset: str, variant: str) -> dict[str, Any]:
    """
    Go over the data twice and return what was seen.
    """
    begun, result = time.monotonic(), {"epochs": [], "error": None, "warnings": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with made(dataset, order.folder) as data:
                loader = auto_loader(data, batch_size=BATCH_SIZE, **({"num_workers": 2} if variant == "two" else {}))
                try:
                    for _ in range(EPOCHS):
                        result["epochs"].append(run_epoch(loader, order.situation))
                finally:
                    loader.close()
        except Exception:  # noqa: BLE001 (whatever it is goes into the result)
            result["error"] = traceback.format_exc()
    result["warnings"] = [str(each.message) for each in caught if issubclass(each.category, AutoloaderWarning)]
    result["left"] = wait_until_gone()
    result["seconds"] = round(time.monotonic() - begun, 1)
    return result


def run_epoch(loader: Any, situation: str) -> dict[str, Any]:
    """
    Go over the data once and return the numbers, and where they were loaded: as the plan says, and as was seen.
    """
    numbers, places, methods = [], [], set()
    with lock_held() if situation == "lock-held" else nullcontext(lambda: None) as release:
        for batch in loader:
            release()
            numbers += batch["number"].tolist()
            places.append((batch["pid"].tolist()[0], batch["thread"].tolist()[0]))
            methods |= methods_in_use()
    here = os.getpid(), threading.get_ident()
    seen = ["process" if pid != here[0] else "thread" if (pid, thread) != here else "inline" for pid, thread in places]
    backend, method = loader.plan.value("backend"), loader.plan.value("multiprocessing_context")
    planned = [backend, method if backend == "process" else None]
    return {"numbers": numbers, "planned": planned, "backends": seen, "methods": sorted(methods)}


def methods_in_use() -> set[str]:
    """
    Return the start methods of the children that run. The list keeps those of which SIGCHLD did not tell the end.
    """
    children = multiprocessing.active_children()
    return {child._start_method for child in children if not wait([child.sentinel], 0)}


@contextmanager
def lock_held() -> Iterator[Callable[[], None]]:
    """
    Let a thread hold the dataset's lock for some seconds, or until the first batch is there, and stay.
    """
    held, release, end = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with GATE:
            held.set()
            release.wait(HOLD_SECONDS)
        end.wait()

    thread = threading.Thread(target=hold, name="holder", daemon=True)
    thread.start()
    assert held.wait(HOLD_SECONDS)
    try:
        yield release.set
    finally:
        release.set()
        end.set()
        thread.join()


def wait_until_gone() -> list[str]:
    """
    Return what is still there of a closed loader: processes other than multiprocessing's own helpers, threads of ours.
    """
    deadline = time.monotonic() + GONE_SECONDS
    while (left := [*_processes(), *_threads()]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _processes() -> Iterator[str]:
    for child in psutil.Process().children(recursive=True):
        try:
            line, parent = " ".join(child.cmdline()), child.ppid()
        except psutil.NoSuchProcess:
            continue
        is_helper = "multiprocessing.resource_tracker" in line or "multiprocessing.forkserver" in line
        if not is_helper or parent != os.getpid():
            yield f"process {child.pid}: {line}"


def _threads() -> Iterator[str]:
    return (f"thread {thread.name}" for thread in threading.enumerate() if thread.name.startswith("autoloader"))
