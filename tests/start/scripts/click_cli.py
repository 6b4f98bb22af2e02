# expect: nothing
import click
import torch
from torch.utils.data import DataLoader

from . import datasets, models


@click.group()
def cli():
    """Train and evaluate."""


@cli.command()
@click.option("--workers", default=4)
@click.argument("root", type=click.Path(exists=True))
def train(workers, root):
    loader = DataLoader(datasets.Audio(root), batch_size=8, num_workers=workers)
    model = models.Wave()
    for waves in loader:
        model.step(waves)


@cli.command()
@click.argument("checkpoint")
def export(checkpoint):
    torch.jit.script(models.Wave.load(checkpoint)).save("wave.pt")
