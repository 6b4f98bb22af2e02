"""
A program that times small reads of files which are there already: ``python timed_reads.py PATH``. It writes nothing.

It is a process of its own, because a file may never answer. What it finds it prints as lines of JSON, each as soon as
it is known, with fields of :class:`~autoloader.probe.questions.TimedReads`. It imports nothing of autoloader.
"""

import contextlib
import errno
import io
import json
import mmap
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

READ_BYTES = 4096
FOLIO_BYTES = 2 << 20
"""
The most that Linux keeps of a file in one piece, and so drops as a whole or not at all.
"""

MOST_READS = 128
MOST_FILES = 100_000
READERS = 4
PIECE_BYTES, SEQUENTIAL_BYTES, LEAST_SEQUENTIAL_BYTES = 1 << 20, 64 << 20, 8 << 20

LIST_SECONDS, READ_SECONDS, TOGETHER_SECONDS, SEQUENTIAL_SECONDS = 1.0, 1.5, 1.0, 0.5
"""
When each part ends, as soon as the read under way is over.
"""

SLOW_SECONDS = 1e-3
"""
A median from which on it is asked whether several reads at once are faster than one after another.
"""

WAYS = ("direct", "dropped", "plain")
"""
Past the page cache; by it, after it was told to drop the block and says that it has; and by it, whatever it has.
"""

_CHANCE = random.SystemRandom()
_NOT_OFFERED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class Times(NamedTuple):
    """
    What one reader found.
    """

    seconds: list[float]
    cached: int
    unreadable: int
    sizes: dict[str, int]


class Reader:
    """
    Reads blocks of files in the first of :data:`WAYS` that the system and the file system offer.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._ways = [*WAYS]

    @property
    def way(self) -> str:
        """
        Return the way of now.
        """
        return self._ways[0]

    def gives_way(self, error: OSError) -> bool:
        """
        Go on to the next way if *error* says that this one is not offered.
        """
        if error.errno not in _NOT_OFFERED or self.way == WAYS[-1]:
            return False
        del self._ways[0]
        return True

    def open(self, path: str) -> io.FileIO:
        """
        Open a file, without a note of the time in it where this user may leave that out.
        """
        return io.FileIO(path, opener=self._opener)

    def _opener(self, path: str, flags: int) -> int:
        if self.way == "direct":
            if sys.platform == "win32":
                return _open_unbuffered(path)
            if not hasattr(os, "O_DIRECT"):
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
            flags |= os.O_DIRECT
        try:
            return os.open(path, flags | getattr(os, "O_NOATIME", 0))
        except PermissionError:
            return os.open(path, flags)

    def read(self, file: io.FileIO, offset: int, buffer: mmap.mmap) -> float | None:
        """
        Return the seconds that it takes to read one block; ``None`` where the page cache had it.
        """
        if self.way == "dropped":
            return self._read_dropped(file.fileno(), offset, buffer)
        file.seek(offset)
        start = self.clock()
        file.readinto(buffer)
        return self.clock() - start

    def _read_dropped(self, file: int, offset: int, buffer: mmap.mmap) -> float | None:
        """
        Read a block after it was dropped; the kernel is asked first for what it has at once, which should be nothing.
        """
        if sys.platform != "linux":
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        os.posix_fadvise(file, offset - offset % FOLIO_BYTES, FOLIO_BYTES, os.POSIX_FADV_DONTNEED)
        start = self.clock()
        with contextlib.suppress(BlockingIOError):
            os.preadv(file, [buffer], offset, os.RWF_NOWAIT)
            return None
        os.preadv(file, [buffer], offset)
        return self.clock() - start


def _open_unbuffered(path: str) -> int:
    """
    Open a file of Windows past its cache. Source: Microsoft, CreateFileW, FILE_FLAG_NO_BUFFERING.
    """
    if sys.platform != "win32":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    import ctypes
    import msvcrt

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.CreateFileW.restype = ctypes.c_void_p
    read, share_all, existing, unbuffered = 0x80000000, 7, 3, 0x20000000
    handle = kernel.CreateFileW(ctypes.c_wchar_p(path), read, share_all, None, existing, unbuffered, None)
    if handle in {None, ctypes.c_void_p(-1).value}:
        raise ctypes.WinError(ctypes.get_last_error())
    return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY)


def find_files(path: str, clock: Callable[[], float]) -> list[str]:
    """
    Return files at or below a path, its folders in any order, until there are enough or the time is over.

    Links to files are followed, those to folders are not, and other mounts are not entered.
    """
    if not os.path.isdir(path):
        return [path] if os.path.isfile(path) else []
    end, device = clock() + LIST_SECONDS, os.stat(path).st_dev
    files: list[str] = []
    folders = [path]
    while folders and len(files) < MOST_FILES and clock() < end:
        folder = folders.pop(_CHANCE.randrange(len(folders)))
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries if os.stat(folder).st_dev == device else ():
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file():
                    files.append(entry.path)
                if len(files) == MOST_FILES or clock() > end:
                    break
    return files


def time_reads(files: Sequence[str], reader: Reader, seconds: float) -> Times:
    """
    Read blocks of files at random, none twice, until there are enough or the time is over.
    """
    end, buffer, seen = reader.clock() + seconds, mmap.mmap(-1, READ_BYTES), set()
    found = Times([], 0, 0, {})
    for _ in range(4 * MOST_READS):
        if len(found.seconds) + found.cached >= MOST_READS or reader.clock() > end:
            break
        path = _CHANCE.choice(files)
        try:
            with reader.open(path) as file:
                size = found.sizes[path] = os.fstat(file.fileno()).st_size
                offset = _CHANCE.randrange(0, max(size, 1), READ_BYTES)
                if size == 0 or (path, offset) in seen:
                    continue
                seen.add((path, offset))
                took = reader.read(file, offset, buffer)
        except OSError as error:
            if not reader.gives_way(error):
                found = found._replace(unreadable=found.unreadable + 1)
            continue
        if took is None:
            found = found._replace(cached=found.cached + 1)
        else:
            found.seconds.append(round(took, 7))
    return found


def time_together(files: Sequence[str], reader: Reader) -> list[float]:
    """
    Return the seconds that reads take of which several are under way at the same time.
    """
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda: found.extend(time_reads(files, reader, TOGETHER_SECONDS).seconds))
        for _ in range(READERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def read_in_sequence(path: str, reader: Reader) -> tuple[int, float]:
    """
    Return how many bytes of one file were read from its beginning on, and in how many seconds.
    """
    total, buffer = 0, mmap.mmap(-1, PIECE_BYTES)
    with reader.open(path) as file:
        start = reader.clock()
        while total < SEQUENTIAL_BYTES and reader.clock() < start + SEQUENTIAL_SECONDS:
            piece = file.readinto(buffer)
            if not piece:
                break
            total += piece
        return total, round(reader.clock() - start, 7)


def answers(path: str, reader: Reader) -> Iterator[dict[str, Any]]:
    """
    Yield what is found out, piece by piece.
    """
    try:
        os.stat(path)
        if os.path.isdir(path):
            os.scandir(path).close()
    except (OSError, ValueError) as error:
        yield {"problem": getattr(error, "strerror", None) or str(error)}
        return
    yield {"is_reached": True}
    files = find_files(path, reader.clock)
    yield {"files": len(files)}
    if not files:
        return
    alone = time_reads(files, reader, READ_SECONDS)
    size = statistics.fmean(alone.sizes.values()) * len(files) if alone.sizes else 0
    yield {
        "way": reader.way,
        "seconds": alone.seconds,
        "cached": alone.cached,
        "unreadable": alone.unreadable,
        "bytes": int(size),
    }
    if alone.seconds and statistics.median(alone.seconds) >= SLOW_SECONDS:
        yield {"together_seconds": time_together(files, reader)}
    largest = max(alone.sizes, key=lambda each: alone.sizes[each], default=path)
    if reader.way == "direct" and alone.sizes.get(largest, 0) >= LEAST_SEQUENTIAL_BYTES:
        with contextlib.suppress(OSError):
            yield {"sequential": read_in_sequence(largest, reader)}


if __name__ == "__main__":
    for answer in answers(sys.argv[1], Reader()):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
