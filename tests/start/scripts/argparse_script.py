# expect: nothing
#!/usr/bin/env python
import argparse
import logging
import os
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)
torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
os.makedirs("runs", exist_ok=True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

parser = argparse.ArgumentParser(description="Train")
parser.add_argument("--data", default="data")
parser.add_argument("-j", "--workers", default=4, type=int)
parser.add_argument("--epochs", default=90, type=int)
args = parser.parse_args()


class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(os.listdir(root))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index])


def main():
    loader = DataLoader(Files(args.data), batch_size=8, shuffle=True, num_workers=args.workers, pin_memory=True)
    model = torch.nn.Linear(10, 10).to(device)
    for epoch in range(args.epochs):
        for batch in loader:
            batch = batch.to(device, non_blocking=True)
            model(batch).sum().backward()
        logger.info("epoch %d", epoch)


if __name__ == "__main__":
    main()
