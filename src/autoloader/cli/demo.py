"""
Train a small network on real JPEG files three times, and show which loader was how fast and why.
"""

import argparse
import importlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DemoMissingError
from ..findings import describe
from ..records import to_json
from .target import require_torch

if TYPE_CHECKING:
    from ..plan import Plan

PICTURES = ("astronaut", "coffee", "hubble_deep_field", "retina", "rocket")
"""
Photographs inside scikit-image's wheel: nothing is downloaded.
"""

CUTS_PER_PICTURE = 40
CUT_PIXELS = 384
INPUT_PIXELS = 128
BATCH_SIZE = 32
EPOCHS = 8


class PictureCuts:
    """
    A map-style dataset of JPEG files: sample *i* is (image of shape ``(3, 128, 128)``, number of its picture).
    """

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*/*.jpg"))
        self.names = sorted({path.parent.name for path in self.paths})

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import numpy as np
        import torch
        from PIL import Image

        path = self.paths[index]
        left, top = torch.randint(0, CUT_PIXELS // 4, (2,)).tolist()
        edge = CUT_PIXELS - CUT_PIXELS // 4
        with Image.open(path) as image:
            part = image.convert("RGB").resize((INPUT_PIXELS, INPUT_PIXELS), box=(left, top, left + edge, top + edge))
        pixels = torch.from_numpy(np.array(part)).permute(2, 0, 1).float().div(255)
        return pixels, self.names.index(path.parent.name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    parser.add_argument("--json", action="store_true", help="print rates and plan as JSON")


def run(arguments: argparse.Namespace) -> int:
    """
    Make the files, train with each loader, and print the three rates and the plan.
    """
    require_torch("'demo'")
    _require("PIL", "skimage", "numpy")
    with tempfile.TemporaryDirectory(prefix="autoloader-demo-") as folder:
        write_cuts(Path(folder))
        rates, plan = compare_loaders(PictureCuts(Path(folder)))
    if arguments.json:
        print(json.dumps({"images_per_second": rates, "plan": to_json(plan)}, indent=2))
        return 0
    print(
        f"{len(PICTURES) * CUTS_PER_PICTURE} JPEG files, batches of {BATCH_SIZE}, {EPOCHS} epochs, start-up included:"
    )
    fastest = max(rates, key=lambda name: rates[name])
    for name, rate in rates.items():
        print(f"  {name:<17} {rate:7.0f} images/s{' (fastest)' if name == fastest else ''}")
    print("One run of each: small differences are noise.")
    print(f"\nWhat auto_loader chose here, and why:\n{plan}")
    return 0


def _require(*packages: str) -> None:
    try:
        for package in packages:
            importlib.import_module(package)
    except ImportError as error:
        raise DemoMissingError(describe("demo.missing", package=error.name, python=sys.executable)) from error


def write_cuts(folder: Path) -> None:
    """
    Cut squares out of the pictures at random, always the same ones, and write them as JPEG, a folder a picture.
    """
    import numpy as np
    from PIL import Image
    from skimage import data

    random = np.random.default_rng(0)
    for name in PICTURES:
        pixels = getattr(data, name)()
        (folder / name).mkdir()
        for number in range(CUTS_PER_PICTURE):
            top, left = (int(random.integers(0, size - CUT_PIXELS)) for size in pixels.shape[:2])
            cut = Image.fromarray(pixels[top : top + CUT_PIXELS, left : left + CUT_PIXELS])
            cut.save(folder / name / f"{number:03}.jpg", quality=90)


def compare_loaders(dataset: PictureCuts) -> tuple[dict[str, float], "Plan"]:
    """
    Train once with each loader, from the same seed.

    Returns:
        Images a second by the loader's name, and the plan of auto_loader's.
    """
    from torch.utils.data import DataLoader

    from ..loader import auto_loader

    chosen = auto_loader(dataset, BATCH_SIZE, shuffle=True, epochs=EPOCHS)
    samples: Any = dataset  # torch takes any map-style object, its annotations ask for its own class
    makers: dict[str, Callable[[], Iterable[Any]]] = {
        "torch's defaults": lambda: DataLoader(samples, BATCH_SIZE, shuffle=True),
        "num_workers=4": lambda: DataLoader(samples, BATCH_SIZE, shuffle=True, num_workers=4),
        "auto_loader": lambda: chosen,
    }
    with chosen, warnings.catch_warnings(), _progress() as progress:
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # of the four workers, on few CPUs
        task = progress.add_task("training", total=len(makers) * EPOCHS)
        train(dataset, DataLoader(samples, BATCH_SIZE), epochs=1, after_epoch=lambda: None)  # warms up torch and files
        rates = {}
        for name, make in makers.items():
            progress.update(task, description=name)
            begun = time.perf_counter()
            train(dataset, make(), epochs=EPOCHS, after_epoch=lambda: progress.advance(task))
            rates[name] = len(dataset) * EPOCHS / (time.perf_counter() - begun)
    return rates, chosen.plan


def train(dataset: PictureCuts, loader: Iterable[Any], *, epochs: int, after_epoch: Callable[[], object]) -> None:
    """
    Train a new small network to tell which picture a cut is from.
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for channels_in, channels_out in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1), nn.ReLU()]
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(dataset.names)))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        after_epoch()


def _progress() -> Any:
    """
    Return a progress bar on stderr, which shows itself on a terminal only.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
