"""
Warnings that are said once for each rule in a process, by one rank of a node.
"""

import warnings

from ..errors import AutoloaderWarning

_said: set[str] = set()


def warn_once(rule: str, text: str, *, local_rank: int | None, stacklevel: int) -> None:
    """
    Warn, unless this rule has been said before or another rank of this node says it.

    Args:
        rule: The rule id that the warning is about.
        text: The whole text, which begins with the rule id and ends with how to silence it.
        local_rank: Number of this process on its node; ``None`` in a single process.
        stacklevel: How many frames above the caller the user's own line is.
    """
    if rule in _said or local_rank not in {None, 0}:
        return
    _said.add(rule)
    warnings.warn(text, AutoloaderWarning, stacklevel=stacklevel + 1)
