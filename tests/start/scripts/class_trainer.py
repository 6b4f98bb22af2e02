# expect: check.top-level-side-effect:9
import torch
import wandb
from torch.utils.data import DataLoader

from data import build_dataset
from model import Net

wandb.init(project="classes")


class Trainer:
    def __init__(self, model, train_loader, val_loader, epochs=10):
        self.model = model
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.epochs = epochs
        self.optimizer = torch.optim.Adam(model.parameters())

    def train_epoch(self):
        self.model.train()
        for x, y in self.train_loader:
            loss = self.model.loss(x, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
        return sum(self.model.loss(x, y).item() for x, y in self.val_loader)

    def run(self):
        for epoch in range(self.epochs):
            self.train_epoch()
            wandb.log({"val": self.validate()})


if __name__ == "__main__":
    train_set, val_set = build_dataset("data")
    trainer = Trainer(
        Net(),
        DataLoader(train_set, 32, True, num_workers=4),
        DataLoader(val_set, 32, num_workers=4),
    )
    trainer.run()
