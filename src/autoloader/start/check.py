"""
The check of source: what would go wrong where workers start by spawn or forkserver, found without running anything.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..findings import describe
from .check_rules.loader_calls import LoaderCalls, chooses_fork
from .check_rules.misuse import blocking_copies, loaders_in_epoch_loops, not_importable
from .check_rules.reimport import Reimport
from .check_rules.scopes import Scopes
from .check_rules.side_effects import side_effects
from .source import parse_module

CODE_CHARACTERS = 60
"""
How much of a line is shown in a text.
"""

_IGNORE = re.compile(r"#\s*autoloader:\s*ignore\b(?:\[([^\]]*)\])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """
    One finding at one place in source.
    """

    id: str
    """The finding, as the catalogue names it."""
    path: str
    """The file, as it was given."""
    line: int
    """The line where it starts; the first is 1."""
    column: int
    """The character of the line where it starts; the first is 1."""
    text: str
    """What is wrong, because of which fact, and what to do."""


def check_source(text: str, path: str) -> list[Problem]:
    """
    Return what is wrong in the source of one module, by line.

    A comment ``# autoloader: ignore`` at the end of a line silences all findings of that line, and
    ``# autoloader: ignore[check.not-importable]`` those that it names.

    Args:
        text: The source. If it is not Python, nothing is found.
        path: Where it comes from, for the reports only.
    """
    tree = parse_module(text) if "DataLoader" in text or "autoloader" in text else None
    if tree is None:
        return []
    lines = text.removeprefix("\ufeff").split("\n")
    try:
        return _Report(path, lines).problems(LoaderCalls(Scopes(tree)))
    except RecursionError:  # an expression that is nested a thousand times over
        return []


class _Report:
    """
    The findings of one file as problems: one for each line and kind, those left out that a comment silences.
    """

    def __init__(self, path: str, lines: list[str]) -> None:
        self.path = path
        self.lines = lines

    def problems(self, loaders: LoaderCalls) -> list[Problem]:
        """
        Return all that the rules find, by line.
        """
        if not loaders.all:
            return []
        found = list(_blocking(loaders, self)) + list(_in_epoch_loops(loaders, self))
        if loaders.reimporting and not chooses_fork(loaders.scopes):
            found += _reimported(loaders, self)
        first: dict[tuple[int, str], Problem] = {}
        for problem in sorted(found, key=lambda each: (each.line, each.column, each.id)):
            if not self._is_silenced(problem):
                first.setdefault((problem.line, problem.id), problem)
        return list(first.values())

    def problem(self, finding_id: str, node: ast.AST, text: str) -> Problem:
        """
        Return a finding at the place of *node*.
        """
        line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        column = len(self.lines[line - 1].encode()[:offset].decode(errors="replace")) + 1  # ast counts bytes of UTF-8
        return Problem(id=finding_id, path=self.path, line=line, column=column, text=text)

    def code(self, node: ast.AST) -> str:
        """
        Return the line where *node* starts, from there on, without its comment; a long one is cut.
        """
        line = self.lines[getattr(node, "lineno", 1) - 1].encode()[getattr(node, "col_offset", 0) :]
        code = line.decode(errors="replace").partition("  #")[0].rstrip()
        return code if len(code) <= CODE_CHARACTERS else f"{code[: CODE_CHARACTERS - 3]}..."

    def _is_silenced(self, problem: Problem) -> bool:
        comment = _IGNORE.search(self.lines[problem.line - 1])
        if comment is None:
            return False
        return comment[1] is None or problem.id in {each.strip() for each in comment[1].split(",")}


def _reimported(loaders: LoaderCalls, report: _Report) -> Iterator[Problem]:
    """
    Yield what goes wrong in workers that import the module again.
    """
    statements = Reimport(loaders).statements()
    for statement in statements:
        text = describe("check.unguarded-iteration", code=report.code(statement))
        yield report.problem("check.unguarded-iteration", statement, text)
    for node, effect in side_effects(loaders.scopes):
        if not any(statement.lineno <= node.lineno <= (statement.end_lineno or 0) for statement in statements):
            text = describe("check.top-level-side-effect", code=report.code(node), effect=effect)
            yield report.problem("check.top-level-side-effect", node, text)
    for part in not_importable(loaders):
        text = describe("check.not-importable", name=part.name, because=part.because)
        yield report.problem("check.not-importable", part.node, text)


def _in_epoch_loops(loaders: LoaderCalls, report: _Report) -> Iterator[Problem]:
    for call, loop in loaders_in_epoch_loops(loaders):
        text = describe("check.loader-in-epoch-loop", code=report.code(call), line=loop.lineno)
        yield report.problem("check.loader-in-epoch-loop", call, text)


def _blocking(loaders: LoaderCalls, report: _Report) -> Iterator[Problem]:
    for call in blocking_copies(loaders):
        text = describe("check.pinned-blocking", code=report.code(call))
        yield report.problem("check.pinned-blocking", call, text)
