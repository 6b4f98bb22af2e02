"""
What a finding is.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """
    One kind of thing that can be wrong.
    """

    id: str
    """The stable id, as notes, docs and searches name it."""
    title: str
    """What is wrong, in general."""
    text: str
    """What is wrong here, because of which fact, with places for the evidence."""
    fix: str
    """What to do about it."""
