# expect: nothing
import json
import sys

import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

from data import Validation

model = torch.jit.load(sys.argv[1])
model.eval()
loader = DataLoader(Validation(sys.argv[2]), batch_size=64, num_workers=0)

correct = total = 0
with torch.no_grad():
    for images, labels in tqdm(loader):
        correct += (model(images).argmax(1) == labels).sum().item()
        total += len(labels)
print(json.dumps({"accuracy": correct / total}))
