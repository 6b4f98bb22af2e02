"""
The ranks of a node load by one plan: that of local rank 0.
"""

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import datasets
from autoloader import AutoLoader, auto_loader
from autoloader.loader import node
from autoloader.store import Store, open_node_store
from loader.conftest import Host

RUN = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}


@pytest.fixture(autouse=True)
def folder(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Be on a node whose temporary files lie in a folder of the test's own, with two ranks that wait a moment only.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    host.environment.clear()
    host.environment.update(RUN, AUTOLOADER_CACHE_DIR=str(tmp_path / "cache"))
    host.change("job", local_world_size=2)
    return tmp_path


@pytest.fixture
def ranks(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """
    Return a function that makes a loader as one of the ranks would, each of which has counted its own calls.
    """
    known = {rank: node.NodePlans(patience=0.05) for rank in range(2)}

    def make(rank: int, dataset: Any = None, *, free_gib: float = 16, **arguments: Any) -> AutoLoader[Any]:
        host.change("job", local_rank=rank)
        host.change("memory", headroom_bytes=free_gib * (1 << 30))
        monkeypatch.setattr(node.choose_for_node, "__defaults__", (known[rank],))
        return auto_loader(datasets.Numbers(100) if dataset is None else dataset, 4, **arguments)

    make.known = known  # type: ignore[attr-defined]
    return make


def values(loader: AutoLoader[Any]) -> Mapping[str, Any]:
    """
    Return what a loader's plan decides, and what it shows as its attributes.
    """
    shown = {"num_workers": loader.num_workers, "prefetch_factor": loader.prefetch_factor}
    return {**{name: choice.value for name, choice in loader.plan.choices.items()}, "shown": shown}


SHORT = 0.001
"""
GiB of free memory that are too few for a worker.
"""


def test_rank_takes_the_plan_of_local_rank_0(ranks: Any) -> None:
    """
    With its reasons, though it sees less memory itself.
    """
    first, second = ranks(0), ranks(1, free_gib=SHORT)
    assert first.num_workers > 0
    assert values(second) == values(first)
    assert second.plan.choices == first.plan.choices


def test_rank_of_another_run_or_alone_makes_its_own_plan(host: Host, ranks: Any) -> None:
    """
    The same call under another port, without other ranks, and with the store turned off.
    """
    ranks(0)
    for changes in ({"MASTER_PORT": "29512"}, {"AUTOLOADER_NO_CACHE": "1"}):
        host.environment.update(changes)
        assert ranks(1, free_gib=SHORT).num_workers == 0
        host.environment.update({**RUN, "AUTOLOADER_NO_CACHE": "0"})
    host.change("job", local_world_size=1)
    assert ranks(1, free_gib=SHORT).num_workers == 0


def test_calls_are_told_apart_by_what_was_asked_and_by_their_order(ranks: Any) -> None:
    """
    A loader that local rank 0 alone makes comes between two of them.
    """
    first = [ranks(0, free_gib=SHORT), ranks(0, datasets.Numbers(60)), ranks(0)]
    second = [ranks(1), ranks(1)]
    assert [loader.num_workers > 0 for loader in first] == [False, True, True]
    assert [values(loader) for loader in second] == [values(first[0]), values(first[2])]


def test_what_the_user_set_stands(ranks: Any) -> None:
    """
    And with it the call is another one where only one rank has set it; a number of workers leaves nothing to share.
    """
    ranks(0)
    assert ranks(1, free_gib=SHORT, pin_memory=False).num_workers == 0
    ranks(0, multiprocessing_context="spawn")
    second = ranks(1, free_gib=SHORT, multiprocessing_context="spawn")
    assert second.num_workers > 0
    assert second.plan.choices["multiprocessing_context"].rule == "multiprocessing_context.fixed"
    before = ranks.known[1].patience
    assert ranks(1, num_workers=1).num_workers == 1
    assert ranks.known[1].patience == before


def test_rank_waits_for_local_rank_0(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It takes what comes while it waits.
    """
    first = ranks(0)
    kept: list[Any] = []
    read = Store.read

    def read_late(store: Store, kind: str, key: Mapping[str, Any]) -> Any:
        kept.append(kind)
        return None if kind == node.KIND and len(kept) < 4 else read(store, kind, key)

    monkeypatch.setattr(Store, "read", read_late)
    ranks.known[1].patience = 60.0
    assert values(ranks(1, free_gib=SHORT)) == values(first)
    assert kept == [node.KIND] * 4
    assert ranks.known[1].patience < 60


def test_rank_does_not_wait_twice_in_vain(ranks: Any) -> None:
    """
    Local rank 0 makes no such loader; another one of its is found all the same.
    """
    assert ranks(1, free_gib=SHORT).num_workers == 0
    assert ranks.known[1].patience == 0
    ranks(0, datasets.Numbers(60))
    assert ranks(1, datasets.Numbers(60), free_gib=SHORT).num_workers > 0


def test_rank_with_other_cpus_makes_its_own_plan(host: Host, ranks: Any) -> None:
    """
    Workers of local rank 0 would be too many for it.
    """
    host.change("accelerator", kind="cuda", devices=1)
    first = ranks(0)
    host.change("cpu", affinity=(0, 1), usable_cpus=2.0, logical=8)
    assert 0 < ranks(1).num_workers < first.num_workers


def with_choice(value: Any, name: str, chosen: Any) -> Any:
    """
    Return what local rank 0 has left, with another value of one choice.
    """
    choices = value["plan"]["choices"]
    return {**value, "plan": {**value["plan"], "choices": {**choices, name: {**choices[name], "value": chosen}}}}


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda value: {**value, "started": value["started"] - 1}, id="another-process"),
        pytest.param(lambda value: {**value, "pid": "1"}, id="no-pid"),
        pytest.param(lambda value: {**value, "plan": {}}, id="no-plan"),
        pytest.param(lambda value: with_choice(value, "num_workers", -1), id="no-count"),
        pytest.param(lambda value: with_choice(value, "multiprocessing_context", "bogus"), id="no-method"),
        pytest.param(lambda value: [value], id="no-object"),
    ],
)
def test_file_of_an_earlier_run_or_of_another_kind_is_no_plan(spoil: Any, host: Host, ranks: Any) -> None:
    """
    A process that has ended and left its file, a number that another process has now, and what is no plan.
    """
    loader, store = ranks(0), open_node_store(host.environment)
    key = node.NodePlans().key_of(loader, host.environment)
    value = store.read(node.KIND, key)
    assert value["plan"]["choices"]["num_workers"]["value"] == loader.num_workers
    assert store.write(node.KIND, key, spoil(value))
    assert ranks(1, free_gib=SHORT).num_workers == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps temporary files by user")
def test_folder_of_somebody_else_is_not_used(folder: Path, ranks: Any) -> None:
    """
    Others could put their plan there.
    """
    ranks(0)
    (ours,) = folder.glob("autoloader-*")
    assert stat.S_IMODE(ours.stat().st_mode) == 0o700
    ours.chmod(0o777)
    assert ranks(1, free_gib=SHORT).num_workers == 0
    ours.rename(folder / "elsewhere")
    ours.symlink_to(folder / "elsewhere")
    assert ranks(1, free_gib=SHORT).num_workers == 0


def test_without_a_folder_for_temporary_files_each_rank_chooses(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    None can be written in a container that is read-only, or on a full disk.
    """

    def missing() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", missing)
    assert ranks(0).num_workers > 0
    assert ranks(1, free_gib=SHORT).num_workers == 0


def test_loader_in_a_dataloaders_worker_waits_for_nobody(host: Host, ranks: Any) -> None:
    """
    Each worker of each rank would.
    """
    host.change("process", is_dataloader_worker=True)
    ranks(1)
    assert ranks.known[1].patience > 0


def test_files_of_killed_runs_are_deleted_after_a_day(host: Host, ranks: Any) -> None:
    """
    By the first plan that a later run leaves there; younger ones may be of a run that goes on.
    """
    store = open_node_store(host.environment)
    for name in ("old", "young"):
        store.write(node.KIND, {"run": name}, {})
    old = store.entries()[0]
    os.utime(old.path, (old.written - 2 * node.OLD_SECONDS,) * 2)
    ranks(0)
    assert not old.path.exists()
    assert len(store.entries()) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_process_leaves_the_files_of_its_parent(host: Host, ranks: Any) -> None:
    """
    It inherits what is to be done at the end.
    """
    ranks(0)
    store = open_node_store(host.environment)
    child = os.fork()
    if not child:
        ranks.known[0]._take_back(os.getppid())
        os._exit(0)
    os.waitpid(child, 0)
    assert len(store.entries()) == 1
    ranks.known[0]._take_back(os.getpid())
    assert store.entries() == []


RANK = """
import os, sys, time
import datasets
from autoloader import auto_loader
from autoloader.loader import node, planning
rank = int(os.environ["LOCAL_RANK"])
if rank:
    node._plans.patience = 60.0
else:
    time.sleep(0.3)
with auto_loader(datasets.Numbers(100), 4) as loader:
    print([choice.value for choice in loader.plan.choices.values()], flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow_spawn
@pytest.mark.real_host
def test_two_real_ranks_have_one_plan_and_leave_no_file(folder: Path) -> None:
    """
    The one that comes first waits for local rank 0, whose file is gone when it ends.
    """
    paths = os.pathsep.join(sys.path)
    job = {**os.environ, **RUN, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "PYTHONPATH": paths, "TMPDIR": str(folder)}
    job.update(AUTOLOADER_NO_CACHE="0", AUTOLOADER_CACHE_DIR=str(folder / "cache"), TEMP=str(folder), TMP=str(folder))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK], env={**job, "RANK": str(each), "LOCAL_RANK": str(each)}, **pipes)
        for each in range(2)
    ]
    try:
        said = [rank.stdout.readline() for rank in ranks if rank.stdout is not None]
        assert len(list(folder.glob("autoloader*/node-*.json"))) == 1
    finally:
        for rank in reversed(ranks):
            rank.communicate("\n", timeout=60)
    assert said[0] == said[1] != ""
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert list(folder.glob("autoloader*/node-*.json")) == []
