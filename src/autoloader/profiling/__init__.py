"""
What is known of this dataset.
"""

from .fingerprint import Fingerprint
from .inspect import inspect_dataset

__all__ = ["Fingerprint", "inspect_dataset"]
