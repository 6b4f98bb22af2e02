# expect: check.not-importable:21, check.not-importable:24, check.not-importable:39
import sys
from functools import partial

import torch
from torch.utils.data import DataLoader, Dataset


def main(argv=None):
    class Noise(Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            return torch.randn(3)

    def collate(scale, batch):
        return torch.stack(batch) * scale

    loader = DataLoader(
        Noise(),
        batch_size=10,
        num_workers=2,
        collate_fn=partial(collate, 2.0),
    )
    for batch in loader:
        print(batch.mean())
    return 0


if __name__ == "__main__":
    class Silence(Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, index):
            return torch.zeros(3)

    print(len(list(DataLoader(Silence(), num_workers=1))))
    print(len(list(DataLoader(Silence(), num_workers=0))))
    sys.exit(main())
