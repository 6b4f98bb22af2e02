"""
What is known of this dataset.
"""

from .fingerprint import Fingerprint
from .inspect import find_open_handle, inspect_dataset

__all__ = ["Fingerprint", "find_open_handle", "inspect_dataset"]
