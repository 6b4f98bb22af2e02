"""
Sees whether this process stands at a statement of its main module that a worker would run again.
"""

import ast
import functools
import linecache
import os
import sys
import threading
import tokenize
from multiprocessing.process import current_process
from types import CodeType, FrameType
from typing import NamedTuple

from .source import may_be_guarded, parse_module, statement_at


class Place(NamedTuple):
    """
    A statement at the top level of a file.
    """

    file: str
    line: int
    code: str
    """The text of the line."""
    fix: str
    """The lines to write instead."""


class _Level(NamedTuple):
    """
    One frame of a stack, without the frame: who holds a frame of its own holds all that its callers hold.
    """

    name: str
    """``<module>`` at the top level of a file."""
    module: str
    names: int
    """Which dict of globals the frame has."""
    code: CodeType
    line: int

    @property
    def file(self) -> str:
        """
        Return the file that the code is from.
        """
        return self.code.co_filename


def find_unguarded() -> Place | None:
    """
    Return the statement of the main module that runs now and would run again in each worker that imports it.

    Looked at is the calling thread, and the main one that started it: which statement of ``__main__`` are they at, and
    does any of the functions between that one and the loader stand under a guard? ``None`` where they are under one,
    where nothing of ``__main__`` runs any more, and where its source cannot be read.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):
        return None
    own, of_main = _stacks()
    place = _unguarded(own, id(vars(main)), file)
    if place is None:
        place = _unguarded(of_main, id(vars(main)), file)
        return None if place is None else place._replace(fix=_fix_of_block(place.code))  # it is where main waits
    return place


def is_starting_worker() -> bool:
    """
    Return whether this process is a child that is still being started: it imports ``__main__``, or what it will run.

    Source: CPython, multiprocessing/spawn.py, whose own check this is, and whose name ``__mp_main__`` tells it too.
    """
    return getattr(current_process(), "_inheriting", False) or any(map(_is_top_of_copy, _levels(sys._getframe())))


def _is_top_of_copy(level: _Level) -> bool:
    return level.name == "<module>" and level.module == "__mp_main__"


def find_in_starting_worker() -> Place:
    """
    Return where this worker, which is still being started, imports a module that iterates over a loader.
    """
    stack = _levels(sys._getframe())
    modules = [level for level in stack if level.name == "<module>"]
    top = next((number for number, level in enumerate(modules) if _is_top_of_copy(level)), 0)
    level = modules[top] if modules else stack[0]
    return _place(level.file, level, modules[:top])


def _stacks() -> tuple[list[_Level], list[_Level]]:
    """
    Return the stack of this thread, and of the main one if that is another.
    """
    own, main = _levels(sys._getframe()), threading.main_thread().ident
    if main is None or main == threading.get_ident():
        return own, []
    return own, _levels(sys._current_frames().get(main))


def _levels(frame: FrameType | None) -> list[_Level]:
    """
    Return the stack from *frame* outwards.
    """
    levels = []
    while frame is not None:
        code, names = frame.f_code, frame.f_globals
        module = str(names.get("__name__", ""))
        levels.append(_Level(code.co_name, module, id(names), code, frame.f_lineno))
        frame = frame.f_back
    return levels


def _unguarded(stack: list[_Level], names: int, file: str) -> Place | None:
    """
    Return the unguarded statement of the main module that a stack stands at, if it stands at one.
    """
    own = [level for level in stack if level.names == names and _is_same(level.file, file)]
    top = [level for level in own if level.name == "<module>"]
    tree = _tree(file, top[-1].code) if top else None
    if tree is None or any(may_be_guarded(tree, level.line) for level in own):
        return None
    inner = stack[: stack.index(top[-1])]
    return _place(file, top[-1], [level for level in inner if level.name == "<module>"])


def _is_same(name: str, file: str) -> bool:
    return name == file or os.path.abspath(name) == os.path.abspath(file)


@functools.lru_cache(maxsize=4)
def _tree(file: str, code: CodeType | None) -> ast.Module | None:
    """
    Return the source of a file, if it is what was compiled to *code*: people edit a script while it runs.

    It is remembered for that code, so that a later edit does not change what is known of it.
    """
    try:
        with tokenize.open(file) as source:
            text = source.read()
        now = code and compile(text, file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, UnicodeError, ValueError, RecursionError):
        return None
    is_same = now is None or code is None or (now.co_code, now.co_linetable) == (code.co_code, code.co_linetable)
    return parse_module(text) if is_same else None


def _place(file: str, level: _Level, modules_inside: list[_Level]) -> Place:
    line = level.line
    code, tree = _line(file, line), _tree(file, level.code)
    statement = None if tree is None else statement_at(tree, line)
    text = code if statement is None else _first_line(file, statement)
    imported = next((level for level in modules_inside if not _is_same(level.file, file)), None)
    is_import = imported is not None and isinstance(statement, (ast.Import, ast.ImportFrom))
    fix = _fix_of_import(imported, text) if imported is not None and is_import else _fix_of(statement, text)
    return Place(file, line, code, fix)


def _line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip() or "..."


def _first_line(file: str, statement: ast.stmt) -> str:
    """
    Return a statement in one line; of a block its head.
    """
    is_block = isinstance(statement, ast.Match) or hasattr(statement, "body")
    is_short = statement.lineno == statement.end_lineno
    return _line(file, statement.lineno) if is_block or is_short else ast.unparse(statement)


def _fix_of(statement: ast.stmt | None, text: str) -> str:
    """
    Return the lines to write for a statement at the top level: a call is guarded, anything else becomes a function.
    """
    if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign)) and isinstance(statement.value, ast.Call):
        return f'    if __name__ == "__main__":\n        {text}'
    return _fix_of_block(text)


def _fix_of_block(text: str) -> str:
    return (
        f'    def main():\n        {text}  # and what belongs to it\n\n    if __name__ == "__main__":\n        main()'
    )


def _fix_of_import(level: _Level, text: str) -> str:
    """
    Return the lines to write where an imported module iterates while it is imported.
    """
    inner = _line(level.file, level.line)
    first = (
        f"    # in {os.path.basename(level.file)}, line {level.line} ({inner}) goes into a function: def main(): ...\n"
    )
    is_bound = text == f"import {level.module}"
    again = "" if is_bound else f"        import {level.module}\n"
    return f'{first}    {text}\n    if __name__ == "__main__":\n{again}        {level.module}.main()'
