"""
Sees in one real child whether a worker could load the dataset and what goes with it.
"""

import functools
import itertools
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import wait
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from .child import answer
from .interrupts import held
from .method import prepare
from .pickled import Pickled, show

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE_SECONDS = 120.0
"""
How long a child may take to import what it needs, on a busy machine and from a slow disk.
"""

_MOST_CHILDREN = 1000
_MOST_DEPTH = 12


class ChildStartError(Exception):
    """
    Say that no child could be started.
    """


class Unloadable(NamedTuple):
    """
    What a worker cannot load, and why.
    """

    path: str
    """Where it is: ``dataset.transform.transforms[2]``."""
    reason: str
    fix: str


def find_unloadable(method: str, parts: Mapping[str, Any]) -> Unloadable | None:
    """
    Return what a worker started by *method* could not load, ``None`` where it could load all of it.

    Each part is pickled as multiprocessing would, and loaded in a child that is started by the same method. What
    consists of classes and functions that were seen to load before in this process is not tried again, and neither is
    the very same that failed the last time.

    Args:
        method: ``spawn`` or ``forkserver``.
        parts: What a worker gets, by the names that the user knows it by.

    Raises:
        ChildStartError: No child can be started.
    """
    pickled = {}
    for name, part in parts.items():
        pickled[name] = Pickled(part)
        if pickled[name].problem:
            return _locate(name, part, pickled[name].problem, lambda value: Pickled(value).problem)
    here = _here(method)
    keys = {name: (*here, each.names) for name, each in pickled.items()}
    unknown = [name for name in parts if keys[name] not in _known_to_load]
    if not unknown:
        return None
    same = tuple((name, keys[name], hash(pickled[name].to_send())) for name in unknown)
    if here in _known_to_end:
        raise ChildStartError(_known_to_end[here])
    if same not in _known_to_fail:
        found = _ask_child(method, {name: (parts[name], pickled[name]) for name in unknown})
        if found is None:
            _known_to_load.update(keys[name] for name in unknown)
            return None
        _known_to_fail.clear()
        _known_to_fail[same] = found
    return _known_to_fail[same]


def copied_bytes(parts: Mapping[str, Any]) -> int:
    """
    Return how much each worker would get a copy of: all that is pickled, but for tensors, whose memory torch shares.
    """
    return sum(Pickled(part).copied_bytes for part in parts.values())


_known_to_load: set[Any] = set()
_known_to_fail: dict[Any, Unloadable] = {}
"""
The last failure: workers that cannot start are tried in each epoch, and each child costs seconds.
"""
_known_to_end: dict[Any, str] = {}
"""
Why a child cannot even import the main module, which it would say in each epoch, too.
"""


def _here(method: str) -> tuple[Any, ...]:
    """
    Return what a child of this process would be: IPython's ``%run`` and runpy take another main module in turn.
    """
    main = sys.modules.get("__main__")
    return method, os.getpid(), id(main), getattr(main, "__file__", None)


def _ask_child(method: str, parts: Mapping[str, tuple[Any, Pickled]]) -> Unloadable | None:
    with _Child(method) as child:
        for name, (part, pickled) in parts.items():
            problem = child.problem_of(pickled)
            if problem and pickled.has_stand_ins:  # what is made of them may need their contents
                problem = child.problem_of(Pickled(part, with_contents=True))
            if problem:
                return _locate(name, part, problem, lambda value: child.problem_of(Pickled(value, with_contents=True)))
    return None


class _Child:
    """
    A child that loads what it is sent, and ends with the block.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._process: Any = None
        self._is_stuck = False
        self._exit_code = 0

    def __enter__(self) -> "Self":
        self._start()
        return self

    def _start(self) -> None:
        context = multiprocessing.get_context(self._method)
        try:
            prepare(self._method)
            self._connection, other = context.Pipe()
            self._process = context.Process(target=answer, args=(other,), daemon=True)  # type: ignore[attr-defined]
            with held(self._method):
                self._process.start()
        except Exception as error:
            raise ChildStartError(show(error)) from error
        other.close()
        problem = self._receive()
        if problem:
            self._end()
            if self._is_stuck or 0 < self._exit_code < 255:  # no signal, nor a fork server that is gone
                _known_to_end[_here(self._method)] = problem
            raise ChildStartError(problem)

    def problem_of(self, pickled: Pickled) -> str:
        """
        Return why the child cannot load a pickle, nothing where it can, or took too long to load an earlier one.

        A child that died of an earlier pickle is replaced.
        """
        if pickled.problem or self._is_stuck:
            return pickled.problem
        if self._process is None:
            self._start()
        try:
            self._connection.send_bytes(pickled.to_send())
        except OSError:
            return self._death()
        return self._receive()

    def _receive(self) -> str:
        try:
            # On Windows a child that dies before it takes its end of the pipe leaves that open here: no end is seen.
            ready = wait([self._connection, self._process.sentinel], PATIENCE_SECONDS)
            if self._connection.poll():
                return str(self._connection.recv())
        except (EOFError, OSError):
            return self._death()
        if ready:
            return self._death()
        self._is_stuck = True
        return f"it took longer than {PATIENCE_SECONDS:.0f} seconds"

    def _death(self) -> str:
        self._process.join(PATIENCE_SECONDS)
        self._exit_code = self._process.exitcode or 0
        self._end()
        return f"the process ended with exit code {self._exit_code}; its error stands above, if it had one"

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process = None


def _locate(path: str, value: Any, problem: str, problem_of: Callable[[Any], str]) -> Unloadable:
    """
    Return the innermost part of *value* that has a problem of its own.
    """
    for _ in range(_MOST_DEPTH):
        found = ((step, part, problem_of(part)) for step, part in _parts_of(value))
        step, value, problem = next((each for each in found if each[2]), ("", value, problem))
        if not step:
            break
        path += step
    return Unloadable(path, *_describe(value, problem))


def _parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """
    Yield what a worker would get of an object, with the text that leads there.
    """
    kind = type(value)
    if kind is functools.partial:
        yield ".func", value.func
        yield from ((f".args[{number}]", each) for number, each in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", each) for name, each in value.keywords.items())
    elif kind is MethodType:
        yield ".__self__", value.__self__
    elif issubclass(kind, (list, tuple)):
        yield from ((f"[{number}]", each) for number, each in enumerate(itertools.islice(value, _MOST_CHILDREN)))
    elif issubclass(kind, dict):
        yield from ((f"[{name!r}]", each) for name, each in itertools.islice(value.items(), _MOST_CHILDREN))
    elif not issubclass(kind, (type, FunctionType, ModuleType)):
        state = _state_of(value)
        yield from ((f".{name}", each) for name, each in itertools.islice(state.items(), _MOST_CHILDREN))


def _state_of(value: Any) -> dict[str, Any]:
    """
    Return the attributes that are pickled of an object: what its own ``__getstate__`` leaves out is not among them.
    """
    if not hasattr(value, "__dict__") and not hasattr(type(value), "__slots__"):
        return {}
    try:
        reduced = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 (it runs code of the user's, and the error is known)
        return {}
    state = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
    both = state if isinstance(state, tuple) and len(state) == 2 else (state,)  # __dict__ and __slots__
    return {str(name): part for each in both if isinstance(each, dict) for name, part in each.items()}


def _describe(value: Any, problem: str) -> tuple[str, str]:
    """
    Return what is wrong with a value that cannot be loaded, and what to do.
    """
    is_code = isinstance(value, (FunctionType, type))
    named: Any = value if is_code else type(value)
    name, module = getattr(named, "__qualname__", "?"), getattr(named, "__module__", "?")
    subject = "it is" if is_code else "it is of"
    if name.endswith("<lambda>"):
        return "it is a lambda", "Make it a function at the top level of a module"
    what = "class" if isinstance(named, type) else "function"
    if "<locals>" in name:
        text = f"{subject} the {what} {name.rpartition('.')[2]}, which is defined inside a function"
        return text, f"Define {name.rpartition('.')[2]} at the top level of a module"
    if module in {"__main__", "__mp_main__"} and name.partition(".")[0] in problem:
        text = f"{subject} the {what} {name}, which a worker does not find in the main module"
        return text, f"Move {name} into a .py file and import it from there"
    text = f"it is {module}.{name}" if is_code else f"it is of type {module}.{name}"
    return f"{text} ({problem})", "Make it when it is first needed, in __getitem__ for instance"
