"""
Lightning stores the loader's state in its checkpoints, and a new Trainer goes on in the middle of an epoch.
"""

import multiprocessing
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import datasets
from loader.chosen import chosen, seed_all
from loader.resuming import ByEpoch, distributed

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own: deprecations, "does not have many workers"

lightning = pytest.importorskip("lightning", reason="lightning is not installed")

LENGTH, BATCHES = 12, 6


class StoppedError(Exception):
    """
    Say that the first run was cut off.
    """


class Model(lightning.LightningModule):
    """
    Notes the samples of each step, and the workers that were alive in each epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.steps: list[tuple[int, list[int]]] = []
        self.workers: dict[int, set[int | None]] = {}

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        batch = batch["one"] if isinstance(batch, dict) else batch
        self.steps.append((self.current_epoch, batch[:, 0].tolist()))
        alive = {process.pid for process in multiprocessing.active_children()}
        self.workers[self.current_epoch] = self.workers.get(self.current_epoch, set()) | alive
        return self.layer(batch.float()).sum()

    def validation_step(self, batch: torch.Tensor, number: int) -> None:
        pass

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class SaveAndStop(lightning.pytorch.Callback):
    """
    Writes a checkpoint after one step, and cuts the run off some steps later.
    """

    def __init__(self, path: Path, at: int, later: int = 0) -> None:
        self.path = path
        self.at = at
        self.later = later

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        if trainer.global_step == self.at:
            trainer.save_checkpoint(self.path)
        if trainer.global_step == self.at + self.later:
            raise StoppedError


def trainer(**arguments: Any) -> Any:
    """
    Return a quiet trainer on the CPU.
    """
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return lightning.Trainer(accelerator="cpu", devices=1, num_sanity_val_steps=0, **{**quiet, **arguments})


def steps_of(make: Callable[[], Any], first_seed: int = 1, **arguments: Any) -> list[tuple[int, list[int]]]:
    """
    Return the steps of a run, without interruption unless a callback cuts it off.
    """
    seed_all(first_seed)
    model = Model()
    try:
        trainer(**arguments).fit(model, make())
    except StoppedError:
        assert "callbacks" in arguments
    assert multiprocessing.active_children() == []
    return model.steps


def rest_of(make: Callable[[], Any], path: Path, **arguments: Any) -> list[tuple[int, list[int]]]:
    """
    Return the steps of a second run, which begins from a checkpoint.
    """
    seed_all(99)
    model = Model()
    trainer(**arguments).fit(model, make(), ckpt_path=str(path))
    assert multiprocessing.active_children() == []
    return model.steps


def seen(steps: list[tuple[int, list[int]]]) -> list[list[int]]:
    """
    Return the samples of each epoch, sorted.
    """
    epochs = sorted({epoch for epoch, _ in steps})
    return [sorted(index for epoch, batch in steps if epoch == each for index in batch) for each in epochs]


def numbers(num_workers: int = 0, **arguments: Any) -> Callable[[], Any]:
    """
    Return a function that makes the loader of a training script.
    """
    given = {"batch_size": 2, "shuffle": True, **arguments}
    return lambda: chosen(datasets.Numbers(LENGTH), num_workers, **given)


LIMITS = [pytest.param({"max_epochs": 3}, id="epochs"), pytest.param({"max_steps": 3 * BATCHES}, id="steps")]
WORKERS = [0, pytest.param(2, marks=pytest.mark.slow_spawn)]
WHOLE = [list(range(LENGTH))] * 3


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("num_workers", WORKERS)
@pytest.mark.parametrize("at", [1, 3, 5, 7, 9, 13, 17])
def test_training_cut_in_the_middle_of_an_epoch_sees_each_sample_once(
    at: int, num_workers: int, limit: dict[str, int], tmp_path: Path
) -> None:
    """
    Over both runs every epoch is whole, and the second run does not repeat a step.
    """
    path, make = tmp_path / "last.ckpt", numbers(num_workers)
    steps = steps_of(make, callbacks=[SaveAndStop(path, at)], **limit)
    assert len(steps) == at
    steps += rest_of(make, path, **limit)
    assert len(steps) == 3 * BATCHES
    assert seen(steps) == WHOLE


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("at", [BATCHES, 2 * BATCHES])
def test_training_cut_at_the_last_batch_of_an_epoch_goes_on_with_the_next(
    at: int, limit: dict[str, int], tmp_path: Path
) -> None:
    """
    Lightning asks for no batch after the last one, so that the epoch is never exhausted: nothing of it is left.
    """
    path, make = tmp_path / "last.ckpt", numbers()
    steps = steps_of(make, callbacks=[SaveAndStop(path, at)], **limit)
    steps += rest_of(make, path, **limit)
    assert len(steps) == 3 * BATCHES
    assert seen(steps) == WHOLE


@pytest.mark.parametrize("at", [2, 8, 17])
@pytest.mark.parametrize("num_workers", WORKERS)
def test_training_with_a_seed_goes_on_as_if_it_was_never_cut(num_workers: int, at: int, tmp_path: Path) -> None:
    """
    The very same steps, in the rest of the epoch and in those after it.
    """
    path, make = tmp_path / "last.ckpt", numbers(num_workers, seed=5)
    whole = steps_of(make, max_epochs=3)
    steps = steps_of(make, callbacks=[SaveAndStop(path, at)], max_epochs=3)
    assert steps == whole[:at]
    assert rest_of(make, path, max_epochs=3) == whole[at:]


@pytest.mark.parametrize(
    "sampler",
    [pytest.param(ByEpoch, id="users"), pytest.param(lambda: distributed(range(LENGTH)), id="distributed")],
)
def test_training_with_a_sampler_that_lightning_tells_its_epoch_goes_on(
    sampler: Callable[[], Any], tmp_path: Path
) -> None:
    """
    Lightning calls the sampler's set_epoch itself, in both runs.
    """

    def make() -> Any:
        return chosen(datasets.Numbers(LENGTH), 0, batch_size=2, sampler=sampler())

    path = tmp_path / "last.ckpt"
    whole = steps_of(make, max_epochs=3)
    steps = steps_of(make, callbacks=[SaveAndStop(path, 8)], max_epochs=3)
    steps += rest_of(make, path, max_epochs=3)
    assert seen(steps) == WHOLE
    assert steps == whole


def test_training_that_crashed_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    """
    Steps between the checkpoint and the crash come again, and none is lost.
    """
    path, make = tmp_path / "last.ckpt", numbers(1)
    steps = steps_of(make, callbacks=[SaveAndStop(path, 2, later=2)], max_epochs=1)
    assert len(steps) == 4
    assert rest_of(make, path, max_epochs=1)[:2] == steps[2:]
    assert seen(steps[:2] + rest_of(make, path, max_epochs=1)) == WHOLE[:1]


@pytest.mark.parametrize("every", [4, BATCHES])
def test_checkpoints_of_lightnings_own_callback_can_be_continued(every: int, tmp_path: Path) -> None:
    """
    ModelCheckpoint writes after so many steps; max_steps ends the first run there.
    """
    make = numbers()
    callback = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, "last", every_n_train_steps=every)
    steps = steps_of(make, callbacks=[callback], enable_checkpointing=True, max_steps=every)
    assert len(steps) == every
    steps += rest_of(make, tmp_path / "last.ckpt", max_steps=2 * BATCHES)
    assert len(steps) == 2 * BATCHES
    assert seen(steps) == WHOLE[:2]


@pytest.mark.slow_spawn
def test_validation_between_does_not_move_the_training(tmp_path: Path) -> None:
    """
    It has a loader of its own, and comes in the middle of the epoch.
    """

    def make() -> dict[str, Any]:
        return {"train_dataloaders": numbers(1)(), "val_dataloaders": chosen(datasets.Numbers(8), 1, batch_size=4)}

    path = tmp_path / "last.ckpt"
    limit = {"max_epochs": 2, "val_check_interval": 2}
    seed_all(1)
    first, second = Model(), Model()
    with pytest.raises(StoppedError):
        trainer(callbacks=[SaveAndStop(path, 3)], **limit).fit(first, **make())
    trainer(**limit).fit(second, **make(), ckpt_path=str(path))
    assert seen(first.steps + second.steps) == WHOLE[:2]


def test_two_loaders_at_once_have_a_state_each(tmp_path: Path) -> None:
    """
    Lightning cycles the shorter one, and stores both.
    """

    def make() -> Any:
        return {"one": numbers()(), "two": chosen(datasets.Numbers(LENGTH), 0, batch_size=2, shuffle=True)}

    path = tmp_path / "last.ckpt"
    steps = steps_of(make, callbacks=[SaveAndStop(path, 4)], max_epochs=2)
    stored = torch.load(path, weights_only=False)["loops"]["fit_loop"]["state_dict"]["combined_loader"]
    assert [state["served"] for state in stored] == [4, 4]
    assert seen(steps + rest_of(make, path, max_epochs=2)) == WHOLE[:2]


def test_lightning_does_not_say_that_the_loader_cannot_be_resumed(tmp_path: Path) -> None:
    """
    It warns of that in the middle of an epoch, unless a loader has a state.
    """
    path = tmp_path / "last.ckpt"
    steps_of(numbers(), callbacks=[SaveAndStop(path, 2)], max_epochs=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rest_of(numbers(), path, max_epochs=1)
    assert [str(each.message) for each in caught if "not resumable" in str(each.message)] == []


@pytest.mark.slow_spawn
def test_workers_stay_from_one_epoch_of_lightnings_to_the_next() -> None:
    """
    It draws as many batches as there are and does not ask for another one; the epoch is over all the same.
    """
    model, loader = Model(), numbers(2)()
    trainer(max_epochs=3).fit(model, loader)
    assert [len(workers) for workers in model.workers.values()] == [2, 2, 2]
    assert model.workers[0] == model.workers[1] == model.workers[2]
    assert [epoch.is_exhausted for epoch in loader.stats().epochs] == [True, True, True]
