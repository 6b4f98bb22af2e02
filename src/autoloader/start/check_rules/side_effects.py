"""
What a script does outside its main guard, and each worker with it, that costs or destroys something.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..source import branches, is_cut_short, main_tests, truth
from .misuse import names_cuda
from .scopes import Scopes

EFFECTS = {
    "wandb.init": "starts a run of its own",
    "mlflow.start_run": "starts a run of its own",
    "neptune.init_run": "starts a run of its own",
    "comet_ml.Experiment": "starts a run of its own",
    "clearml.Task.init": "starts a run of its own",
    "torch.distributed.init_process_group": "waits for a process group that is complete already",
    "deepspeed.init_distributed": "waits for a process group that is complete already",
    "shutil.rmtree": "deletes files",
    "os.remove": "deletes files",
    "os.unlink": "deletes files",
    "os.rmdir": "deletes files",
    "torch.save": "writes the file again",
    "input": "asks for input that a worker does not get",
    "urllib.request.urlretrieve": "downloads",
    "gdown.download": "downloads",
    "huggingface_hub.snapshot_download": "downloads",
    "huggingface_hub.hf_hub_download": "looks for a download",
    "torch.hub.download_url_to_file": "downloads",
}
"""
What calls do, by their full name.
"""


class SideEffect(NamedTuple):
    """
    One statement that each worker would repeat.
    """

    node: ast.Call | ast.For | ast.While
    """The call, or the loop."""
    effect: str
    """What it does in a worker, as a verb with its object."""


def side_effects(scopes: Scopes) -> Iterator[SideEffect]:
    """
    Yield what each worker of a script would repeat, and should not; nothing for a module without a main guard.
    """
    names = main_tests(scopes.tree)
    if _has_guard(scopes.tree, names):
        for statement in _own_statements(scopes.tree.body, names):
            yield from _of_statement(scopes, statement, names)


def _has_guard(tree: ast.Module, names: dict[str, object]) -> bool:
    return any(
        isinstance(statement, ast.If)
        and truth(statement.test, names) is False
        and any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))
        for statement in tree.body
    )


def _own_statements(block: Sequence[ast.stmt], names: dict[str, object]) -> Iterator[ast.stmt]:
    """
    Yield the statements of the module that an imported copy runs, those inside ``if``, ``with`` and ``try`` as well.
    """
    for statement in block:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield statement
        if not isinstance(statement, (ast.For, ast.While)):
            for inner, is_entered in branches(statement, names):
                if is_entered:
                    yield from _own_statements(inner, names)


def _of_statement(scopes: Scopes, statement: ast.stmt, names: dict[str, object]) -> Iterator[SideEffect]:
    if isinstance(statement, (ast.For, ast.While)):
        if any(isinstance(node, ast.Call) and scopes.called(node) == "backward" for node in ast.walk(statement)):
            yield SideEffect(statement, "trains")
        return
    for expression in ast.iter_child_nodes(statement):
        if isinstance(expression, ast.withitem):
            expression = expression.context_expr  # noqa: PLW2901
        if isinstance(expression, ast.expr) and not is_cut_short(expression, names):
            for call in _evaluated_calls(expression):
                effect = _effect(scopes, call)
                if effect is not None:
                    yield SideEffect(call, effect)


def _evaluated_calls(expression: ast.expr) -> Iterator[ast.Call]:
    """
    Yield the calls of an expression, but for those in a lambda, which is not called here.
    """
    waiting: list[ast.AST] = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _effect(scopes: Scopes, call: ast.Call) -> str | None:
    """
    Return what a call does in each worker that is worth a finding.
    """
    name = scopes.dotted(call.func)
    if isinstance(call.func, ast.Name) and scopes.bindings(call.func) and name == call.func.id:
        return None  # a function of the module's own
    if name.rpartition(".")[2] == "set_start_method":
        return _effect_of_start_method(scopes, call)
    if name == "open":
        return "empties the file" if _opens_to_write(call) else None
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"cuda", "to"} and not name.startswith("torch.cuda"):
        given = [*call.args, *(each.value for each in call.keywords if each.arg == "device")]
        if call.func.attr == "cuda" or any(names_cuda(scopes, each) for each in given):
            return "takes GPU memory"
    return EFFECTS.get(name)


def _effect_of_start_method(scopes: Scopes, call: ast.Call) -> str | None:
    """
    Return what a second ``set_start_method`` does: a worker has a method before it imports the script.

    Not with ``force=True``, and not where the script asks or catches (CPython: multiprocessing/spawn.py, prepare).
    """
    is_forced = any(keyword.arg in {"force", None} for keyword in call.keywords) or len(call.args) > 1
    if is_forced or any(isinstance(outer, (ast.If, ast.Try, ast.With)) for outer in scopes.ancestors(call)):
        return None
    return "raises RuntimeError"


def _opens_to_write(call: ast.Call) -> bool:
    mode = (
        call.args[1] if len(call.args) > 1 else next((each.value for each in call.keywords if each.arg == "mode"), None)
    )
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and mode.value[:1] in {"w", "x"}
