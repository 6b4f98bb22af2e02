# expect: check.unguarded-iteration:20
from pathlib import Path

import typer
from torch.utils.data import DataLoader as Loader
from tqdm.auto import tqdm

from data import Pictures


def embed(folder: Path, workers: int = 8):
    """Embed all pictures of a folder."""
    kwargs = dict(batch_size=32, num_workers=workers)
    loader = Loader(Pictures(folder), **kwargs)
    progress = tqdm(enumerate(loader), total=len(loader))
    for number, batch in progress:
        print(number, batch.shape)


if True:
    typer.run(embed)
