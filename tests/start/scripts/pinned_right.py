# expect: nothing
import torch
from torch.utils.data import DataLoader

from data import Pictures
from model import Net


def train(net, loader, device):
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.cuda(non_blocking=True)
        net.step(images.to(torch.float16), labels.to(torch.long))


def main():
    device = torch.device("cuda")
    loader = DataLoader(Pictures("train"), batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    net = Net().to(device)
    train(net, loader, device)
    for images, labels in loader:
        mask = torch.ones(len(images)).to(device)
        scores = net(images.to(device, non_blocking=True)) * mask
        print((scores.argmax(1).cpu() == labels.to("cpu")).float().mean())


if __name__ == "__main__":
    main()
