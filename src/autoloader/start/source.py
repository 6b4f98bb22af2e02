"""
Python source as a worker sees it that imports the script again: which statements it runs, and which it does not.
"""

import ast
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

REIMPORTED_NAME = "__mp_main__"
"""
``__name__`` of the script in a worker that was started by spawn or forkserver (CPython: multiprocessing/spawn.py).
"""

UNKNOWN = object()
"""
The value of an expression that source does not tell.
"""

_WORKER_NAME = object()  # the name of a worker's process: it may be anything but MainProcess


def parse_module(text: str) -> ast.Module | None:
    """
    Return the syntax tree of a module, None where *text* is not valid Python of this version.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes and literals in somebody else's code
        try:
            return ast.parse(text.removeprefix("\ufeff"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """
    Return the top-level statement of the module that contains *line*, None where there is none.
    """
    return _containing(tree.body, line)


def is_guarded(tree: ast.AST, line: int) -> bool:
    """
    Return whether the statement at *line* runs only in the process that the user started.

    It does if one of the branches around it, or its own ``and``, ``or`` or ``if``, is not entered when the module is
    imported again under the name ``__mp_main__``. What source does not tell counts as entered.

    Args:
        tree: The module.
        line: Any line of the statement, the first being 1.
    """
    names = main_tests(tree)
    block: Sequence[ast.stmt] = getattr(tree, "body", [])
    while (statement := _containing(block, line)) is not None:
        if not is_reached(block, statement, names):
            return True
        for inner, is_entered in branches(statement, names):
            if _containing(inner, line) is not None:
                if not is_entered:
                    return True
                block = inner
                break
        else:
            evaluated = getattr(statement, "value", None) or getattr(statement, "test", None)
            return evaluated is not None and is_cut_short(evaluated, names)
    return False


_TELLS_WHO_RUNS = frozenset({"__module__", "environ", "getenv", "getppid"})
"""
Names by which people tell the process that they started from a worker, in ways that source alone does not settle.
"""


def may_be_guarded(tree: ast.Module, line: int) -> bool:
    """
    Return whether the statement at *line* is guarded, or something may guard it that source does not settle.

    That is a top-level statement that asks who runs in an unusual way, also by a function or variable of the module
    that it uses (``if is_main():``), or a decorator, which may call what it gets (``@ex.automain``).
    """
    statement = statement_at(tree, line)
    if statement is None or is_guarded(tree, line):
        return statement is not None
    used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    own = (each for each in tree.body if each is not statement and not used.isdisjoint(_bound_names(each)))
    return bool(getattr(statement, "decorator_list", [])) or any(map(_asks_somehow, (statement, *own)))


def _asks_somehow(tree: ast.AST) -> bool:
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Constant) and node.value == "__main__" for node in nodes):
        return True
    return not _TELLS_WHO_RUNS.isdisjoint(getattr(node, "id", getattr(node, "attr", None)) for node in nodes)


def _containing(block: Sequence[ast.stmt], line: int) -> ast.stmt | None:
    for statement in block:
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        if min([statement.lineno, *(each.lineno for each in decorators)]) <= line <= (statement.end_lineno or 0):
            return statement
    return None


def is_reached(block: Sequence[ast.stmt], statement: ast.stmt, names: Mapping[str, object]) -> bool:
    """
    Return whether an imported copy can get to *statement*: no ``if __name__ != "__main__": return`` stands before it.
    """
    for earlier in block:
        if earlier is statement:
            return True
        if isinstance(earlier, ast.If) and _returns(earlier, names):
            return False
    return True


def _returns(statement: ast.stmt, names: Mapping[str, object]) -> bool:
    """
    Return whether the statement certainly leaves its function in an imported copy.
    """
    if not isinstance(statement, ast.If):
        return isinstance(statement, ast.Return)
    taken = [inner for inner, is_entered in branches(statement, names) if is_entered]
    return len(taken) == 1 and any(_returns(each, names) for each in taken[0])


def is_cut_short(expression: ast.expr, names: Mapping[str, object]) -> bool:
    """
    Return whether an imported copy does not evaluate what counts: ``__name__ == "__main__" and main()``.
    """
    if isinstance(expression, ast.BoolOp):
        ends = isinstance(expression.op, ast.Or)
        return any(truth(value, names) is ends for value in expression.values[:-1])
    if isinstance(expression, ast.IfExp):
        holds = truth(expression.test, names)
        taken = expression.body if holds else expression.orelse
        return holds is not None and not any(isinstance(node, ast.Call) for node in ast.walk(taken))
    return False


def branches(statement: ast.stmt, names: Mapping[str, object]) -> Iterator[tuple[Sequence[ast.stmt], bool]]:
    """
    Yield each block of a compound statement, and whether a copy of the module that is imported again may enter it.
    """
    if isinstance(statement, ast.If):
        holds = truth(statement.test, names)
        yield statement.body, holds is not False
        yield statement.orelse, holds is not True
    elif isinstance(statement, ast.While):
        yield statement.body, truth(statement.test, names) is not False
        yield statement.orelse, True
    elif isinstance(statement, ast.Match):
        yield from _cases(statement, names)
    else:
        for field in ("body", "orelse", "finalbody"):
            yield getattr(statement, field, []), True
        for handler in getattr(statement, "handlers", []):
            yield handler.body, True


def _cases(statement: ast.Match, names: Mapping[str, object]) -> Iterator[tuple[Sequence[ast.stmt], bool]]:
    subject = value_of(statement.subject, names)
    is_taken: bool | None = False
    for case in statement.cases:
        fits = _fits(case.pattern, subject)
        if fits is not False and case.guard is not None:
            holds = truth(case.guard, names)
            fits = holds if fits or holds is False else None
        yield case.body, fits is not False and is_taken is not True
        is_taken = is_taken or fits


def _fits(pattern: ast.pattern, subject: object) -> bool | None:
    """
    Return whether a pattern matches, None if source does not tell.
    """
    if isinstance(pattern, ast.MatchAs):
        return True if pattern.pattern is None else _fits(pattern.pattern, subject)
    if isinstance(pattern, ast.MatchOr):
        return any_of(_fits(each, subject) for each in pattern.patterns)
    if isinstance(pattern, ast.MatchValue):
        return _equal(subject, value_of(pattern.value, {}))
    if isinstance(pattern, ast.MatchSingleton):
        return None if subject is UNKNOWN else subject is pattern.value
    return None


def main_tests(tree: ast.AST) -> dict[str, object]:
    """
    Return the names that are bound once, to something that differs between the user's process and a worker.

    Returns:
        The value in a worker by name: ``{"IS_MAIN": False}`` for ``IS_MAIN = __name__ == "__main__"``.
    """
    bindings = Counter(_bound_names(tree))
    names: dict[str, object] = {}
    for node in ast.walk(tree):
        target, value = _binding(node)
        if isinstance(target, ast.Name) and value is not None and bindings[target.id] == 1 and _asks_who_runs(value):
            known = value_of(value, names)
            if known is not UNKNOWN:
                names[target.id] = known
    return names


def _binding(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    if isinstance(node, ast.Assign):
        return (node.targets[0] if len(node.targets) == 1 else None), node.value
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return node.target, node.value
    return None, None


def _bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def _asks_who_runs(expression: ast.expr) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == "__name__") or _called(node) in {"parent_process", "current_process"}
        for node in ast.walk(expression)
    )


def _called(node: ast.AST) -> str | None:
    """
    Return the last name of what is called without arguments: ``current_process`` for ``mp.current_process()``.
    """
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return None
    return getattr(node.func, "attr", None) or getattr(node.func, "id", None)


def truth(expression: ast.expr, names: Mapping[str, object]) -> bool | None:
    """
    Return whether a test holds in a copy that is imported again, None if source does not tell.
    """
    value = value_of(expression, names)
    return None if value is UNKNOWN else bool(value)


def value_of(expression: ast.expr, names: Mapping[str, object]) -> object:
    """
    Return the value of an expression in a copy that is imported again, UNKNOWN if source does not tell.
    """
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.Name):
        return _value_of_name(expression.id, names)
    if isinstance(expression, ast.NamedExpr):
        return value_of(expression.value, names)
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
        return _known(_negated(truth(expression.operand, names)))
    if isinstance(expression, ast.BoolOp):
        return _value_of_boolean(expression, names)
    if isinstance(expression, ast.Compare):
        return _known(_compared(expression, names))
    if isinstance(expression, (ast.Tuple, ast.List, ast.Set)):
        values = [value_of(each, names) for each in expression.elts]
        return UNKNOWN if UNKNOWN in values else values
    if isinstance(expression, ast.Attribute):
        return _value_of_attribute(expression)
    return _value_of_call(expression, names)


def _value_of_name(name: str, names: Mapping[str, object]) -> object:
    if name == "__name__":
        return REIMPORTED_NAME
    return names.get(name, False if name == "TYPE_CHECKING" else UNKNOWN)


def _value_of_attribute(expression: ast.Attribute) -> object:
    if expression.attr == "name" and _called(expression.value) == "current_process":
        return _WORKER_NAME
    return False if expression.attr == "TYPE_CHECKING" else UNKNOWN


def _value_of_call(expression: ast.expr, names: Mapping[str, object]) -> object:
    """
    Return what ``parent_process()`` gives, or a test of a text: ``__name__.startswith("__main")``.

    A worker learns of its parent after it has imported the main module (CPython, multiprocessing/spawn.py, ``_main``).
    """
    if _called(expression) == "parent_process":
        return None
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Attribute) or expression.keywords:
        return UNKNOWN
    text, parts = value_of(expression.func.value, names), [value_of(each, names) for each in expression.args]
    if expression.func.attr not in {"startswith", "endswith"} or len(parts) != 1:
        return UNKNOWN
    if not isinstance(text, str) or not isinstance(parts[0], str):
        return UNKNOWN
    return text.startswith(parts[0]) if expression.func.attr == "startswith" else text.endswith(parts[0])


def _value_of_boolean(expression: ast.BoolOp, names: Mapping[str, object]) -> object:
    """
    Return the value of ``and`` or ``or``: one operand that decides is enough, whatever stands before it.
    """
    ends = isinstance(expression.op, ast.Or)
    values = [truth(each, names) for each in expression.values]
    if ends in values:
        return ends
    return UNKNOWN if None in values else not ends


def _compared(expression: ast.Compare, names: Mapping[str, object]) -> bool | None:
    if len(expression.ops) != 1:
        return None
    left, right = value_of(expression.left, names), value_of(expression.comparators[0], names)
    operator = expression.ops[0]
    if isinstance(operator, (ast.Eq, ast.Is)):
        return _equal(left, right)
    if isinstance(operator, (ast.NotEq, ast.IsNot)):
        return _negated(_equal(left, right))
    if isinstance(operator, (ast.In, ast.NotIn)) and isinstance(right, list):
        is_in = any_of(_equal(left, each) for each in right)
        return is_in if isinstance(operator, ast.In) else _negated(is_in)
    return None


def _equal(left: object, right: object) -> bool | None:
    if UNKNOWN in (left, right):
        return None
    if _WORKER_NAME in (left, right):
        return False if "MainProcess" in (left, right) else None
    return left == right


def any_of(answers: Iterator[bool | None]) -> bool | None:
    """
    Return whether one of the answers is yes, None if source does not tell.
    """
    known = list(answers)
    if True in known:
        return True
    return None if None in known else False


def _negated(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _known(answer: bool | None) -> object:
    return UNKNOWN if answer is None else answer
