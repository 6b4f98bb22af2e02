# expect: check.unguarded-iteration:16
import json
import sys

import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

from data import Validation

model = torch.jit.load(sys.argv[1])
loader = DataLoader(Validation(sys.argv[2]), batch_size=64, num_workers=8)
print(len(loader), loader.dataset)

correct = 0
with torch.no_grad():
    for images, labels in tqdm(loader, total=len(loader)):
        correct += (model(images).argmax(1) == labels).sum().item()
print(json.dumps({"accuracy": correct / len(loader.dataset)}))
