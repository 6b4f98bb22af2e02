# expect: check.unguarded-iteration:25, check.unguarded-iteration:26
import lightning as L
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import MNIST
from torchvision.transforms import ToTensor


class LitModel(L.LightningModule):
    def training_step(self, batch, batch_idx):
        return self(batch)


class Digits(L.LightningDataModule):
    def setup(self, stage):
        self.digits = MNIST("", transform=ToTensor())

    def train_dataloader(self):
        return DataLoader(self.digits, batch_size=64, num_workers=11)


model = LitModel()
train_loader = DataLoader(MNIST("", transform=ToTensor()), num_workers=11)
trainer = L.Trainer(max_epochs=1)
trainer.fit(model, train_loader)
trainer.fit(model, datamodule=Digits())
trainer.save_checkpoint("digits.ckpt")
torch.set_float32_matmul_precision("high")
