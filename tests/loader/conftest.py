"""
A host on which the plan is known: 8 CPUs, no accelerator, so that two workers start: by fork, or on Windows by spawn.
"""

import multiprocessing
import sys
import time
from collections.abc import Iterator

import pytest

from autoloader import AutoLoader
from autoloader.facts import (
    CpuFacts,
    HostFacts,
    JobFacts,
    MemoryFacts,
    ProcessFacts,
    SharedMemoryFacts,
    StartMethodFacts,
    SystemFacts,
)
from autoloader.loader import beginning, deaths, first_batches, settling, warn, worker_batches

HOST = HostFacts(
    system=SystemFacts(platform="linux", wsl_version=0),
    start_methods=StartMethodFacts(available=("fork", "spawn", "forkserver"), default="fork"),
    cpu=CpuFacts(logical=8, affinity=tuple(range(8)), usable_cpus=8.0, bound_by="logical"),
    memory=MemoryFacts(headroom_bytes=float(16 << 30), bound_by="available_bytes"),
    shared_memory=SharedMemoryFacts(path="/dev/shm", free_bytes=8 << 30, is_writable=True),
    job=JobFacts(local_world_size=1),
    process=ProcessFacts(other_threads=(), is_daemonic=False, is_dataloader_worker=False),
)
if sys.platform == "win32":
    HOST = HOST._replace(
        system=SystemFacts(platform="windows"),
        start_methods=StartMethodFacts(available=("spawn",), default="spawn"),
        shared_memory=SharedMemoryFacts(),
    )


class Host:
    """
    The facts that a loader reads, for a test to change.
    """

    def __init__(self) -> None:
        self.facts = HOST
        self.environment: dict[str, str] = {"AUTOLOADER_NO_CACHE": "1"}

    def change(self, group: str, **values: object) -> None:
        self.facts = self.facts._replace(**{group: getattr(self.facts, group)._replace(**values)})


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """
    Let loaders probe a known host.
    """
    known = Host()
    module = sys.modules[AutoLoader.__module__]
    for user in (module, settling):
        monkeypatch.setattr(user, "probe_host", lambda path=None: known.facts)
    monkeypatch.setattr(settling, "probe_process", lambda: known.facts)
    monkeypatch.setattr(module, "probe_environment", lambda: known.environment)
    for user in (beginning, deaths):
        monkeypatch.setattr(user, "probe_memory", lambda: known.facts)
    monkeypatch.setattr(warn, "_said", set())
    set_world_size(monkeypatch, 2)  # ranks of a group measure nothing
    return known


def set_world_size(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    """
    Let what measures batches find so many ranks.
    """
    for user in (first_batches, worker_batches):
        monkeypatch.setattr(user, "world_size", lambda: ranks)


@pytest.fixture
def measuring(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let loaders time their first batches, and choose by that. Without this their two workers are known beforehand.
    """
    set_world_size(monkeypatch, 1)


@pytest.fixture(autouse=True)
def _no_child_is_left() -> Iterator[None]:
    """
    Fail a test that leaves a process behind.
    """
    yield
    deadline = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert multiprocessing.active_children() == []
