"""
The catalogue of findings, and its uses.
"""

import ast
import string
from pathlib import Path

import pytest

import autoloader
from autoloader.findings import CATALOGUE, describe, describe_parts

SOURCE = Path(autoloader.__file__).parent

FILLING = {"describe", "describe_parts", "obstacle", "_note"}
"""
The functions that fill a finding's texts: their first argument is its id, the others are the evidence.
"""


def places(finding_id: str) -> set[str]:
    """
    Return the names of the evidence that a finding's texts have places for.
    """
    finding = CATALOGUE[finding_id]
    return {name for _, name, _, _ in string.Formatter().parse(f"{finding.text} {finding.fix}") if name is not None}


def evidence_of(call: ast.Call, module: ast.Module) -> set[str]:
    """
    Return the names of the evidence that a call gives, those in a dict that is spread into it too.
    """
    spread = {ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None}
    dicts = [
        node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and ast.unparse(node.targets[0]) in spread
    ]
    keys = {key.value for each in dicts for key in each.keys if isinstance(key, ast.Constant)}
    return {keyword.arg for keyword in call.keywords if keyword.arg} | {str(key) for key in keys}


def uses() -> list[tuple[str, str, set[str]]]:
    """
    Return where findings are described: the place, the id, and the names of the evidence.
    """
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in FILLING:
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    found.append((f"{path.name}:{node.lineno}", str(first.value), evidence_of(node, module)))
    return found


USES = uses()


@pytest.mark.parametrize("finding_id", CATALOGUE)
def test_finding_is_used(finding_id: str) -> None:
    """
    What stands in the catalogue can be met.
    """
    assert finding_id in {used for _, used, _ in USES}


@pytest.mark.parametrize(("place", "finding_id", "evidence"), [pytest.param(*use, id=use[0]) for use in USES])
def test_use_of_a_finding_gives_its_evidence(place: str, finding_id: str, evidence: set[str]) -> None:
    """
    Each use names a finding of the catalogue, and gives exactly the evidence that its texts have places for.
    """
    assert finding_id in CATALOGUE
    assert evidence == places(finding_id)


@pytest.mark.parametrize("finding_id", CATALOGUE)
def test_finding_says_what_and_what_to_do(finding_id: str) -> None:
    """
    The title is no sentence, the text and the fix are.
    """
    finding = CATALOGUE[finding_id]
    assert finding.id == finding_id
    assert not finding.title.endswith(".")
    assert [text[-1] for text in (finding.text, finding.fix)] == [".", "."]
    assert "  " not in finding.text + finding.fix
    assert "{" not in finding.title


@pytest.mark.parametrize("finding_id", CATALOGUE)
def test_finding_stands_under_its_area(finding_id: str) -> None:
    """
    An id is an area and words, in lower case with hyphens.
    """
    area, _, words = finding_id.partition(".")
    assert area in {
        "argument",
        "cache",
        "calibration",
        "check",
        "plan",
        "loader",
        "target",
        "torch",
        "demo",
        "host",
        "dataset",
        "process",
        "storage",
        "worker",
        "sampler",
        "state",
        "resume",
        "record",
    }
    assert words.replace("-", "").isalpha()
    assert words.islower()


def test_describe_fills_the_evidence_in() -> None:
    """
    The text and the fix are one paragraph, with the values shown.
    """
    text = describe("argument.too-small", name="epochs", value=0, meaning="it is a count", least=1)
    assert text == ("epochs=0 is too small: it is a count, and the smallest is 1. Pass 1 or more, or leave epochs out.")


def test_describe_shows_braces_of_the_evidence_as_they_are() -> None:
    """
    A path or an error with braces in it is evidence like any other.
    """
    text = describe("target.failed", target="a:{b}", error="KeyError('{c}')")
    assert text.startswith("TARGET='a:{b}' failed: it raised KeyError('{c}').")


def test_describe_of_an_unknown_finding_is_a_mistake_of_ours() -> None:
    """
    An id that is not in the catalogue never passes silently.
    """
    with pytest.raises(KeyError):
        describe("no.such-finding")


def test_describe_parts_are_the_halves_of_the_description() -> None:
    """
    The text and the fix one by one are what stands together in the description.
    """
    evidence = {"method": "spawn", "program": "/opt/{app}"}
    text, fix = describe_parts("process.not-python", **evidence)
    assert text == "spawn would start /opt/{app} for each worker, which is not a Python interpreter."
    assert fix == "Call multiprocessing.set_executable() with the path of one, or pass num_workers=0."
    assert describe("process.not-python", **evidence) == f"{text} {fix}"


def test_describe_without_evidence_is_a_mistake_of_ours() -> None:
    """
    A place in a text that nobody fills never passes silently.
    """
    for fill in (describe, describe_parts):
        with pytest.raises(KeyError):
            fill("process.not-python", method="spawn")
