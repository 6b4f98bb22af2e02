"""
What the names of a module stand for, as far as its source tells.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

from .known_calls import COLLECTING

Function = ast.FunctionDef | ast.AsyncFunctionDef

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

_STEPS = 8  # from name to name: more of them are a circle, or nobody's code


class Scopes:
    """
    The names of one module: where each is bound, and to what.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.imported: dict[str, str] = {}
        self._bindings: dict[tuple[ast.AST, str], list[ast.AST | None]] = defaultdict(list)
        self._global = {
            (self.enclosing(node), name)
            for node in ast.walk(tree)
            if isinstance(node, ast.Global)
            for name in node.names
        }
        self.attributes_set = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }
        for node in ast.walk(tree):
            self._bind(node)
        self._touched = {statement: set(_touched_names(statement)) for statement in tree.body}

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                self._import(node, alias)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self._add(node, node.id, self._value_given_to(node))
        elif isinstance(node, ast.arg):
            self._add(node, node.arg, None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._add(node, node.name, node)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._add(node, node.name, None)

    def _import(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> None:
        prefix = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        local = alias.asname or (alias.name if prefix else alias.name.partition(".")[0])
        origin = f"{prefix}{alias.name}" if prefix or alias.asname else local
        self.imported.setdefault(local, origin)
        self._add(node, local, None)

    def _add(self, node: ast.AST, name: str, value: ast.AST | None) -> None:
        scope = self.enclosing(node)
        self._bindings[self.tree if (scope, name) in self._global else scope, name].append(value)

    def _value_given_to(self, target: ast.Name) -> ast.AST | None:
        """
        Return the expression that an assignment binds to *target*, None where another kind of statement binds it.
        """
        parent = self.parents[target]
        if isinstance(parent, ast.Assign):
            return parent.value
        if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)):
            return parent.value
        above = self.parents.get(parent)
        values = above.value if isinstance(above, ast.Assign) else None
        if isinstance(parent, ast.Tuple) and isinstance(values, ast.Tuple) and len(parent.elts) == len(values.elts):
            return values.elts[parent.elts.index(target)]
        return None

    def enclosing(self, node: ast.AST) -> ast.AST:
        """
        Return the function, class or module in which a node stands; for a parameter, its function.
        """
        while not isinstance(parent := self.parents.get(node, self.tree), _SCOPES):
            node = parent
        return parent

    def scope_of(self, name: str, node: ast.AST) -> ast.AST | None:
        """
        Return the scope that binds *name* where it is used in *node*, None if the module does not bind it.
        """
        scope = first = self.enclosing(node)
        while True:
            if (scope, name) in self._bindings and (scope is first or not isinstance(scope, ast.ClassDef)):
                return scope
            if scope is self.tree:
                return None
            scope = self.enclosing(scope)

    def bindings(self, name: ast.Name) -> list[ast.AST | None]:
        """
        Return what a name is bound to, wherever that happens; None stands for something that source does not tell.
        """
        scope = self.scope_of(name.id, name)
        return [] if scope is None else self._bindings[scope, name.id]

    def meaning(self, expression: ast.AST | None) -> ast.AST | None:
        """
        Return what an expression stands for: the only thing that its name is bound to, else the expression itself.
        """
        for _ in range(_STEPS):
            found = self._step(expression)
            if found is None:
                break
            expression = found
        return expression

    def _step(self, expression: ast.AST | None) -> ast.AST | None:
        if isinstance(expression, ast.Name):
            bindings = self.bindings(expression)
            return bindings[0] if len(bindings) == 1 else None
        if isinstance(expression, ast.Attribute) and expression.attr not in self.attributes_set:
            return self._class_attribute(expression)
        if isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Constant):
            table = self.meaning(expression.value)
            return dict_item(table, expression.slice.value) if table is not None else None
        return None

    def _class_attribute(self, expression: ast.Attribute) -> ast.AST | None:
        """
        Return what ``CFG.workers`` or ``CFG().workers`` is bound to in the class.
        """
        owner = self.meaning(expression.value)
        if isinstance(owner, ast.Call):
            owner = self.meaning(owner.func)
        if not isinstance(owner, ast.ClassDef):
            return None
        bindings = self._bindings.get((owner, expression.attr), [])
        return bindings[0] if len(bindings) == 1 else None

    def dotted(self, expression: ast.AST) -> str:
        """
        Return the full name of what is named: ``torch.utils.data.DataLoader`` for ``data.DataLoader``; "" for no name.
        """
        parts: list[str] = []
        while isinstance(expression, ast.Attribute):
            parts.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name):
            return ".".join(["", *reversed(parts)]) if parts else ""
        return ".".join([self.imported.get(expression.id, expression.id), *reversed(parts)])

    def called(self, call: ast.AST | None) -> str:
        """
        Return the last name of what is called: ``DataLoader`` for ``torch.utils.data.DataLoader(...)``.
        """
        return self.dotted(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""

    def last_assignment(self, name: ast.Name) -> ast.expr | None:
        """
        Return what the module assigned last to a name that one of its own statements uses, None if that is not certain.

        It is certain after ``name = value`` at the top level, if nothing binds or changes the name between there and
        the statement, or in the statement.
        """
        above = list(self.ancestors(name))
        if any(isinstance(each, (*_SCOPES[1:], ast.comprehension)) for each in above) or (
            any(bound == name.id for _, bound in self._global)
        ):
            return None
        here = self.tree.body.index(next(each for each in above if each in self._touched))
        if name.id in self._touched[self.tree.body[here]] and not isinstance(self.tree.body[here], ast.Assign):
            return None
        for statement in reversed(self.tree.body[:here]):
            if name.id in self._touched[statement]:
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                is_plain = len(targets) == 1 and isinstance(targets[0], ast.Name)
                return statement.value if is_plain and isinstance(statement, ast.Assign) else None
        return None

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """
        Yield what a node stands in, from the inside.
        """
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent


def _touched_names(statement: ast.stmt) -> Iterator[str]:
    """
    Yield the names that a statement may bind or change: ``loaders["train"] = loader`` and ``@app.command()`` as well.
    """
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name):
            is_changed = not isinstance(node.ctx, ast.Load) or getattr(node, "attr", None) in COLLECTING
            if is_changed or isinstance(statement, FUNCTIONS):
                yield node.value.id


def dict_item(table: ast.AST, key: object) -> ast.expr | None:
    """
    Return the value at *key* of ``{...}`` or ``dict(...)``, None if there is none.
    """
    if isinstance(table, ast.Dict):
        for name, value in zip(table.keys, table.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
    if isinstance(table, ast.Call) and isinstance(table.func, ast.Name) and table.func.id == "dict":
        return next((keyword.value for keyword in table.keywords if keyword.arg == key), None)
    return None


def is_decorated(function: ast.AST | None, *names: str) -> bool:
    """
    Return whether a function has one of these decorators, bare: ``@property``, ``@functools.cached_property``.
    """
    decorators = getattr(function, "decorator_list", [])
    return any(getattr(each, "attr", getattr(each, "id", None)) in names for each in decorators)


def is_generator(function: Function) -> bool:
    """
    Return whether calling a function only makes a generator; a ``yield`` in a function inside it does not count.
    """
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return False
