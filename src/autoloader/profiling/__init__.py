"""
What is known of this dataset.
"""

from .fingerprint import Fingerprint
from .identity import identify
from .inspect import find_open_handle, inspect_dataset, is_in_memory
from .parts import datasets_in, generators_in
from .timing import BatchClock, Sent
from .undoing import FetchTraces
from .worker_times import Fetched, WorkerTimes

__all__ = [
    "BatchClock",
    "FetchTraces",
    "Fetched",
    "Fingerprint",
    "Sent",
    "WorkerTimes",
    "datasets_in",
    "find_open_handle",
    "generators_in",
    "identify",
    "inspect_dataset",
    "is_in_memory",
]
