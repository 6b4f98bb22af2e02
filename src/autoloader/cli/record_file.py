"""
The files that ``probe`` records a host in: written whole or not at all, and read with a bound on their size.
"""

import contextlib
import errno
import json
import math
import os
import stat
from typing import Any

from ..errors import ArgumentError
from ..findings import describe
from ..records import printable, shortened

MOST_BYTES = 64 << 20
"""
What is read of a file; a host with thousands of CPUs needs a few MiB.
"""

_MOST_DIGITS = 20

_ADVICE = {
    errno.ENOSPC: "Free some space, or name a file elsewhere",
    errno.EDQUOT: "Free some space, or name a file elsewhere",
    errno.EISDIR: "Name a file in it",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.ELOOP: "Name a file, or a link that leads to one",
    errno.EPIPE: "Keep the other end open until all is read",
}
_ANY_ADVICE = "Name a file in a folder that exists, where you may write"


def write_record(file: str, text: str) -> None:
    """
    Write a document to a file, which keeps its old content where that fails.

    A link stays, and the file that it leads to is written. What is no file, a pipe for instance, is written as it is.

    Raises:
        ArgumentError: It cannot be written; the text says why, and what to do.
    """
    if file == "-":
        advice = "Name a file, or /dev/stdout where the system has one"
        raise ArgumentError(describe("record.unwritable", path=file, reason="a record is a file", advice=advice))
    try:
        kept = _kept_file(file)
        if kept is None:
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            _replace(kept, text)
    except (OSError, ValueError) as error:
        advice = _ADVICE.get(getattr(error, "errno", None) or 0, _ANY_ADVICE)
        evidence = {"path": _cut(file), "reason": _reason(error), "advice": advice}
        raise ArgumentError(describe("record.unwritable", **evidence)) from None


def _kept_file(file: str) -> str | None:
    """
    Return the file that a path leads to, there or not yet; ``None`` for a device, a pipe, or an open file's name.
    """
    if os.path.abspath(file).startswith(("/dev/", "/proc/")):
        return None
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
        if not stat.S_ISREG(mode):
            return None
    return os.path.realpath(file) if file else file


def _replace(file: str, text: str) -> None:
    """
    Write beside a file, and put that in its place; in place where the folder takes no new file.
    """
    if os.path.isfile(file) and not os.access(file, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)
    beside = os.path.join(os.path.dirname(file), f".autoloader-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except PermissionError:
        if not os.path.isfile(file):
            raise
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
        return
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        if os.path.isfile(file):
            os.chmod(beside, stat.S_IMODE(os.stat(file).st_mode))
        os.replace(beside, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def read_record(file: str) -> Any:
    """
    Return the document in a file.

    Raises:
        ValueError: It is none, or too large; the text says why.
        OSError: It cannot be read.
    """
    with open(file, "rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    hooks: dict[str, Any] = {"parse_int": _integer, "parse_float": _number, "parse_constant": _number}
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object, **hooks)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no UTF-8 text from byte {error.start} on") from None
    except RecursionError:
        raise ValueError("its lists and objects are nested too deeply") from None


def replay_error(file: str, error: Exception) -> ArgumentError:
    """
    Return what to raise where a file cannot be replayed.
    """
    return ArgumentError(describe("record.unreadable", path=_cut(file), reason=_reason(error)))


def _reason(error: Exception) -> str:
    return printable(getattr(error, "strerror", None) or str(error), 300)


def _cut(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:197]}..."


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits: {digits[:10]}...")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{shortened(digits)} is no number of JSON, or too large")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {shortened(twice)} is there twice in one object")
    return found
