"""
Find in source what goes wrong in worker processes, without running it.
"""

import argparse
import dataclasses
import json
import os
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import ArgumentError
from ..findings import describe
from ..start.check import Problem, check_source
from ..start.source import parse_module
from .streams import remark

FINDINGS = 7
"""
The exit code where something was found.
"""

SKIPPED = {"node_modules", "__pycache__", "build", "dist", "site-packages"}
"""
Folders that hold what others wrote, or copies.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """
    Declare the command's options.
    """
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a Python file, or a folder with Python files")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """
    Print what is found in each file; stderr tells which files could not be checked, and how many were.
    """
    for path in arguments.paths:
        if not os.path.exists(path):
            raise ArgumentError(describe("argument.no-such-path", path=path))
    problems: list[Problem] = []
    left_out: dict[str, str] = {}
    files = list(python_files(arguments.paths))
    for path in files:
        text, reason = read_source(path)
        if text is None:
            left_out[path] = reason
            remark(f"{path}: not checked: {reason}")
        else:
            problems += check_source(text, path)
    if arguments.json:
        found = [dataclasses.asdict(each) for each in problems]
        print(json.dumps({"schema": 1, "files": len(files), "findings": found, "not_checked": left_out}, indent=2))
    else:
        for each in problems:
            print(f"{each.path}:{each.line}:{each.column}: {each.id} {each.text}")
    remark(_summary(problems, len(files) - len(left_out)))
    return FINDINGS if problems else 0


def python_files(paths: Sequence[str]) -> Iterator[str]:
    """
    Yield each file once: those that *paths* name, and the Python files in folders that they name.

    Left out of folders are hidden ones, virtual environments, and what :data:`SKIPPED` names. Links to folders are
    not followed, so that a circle of them ends.
    """
    seen: set[str] = set()
    for path in paths:
        for file in _in_folder(path) if os.path.isdir(path) else [path]:
            if (real := os.path.realpath(file)) not in seen:
                seen.add(real)
                yield file


def _in_folder(top: str) -> Iterator[str]:
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not _is_skipped(folder, name))
        for name in sorted(names):
            if name.endswith(".py") and os.path.isfile(file := os.path.join(folder, name)):
                yield file


def _is_skipped(folder: str, name: str) -> bool:
    return name.startswith(".") or name in SKIPPED or os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))


def read_source(path: str) -> tuple[str | None, str]:
    """
    Return the source of a file, or None and the reason why it cannot be checked.
    """
    if not os.path.isfile(path):
        return None, "it is not a regular file"
    if Path(path).suffix == ".ipynb":
        return None, "notebooks are not read; export it with 'jupyter nbconvert --to script'"
    try:
        with tokenize.open(path) as file:
            text = file.read()
    except (OSError, SyntaxError, UnicodeError) as error:
        return None, str(error)
    if parse_module(text) is None:
        return None, f"it is not valid Python {sys.version_info.major}.{sys.version_info.minor}"
    return text, ""


def _summary(problems: Sequence[Problem], checked: int) -> str:
    files = f"{checked} file{'' if checked == 1 else 's'}"
    if not problems:
        return f"nothing found in {files}"
    count = len(problems)
    return f"{count} finding{'' if count == 1 else 's'} in {len({each.path for each in problems})} of {files}"
