# expect: check.top-level-side-effect:10, check.top-level-side-effect:14, check.top-level-side-effect:16, check.top-level-side-effect:17, check.top-level-side-effect:18
import os
import shutil

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

mp.set_start_method("spawn")

OUT = "checkpoints"
if os.path.exists(OUT):
    shutil.rmtree(OUT)
os.makedirs(OUT)
log = open(os.path.join(OUT, "log.txt"), "w")
name = input("Name of the run: ")
model = models.resnet18().cuda()
criterion = torch.nn.CrossEntropyLoss()


def train(loader):
    for images, labels in loader:
        criterion(model(images.cuda()), labels.cuda()).backward()


if __name__ == "__main__":
    dataset = datasets.ImageFolder("train", transforms.ToTensor())
    train(DataLoader(dataset, batch_size=64, num_workers=4))
