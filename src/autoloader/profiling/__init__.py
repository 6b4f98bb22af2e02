"""
What is known of this dataset.
"""

from .fingerprint import fingerprint
from .inspect import inspect_dataset

__all__ = ["fingerprint", "inspect_dataset"]
