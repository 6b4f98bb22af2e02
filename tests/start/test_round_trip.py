"""
What a child cannot load: where it is, why, and that looking for it leaves no trace.
"""

import functools
import importlib.util
import multiprocessing
import os
import pickle
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoloader.start import round_trip
from autoloader.start.round_trip import ChildStartError, find_unloadable
from start import parts
from start.parts import Compose, Holder, WithoutLock
from start.running import run, write

METHOD = "spawn" if sys.platform == "win32" else "forkserver"

LATER = "Make it when it is first needed, in __getitem__ for instance"
A_LAMBDA = ("it is a lambda", "Make it a function at the top level of a module")


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """
    Begin without memory of earlier tests, and fail a test that leaves a child behind.
    """
    monkeypatch.setattr(round_trip, "_known_to_load", set())
    monkeypatch.setattr(round_trip, "_known_to_fail", {})
    monkeypatch.setattr(round_trip, "_known_to_end", {})
    yield
    assert multiprocessing.active_children() == []


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """
    Return a list that gets the start method of each child.
    """
    started: list[str] = []
    start = round_trip._Child._start

    def note(child: Any) -> None:
        started.append(child._method)
        start(child)

    monkeypatch.setattr(round_trip._Child, "_start", note)
    return started


def find(value: Any) -> tuple[str, str, str] | None:
    """
    Return what cannot be loaded of a dataset: path, reason and fix.
    """
    return find_unloadable(METHOD, {"dataset": value, "collate_fn": None})


def error_of(value: object) -> str:
    """
    Return Python's own words for why it does not pickle something; they differ between versions.
    """
    with pytest.raises((TypeError, pickle.PicklingError)) as raised:
        pickle.dumps(value)
    return f"{type(raised.value).__name__}: {raised.value}"


def top_level(sample: Any) -> Any:
    """
    Be a transform that any process can import.
    """
    return sample


def local_function() -> Any:
    """
    Return a function that only this process has.
    """

    def crop(sample: Any) -> Any:
        return sample

    return crop


def local_class() -> Any:
    """
    Return a class that only this process has.
    """

    class Crop:
        pass

    return Crop


A_LOCAL_FUNCTION = (
    "it is the function crop, which is defined inside a function",
    "Define crop at the top level of a module",
)
OF_A_LOCAL_CLASS = (
    "it is of the class Crop, which is defined inside a function",
    "Define Crop at the top level of a module",
)
A_LOCAL_CLASS = (OF_A_LOCAL_CLASS[0].replace("it is of", "it is"), OF_A_LOCAL_CLASS[1])

UNPICKLED = [
    pytest.param(lambda: lambda sample: sample, "", *A_LAMBDA, id="lambda"),
    pytest.param(lambda: Holder(transform=lambda sample: sample), ".transform", *A_LAMBDA, id="attribute"),
    pytest.param(
        lambda: Holder(transform=Compose([top_level, print, lambda sample: sample])),
        ".transform.transforms[2]",
        *A_LAMBDA,
        id="composed",
    ),
    pytest.param(
        lambda: Holder(by_name={"crop": (top_level, [lambda sample: sample])}),
        ".by_name['crop'][1][0]",
        *A_LAMBDA,
        id="nested",
    ),
    pytest.param(
        lambda: Holder(transform=functools.partial(lambda size, sample: sample, 3)),
        ".transform.func",
        *A_LAMBDA,
        id="partial",
    ),
    pytest.param(
        lambda: Holder(transform=functools.partial(top_level, how=lambda: 0)),
        ".transform.keywords['how']",
        *A_LAMBDA,
        id="partial-keyword",
    ),
    pytest.param(
        lambda: Holder(transform=Holder(inner=lambda: 0).method),
        ".transform.__self__.inner",
        *A_LAMBDA,
        id="bound-method",
    ),
    pytest.param(lambda: Holder(a=parts.Slotted(lambda: 0)), ".a.inner", *A_LAMBDA, id="slot"),
    pytest.param(lambda: WithoutLock(a=1, b=lambda: 0), ".b", *A_LAMBDA, id="left-out-attribute"),
    pytest.param(lambda: Holder(a=local_function()), ".a", *A_LOCAL_FUNCTION, id="local-function"),
    pytest.param(lambda: Holder(a=local_class()), ".a", *A_LOCAL_CLASS, id="local-class"),
    pytest.param(lambda: [local_class()()], "[0]", *OF_A_LOCAL_CLASS, id="of-local-class"),
    pytest.param(
        lambda: Holder(a=1, b=parts.NoState()),
        ".b",
        "it is of type start.parts.NoState (ValueError: no state today)",
        LATER,
        id="getstate",
    ),
    pytest.param(
        lambda: Holder(a=1, b=parts.NoReduce()),
        ".b",
        "it is of type start.parts.NoReduce (LookupError: no way back)",
        LATER,
        id="reduce",
    ),
]


@pytest.mark.parametrize(("make", "path", "reason", "fix"), UNPICKLED)
def test_what_cannot_be_pickled_is_named_without_a_child(
    make: Any, path: str, reason: str, fix: str, children: list[str]
) -> None:
    """
    The path leads to the innermost thing at fault, and no process is started to see it.
    """
    assert find(make()) == (f"dataset{path}", reason, fix)
    assert children == []


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(threading.Lock, "_thread.lock", id="lock"),
        pytest.param(lambda: (i for i in ()), "builtins.generator", id="generator"),
        pytest.param(lambda: open(os.devnull), "_io.TextIOWrapper", id="open-file"),  # noqa: SIM115 (closed below)
        pytest.param(lambda: parts, "builtins.module", id="module"),
    ],
)
def test_python_objects_that_no_process_can_be_sent(make: Any, kind: str) -> None:
    """
    Python's own reason is quoted.
    """
    value = make()
    expected = ("dataset.held[1]", f"it is of type {kind} ({error_of(value)})", LATER)
    assert find(Holder(first=1, held=[0, value])) == expected
    getattr(value, "close", lambda: None)()


IN_CHILD = [
    pytest.param(
        parts.FailsInChild, "it is of type start.parts.FailsInChild (RuntimeError: not in this process)", id="reduce"
    ),
    pytest.param(parts.RefusesState, "it is of type start.parts.RefusesState (OSError: no such device)", id="setstate"),
    pytest.param(
        parts.EndsChild,
        "it is of type start.parts.EndsChild "
        "(the process ended with exit code 7; its error stands above, if it had one)",
        id="dies",
    ),
]


@pytest.mark.parametrize(("make", "reason"), IN_CHILD)
def test_what_fails_only_where_it_is_loaded_is_found_by_the_child(make: Any, reason: str, children: list[str]) -> None:
    """
    What stands before it is innocent, also when the child dies of it: then another one is asked.
    """
    dataset = Holder(size=3, names=["a"], transform=Compose([top_level, make(), top_level]))
    assert find(dataset) == ("dataset.transform.transforms[1]", reason, LATER)
    assert children[0] == METHOD
    count = len(children)
    assert find(dataset) == ("dataset.transform.transforms[1]", reason, LATER)
    assert len(children) == count
    assert find(Holder(size=3)) is None


@pytest.mark.slow_spawn
def test_child_that_takes_too_long_is_ended_and_not_asked_again(
    children: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Nobody waits twice: the whole dataset is named, and the answer is remembered.
    """
    assert find(Holder()) is None  # the fork server runs, with all it loads
    monkeypatch.setattr(round_trip, "PATIENCE_SECONDS", 5.0)
    dataset = Holder(size=3, slow=parts.KeepsChildWaiting())
    expected = ("dataset", "it is of type start.parts.Holder (it took longer than 5 seconds)", LATER)
    assert find(dataset) == expected
    assert find(dataset) == expected
    assert len(children) == 2


@pytest.mark.slow_spawn
def test_what_was_seen_to_load_is_not_tried_again(children: list[str]) -> None:
    """
    Classes and functions are what counts, not what the attributes hold; a new class is a new question.
    """
    assert find(Holder(size=3)) is None
    assert find(Holder(size=4, names=["a", "b"])) is None
    assert len(children) == 1
    assert find(Holder(transform=Compose([top_level]))) is None
    assert find(Holder(transform=Compose([top_level, top_level]))) is None
    assert len(children) == 2
    assert find(Holder(transform=Compose([top_level, parts.FailsInChild()]))) is not None
    assert len(children) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_forked_process_asks_for_itself(children: list[str]) -> None:
    """
    What a parent saw is no answer for its child, which has children of its own.
    """
    assert find_unloadable("spawn", {"dataset": Holder()}) is None

    def ask() -> None:
        children.clear()
        sys.exit(0 if (find_unloadable("spawn", {"dataset": Holder()}), children) == (None, ["spawn"]) else 1)

    process = multiprocessing.get_context("fork").Process(target=ask)
    process.start()
    process.join(120)
    assert process.exitcode == 0


def test_parts_of_a_worker_are_named_as_the_user_knows_them() -> None:
    """
    The collate function is as good a place for a lambda as the dataset.
    """
    found = find_unloadable(METHOD, {"dataset": Holder(), "collate_fn": lambda samples: samples})
    assert found == ("collate_fn", *A_LAMBDA)


def test_module_found_on_a_path_that_was_added_at_run_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Multiprocessing sends sys.path; once the file is gone, only this process has the class.
    """
    write(tmp_path, {"added_late.py": "class Dataset:\n    pass\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("added_late")
    assert find(Holder(inner=module.Dataset())) is None
    monkeypatch.undo()
    monkeypatch.setattr(round_trip, "_known_to_load", set())
    expected = "it is of type added_late.Dataset (ModuleNotFoundError: No module named 'added_late')"
    assert find(Holder(size=1, inner=module.Dataset())) == ("dataset.inner", expected, LATER)
    del sys.modules["added_late"]


def test_function_of_a_module_that_was_made_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It can be pickled here, by its name, and found nowhere else.
    """
    module = types.ModuleType("made_by_hand")
    exec("def crop(sample):\n    return sample\n", vars(module))
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    expected = "it is made_by_hand.crop (ModuleNotFoundError: No module named 'made_by_hand')"
    assert find(Holder(transform=module.crop)) == ("dataset.transform", expected, LATER)


@pytest.mark.slow_spawn
def test_large_data_is_not_sent_but_its_classes_are_looked_up(children: list[str]) -> None:
    """
    Beyond 64 MiB the child gets names only, and still sees a class that it cannot import.
    """
    block = 1 << 20
    dataset = Holder(blobs=[bytes([number]) * block for number in range(65)])
    pickled = round_trip.Pickled(dataset)
    assert (pickled.data, pickled.names) == (None, {("start.parts", "Holder")})
    assert len(pickled.to_send()) < 1000
    assert find(dataset) is None
    module = types.ModuleType("made_by_hand")
    dataset.transform = type("Crop", (), {"__module__": "made_by_hand"})
    module.Crop = dataset.transform
    sys.modules["made_by_hand"] = module
    try:
        found = find(dataset)
    finally:
        del sys.modules["made_by_hand"]
    expected = "it is made_by_hand.Crop (ModuleNotFoundError: No module named 'made_by_hand')"
    assert found == ("dataset.transform", expected, LATER)


def test_locks_and_queues_of_multiprocessing_reach_a_worker() -> None:
    """
    They can be pickled only for a process that starts, which the child is no more: their classes are looked up.
    """
    context = multiprocessing.get_context(METHOD)
    queue, lock, number = context.Queue(), context.Lock(), context.Value("i")
    assert find(Holder(queue=queue, lock=lock, number=number)) is None
    queue.close()


def test_child_that_cannot_start_is_no_fault_of_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The error says so, whether the system refuses or what comes before the start.
    """

    def refuse(method: str) -> None:
        raise BlockingIOError(11, "no more processes")

    monkeypatch.setattr(round_trip, "prepare", refuse)
    with pytest.raises(ChildStartError) as raised:
        find(Holder())
    assert str(raised.value) == "BlockingIOError: [Errno 11] no more processes"


def test_end_of_a_child_is_seen_though_its_end_of_the_pipe_stays_open() -> None:
    """
    Windows keeps it open in this process where a child dies too early to take it.
    """
    context = multiprocessing.get_context(METHOD)
    child = round_trip._Child(METHOD)
    child._connection, kept = context.Pipe()
    child._process = context.Process(target=os._exit, args=(3,))
    child._process.start()
    assert child._receive() == "the process ended with exit code 3; its error stands above, if it had one"
    kept.close()


IN_MAIN = """
from autoloader.start.round_trip import ChildStartError, find_unloadable

class Findable:
    pass

if __name__ == "__main__":
    class InGuard:
        pass

    print(find_unloadable("spawn", {"dataset": Findable()}))
    print(find_unloadable("spawn", {"dataset": [Findable(), InGuard()]}))
    print(find_unloadable("spawn", {"dataset": Findable(), "collate_fn": InGuard}))
else:
    import os
    if os.environ.get("FAIL"):
        raise SystemExit(4)
"""


def test_class_that_stands_in_the_guard_is_not_found(tmp_path: Path) -> None:
    """
    A worker imports the script without it.
    """
    write(tmp_path, {"job.py": IN_MAIN})
    ran = run(tmp_path, "job.py")
    assert (ran.code, ran.errors) == (0, "")
    unknown = "the class InGuard, which a worker does not find in the main module"
    fix = "fix='Move InGuard into a .py file and import it from there')"
    assert ran.lines == [
        "None",
        f"Unloadable(path='dataset[1]', reason='it is of {unknown}', {fix}",
        f"Unloadable(path='collate_fn', reason='it is {unknown}', {fix}",
    ]
    assert len(ran.children) == 3


def test_script_that_cannot_be_imported_again_is_no_fault_of_the_dataset(tmp_path: Path) -> None:
    """
    It raises in the child: the child's end is the reason, not an attribute, and nobody waits for an answer.
    """
    write(tmp_path, {"job.py": IN_MAIN})
    ran = run(tmp_path, "job.py", FAIL="yes")
    assert ran.code == 1
    assert ran.errors.splitlines()[-1] == (
        "autoloader.start.round_trip.ChildStartError: the process ended with exit code 4; "
        "its error stands above, if it had one"
    )


def test_class_of_a_main_module_without_file_is_not_found(tmp_path: Path) -> None:
    """
    What is typed on the command line is nowhere else.
    """
    typed = (
        "from autoloader.start.round_trip import find_unloadable\n"
        "class Typed: pass\n"
        "print(find_unloadable('spawn', {'dataset': Typed()}))\n"
    )
    ran = run(tmp_path, "-c", typed)
    assert (ran.code, ran.errors) == (0, "")
    reason = "it is of the class Typed, which a worker does not find in the main module"
    fix = "Move Typed into a .py file and import it from there"
    assert ran.lines == [f"Unloadable(path='dataset', reason='{reason}', fix='{fix}')"]
