# expect: check.unguarded-iteration:15
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
from torchvision.transforms import ToTensor

accelerator = Accelerator()
train_set = CIFAR10("data", transform=ToTensor(), download=True)
loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=4)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
optimizer = torch.optim.Adam(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(3):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        accelerator.backward(loss)
        optimizer.step()
