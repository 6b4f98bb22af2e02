"""
What happens when a worker imports the script again: does that iterate over a loader with workers?

The statements that an imported copy runs are followed, with the functions that they call, until nothing new is found
about what each variable may hold. What is not followed counts as harmless.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ..source import branches, is_reached, main_tests, truth
from .held import LOADER, LOADERS, Held, Holding
from .known_calls import COLLECTING, HOOKS, LOOPS, RUNNERS, STARTING, WRAPPERS
from .loader_calls import LoaderCalls
from .scopes import FUNCTIONS, Function, is_decorated, is_generator

PASSES = 40  # each pass learns something; a script of functions in functions takes five


class Reimport:
    """
    An imported copy of one module.

    Args:
        loaders: Its loader calls.
    """

    def __init__(self, loaders: LoaderCalls) -> None:
        self.loaders = loaders
        self.scopes = loaders.scopes
        self.names = main_tests(self.scopes.tree)
        self.held: dict[tuple[ast.AST, str], Holding] = defaultdict(set)
        self.reached: dict[ast.AST, None] = {}
        self.iterating: set[ast.AST] = set()
        self.calls: dict[ast.AST, set[ast.AST]] = defaultdict(set)
        self._evaluated: dict[ast.AST, Holding] = {}
        self.unit: ast.AST = self.scopes.tree
        """The statement of the module, or the function, that is followed right now."""

    def statements(self) -> list[ast.stmt]:
        """
        Return the statements of the module that make an imported copy iterate over a loader with workers.
        """
        for _ in range(PASSES):
            before = self._knowledge()
            self._evaluated.clear()
            for statement in self.scopes.tree.body:
                self.unit = statement
                self._statement(statement)
            for function in list(self.reached):
                self.unit = function
                self._block(getattr(function, "body", []))
            if self._knowledge() == before:
                break
        return [each for each in self.scopes.tree.body if not isinstance(each, FUNCTIONS) and self._iterates(each)]

    def _knowledge(self) -> tuple[int, int, int, int]:
        held = sum(len(each) for each in self.held.values())
        return held, len(self.reached), len(self.iterating), sum(len(each) for each in self.calls.values())

    def _iterates(self, unit: ast.AST) -> bool:
        """
        Return whether a statement or function iterates, itself or by what it calls.
        """
        seen, waiting = {unit}, [unit]
        while waiting:
            each = waiting.pop()
            if each in self.iterating:
                return True
            waiting += self.calls[each] - seen
            seen |= self.calls[each]
        return False

    def _block(self, block: Sequence[ast.stmt]) -> None:
        for statement in block:
            if not is_reached(block, statement, self.names):
                return
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, FUNCTIONS):
            self._function(statement)
        elif isinstance(statement, ast.ClassDef):
            self._hold(statement, statement.name, {Held("class", statement)})
            self._block(statement.body)
        else:
            self._header(statement)
            for block, is_entered in branches(statement, self.names):
                if is_entered:
                    self._block(block)

    def _function(self, function: Function) -> None:
        """
        Remember a function, and the command line that it is a command of: ``@app.command()``.
        """
        self._hold(function, function.name, {Held("function", function)})
        for decorator in function.decorator_list:
            name = getattr(decorator, "func", decorator)
            group = name.value if isinstance(name, ast.Attribute) and name.attr in {"command", "callback"} else None
            if isinstance(group, ast.Name):
                self._hold(group, group.id, {Held("function", function)})

    def _header(self, statement: ast.stmt) -> None:
        """
        Evaluate what a statement evaluates itself, and bind what it binds.
        """
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._assign(target, statement.value)
        elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
            self._assign(statement.target, statement.value)
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            self._loop(statement.target, statement.iter)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                if item.optional_vars is None:
                    self._evaluate(item.context_expr)
                else:
                    self._assign(item.optional_vars, item.context_expr)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            self._return(statement.value)
        else:
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.expr):
                    self._evaluate(part)

    def _return(self, value: ast.expr) -> None:
        self._add(self.unit, "return", self._evaluate(value))
        if isinstance(value, ast.Tuple):
            for position, part in enumerate(value.elts):
                self._add(self.unit, f"return {position}", self._evaluate(part))

    def _loop(self, target: ast.expr, iterable: ast.expr) -> None:
        """
        Go over something: over a loader, which starts its workers, or over a container of loaders.
        """
        held = self._evaluate(iterable)
        self._start(held)
        if LOADERS in held:
            is_pair = self.scopes.called(iterable) in {"enumerate", "items"}
            self._bind(target.elts[-1] if is_pair and isinstance(target, ast.Tuple) else target, {LOADER})

    def _start(self, held: Holding) -> None:
        """
        Ask what is held for an iterator, which starts the workers of a loader, and runs the ``__iter__`` of an object.
        """
        iterators = (self._call(self._member(each, "__iter__"), None) for each in held if each.kind == "object")
        if LOADER in held.union(*iterators):
            self.iterating.add(self.unit)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        held = self._evaluate(value)
        if not isinstance(target, (ast.Tuple, ast.List)):
            self._bind(target, held)
            return
        for position, part in enumerate(target.elts):
            self._bind(part, self._part(value, position, held, len(target.elts)))

    def _part(self, value: ast.expr, position: int, held: Holding, parts: int) -> Holding:
        """
        Return what one of several targets gets.
        """
        if self.scopes.called(value) in {"prepare", "setup_dataloaders"} and isinstance(value, ast.Call):
            value = ast.Tuple(elts=value.args)
        if isinstance(value, ast.Tuple) and len(value.elts) == parts:
            return self._evaluate(value.elts[position])
        if isinstance(value, ast.Call):
            functions = [each.definition for each in self._evaluate(value.func) if each.definition is not None]
            if any((function, "return 0") in self.held for function in functions):
                return {each for function in functions for each in self.held[function, f"return {position}"]}
        return {LOADER} if LOADERS in held else set()

    def _bind(self, target: ast.expr, held: Holding) -> None:
        if isinstance(target, ast.Name):
            self._hold(target, target.id, held)
        elif isinstance(target, ast.Attribute):
            for owner in self._evaluate(target.value):
                if owner.definition is not None:
                    self._add(owner.definition, target.attr, held)
        elif isinstance(target, ast.Subscript) and LOADER in held:
            self._bind(target.value, {LOADERS})
        elif isinstance(target, ast.Starred):
            self._bind(target.value, {LOADERS} if held & {LOADER, LOADERS} else set())
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, held)

    def _hold(self, node: ast.AST, name: str, held: Holding) -> None:
        if (scope := self.scopes.scope_of(name, node)) is not None:
            self._add(scope, name, held)

    def _add(self, owner: ast.AST, name: str, held: Holding) -> None:
        self.held[owner, name] |= held

    def _evaluate(self, expression: ast.expr | None) -> Holding:
        """
        Return what an expression may hold; what it does on the way is remembered.
        """
        if isinstance(expression, ast.Name):
            return self._name(expression)
        if isinstance(expression, ast.Call):
            return self._evaluate_call(expression)
        if isinstance(expression, ast.Attribute):
            return self._attribute(expression)
        if isinstance(expression, ast.NamedExpr):
            self._assign(expression.target, expression.value)
            return self._evaluate(expression.value)
        if isinstance(expression, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            return self._comprehension(expression)
        if isinstance(expression, ast.Subscript):
            held = self._evaluate(expression.value)
            self._evaluate(expression.slice)
            return ({LOADER} if LOADERS in held else set()) | (
                {LOADERS} & held if isinstance(expression.slice, ast.Slice) else set()
            )
        if expression is None or isinstance(expression, ast.Lambda):
            return set()
        return self._compound(expression)

    def _name(self, name: ast.Name) -> Holding:
        """
        Return what a name may hold: what its last assignment gave, where that is certain, else all that it ever gets.
        """
        if name not in self._evaluated:
            latest = self.scopes.last_assignment(name)
            scope = self.scopes.scope_of(name.id, name)
            known = set() if scope is None else self.held.get((scope, name.id), set())
            self._evaluated[name] = self._evaluate(latest) if latest is not None else set(known)
        return set(self._evaluated[name])

    def _compound(self, expression: ast.expr) -> Holding:
        """
        Evaluate what only puts other expressions together.
        """
        parts = list(self._evaluated_parts(expression))
        held: Holding = set().union(*parts)
        if isinstance(expression, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            return {LOADERS} if held & {LOADER, LOADERS} else held
        if isinstance(expression, (ast.Starred, ast.YieldFrom)):
            self._start(held)
            return set()
        return held if isinstance(expression, (ast.IfExp, ast.BoolOp, ast.Await, ast.BinOp)) else set()

    def _evaluated_parts(self, expression: ast.expr) -> Iterator[Holding]:
        """
        Yield what the parts hold that an imported copy evaluates: of ``__name__ == "__main__" and main()`` the first.
        """
        if isinstance(expression, ast.IfExp):
            holds = truth(expression.test, self.names)
            self._evaluate(expression.test)
            yield self._evaluate(expression.body) if holds is not False else set()
            yield self._evaluate(expression.orelse) if holds is not True else set()
            return
        for part in ast.iter_child_nodes(expression):
            if isinstance(part, ast.expr):
                yield self._evaluate(part)
                if isinstance(expression, ast.BoolOp) and truth(part, self.names) is isinstance(expression.op, ast.Or):
                    return

    def _comprehension(self, expression: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Holding:
        for generator in expression.generators:
            self._loop(generator.target, generator.iter)
            for test in generator.ifs:
                self._evaluate(test)
        held = self._evaluate(expression.value if isinstance(expression, ast.DictComp) else expression.elt)
        return {LOADERS} if held & {LOADER, LOADERS} else set()

    def _attribute(self, expression: ast.Attribute) -> Holding:
        held: Holding = set()
        for owner in self._evaluate(expression.value):
            for member in self._member(owner, expression.attr):
                if member.kind == "method" and is_decorated(member.definition, "property", "cached_property"):
                    held |= self._call({member}, None)
                else:
                    held.add(member)
        return held

    def _member(self, owner: Held, name: str) -> Holding:
        """
        Return what an attribute of an object or class of this module holds, methods with their object bound.
        """
        if owner.kind not in {"object", "class"} or owner.definition is None:
            return set()
        held = set(self.held.get((owner.definition, name), set()))
        bases = getattr(owner.definition, "bases", []) if not held else []
        for base in bases:
            held |= {each for each in self._evaluate(base) if each.kind == "class" and each != owner}
        if bases:
            return set().union(*(self._member(Held(owner.kind, each.definition), name) for each in held))
        return {self._bound(each, owner) for each in held}

    def _bound(self, member: Held, owner: Held) -> Held:
        function = member.definition
        if member.kind != "function" or is_decorated(function, "staticmethod"):
            return member
        is_of_class = is_decorated(function, "classmethod")
        if owner.kind == "class" and not is_of_class:
            return member
        assert isinstance(function, FUNCTIONS)
        for first in (function.args.posonlyargs + function.args.args)[:1]:
            self._add(function, first.arg, {Held("class", owner.definition) if is_of_class else owner})
        return Held("method", function)

    def _evaluate_call(self, call: ast.Call) -> Holding:
        """
        Return what a call may give, once for each pass: chains of calls would take exponential time.
        """
        if call not in self._evaluated:
            self._evaluated[call] = set()
            self._evaluated[call] = self._follow_call(call)
        return set(self._evaluated[call])

    def _follow_call(self, call: ast.Call) -> Holding:
        functions = self._evaluate(call.func)
        given = [self._evaluate(each) for each in call.args] + [self._evaluate(each.value) for each in call.keywords]
        if call in self.loaders.reimporting:
            return {LOADER}
        for each in [each for each in functions if each.kind == "object"]:
            functions |= self._member(each, "__call__")
        if any(each.kind in {"function", "method", "class"} for each in functions):
            return self._call(functions, call)
        name, everything = self.scopes.called(call), set().union(*given)
        if name == "partial":
            return self._partial(call)
        if name in STARTING:
            self._start(everything)
            everything -= {LOADER}  # what comes out has started: going on with it starts nothing
        if name in RUNNERS:
            self._call({each for each in everything if each.kind in {"function", "method"}}, None)
        if LOOPS.match(name):
            self._give_to_loop(everything)
        if name in COLLECTING and isinstance(call.func, ast.Attribute) and everything & {LOADER, LOADERS}:
            self._bind(call.func.value, {LOADERS})
        if name not in WRAPPERS:
            return set()
        if isinstance(call.func, ast.Attribute):
            everything |= self._evaluate(call.func.value) & {LOADERS}
        return {LOADER} if name in {"get", "pop", "next"} and LOADERS in everything else everything

    def _partial(self, call: ast.Call) -> Holding:
        """
        Give the arguments of ``partial(function, ...)`` already, and return the function.
        """
        functions = self._evaluate(call.args[0]) if call.args else set()
        for each in functions:
            if isinstance(each.definition, FUNCTIONS):
                given = ast.Call(func=call.func, args=call.args[1:], keywords=call.keywords)
                self._give(each.definition, each.kind == "method", given)
        return functions

    def _give_to_loop(self, given: Holding) -> None:
        """
        Iterate over the loaders that a training loop elsewhere is given, or takes from the hooks of an object.
        """
        if LOADERS in given:
            self.iterating.add(self.unit)
        self._start(given)
        for owner in given:
            if owner.kind == "object":
                for hook in HOOKS:
                    if self._call(self._member(owner, hook), None) & {LOADER, LOADERS}:
                        self.iterating.add(self.unit)

    def _call(self, functions: Iterable[Held], call: ast.Call | None) -> Holding:
        """
        Call functions and classes of this module, with the arguments of *call*; return what they may return.
        """
        result: Holding = set()
        for each in functions:
            function = each.definition
            if isinstance(function, ast.ClassDef):
                made = Held("object", function)
                self._call(self._member(made, "__init__"), call)
                result.add(made)
            elif isinstance(function, FUNCTIONS):
                self._give(function, each.kind == "method", call)
                self.reached[function] = None
                if not is_generator(function):
                    self.calls[self.unit].add(function)
                    result |= self.held[function, "return"]
                elif self._iterates(function):
                    result.add(LOADER)
        return result

    def _give(self, function: Function, is_bound: bool, call: ast.Call | None) -> None:
        """
        Give the arguments of a call to the parameters.
        """
        if call is None:
            return
        names = [each.arg for each in function.args.posonlyargs + function.args.args][is_bound:]
        for name, value in zip(names, call.args, strict=False):
            self._add(function, name, self._evaluate(value))
        known = {*names, *(each.arg for each in function.args.kwonlyargs)}
        for keyword in call.keywords:
            if keyword.arg in known:
                self._add(function, keyword.arg, self._evaluate(keyword.value))
