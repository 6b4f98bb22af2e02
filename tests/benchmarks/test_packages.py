"""
How loadtune and efficio are called, with packages in their place that only take notes.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("numpy", reason="needs numpy")

from benchmarks import child, packages  # noqa: E402


class Knobs:
    """
    One of loadtune's settings.
    """

    def __init__(self, num_threads: int | None = None) -> None:
        self.num_threads = num_threads

    def loader_kwargs(self) -> dict[str, Any]:
        return {"num_workers": 1, "pin_memory": False, "persistent_workers": True}


def install_loadtune(monkeypatch: pytest.MonkeyPatch, knobs: Knobs | None, speedup: float) -> list[Any]:
    """
    Let ``loadtune.tune`` train on one batch and find *knobs*, and return the list of its calls.
    """
    calls: list[Any] = []

    def tune(workload: SimpleNamespace, **arguments: Any) -> SimpleNamespace:
        calls.append((workload, arguments))
        model = workload.make_model().to(torch.device("cpu"))
        batch = next(iter(torch.utils.data.DataLoader(workload.make_dataset(), workload.default_batch_size)))
        workload.train_step(model, workload.make_optimizer(model), batch, torch.device("cpu"))
        return SimpleNamespace(best=knobs and SimpleNamespace(knobs=knobs), speedup=speedup)

    package = ModuleType("loadtune")
    vars(package).update(tune=tune, Workload=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "loadtune", package)
    return calls


@pytest.mark.parametrize(
    ("knobs", "speedup", "expected"),
    [
        pytest.param(Knobs(), 1.5, Knobs().loader_kwargs(), id="faster"),
        pytest.param(Knobs(), 0.9, {}, id="slower-than-without"),
        pytest.param(None, 1.0, {}, id="nothing-tried"),
    ],
)
def test_loadtune_settings_are_the_best_where_it_is_faster(
    knobs: Knobs | None, speedup: float, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the README's numbers, and its own dataset."""
    calls, taken = install_loadtune(monkeypatch, knobs, speedup), []
    found = packages.loadtune_settings(lambda: range(6), 3, lambda batch: taken.append(batch.tolist()))
    assert found == expected
    assert taken == [[0, 1, 2]]
    assert [arguments for _, arguments in calls] == [{"steps": 50, "max_trials": 6}]


def test_loadtune_settings_limit_threads_where_that_was_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the code does that loadtune writes for its users."""
    install_loadtune(monkeypatch, Knobs(num_threads=3), 2.0)
    limits: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", limits.append)
    packages.loadtune_settings(lambda: range(6), 3, lambda _batch: None)
    assert limits == [3]


class Run:
    """
    A run of efficio that only counts, and keeps its folder.
    """

    folders: list[str] = []

    def __init__(self, checkpoint_dir: str) -> None:
        self.folders.append(checkpoint_dir)
        self.is_prepared = False

    def prepare(self, model: Any, optimizer: Any) -> tuple[Any, Any]:
        self.is_prepared = True
        return model, optimizer

    def loop(self, loader: Any, epochs: int) -> Any:
        assert self.is_prepared
        for _ in range(epochs):
            yield from loader


def job(maker: str, folder: Path) -> child.Job:
    """
    Return twelve epochs of one batch of eight.
    """
    return child.Job(
        workload="many-short-epochs", seed=None, batches=1, epochs=12, maker=maker, settings={}, folder=str(folder)
    )


def run(job: child.Job) -> dict[str, Any]:
    """
    Return what a run has found.
    """
    return child.run(job, child.get_ready(job))


@pytest.mark.real_host
def test_child_takes_all_batches_from_efficio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each run has a folder of its own, or it would go on where the last one ended."""
    package = ModuleType("efficio")
    vars(package).update(Run=Run)
    monkeypatch.setitem(sys.modules, "efficio", package)
    monkeypatch.setattr(Run, "folders", [])
    found = [run(job(packages.EFFICIO, tmp_path)) for _ in range(2)]
    assert [(each["samples"], each["sum"]) for each in found] == [(96, 12 * 28)] * 2
    assert len(set(Run.folders)) == 2
    assert {Path(each).parent for each in Run.folders} == {tmp_path}


@pytest.mark.real_host
def test_child_counts_the_search_of_loadtune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It comes before the first batch, within the run."""
    install_loadtune(monkeypatch, None, 1.0)
    found = run(job(packages.LOADTUNE, tmp_path))
    assert (found["workers"], found["samples"], found["sum"]) == (0, 96, 12 * 28)
    assert 0 < found["choosing_seconds"] < found["first_seconds"]
