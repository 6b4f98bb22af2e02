"""
The seeds of torch's own DataLoader, for workers that stay where torch would start new ones.
"""

import random
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils.worker import _generate_state


def draw_base_seed(generator: Any) -> int:
    """
    Draw the base seed of an epoch, as torch's iterators do: from *generator*, or the global one without it.
    """
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def seed_worker(base_seed: int) -> None:
    """
    Seed random, torch and numpy in this worker as torch does when it starts one.

    Source: torch.utils.data._utils.worker._worker_loop.
    """
    info = get_worker_info()
    if info is None:
        return
    random.seed(base_seed + info.id)
    torch.manual_seed(base_seed + info.id)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(_generate_state(base_seed, info.id))  # type: ignore[no-untyped-call]
