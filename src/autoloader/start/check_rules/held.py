"""
What a variable of a module may hold, as far as loaders are concerned.
"""

import ast
from typing import NamedTuple


class Held(NamedTuple):
    """
    Something that a variable may hold.
    """

    kind: str
    """One of "loader", "loaders" (a container of them), "function", "method" (bound), "class", "object"."""
    definition: ast.AST | None = None
    """The function or class, of the last four."""


LOADER, LOADERS = Held("loader"), Held("loaders")

Holding = set[Held]
