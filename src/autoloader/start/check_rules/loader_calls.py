"""
Calls in source that make a loader: torch's, ours and classes derived from them.
"""

import ast
from collections.abc import Iterator

from .scopes import FUNCTIONS, Function, Scopes, dict_item

POSITIONS = (
    *("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory"),
    *("drop_last", "timeout", "worker_init_fn", "multiprocessing_context"),
)
"""
The arguments of torch's DataLoader, in its order (torch.utils.data.DataLoader.__init__).
"""

OTHERS = ("paddle", "mxnet", "mindspore", "jittor", "tensorflow")
"""
Packages with a DataLoader that is not torch's.
"""

NEEDS_WORKERS = {"prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context", "plan"}
"""
Arguments with which auto_loader starts workers, or may, for data that lies in memory.
"""


class LoaderCalls:
    """
    The calls of one module that make loaders.
    """

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.all = [
            node for node in ast.walk(scopes.tree) if isinstance(node, ast.Call) and self._kind(node) is not None
        ]
        self.with_workers = {call for call in self.all if self._starts_workers(call)}
        """Those that may start workers."""
        self.reimporting = {call for call in self.with_workers if not self._is_forked(call)}
        """Those whose workers may import the module again."""

    def _kind(self, call: ast.Call) -> str | None:
        """
        Return "torch" or "ours" for a call that makes a loader.
        """
        made = self.scopes.meaning(call.func)
        if isinstance(made, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return None
        if isinstance(made, ast.ClassDef):
            return "torch" if any(self._is_torch(self.scopes.dotted(base)) for base in made.bases) else None
        name = self.scopes.dotted(call.func)
        if name.startswith("autoloader.") and name.rpartition(".")[2] in {"auto_loader", "AutoLoader"}:
            return "ours"
        return "torch" if self._is_torch(name) else None

    @staticmethod
    def _is_torch(name: str) -> bool:
        return name.rpartition(".")[2].endswith("DataLoader") and name.partition(".")[0] not in OTHERS

    def argument(self, call: ast.Call, name: str) -> ast.expr | None:
        """
        Return an argument of a loader, given by name, by position or in a dict that is spread; None if it is not.
        """
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
            table = self.scopes.meaning(keyword.value) if keyword.arg is None else None
            if table is not None and (value := dict_item(table, name)) is not None:
                return value
        position = POSITIONS.index(name) if name in POSITIONS else len(call.args)
        if position < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
            return call.args[position]
        return None

    def _starts_workers(self, call: ast.Call) -> bool:
        """
        Return whether the loader may have workers: asked for by the user, or ours to choose.
        """
        workers = self.argument(call, "num_workers")
        if workers is not None:
            return not self._is_none(workers)
        return self._kind(call) == "ours" and not self._lies_in_memory(call)

    def _is_none(self, workers: ast.expr) -> bool:
        """
        Return whether an expression is 0 or None, as a literal or by a name that stands for one.
        """
        value = self.scopes.meaning(workers)
        if isinstance(value, ast.Constant):
            return not value.value
        return isinstance(value, ast.Name) and self._is_parameter_without_workers(value)

    def _is_parameter_without_workers(self, name: ast.Name) -> bool:
        """
        Return whether a name is a parameter that is 0 in each call of this module, given so or by default.
        """
        function = self.scopes.scope_of(name.id, name)
        if not isinstance(function, FUNCTIONS):
            return False
        calls = [node for node in ast.walk(self.scopes.tree) if self.scopes.called(node) == function.name]
        default = dict(_defaults(function)).get(name.id)
        given = [_given(function, name.id, call) or default for call in calls if isinstance(call, ast.Call)] or [
            default
        ]
        return all(isinstance(value, ast.Constant) and not value.value for value in given)

    def _lies_in_memory(self, call: ast.Call) -> bool:
        """
        Return whether auto_loader sees that the samples lie in memory, for which it starts no workers.
        """
        if any(keyword.arg is None or keyword.arg in NEEDS_WORKERS for keyword in call.keywords):
            return False
        dataset = self.scopes.meaning(self.argument(call, "dataset"))
        if isinstance(dataset, (ast.List, ast.ListComp, ast.Tuple)):
            return True
        return self.scopes.called(dataset) in {"TensorDataset", "list", "range"}

    def _is_forked(self, call: ast.Call) -> bool:
        """
        Return whether the loader asks for fork, under which a worker imports nothing again.
        """
        context = self.scopes.meaning(self.argument(call, "multiprocessing_context"))
        if isinstance(context, ast.Call) and self.scopes.called(context) == "get_context" and context.args:
            context = self.scopes.meaning(context.args[0])
        return isinstance(context, ast.Constant) and context.value == "fork"


def _given(function: Function, name: str, call: ast.Call) -> ast.expr | None:
    """
    Return what a call gives to a parameter, None if it gives nothing; a spread that may give it is given itself.
    """
    for keyword in call.keywords:
        if keyword.arg in {name, None}:
            return keyword.value
    names = [each.arg for each in function.args.posonlyargs + function.args.args]
    position = names.index(name) if name in names else len(call.args)
    spread = [each for each in call.args[: position + 1] if isinstance(each, ast.Starred)]
    return spread[0] if spread else next(iter(call.args[position : position + 1]), None)


def _defaults(function: Function) -> Iterator[tuple[str, ast.expr | None]]:
    positional = function.args.posonlyargs + function.args.args
    given = function.args.defaults
    yield from (
        (each.arg, value) for each, value in zip(positional[len(positional) - len(given) :], given, strict=True)
    )
    yield from (
        (each.arg, value) for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    )


def chooses_fork(scopes: Scopes) -> bool:
    """
    Return whether the module sets the start method to fork, for all that it starts.
    """
    for node in ast.walk(scopes.tree):
        if isinstance(node, ast.Call) and scopes.called(node) == "set_start_method" and node.args:
            method = scopes.meaning(node.args[0])
            if isinstance(method, ast.Constant) and method.value == "fork":
                return True
    return False
