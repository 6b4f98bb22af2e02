"""
How much later the first batch comes where autoloader finds a plan in its store, than from the same settings by hand.

The dataset decodes JPEG images; one training is measured and kept, in a store of its own. Then, in turn, each in a
process of its own: ``auto_loader(dataset, 32)``, which finds that plan, and a plain DataLoader with its settings. What
counts is the time from before the loader is made to the first batch, imports not included. The control is the plain
DataLoader once more.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .paired import median_with_interval

MOST_SECONDS = 0.05
MOST_FRACTION = 0.05
"""
What finding a plan may add to the time to the first batch: the larger of the two.
"""

BATCHES, BATCH_SIZE = 40, 32
FIND, MAKE = "auto_loader", "plain"


def first_batch_seconds(how: str, settings: dict[str, Any]) -> dict[str, Any]:
    """
    Return how long the first batch takes in this process, and the settings that were found.
    """
    from torch.utils.data import DataLoader

    import autoloader.loader  # noqa: F401 (so that no run times an import)
    from autoloader import auto_loader

    from . import datasets, workloads

    dataset = datasets.JpegImages(BATCHES * BATCH_SIZE, workloads.SEED, pixels=256)
    begun = time.perf_counter()
    loader: Any = auto_loader(dataset, BATCH_SIZE) if how == FIND else DataLoader(dataset, BATCH_SIZE, **settings)
    iterator = iter(loader)
    next(iterator)
    seconds = time.perf_counter() - begun
    kwargs: dict[str, Any] = {}
    if how == FIND:
        list(iterator)  # what is measured in a first run is kept on the way
        kwargs = loader.plan.as_kwargs()
        loader.close()
    return {"seconds": seconds, "settings": kwargs}


def run(how: str, settings: dict[str, Any], store: Path) -> dict[str, Any]:
    """
    Return what a process of its own says.
    """
    command = [sys.executable, "-m", "benchmarks.stored_plan", "--one", json.dumps([how, settings])]
    environment = {**os.environ, "AUTOLOADER_CACHE_DIR": str(store), "AUTOLOADER_NO_CACHE": "0"}
    root = Path(__file__).parent.parent
    ran = subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def measure(rounds: int) -> dict[str, Any]:
    """
    Return the seconds that are added, by round, their median and its interval, and the control's.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        run(FIND, {}, store)
        settings = run(FIND, {}, store)["settings"]
        rows = []
        for number in range(rounds):
            order = [FIND, MAKE, MAKE] if number % 2 else [MAKE, FIND, MAKE]
            seconds = [run(how, settings, store)["seconds"] for how in order]
            found = seconds.pop(order.index(FIND))
            rows.append((found, *seconds))
    added = median_with_interval([found - plain for found, plain, _ in rows])
    control = median_with_interval([again - plain for _, plain, again in rows])
    plain = median_with_interval([plain for _, plain, _ in rows])
    return {
        "rounds": rounds,
        "settings": settings,
        "plain_first_batch_seconds": plain.value,
        "added_seconds": [added.value, added.low, added.high],
        "control_added_seconds": [control.value, control.low, control.high],
        "most_seconds": max(MOST_SECONDS, MOST_FRACTION * plain.value),
    }


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    print(json.dumps(first_batch_seconds(*json.loads(options.one)) if options.one else measure(options.rounds)))


if __name__ == "__main__":
    main()
