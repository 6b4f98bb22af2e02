"""
Train a small network on a folder of JPEG files: python train_images.py FOLDER, with a folder for each class.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

from autoloader import auto_loader

EPOCHS = 3


class ImageFolder(Dataset):
    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*/*.jpg"))
        self.classes = sorted({path.parent.name for path in self.paths})

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index]
        with Image.open(path) as image:
            pixels = np.array(image.convert("RGB").resize((128, 128)))
        return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255, self.classes.index(path.parent.name)


def main(folder: Path) -> None:
    dataset = ImageFolder(folder)
    if not len(dataset):
        sys.exit(f"no */*.jpg in {folder}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, len(dataset.classes))),
    ).to(device)
    optimizer = torch.optim.Adam(network.parameters())
    with auto_loader(dataset, batch_size=32, shuffle=True, epochs=EPOCHS) as loader:
        print(loader.plan)
        for epoch in range(EPOCHS):
            begun = time.perf_counter()
            for images, labels in loader:
                images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
                loss = nn.functional.cross_entropy(network(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            rate = len(dataset) / (time.perf_counter() - begun)
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}, {rate:.0f} images/s")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__))
