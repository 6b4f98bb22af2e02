"""
The datasets of the matrix. Each sample tells its number, and where it was loaded.
"""

import os
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

SAMPLES = 12
DIGITS = 4

GATE = threading.Lock()
"""
What every dataset takes for each sample: the lock that a thread of the training process may hold.
"""

USES_OPENMP = "AUTOLOADER_TEST_OPENMP"
"""
The variable that makes each sample run an operation of torch's that is worth several threads.
"""


def run_openmp() -> None:
    """
    Run an operation of torch's that is worth several threads.
    """
    torch.ones(1 << 20).sum()


class Numbers(Dataset[Any]):
    """
    The numbers from 0 on.
    """

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, Any]:
        with GATE:
            value = self.value(index)
        if os.environ.get(USES_OPENMP):
            run_openmp()
        return {"number": value, "pid": os.getpid(), "thread": threading.get_ident()}

    def value(self, index: int) -> int:
        """
        Return the sample itself.
        """
        return index


class Transformed(Numbers):
    def __init__(self) -> None:
        self.transform = lambda value: value

    def value(self, index: int) -> int:
        return self.transform(index)


class OpenFile(Numbers):
    def __init__(self, folder: Path) -> None:
        path = folder / "numbers.txt"
        path.write_text("".join(f"{number:0{DIGITS}}" for number in range(SAMPLES)))
        self.file = path.open()

    def value(self, index: int) -> int:
        self.file.seek(index * DIGITS)
        return int(self.file.read(DIGITS))


class OpenHdf5(Numbers):
    def __init__(self, folder: Path) -> None:
        import h5py

        with h5py.File(folder / "numbers.h5", "w") as new:
            new["numbers"] = np.arange(SAMPLES)
        self.file = h5py.File(folder / "numbers.h5")

    def value(self, index: int) -> int:
        return int(self.file["numbers"][index])


class OpenLmdb(Numbers):
    def __init__(self, folder: Path) -> None:
        import lmdb

        with lmdb.open(str(folder), map_size=1 << 20) as new, new.begin(write=True) as transaction:
            for number in range(SAMPLES):
                transaction.put(str(number).encode(), str(number).encode())
        self.environment = lmdb.open(str(folder), readonly=True)

    def value(self, index: int) -> int:
        with self.environment.begin() as transaction:
            return int(transaction.get(str(index).encode()))


class OpenSqlite(Numbers):
    def __init__(self, folder: Path) -> None:
        self.connection = sqlite3.connect(folder / "numbers.sqlite")
        self.connection.execute("create table numbers (number integer)")
        self.connection.executemany("insert into numbers values (?)", [(number,) for number in range(SAMPLES)])
        self.connection.commit()

    def value(self, index: int) -> int:
        found = self.connection.execute("select number from numbers order by number limit 1 offset ?", (index,))
        return int(found.fetchone()[0])


class Locked(Numbers):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def value(self, index: int) -> int:
        with self.lock:
            return index


class WithGenerator(Numbers):
    def __init__(self) -> None:
        self.zeros = (0 for _ in iter(int, 1))

    def value(self, index: int) -> int:
        return index + next(self.zeros)


class WithNumpyGenerator(Numbers):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def value(self, index: int) -> int:
        return index + int(self.rng.integers(1))


class WithMetaTensor(Numbers):
    def __init__(self) -> None:
        self.weight = torch.empty(3, device="meta")

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**super().__getitem__(index), "weight": self.weight}


class BigList(Numbers):
    """
    1,350,000 strings of 100 characters, each an object of 149 bytes.
    """

    step = 100_000

    def __init__(self) -> None:
        self.names = [f"{number:0100}" for number in range(1_350_000)]

    def value(self, index: int) -> int:
        return int(self.names[index * self.step]) // self.step


def local_class() -> Numbers:
    """
    Return a dataset of a class that no module has.
    """

    class Local(Numbers):
        pass

    return Local()


GUARDED = "from matrix.kinds import Numbers\n\nclass InGuard(Numbers):\n    pass\n"


def guarded_class() -> Numbers:
    """
    Return a dataset of the class that the script defines under its guard.

    A process that imported the script has no such class, and gets one as the guard would have made it.
    """
    names = vars(sys.modules["__main__"])
    if "InGuard" not in names:
        exec(GUARDED, names)
    return names["InGuard"]()


@contextmanager
def notebook() -> Iterator[Numbers]:
    """
    Let the main module be one without a file, as in a notebook, and yield a dataset of a class that was typed there.
    """
    script, cells = sys.modules["__main__"], ModuleType("__main__")
    exec(GUARDED.replace("InGuard", "InNotebook"), vars(cells))
    sys.modules["__main__"] = cells
    try:
        yield cells.InNotebook()
    finally:
        sys.modules["__main__"] = script


MADE: dict[str, Callable[[], Numbers]] = {
    "module": Numbers,
    "lambda": Transformed,
    "local-class": local_class,
    "guarded-class": guarded_class,
    "lock": Locked,
    "generator": WithGenerator,
    "numpy-generator": WithNumpyGenerator,
    "meta-tensor": WithMetaTensor,
    "big-list": BigList,
}
OPENED: dict[str, Callable[[Path], Numbers]] = {
    "file": OpenFile,
    "h5py": OpenHdf5,
    "lmdb": OpenLmdb,
    "sqlite": OpenSqlite,
}


@contextmanager
def made(kind: str, folder: Path) -> Iterator[Numbers]:
    """
    Yield a new dataset; what it reads lies in a folder of its own.
    """
    if kind == "notebook-class":
        with notebook() as dataset:
            yield dataset
    elif kind in MADE:
        yield MADE[kind]()
    else:
        yield OPENED[kind](Path(tempfile.mkdtemp(dir=folder)))
