"""
The identity of a dataset: the same in each run for what loads alike, another one for what does not.
"""

import functools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoloader.profiling import identify
from live.running import SOURCE


class Data:
    """
    A dataset with something to set.
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getitem__(self, index: int) -> int:
        return index * 2


class Other(Data):
    """
    Another one, which does the same.
    """


def doubled(value: int) -> int:
    """
    Return twice a number.
    """
    return value * 2


def tripled(value: int) -> int:
    """
    Return three times a number.
    """
    return value * 3


SAME = [
    pytest.param(lambda: Data(size=3, names=["a", "b"]), id="attributes"),
    pytest.param(lambda: Data(array=np.random.rand(3, 4)), id="contents-of-an-array"),
    pytest.param(lambda: Data(rng=random.Random(random.random())), id="state-of-a-generator"),
    pytest.param(lambda: Data(thing=object()), id="address-of-an-object"),
    pytest.param(lambda: Data(names={"b", "a", "c"}), id="order-of-a-set"),
    pytest.param(lambda: Data(transform=functools.partial(doubled, 3)), id="partial"),
    pytest.param(lambda: Data(paths=[Path("a"), Path("b")]), id="paths"),
]


@pytest.mark.parametrize("make", SAME)
def test_identity_is_the_same_for_what_loads_alike(make: Any) -> None:
    """
    Two that were made alike are alike.
    """
    assert identify(make()) == identify(make())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Data(size=3), Data(size=4), id="number"),
        pytest.param(Data(size=3), Data(size=3.0), id="type-of-a-number"),
        pytest.param(Data(name="a"), Data(name="b"), id="text"),
        pytest.param(Data(size=3), Data(length=3), id="name-of-an-attribute"),
        pytest.param(Data(), Other(), id="class"),
        pytest.param(Data(array=np.zeros((3, 4))), Data(array=np.zeros((4, 3))), id="shape"),
        pytest.param(Data(array=np.zeros(3)), Data(array=np.zeros(3, np.float32)), id="type-of-an-array"),
        pytest.param(Data(items=list(range(100))), Data(items=list(range(101))), id="length"),
        pytest.param(Data(items=["a"] * 100), Data(items=["a"] * 99 + ["b"]), id="last-element"),
        pytest.param(Data(items={"a": 1}), Data(items={"a": 2}), id="dictionary"),
        pytest.param(Data(transform=doubled), Data(transform=tripled), id="function"),
        pytest.param(Data(transform=lambda x: x + 1), Data(transform=lambda x: x + 2), id="code-of-a-lambda"),
        pytest.param(Data(transform=[doubled, tripled]), Data(transform=[tripled, doubled]), id="order-of-transforms"),
        pytest.param(Data(dataset=Data(size=1)), Data(dataset=Data(size=2)), id="wrapped"),
        pytest.param(functools.partial(doubled, 1), functools.partial(doubled, 2), id="argument-of-a-partial"),
        pytest.param(Data(size=3).__getitem__, Data(size=4).__getitem__, id="object-of-a-method"),
        pytest.param(range(3), range(4), id="range"),
        pytest.param("a" * 5000 + "x", "a" * 5001 + "x", id="length-of-a-long-text"),
    ],
)
def test_identity_differs_for_what_loads_otherwise(first: Any, second: Any) -> None:
    """
    A setting, a transform, a length, a shape, some code.
    """
    assert identify(first) != identify(second)


def test_identity_depends_on_the_collate_function() -> None:
    """
    All that is given counts, in its order.
    """
    assert len({identify(Data()), identify(Data(), doubled), identify(Data(), tripled), identify(doubled, Data())}) == 4


SCRIPT = """
from autoloader.profiling import identify

class Data:
    pass

if __name__ == "__main__":
    print(identify(Data()))
"""


def test_identity_is_the_same_for_a_script_and_who_imports_it(tmp_path: Path) -> None:
    """
    So a calibration from the command line is found by the training.
    """
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    imports = ["-c", "import train; print(train.identify(train.Data()))"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}

    def printed(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    assert printed("train.py") == printed("-m", "train") == printed(*imports) != ""


def test_identity_of_code_does_not_depend_on_where_it_stands() -> None:
    """
    A line more above a class is no other class.
    """
    made = []
    for lines in ("", "\n\n\n"):
        names: dict[str, Any] = {"__name__": "m"}
        exec(f"{lines}class D:\n    def __getitem__(self, i):\n        return i + 1", names)
        made.append(identify(names["D"]()))
    assert made[0] == made[1]


def test_identity_ends_for_cycles_and_for_what_is_large() -> None:
    """
    Nothing is visited twice, and no more than some thousand objects are.
    """
    loop = Data()
    loop.me = [loop, {"me": loop}]
    assert identify(loop) == identify(loop)
    deep: Any = 0
    for _ in range(10_000):
        deep = [deep]
    identify(deep)
    identify([[object() for _ in range(16)] for _ in range(16)] * 1000)


class Broken:
    """
    Raises whatever is asked of it.
    """

    def __len__(self) -> int:
        raise OSError("no")

    def __getattr__(self, name: str) -> Any:
        raise OSError("no")

    def __repr__(self) -> str:
        raise OSError("no")


def test_identity_of_what_raises_is_its_class() -> None:
    """
    It is no reason to fail.
    """
    assert identify(Broken()) == identify(Broken())
    identify({1: Broken(), 2: {Broken()}})


def test_identity_is_the_same_in_another_process() -> None:
    """
    Python hashes text in another way in each.
    """
    code = (
        "from profiling.test_identity import *; "
        "print(identify(Data(size=3, names={'a', 'b', 'c'}, t=doubled, n={'x': [1.5]}, p=Path('a')), doubled))"
    )
    tests = str(Path(__file__).parent.parent)
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([tests, *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
