"""
Loaders that source shows to be used badly: made anew each epoch, given what no worker can import, pinned in vain.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ..source import branches, main_tests
from .known_calls import LOOPS
from .loader_calls import LoaderCalls
from .scopes import FUNCTIONS, Scopes

Loop = ast.For | ast.While

CALLABLES = (*FUNCTIONS, ast.Lambda)

NOT_EPOCHS = (
    "fold",
    "seed",
    "run",
    "trial",
    "split",
    "task",
    "stage",
    "phase",
    "exp",
    "rep",
    "size",
    "worker",
    "bench",
)
"""
Parts of names of loop variables: each round of such a loop is a training of its own.
"""

HARMLESS_CALLS = {"RandomSampler", "SequentialSampler", "len", "int", "min", "max", "cpu_count", "print"}
"""
Calls that neither change what they are given nor give something else each time.
"""

STORING = ("transform", "collate", "augment", "preprocess", "fn", "func", "loader", "pipeline", "tokenize")
"""
Parts of names of arguments that datasets keep, so that they travel to workers.
"""


class Unreachable(NamedTuple):
    """
    Something that a loader gives to its workers, and that they cannot import.
    """

    node: ast.expr
    """Where it is given."""
    name: str
    """What it is called in source; "lambda" for one."""
    because: str
    """Why a worker does not find it."""


def loaders_in_epoch_loops(loaders: LoaderCalls) -> Iterator[tuple[ast.Call, Loop]]:
    """
    Yield each loader with workers that an epoch loop makes anew from the same arguments, with the loop.
    """
    for call in loaders.with_workers:
        loop = _nearest_loop(loaders.scopes, call)
        if loop is None or not _goes_over_epochs(loaders.scopes, loop) or _changes(loaders.scopes, call, loop):
            continue
        if _iterates_in(loaders.scopes, call, loop):
            yield call, loop


def _nearest_loop(scopes: Scopes, node: ast.AST) -> Loop | None:
    """
    Return the loop whose body a node stands in, None if there is none in its function.
    """
    inner = node
    for outer in scopes.ancestors(node):
        if isinstance(outer, (*CALLABLES, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)):
            return None
        if isinstance(outer, (ast.For, ast.While)) and inner in outer.body:
            return outer
        if isinstance(outer, ast.For) and inner is outer.iter:
            inner = outer
            continue
        inner = outer
    return None


def _goes_over_epochs(scopes: Scopes, loop: Loop) -> bool:
    if isinstance(loop, ast.While):
        return True
    if not isinstance(loop.target, ast.Name) or any(part in loop.target.id.lower() for part in NOT_EPOCHS):
        return False
    return any(scopes.called(node) in {"range", "trange", "count"} for node in ast.walk(loop.iter))


def _changes(scopes: Scopes, call: ast.Call, loop: Loop) -> bool:
    """
    Return whether what a loader is made of may differ from one round of the loop to the next.
    """
    inside = {*ast.walk(call)}
    if any(isinstance(node, ast.Call) and scopes.called(node) not in HARMLESS_CALLS for node in inside - {call}):
        return True
    used = {scopes.dotted(node) for node in inside if isinstance(node, (ast.Name, ast.Attribute))} - {""}
    roots = {name.partition(".")[0] for name in used}
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id in roots:
            return True
        if node in inside or not isinstance(node, (ast.Name, ast.Attribute)) or scopes.dotted(node) not in used:
            continue
        if not _is_only_read(scopes, node):
            return True
    return "self" in roots and any(scopes.dotted(node.func).startswith("self.") for node in _calls(loop))


def _is_only_read(scopes: Scopes, node: ast.AST) -> bool:
    """
    Return whether a use of something cannot change it: a part that is read and not called, or a call like len().
    """
    outer = scopes.parents.get(node)
    if isinstance(outer, ast.Call):
        return node is not outer.func and scopes.called(outer) in HARMLESS_CALLS
    if isinstance(outer, ast.Attribute):
        above = scopes.parents.get(outer)
        return isinstance(outer.ctx, ast.Load) and not (isinstance(above, ast.Call) and above.func is outer)
    return isinstance(outer, (ast.BinOp, ast.Compare, ast.FormattedValue))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))


def _iterates_in(scopes: Scopes, call: ast.Call, loop: Loop) -> bool:
    """
    Return whether a loop goes over the loader that it makes, once a round: no other loop over numbers is between.
    """
    parent = scopes.parents[call]
    name = parent.targets[0] if isinstance(parent, ast.Assign) else parent
    for node in ast.walk(loop):
        if isinstance(node, ast.For) and scopes.enclosing(node) is scopes.enclosing(loop):
            is_over = call in {*ast.walk(node.iter)} or (isinstance(name, ast.Name) and _mentions(node.iter, name.id))
            if is_over and scopes.called(node.iter) != "range":
                return _nearest_loop(scopes, node) is loop
        if isinstance(node, ast.Call) and LOOPS.match(scopes.called(node)):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if call in given or any(isinstance(name, ast.Name) and _is_name(each, name.id) for each in given):
                return _nearest_loop(scopes, node) is loop
    return False


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _mentions(expression: ast.expr, name: str) -> bool:
    return any(_is_name(node, name) for node in ast.walk(expression))


def not_importable(loaders: LoaderCalls) -> Iterator[Unreachable]:
    """
    Yield what loaders give to workers that import the module, and that these do not find there.
    """
    search = _Search(loaders)
    for call in loaders.reimporting:
        for name in ("dataset", "collate_fn", "worker_init_fn"):
            given = loaders.argument(call, name)
            if given is not None:
                yield from search.unreachable(given)


class _Search:
    """
    The way from what a loader is given to the functions and classes in it.
    """

    def __init__(self, loaders: LoaderCalls) -> None:
        self.scopes = loaders.scopes
        self.guarded = _guarded_statements(self.scopes.tree)
        self.seen: set[ast.AST] = set()

    def unreachable(self, given: ast.expr) -> Iterator[Unreachable]:
        """
        Yield each part of *given* that a worker cannot import, with the place where it is given.
        """
        meaning = self.scopes.meaning(given)
        if meaning is None or meaning in self.seen:
            return
        if isinstance(meaning, ast.Lambda):
            yield Unreachable(given, "lambda" if given is meaning else ast.unparse(given), "it is a lambda")
        elif isinstance(meaning, (*FUNCTIONS, ast.ClassDef)):
            because = self._why_hidden(meaning)
            if because is not None:
                yield Unreachable(given, meaning.name, because)
        elif isinstance(meaning, (ast.List, ast.Tuple)):
            for part in meaning.elts:
                yield from self.unreachable(part)
        elif isinstance(meaning, ast.Dict):
            for value in meaning.values:
                yield from self.unreachable(value)
        elif isinstance(meaning, ast.Call):
            self.seen.add(meaning)
            yield from self._in_call(meaning, given)

    def _why_hidden(self, definition: ast.AST) -> str | None:
        scope = self.scopes.enclosing(definition)
        if isinstance(scope, CALLABLES):
            return f"it stands inside {getattr(scope, 'name', 'a lambda')}"
        return "it stands under the main guard" if definition in self.guarded else None

    def _in_call(self, call: ast.Call, given: ast.expr) -> Iterator[Unreachable]:
        """
        Look into an object that is made, and into what it is made of, where that is kept.
        """
        name = self.scopes.called(call)
        if not (name == "partial" or name[:1].isupper() or isinstance(self.scopes.meaning(call.func), ast.ClassDef)):
            return
        if isinstance(definition := self.scopes.meaning(call.func), ast.ClassDef):
            because = self._why_hidden(definition)
            if because is not None:
                yield Unreachable(given, definition.name, because)
        for value in self._kept(call, name):
            yield from self.unreachable(value)

    def _kept(self, call: ast.Call, name: str) -> Iterator[ast.expr]:
        """
        Yield the arguments that an object keeps, as far as that is certain.
        """
        definition = self.scopes.meaning(call.func)
        if isinstance(definition, ast.ClassDef):
            yield from _stored_arguments(definition, call)
            return
        plain = name in {
            "partial",
            "Compose",
            "Lambda",
            "Subset",
            "ConcatDataset",
            "Sequential",
            "RandomApply",
            "ChainDataset",
        }
        yield from (value for value in call.args if plain or not self._is_function(value))
        for keyword in call.keywords:
            if keyword.arg and (plain or any(part in keyword.arg for part in STORING)) and keyword.arg != "key":
                yield keyword.value

    def _is_function(self, value: ast.expr) -> bool:
        """
        Return whether an argument is a function, of which nobody knows whether a class of elsewhere keeps it.
        """
        return isinstance(self.scopes.meaning(value), (*CALLABLES, ast.ClassDef))


def _stored_arguments(definition: ast.ClassDef, call: ast.Call) -> Iterator[ast.expr]:
    """
    Yield the arguments that a class of this module stores on itself: ``self.transform = transform``.
    """
    start = next((each for each in definition.body if getattr(each, "name", None) == "__init__"), None)
    if not isinstance(start, ast.FunctionDef):
        return
    stored = {
        node.value.id
        for node in ast.walk(start)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name)
        and isinstance(node.targets[0], ast.Attribute)
    }
    for parameter, value in zip(start.args.args[1:], call.args, strict=False):
        if parameter.arg in stored:
            yield value
    yield from (keyword.value for keyword in call.keywords if keyword.arg in stored)


def _guarded_statements(tree: ast.Module) -> set[ast.AST]:
    """
    Return all that stands where an imported copy of the module does not go, outside functions and classes.
    """
    names = main_tests(tree)
    guarded: set[ast.AST] = set()
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop()
        if not isinstance(statement, (*CALLABLES, ast.ClassDef)):
            for block, is_entered in branches(statement, names):
                if is_entered:
                    waiting += block
                else:
                    guarded.update(node for each in block for node in ast.walk(each))
    return guarded


def blocking_copies(loaders: LoaderCalls) -> Iterator[ast.Call]:
    """
    Yield each copy of a pinned batch to a device that waits: ``.to(device)`` without ``non_blocking=True``.
    """
    scopes = loaders.scopes
    for loop in ast.walk(scopes.tree):
        if isinstance(loop, (ast.For, ast.AsyncFor)) and _is_pinned(loaders, loop.iter):
            batch = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            counter = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
            if scopes.called(loop.iter) == "enumerate" and isinstance(counter, ast.Name):
                batch.discard(counter.id)
            for call in (call for each in loop.body for call in _calls(each)):
                if _is_blocking(scopes, call) and _is_of_batch(scopes, call.func, batch, loop):
                    yield call


def _is_pinned(loaders: LoaderCalls, iterable: ast.expr) -> bool:
    """
    Return whether a loop goes over a loader that pins its batches.
    """
    if isinstance(iterable, ast.Call) and iterable.args and loaders.scopes.called(iterable) in {"enumerate", "tqdm"}:
        return _is_pinned(loaders, iterable.args[0])
    made = loaders.scopes.meaning(iterable)
    if not isinstance(made, ast.Call) or made not in loaders.all:
        return False
    pinned = loaders.scopes.meaning(loaders.argument(made, "pin_memory"))
    return isinstance(pinned, ast.Constant) and pinned.value is True


def _is_blocking(scopes: Scopes, call: ast.Call) -> bool:
    """
    Return whether a call copies to an accelerator, certainly without ``non_blocking``.
    """
    method = getattr(call.func, "attr", None)
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    wait = keywords.get("non_blocking")
    if None in keywords or len(call.args) > 1 or (wait is not None and getattr(wait, "value", True) is not False):
        return False
    if method == "cuda":
        return True
    device = call.args[0] if call.args else keywords.get("device")
    return method == "to" and device is not None and _may_be_accelerator(scopes, device)


def names_cuda(scopes: Scopes, device: ast.expr) -> bool:
    """
    Return whether an argument of ``.to`` names a CUDA device, or chooses one if there is one.
    """
    meaning = scopes.meaning(device)
    if isinstance(meaning, (ast.Constant, ast.JoinedStr, ast.IfExp)):
        return any(isinstance(node, ast.Constant) and str(node.value).startswith("cuda") for node in ast.walk(meaning))
    return scopes.called(meaning) == "device" and any(names_cuda(scopes, each) for each in getattr(meaning, "args", []))


def _may_be_accelerator(scopes: Scopes, device: ast.expr) -> bool:
    """
    Return whether an argument of ``.to`` is a device by its name, and not certainly the CPU.
    """
    meaning = scopes.meaning(device)
    if isinstance(meaning, ast.Call) and scopes.called(meaning) == "device":
        return any(_may_be_accelerator(scopes, each) for each in meaning.args)
    if isinstance(meaning, (ast.Constant, ast.JoinedStr, ast.IfExp)):
        return names_cuda(scopes, meaning)
    return scopes.dotted(device).rpartition(".")[2] in {"device", "dev", "gpu", "local_rank", "rank"}


def _is_of_batch(scopes: Scopes, value: ast.expr, batch: set[str], loop: ast.AST) -> bool:
    """
    Return whether a tensor is a part of the batch as it came: ``images``, ``batch["image"]``, a value of its items.
    """
    while isinstance(value, (ast.Subscript, ast.Attribute)):
        value = value.value
    if not isinstance(value, ast.Name):
        return False
    if value.id in batch:
        return not _is_rebound_before(scopes, value, loop)
    for outer in scopes.ancestors(value):
        if outer is loop:
            return False
        for generator in getattr(outer, "generators", []):
            source = generator.iter.func if isinstance(generator.iter, ast.Call) else generator.iter
            if _mentions(generator.target, value.id):
                return any(_mentions(source, name) for name in batch)
    return False


def _is_rebound_before(scopes: Scopes, name: ast.Name, loop: ast.AST) -> bool:
    """
    Return whether an earlier statement of the loop's body gives a name something else, which need not be pinned.
    """
    return any(
        _is_name(node, name.id)
        and isinstance(getattr(node, "ctx", None), ast.Store)
        and _end(scopes, node) < name.lineno
        for statement in getattr(loop, "body", [])
        for node in ast.walk(statement)
    )


def _end(scopes: Scopes, node: ast.AST) -> int:
    """
    Return the last line of the statement that a node stands in.
    """
    statement = next((each for each in scopes.ancestors(node) if isinstance(each, ast.stmt)), node)
    return getattr(statement, "end_lineno", 0)
