# expect: check.not-importable:9, check.unguarded-iteration:13
import fire
from torch.utils.data import DataLoader

from lines import Lines


def count(path: str, workers: int = 1):
    loader = DataLoader(Lines(path), batch_size=None, num_workers=workers, collate_fn=lambda batch: batch)
    print(sum(len(line) for line in loader))


fire.Fire(count)
