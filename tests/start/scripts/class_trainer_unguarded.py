# expect: check.unguarded-iteration:27
import torch
from torch.utils.data import DataLoader

from data import build_dataset
from model import Net


class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = Net(**config["model"])
        self.build_loaders()

    def build_loaders(self):
        train_set, val_set = build_dataset(self.config["root"])
        self.train_loader = DataLoader(train_set, 32, shuffle=True, num_workers=self.config["workers"])
        self.val_loader = DataLoader(val_set, 32, num_workers=self.config["workers"])

    def train(self):
        self.model.train()
        for x, y in self.train_loader:
            self.model.step(x, y)


trainer = Trainer({"root": "data", "workers": 8, "model": {}})
trainer.train()
torch.save(trainer.model.state_dict(), "model.pt")
