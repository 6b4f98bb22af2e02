"""
From records to text; nothing here prints.
"""

from .facts import render_every_fact, render_facts

__all__ = ["render_every_fact", "render_facts"]
