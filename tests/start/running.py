"""
Runs small scripts by a fresh Python, and notes each Python that is started meanwhile.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from live.running import SOURCE, clean_environment

PATIENCE_SECONDS = 120

SITE = """
import os, sys
with open(os.environ["STARTED"], "a") as file:
    file.write(" ".join(sys.orig_argv).replace("\\n", " ") + "\\n")
"""
"""
Python runs ``sitecustomize`` first of all: a child that a script starts leaves a line, whatever becomes of it.
"""

DATA = """
import multiprocessing

from torch.utils.data import Dataset

import autoloader


def auto_loader(dataset, *arguments, **named):
    if named.get("num_workers") is None:  # so few samples would load inline once the first ones are timed
        named["plan"] = autoloader.auto_loader(dataset, *arguments, **named).plan
    return autoloader.auto_loader(dataset, *arguments, **named)


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index


def show(loader):
    for batch in loader:
        print(batch.tolist())
    print(loader.plan.value("backend"), loader.plan.value("multiprocessing_context"))
"""
"""
The module ``data`` that all scripts import.
"""

SAMPLES = ["[0, 1, 2, 3]", "[4, 5, 6, 7]"]
"""
What a loop over all batches of four prints.
"""


class Ran(NamedTuple):
    """
    What became of a script.
    """

    code: int
    lines: list[str]
    """What it printed."""
    errors: str
    """What stands on its error stream."""
    started: list[str]
    """The command of each Python that was started, its own first."""

    @property
    def children(self) -> list[str]:
        """
        Return what each Python that was started besides the script's own is: a worker, a fork server or a tracker.
        """
        return [command for command in self.started[1:] if "resource_tracker" not in command]


def write(folder: Path, files: Mapping[str, str]) -> None:
    """
    Write files with a text each, into subfolders where their names say so.
    """
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.lstrip("\n"))


def environment_in(folder: Path) -> dict[str, str]:
    """
    Return an environment in which each Python notes its start, and finds the modules of *folder*.
    """
    write(folder, {"site/sitecustomize.py": SITE, "data.py": DATA})
    paths = os.pathsep.join([str(folder / "site"), str(folder), SOURCE])
    quiet = "ignore:This DataLoader will create"  # two workers, where there may be one CPU
    return clean_environment(PYTHONPATH=paths, STARTED=str(folder / "started"), PYTHONWARNINGS=quiet)


def run(folder: Path, *command: str, stdin: str = "", **changes: str) -> Ran:
    """
    Run Python with the arguments *command* in a folder, to its end.
    """
    log = folder / "started"
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**environment_in(folder), **changes},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    started = log.read_text().splitlines() if log.exists() else []
    return Ran(done.returncode, done.stdout.splitlines(), done.stderr, started)
