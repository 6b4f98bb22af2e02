"""
What to choose: from facts, traits and a request to a plan. Pure: same input, same output.
"""

from .backend import Obstacle, fallback, find_obstacle, find_obstacle_to, obstacle
from .limits import cpus_of_rank
from .model import Outlook, expected_epochs_left
from .multiprocessing_context import find_hazard, fork_seconds, start_candidates
from .num_workers import MEASURED, Measured, can_be_measured, most_measured
from .recommend import recommend, with_own_persistence, with_repetition_note
from .rules import RULES

POLICY = 1
"""
The number of these rules and this model: what was measured for others is measured anew.
"""

__all__ = [
    "MEASURED",
    "POLICY",
    "RULES",
    "Measured",
    "Obstacle",
    "Outlook",
    "can_be_measured",
    "cpus_of_rank",
    "expected_epochs_left",
    "fallback",
    "find_hazard",
    "find_obstacle",
    "find_obstacle_to",
    "fork_seconds",
    "most_measured",
    "obstacle",
    "recommend",
    "start_candidates",
    "with_own_persistence",
    "with_repetition_note",
]
