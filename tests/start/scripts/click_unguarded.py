# expect: check.unguarded-iteration:24
import click
from torch.utils.data import DataLoader

from datasets import Audio
from models import Wave


@click.group()
def cli():
    pass


@cli.command()
@click.option("--workers", default=4)
@click.argument("root", type=click.Path(exists=True))
def train(workers, root):
    loader = DataLoader(Audio(root), batch_size=8, num_workers=workers)
    model = Wave()
    for waves in loader:
        model.step(waves)


cli()
