# expect: nothing
import numpy as np
import torch
from sklearn.model_selection import KFold
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler

from data import Molecules
from model import Net


def train_fold(model, loader, epochs):
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            model.loss(x, y).backward()
            optimizer.step()


def main():
    dataset = Molecules("molecules.csv")
    scores = []
    for fold, (train_ids, test_ids) in enumerate(KFold(5, shuffle=True).split(dataset)):
        train_loader = DataLoader(dataset, 32, sampler=SubsetRandomSampler(train_ids), num_workers=2)
        test_loader = DataLoader(Subset(dataset, test_ids), 32, num_workers=2)
        model = Net()
        train_fold(model, train_loader, 20)
        scores.append(np.mean([model.loss(x, y).item() for x, y in test_loader]))
    for seed in range(3):
        torch.manual_seed(seed)
        model = Net()
        loader = DataLoader(dataset, 32, shuffle=True, num_workers=2)
        for epoch in range(5):
            for x, y in loader:
                model.loss(x, y).backward()
    print(np.mean(scores))


if __name__ == "__main__":
    main()
