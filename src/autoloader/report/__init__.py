"""
From records to text; nothing here prints.
"""

from .facts import render_facts

__all__ = ["render_facts"]
