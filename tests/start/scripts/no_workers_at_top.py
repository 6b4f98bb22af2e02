# expect: nothing
import torch
from torch.utils.data import DataLoader, TensorDataset

from autoloader import auto_loader

x = torch.randn(1000, 10)
y = (x.sum(1) > 0).long()
dataset = TensorDataset(x, y)
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

NUM_WORKERS = 0


class CFG:
    workers = 0
    batch_size = 32


plain = DataLoader(dataset, batch_size=32, shuffle=True)
named = DataLoader(dataset, batch_size=32, num_workers=NUM_WORKERS, collate_fn=lambda batch: batch)
configured = DataLoader(dataset, batch_size=CFG.batch_size, num_workers=CFG.workers)
ours = auto_loader(dataset, batch_size=32, num_workers=0)
in_memory = auto_loader(dataset, batch_size=32)
for epoch in range(10):
    for inputs, targets in plain:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
for batch in named:
    print(len(batch))
for loader in (configured, ours, in_memory):
    print(len(loader), next(iter(loader)))
