"""
The catalogue of rules.
"""

import ast
from pathlib import Path

import pytest

from autoloader.plan import ALWAYS_DECIDED, PASSED_ON
from autoloader.policy import RULES

HERE = Path(__file__).parent

SEEN_AT_THE_START_ONLY = {
    "backend.missing-main-guard",
    "backend.unloadable",
    "backend.too-large",
    "backend.start-failed",
    "backend.not-in-a-thread",
    "num_workers.fewer-after-deaths",
    "num_workers.stream-resumed",
    *(f"{argument}.off" for argument in ALWAYS_DECIDED),
}
"""
What no fact tells beforehand: the policy has no row for these, a test of the loader's start has.
"""


def _rules_in_rows() -> set[str]:
    """
    Return the rule ids that rows of the truth tables in this folder assert: the last plain argument of each row.
    """
    found = set()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param" and len(node.args) >= 3:
                rule = node.args[-1]
                if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
                    found.add(rule.value)
    return found


REACHED = _rules_in_rows()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in SEEN_AT_THE_START_ONLY])
def test_rule_is_reached_by_a_row_of_a_truth_table(rule: str) -> None:
    """
    Each rule decides in some row; one that none can reach is no rule.
    """
    assert rule in REACHED


@pytest.mark.parametrize("rule", sorted(SEEN_AT_THE_START_ONLY))
def test_rule_that_no_fact_tells_is_named_by_a_test_of_the_start(rule: str) -> None:
    """
    A rule that only an attempt to start shows, or a death, stands in the loader's tests, and in no row here.
    """
    files = (HERE.parent / "loader").glob("test_*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    named = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert rule in RULES
    assert rule in named
    assert rule not in REACHED


@pytest.mark.parametrize("rule", RULES)
def test_rule_starts_with_an_argument_and_says_what_it_means(rule: str) -> None:
    """
    A rule id is an argument's name and a word, and its meaning a sentence.
    """
    argument, _, word = rule.partition(".")
    assert argument in (*ALWAYS_DECIDED, *PASSED_ON)
    assert word
    assert RULES[rule].endswith(".")
