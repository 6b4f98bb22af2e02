# expect: check.loader-in-epoch-loop:15
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import ToTensor

EPOCHS = 30


def main():
    dataset = ImageFolder("train", ToTensor())
    model = torch.nn.Linear(10, 2)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(EPOCHS):
        train_loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8)
        for images, labels in train_loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images.flatten(1)), labels).backward()
            optimizer.step()
        print(f"epoch {epoch} done")


if __name__ == "__main__":
    main()
