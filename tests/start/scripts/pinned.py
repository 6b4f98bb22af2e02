# expect: check.pinned-blocking:16, check.pinned-blocking:17, check.pinned-blocking:20
import torch
from torch.utils.data import DataLoader

from data import Pictures
from model import Net


def main():
    device = torch.device("cuda")
    loader = DataLoader(Pictures("train"), batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    test_loader = DataLoader(Pictures("test"), batch_size=64, num_workers=4)
    net = Net().to(device)
    for epoch in range(10):
        for step, (images, labels) in enumerate(loader):
            images = images.to(device)
            labels = labels.cuda()
            net.step(images, labels)
    for batch in loader:
        batch = {name: value.to(device) for name, value in batch.items()}
        net.step(**batch)
    for images, labels in test_loader:
        images, labels = images.to(device), labels.to(device)
        net.evaluate(images, labels)


if __name__ == "__main__":
    main()
