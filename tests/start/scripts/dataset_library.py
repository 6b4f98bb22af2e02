# expect: nothing
"""
Datasets of the project.

>>> len(Squares(3))
3
"""
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    """
    The first numbers with their squares.

    >>> list(DataLoader(Squares(2), num_workers=0))
    [tensor([[0, 0]]), tensor([[1, 1]])]
    """

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor([index, index * index])


def make_loader(count, batch_size=8, num_workers=4):
    return DataLoader(Squares(count), batch_size, num_workers=num_workers)


def mean(loader):
    return torch.cat(list(loader)).float().mean(0)


if __name__ == "__main__":
    import doctest

    doctest.testmod()
