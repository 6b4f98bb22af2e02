# expect: nothing
from pathlib import Path

import typer
from torch.utils.data import DataLoader

from data import Pictures

app = typer.Typer()


@app.command()
def embed(folder: Path, out: Path = Path("out.npy"), workers: int = 8):
    """Embed all pictures of a folder."""
    loader = DataLoader(Pictures(folder), batch_size=32, num_workers=workers)
    with typer.progressbar(loader) as batches:
        for batch in batches:
            print(batch.shape, out)


if __name__ == "__main__":
    app()
