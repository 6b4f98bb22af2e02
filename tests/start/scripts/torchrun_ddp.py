# expect: nothing
# torchrun --nproc_per_node=4 torchrun_ddp.py
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from data import Tokens
from model import GPT


def ddp_setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl")


class Trainer:
    def __init__(self, model, loader):
        self.rank = int(os.environ["LOCAL_RANK"])
        self.model = DDP(model.to(self.rank), device_ids=[self.rank])
        self.loader = loader

    def _run_epoch(self, epoch):
        self.loader.sampler.set_epoch(epoch)
        for source, targets in self.loader:
            source = source.to(self.rank, non_blocking=True)
            self.model(source, targets).backward()

    def train(self, epochs):
        for epoch in range(epochs):
            self._run_epoch(epoch)


def main():
    ddp_setup()
    dataset = Tokens("train.bin")
    loader = DataLoader(dataset, 32, pin_memory=True, sampler=DistributedSampler(dataset), num_workers=4)
    Trainer(GPT(), loader).train(10)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
