# expect: nothing
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import MNIST


class LitModel(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(784, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.layer(x.flatten(1)), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def cli_main():
    pl.seed_everything(1234)
    dataset = MNIST("", train=True, download=True, transform=transforms.ToTensor())
    trainer = pl.Trainer(max_epochs=3)
    trainer.fit(LitModel(), DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True))


if __name__ == "__main__":
    cli_main()
