"""
Lightning and Accelerate run for real, on the CPU.
"""

import multiprocessing
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

import datasets
from autoloader import AutoLoader, auto_loader

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own: deprecations, "does not have many workers"

lightning = pytest.importorskip("lightning", reason="lightning is not installed")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")


class Model(lightning.LightningModule):
    """
    Notes the samples that it was trained and validated on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
        self.trained: list[list[int]] = []
        self.validated: list[int] = []
        self.children_in_training = 0

    def on_train_epoch_start(self) -> None:
        self.trained.append([])

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        self.children_in_training = max(self.children_in_training, len(multiprocessing.active_children()))
        self.trained[-1] += batch[:, 0].tolist()
        return self.layer(batch.float()).sum()

    def validation_step(self, batch: torch.Tensor, number: int) -> None:
        self.validated += batch[:, 0].tolist()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(**arguments: Any) -> Any:
    """
    Return a quiet trainer on the CPU, with Lightning's sanity check before training.
    """
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return lightning.Trainer(accelerator="cpu", devices=1, num_sanity_val_steps=2, **quiet, **arguments)


def test_lightning_fit_serves_every_sample_and_leaves_no_worker() -> None:
    """
    Sanity check, two epochs of training, validation after each: each sample once an epoch, no process afterwards.
    """
    model = Model()
    trainer(max_epochs=2).fit(model, auto_loader(datasets.Numbers(), 4, True), auto_loader(datasets.Numbers(12), 4))
    assert [sorted(epoch) for epoch in model.trained] == [list(range(40))] * 2
    assert model.trained[0] != model.trained[1]
    assert model.validated == [*range(8), *range(12), *range(12)]
    assert model.children_in_training > 0
    assert multiprocessing.active_children() == []


def test_lightning_fit_with_loaders_from_hooks_leaves_no_worker() -> None:
    """
    Loaders made in train_dataloader() and val_dataloader() are patched by Lightning, and work the same.
    """

    class Data(lightning.LightningDataModule):
        def train_dataloader(self) -> Any:
            return auto_loader(datasets.Numbers(), 4, shuffle=True)

        def val_dataloader(self) -> Any:
            return auto_loader(datasets.Numbers(12), 4)

    model = Model()
    trainer(max_epochs=1).fit(model, datamodule=Data())
    assert sorted(model.trained[0]) == list(range(40))
    assert multiprocessing.active_children() == []


def test_lightning_fit_that_raises_leaves_no_worker() -> None:
    """
    An error in the training step ends the workers, too.
    """

    class Broken(Model):
        def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
            raise RuntimeError("training failed")

    with pytest.raises(RuntimeError, match="^training failed$"):
        trainer(max_epochs=1).fit(Broken(), auto_loader(datasets.Numbers(), 4))
    assert multiprocessing.active_children() == []


def test_lightning_seeding_of_workers_reaches_ours() -> None:
    """
    seed_everything(workers=True) sets worker_init_fn after construction: it counts as the user's.
    """
    lightning.seed_everything(1, workers=True)
    loader = auto_loader(datasets.Numbers(), 4)
    trainer(max_epochs=1).fit(Model(), loader)
    assert loader.worker_init_fn is not None


@pytest.mark.parametrize("from_hook", [False, True])
def test_lightning_recreates_the_loader_with_another_sampler(from_hook: bool) -> None:
    """
    The way Lightning puts in a DistributedSampler gives an AutoLoader with the same settings, for half of the samples.
    """
    from lightning.fabric.utilities.data import _replace_dunder_methods, _update_dataloader

    dataset = datasets.Numbers()
    if from_hook:
        with _replace_dunder_methods(DataLoader, "dataset"):
            loader = auto_loader(dataset, 4, shuffle=True, drop_last=True)
    else:
        loader = auto_loader(dataset, 4, shuffle=True, drop_last=True)
    sampler = DistributedSampler(dataset, num_replicas=2, rank=1, shuffle=False)
    with _update_dataloader(loader, sampler) as other:
        assert type(other) is AutoLoader
        assert (other.sampler is sampler, other.drop_last, other.dataset is dataset) == (True, True, True)
        assert other.plan.as_kwargs() == loader.plan.as_kwargs()
        assert [index for batch in other for index in batch[:, 0].tolist()] == list(range(1, 40, 2))


def test_accelerate_prepare_keeps_settings_and_samples() -> None:
    """
    Accelerate builds a loader of its own from torch's arguments: ours stand in it.
    """
    loader = auto_loader(datasets.Numbers(), 4)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    assert isinstance(prepared, DataLoader)
    assert (prepared.num_workers, prepared.prefetch_factor, prepared.persistent_workers) == (2, 2, False)
    assert [index for batch in prepared for index in batch[:, 0].tolist()] == list(range(40))


def test_accelerate_gives_each_process_its_share() -> None:
    """
    Prepared for two processes, the loader yields every sample in one of them.
    """
    from accelerate.data_loader import prepare_data_loader

    shares = []
    for rank in range(2):
        loader = auto_loader(datasets.Numbers(), 4, num_workers=0)
        share = prepare_data_loader(loader, num_processes=2, process_index=rank, put_on_device=False)
        shares.append([index for batch in share for index in batch[:, 0].tolist()])
    assert sorted(shares[0] + shares[1]) == list(range(40))
    assert len(shares[0]) == len(shares[1]) == 20


def test_accelerate_sees_what_changes_between_epochs() -> None:
    """
    In its loader no workers stay that hold the dataset as it was.
    """
    dataset = datasets.Numbers(8)
    prepared = accelerate.Accelerator(cpu=True).prepare(auto_loader(dataset, 4))
    seen = []
    for scale in (1, 2, 3):
        dataset.scale = scale
        seen.append({batch[0, 1].item() for batch in prepared})
    assert seen == [{1}, {2}, {3}]
