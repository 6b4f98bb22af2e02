"""
The loader: a DataLoader to every eye, a facade over private ones.
"""

from .auto_loader import AutoLoader
from .functions import auto_loader, calibrate, plan_loader

__all__ = ["AutoLoader", "auto_loader", "calibrate", "plan_loader"]
