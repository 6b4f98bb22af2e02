"""
The packages loadtune and efficio, used as their READMEs say; each runs in its own environment.

- loadtune 0.3.0, "The Python API": ``tune`` with the README's 50 steps and six trials trains on batches of a loader of
  its own, first without workers and then with each proposed setting, and the best goes into the user's DataLoader.
  Where none is faster than no workers, its command line writes none, and the loader stays as it was. Left out is
  ``auto_batch``, which changes the batch size. It shuffles its loader, so that torch refuses a stream.
- efficio 0.1.1, "Quick start": ``Run.loop`` makes a loader of its own from the user's, by rule and without a search,
  and yields the batches of all epochs. It saves a checkpoint at the end, and goes on from the last one in its folder:
  so each run has a new folder, and a model of one weight, whatever the workload trains.
"""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

LOADTUNE, EFFICIO = PACKAGES = ("loadtune", "efficio")
STEPS, TRIALS = 50, 6


def loadtune_settings(
    make_dataset: Callable[[], Any], batch_size: int, consume: Callable[[Any], None]
) -> dict[str, Any]:
    """
    Search, limit this process's threads if that was found best, and return the arguments for a DataLoader.
    """
    import loadtune
    import torch

    def train_step(_model: Any, _optimizer: Any, batch: Any, _device: Any) -> float:
        consume(batch)
        return 0.0

    tuned = loadtune.tune(
        loadtune.Workload(
            name="benchmark",
            make_dataset=make_dataset,
            make_model=torch.nn.Identity,
            make_optimizer=lambda _model: None,
            train_step=train_step,
            default_batch_size=batch_size,
        ),
        steps=STEPS,
        max_trials=TRIALS,
    )
    if tuned.best is None or tuned.speedup <= 1:
        return {}
    if tuned.best.knobs.num_threads is not None:
        torch.set_num_threads(tuned.best.knobs.num_threads)
    return dict(tuned.best.knobs.loader_kwargs())


def efficio_loop(folder: str) -> Callable[[Any, int], Iterator[Any]]:
    """
    Return what gives the batches of so many epochs of a loader, which efficio replaces; checkpoints go into *folder*.
    """
    import efficio
    import torch

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def loop(loader: Any, epochs: int) -> Iterator[Any]:
        run = efficio.Run(checkpoint_dir=tempfile.mkdtemp(dir=folder))
        run.prepare(model, optimizer)
        return run.loop(loader, epochs)

    return loop
