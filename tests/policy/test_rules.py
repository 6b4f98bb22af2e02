"""
The catalogue of rules.
"""

import ast
from pathlib import Path

import pytest

from autoloader.plan import ALWAYS_DECIDED, PASSED_ON
from autoloader.policy import RULES


def _rules_in_rows() -> set[str]:
    """
    Return the rule ids that rows of the truth tables in this folder assert: the last plain argument of each row.
    """
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param" and len(node.args) >= 3:
                rule = node.args[-1]
                if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
                    found.add(rule.value)
    return found


REACHED = _rules_in_rows()


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_reached_by_a_row_of_a_truth_table(rule: str) -> None:
    """
    Each rule decides in some row; one that none can reach is no rule.
    """
    assert rule in REACHED


@pytest.mark.parametrize("rule", RULES)
def test_rule_starts_with_an_argument_and_says_what_it_means(rule: str) -> None:
    """
    A rule id is an argument's name and a word, and its meaning a sentence.
    """
    argument, _, word = rule.partition(".")
    assert argument in (*ALWAYS_DECIDED, *PASSED_ON)
    assert word
    assert RULES[rule].endswith(".")
