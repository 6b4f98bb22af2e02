"""
The search of Paddle's DataLoader, on torch's: what ``paddle.incubate.autotune.set_config`` switches on.

Its documentation says that the best ``num_workers`` replaces the user's; how it is found was read in November 2026 from
``AuToTune`` in ``python/paddle/io/reader.py`` of PaddlePaddle/Paddle on GitHub (commit 0d10972), which first came with
its pull request 41202:

- The search is part of making the loader, on Linux only, and not for a stream, which keep the user's number: none here.
- It loads the first samples in their order, as many as 500 batches have at most (``tuning_steps``), whole for each
  number of workers that it tries. What a number costs is the mean time of a batch, without the first two.
- It tries every second number from 0 up to half of the CPUs, that one excluded. One is better where it costs less than
  0.75 of the best so far.
- At one that is not, it looks for a number above the best: up to five, each to cost less than 0.7 of the best, and for
  each further one 0.8 of that again. Without one the search ends; with one it goes on.
- These up to five are set on the user's loader, while the one that is timed keeps its own number: so each time is that
  of the number that was not better. This is kept here, for users have it.

Not kept is that Paddle also loads ahead in a thread where it has no workers.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .peers import Facts

BATCHES = 500
"""
``tuning_steps``, where the user sets none.
"""


def choose_workers(cost: Callable[[int], float], cpus: int) -> int:
    """
    Return the number of workers that the search ends with.

    Args:
        cost: Loads with so many workers, and returns the mean seconds of a batch.
        cpus: CPUs of the machine, whether the process may use them or not.
    """
    end = math.ceil(cpus / 2)
    best, least = 0, math.inf
    for tried in range(0, end, 2):
        seconds = cost(tried)
        if seconds < 0.75 * least:
            best, least = tried, seconds
            continue
        above = range(best + 1, min(best + 6, end))
        found = next((each for step, each in enumerate(above) if cost(tried) < least * 0.7 * 0.8**step), best)
        if found == best:
            break
        best = found
    return best


def mean_seconds(loader: Iterable[Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """
    Return the mean time of a batch, without the first two where there are more.
    """
    took, begun = [], clock()
    for _ in loader:
        now = clock()
        took.append(now - begun)
        begun = now
    return statistics.fmean(took[2:] or took)


def settings(dataset: Any, batch_size: int, facts: "Facts") -> dict[str, Any]:
    """
    Search, and return the arguments for a DataLoader.
    """
    from torch.utils.data import DataLoader, IterableDataset, Subset

    if facts.platform in {"darwin", "win32"} or isinstance(dataset, IterableDataset):
        return {}
    first = Subset(dataset, range(min(batch_size * BATCHES, len(dataset))))
    chosen = choose_workers(lambda tried: mean_seconds(DataLoader(first, batch_size, num_workers=tried)), facts.cpus)
    return {"num_workers": chosen}
