# expect: check.top-level-side-effect:13
# torchrun --nproc_per_node=4 torchrun_top_level.py
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from data import Tokens
from model import GPT

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
try:
    torch.multiprocessing.set_start_method("spawn")
except RuntimeError:
    pass


def main():
    dataset = Tokens("train.bin")
    loader = DataLoader(dataset, 32, sampler=DistributedSampler(dataset), num_workers=4)
    model = GPT().to(rank)
    for epoch in range(10):
        loader.sampler.set_epoch(epoch)
        for source, targets in loader:
            model(source.to(rank), targets.to(rank)).backward()


if __name__ == "__main__":
    main()
