"""
What to choose: from facts, traits and a request to a plan. Pure: same input, same output.
"""

from .recommend import recommend, revise, with_repetition_note
from .rules import RULES

__all__ = ["RULES", "recommend", "revise", "with_repetition_note"]
