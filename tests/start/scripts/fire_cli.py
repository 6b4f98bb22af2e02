# expect: nothing
import fire
import torch
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as file:
            yield from file


def identity(batch):
    return batch


def count(path: str, workers: int = 1):
    loader = DataLoader(Lines(path), batch_size=None, num_workers=workers, collate_fn=identity)
    print(sum(len(line) for line in loader))


def main():
    fire.Fire(count)


if "__main__" == __name__:
    main()
