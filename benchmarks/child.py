"""
One run in this process: ``python -m benchmarks.child '<JSON of a Job>'`` prints one line of JSON.

Before that it prints a line that says that everything is imported, and waits for a line on standard input. The clock
runs from before the loader is made until the last batch of the last epoch has been taken, so that choosing, searching
and starting count; making the dataset and its files, importing and ending do not.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IMPORTED = "imported"
"""
The line that is printed when the run may begin.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """
    What one run loads, and with which settings.
    """

    workload: str
    """Its name."""
    seed: int | None
    """Seed of the unseen workloads; ``None`` where there are none."""
    batches: int
    """Batches an epoch."""
    epochs: int
    """Passes over the dataset."""
    maker: str
    """Who makes the loader, see :func:`benchmarks.peers.make_loader`."""
    settings: dict[str, Any]
    """Arguments for the DataLoader."""
    folder: str
    """Where the workload's files are kept."""


def get_ready(job: Job) -> Any:
    """
    Import all that the run needs, so that it times no import, and return what :func:`run` takes as *loop*.
    """
    import autoloader.loader  # noqa: F401

    from . import peers, workloads  # noqa: F401

    return peers.make_loop(job)


def run(job: Job, loop: Any) -> dict[str, Any]:
    """
    Return the seconds of all epochs, the first batch and choosing, the samples and their numbers' sum, and the workers.
    """
    import torch

    from . import peers, workloads

    os.environ["AUTOLOADER_NO_CACHE"] = "1"
    workload = workloads.find(job.workload, job.seed)
    dataset = workload.make_dataset(job.batches * workload.batch_size, Path(job.folder))
    calibration_seconds = _calibrate(job, workload, dataset) if job.maker == peers.CALIBRATED else None
    consume = workload.consumer()
    torch.manual_seed(workloads.SEED)
    first, samples, total = None, 0, 0
    begun = time.perf_counter()
    loader = peers.make_loader(job, workload, dataset)
    choosing = time.perf_counter() - begun
    for batch in loop(loader, job.epochs):
        first = time.perf_counter() - begun if first is None else first
        samples, total = samples + len(batch[1]), total + int(batch[1].sum())
        consume(batch)
    wall = time.perf_counter() - begun
    workers = None if job.maker == peers.EFFICIO else loader.num_workers  # efficio's own loader is hidden
    if job.maker in {peers.OURS, peers.CALIBRATED}:
        loader.close()
    counted = {"epochs": job.epochs, "samples": samples, "sum": total}
    times = {"wall_seconds": wall, "first_seconds": first, "choosing_seconds": choosing}
    return {**times, "calibration_seconds": calibration_seconds, "workers": workers, **counted}


def _calibrate(job: Job, workload: Any, dataset: Any) -> float | None:
    """
    Calibrate as an earlier run would have, and return how long it took; ``None`` where one has.
    """
    from autoloader import calibrate

    from . import workloads

    store = Path(job.folder) / "stores" / f"{job.workload}-{job.batches}"
    os.environ.pop("AUTOLOADER_NO_CACHE", None)
    os.environ["AUTOLOADER_CACHE_DIR"] = str(store)
    if store.exists():
        return None
    step = None if workload.consumer is workloads.take_nothing else workload.consumer()
    return calibrate(dataset, **workload.loader_arguments, step=step).seconds


def main(argv: list[str] | None = None) -> int:
    """
    Run the job in the first argument when a line comes; 1 where none does.
    """
    (text,) = sys.argv[1:] if argv is None else argv
    job = Job(**json.loads(text))
    loop = get_ready(job)
    print(IMPORTED, flush=True)
    if not sys.stdin.readline():
        return 1
    print(json.dumps(run(job, loop)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
