"""
What the times of small reads say of the storage that answered them.
"""

import math
import posixpath
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..facts import AnsweredBy, Confidence, StorageFacts, StorageKind
from .mounts import is_below
from .questions import HostIO, TimedReads
from .readings import Readings

FEWEST_READS = 16
"""
Reads from which on their median says something.
"""

MEMORY_SECONDS = 20e-6
"""
A median below which memory answered: flash alone needs about 50 microseconds.
"""

SLOW_SECONDS = 1e-3
"""
A median from which on it was no flash nearby that had nothing else to do: that needs a tenth.
"""

TURN_SECONDS = 4e-3
"""
Half a turn of a disk at 7200 a minute, which a read at random waits for after the head has moved.
"""

LEAST_BYTES = 256 << 20
"""
Less may lie in a disk's own cache, which has up to 512 MiB, or on so few tracks that it is in there after some reads.
"""

READERS = 4
"""
Reads that were under way at once in the second part.
"""

LEAST_GAIN = 2.5
"""
Four at once are four times as fast where each waits for a server or for one of many disks; one disk gains a half.
"""

WAYS = {
    "direct": "past the page cache",
    "dropped": "after the page cache dropped them",
    "plain": "which the page cache may have had",
}


class Verdict(NamedTuple):
    """
    What answered some reads, how that is known, and the kind of storage where they tell it.
    """

    answered_by: AnsweredBy
    because: str
    kind: StorageKind | None = None
    confidence: Confidence = "low"


def with_latency(storage: StorageFacts, reads: TimedReads | None) -> StorageFacts:
    """
    Add what timed reads tell, and the kind of storage unless that is certain already.
    """
    readings, verdict = Readings(), judge(reads, storage.kind)
    readings.put("answered_by", verdict.answered_by, verdict.because)
    if verdict.kind is not None and storage.confidence != "high":
        readings.put("kind", verdict.kind, f"timed: {verdict.because}")
        readings.put("confidence", verdict.confidence, f"timed: {verdict.because}")
    if reads is not None and reads.seconds:
        source = f"{len(reads.seconds)} reads of 4 KiB, {WAYS[reads.way]}"
        readings.put("read_latency_seconds", percentile(reads.seconds, 0.5), source)
        readings.put("read_latency_p95_seconds", percentile(reads.seconds, 0.95), source)
    if reads is not None and reads.sequential is not None and reads.sequential[1] > 0:
        size, seconds = reads.sequential
        readings.put("sequential_bytes_per_second", size / seconds, f"{size >> 20} MiB of one file, {WAYS[reads.way]}")
    return readings.extend(storage)


def percentile(seconds: Sequence[float], fraction: float) -> float:
    """
    Return the smallest of some times that this fraction of them does not exceed.
    """
    return sorted(seconds)[math.ceil(fraction * len(seconds)) - 1]


def judge(reads: TimedReads | None, known: StorageKind | None) -> Verdict:
    """
    Return what answered the reads, and the kind of storage that such times are typical of.

    Args:
        reads: What was timed; ``None`` where nothing could be.
        known: The kind of storage by what the system says, certain or not.
    """
    if reads is None:
        return Verdict("nothing", "no process that reads them could be started")
    blocks = reads.cached + len(reads.seconds)
    if reads.cached > len(reads.seconds):
        return Verdict("memory", f"the page cache had {reads.cached} of {blocks} blocks, and did not drop them")
    if not reads.seconds:
        reason = "no file there could be read" if reads.unreadable else "no file with data was found"
        return Verdict("nothing", reads.problem or reason)
    median = percentile(reads.seconds, 0.5)
    counted = f"{blocks} reads in {reads.files} file{'' if reads.files == 1 else 's'}, {WAYS[reads.way]}"
    if median < MEMORY_SECONDS:
        return Verdict("memory", f"{counted}, but faster than any storage: memory answered")
    if median < SLOW_SECONDS and reads.way == "plain":
        return Verdict("storage-or-memory", counted)
    if len(reads.seconds) < FEWEST_READS:
        return Verdict("storage", f"{counted}, too few to tell the kind")
    return _fast(reads, known, counted) if median < SLOW_SECONDS else _slow(reads, median, counted)


def _fast(reads: TimedReads, known: StorageKind | None, counted: str) -> Verdict:
    """
    Return the verdict on storage that needs no time to seek: flash, unless a cache below answered in its place.

    A virtual disk's host may have all of it in memory, so that flash is certain only where the system says so, too.
    """
    if reads.bytes < LEAST_BYTES:
        return Verdict("storage", f"{counted}, with so little data that a disk's own cache may have had them")
    if known in {"ssd", "nvme"}:
        is_steady = percentile(reads.seconds, 0.95) < TURN_SECONDS
        return Verdict("storage", counted, known, "high" if is_steady else "low")
    return Verdict("storage", counted, "ssd")


def _slow(reads: TimedReads, median: float, counted: str) -> Verdict:
    """
    Return the verdict on storage that lets one read wait: a disk that turns, unless several at once wait no longer.
    """
    if len(reads.together_seconds) < FEWEST_READS:
        return Verdict("storage", f"{counted}, too few at once to tell the kind")
    gain = READERS * median / max(percentile(reads.together_seconds, 0.5), 1e-9)
    because = f"{counted}; {READERS} at once are {gain:.1f} times as fast"
    if gain >= LEAST_GAIN:
        return Verdict("storage", because, "network")
    return Verdict("storage", because, "hdd", "high" if median >= TURN_SECONDS else "low")


class Unreached:
    """
    A host one of whose places did not answer: nothing more is asked that may wait for it.

    Args:
        io: The host.
        place: The path, which is taken as it is written.
    """

    def __init__(self, io: HostIO, place: str) -> None:
        self._io, self._place = io, place

    def real_path(self, path: str) -> str | None:
        """
        Return a path with its links resolved, and the place without.
        """
        if path != self._place or self._io.platform == "win32":
            return path if path == self._place else self._io.real_path(path)
        return posixpath.normpath(posixpath.join(self._io.working_directory() or "/", path))

    def disk_space(self, path: str) -> Any:
        """
        Return the space of a file system that the place does not lie on.
        """
        place = self.real_path(self._place) or self._place
        return None if is_below(place, path) else self._io.disk_space(path)

    def windows_volume(self, path: str) -> None:
        """
        Return nothing.
        """

    def mac_volume(self, path: str) -> None:
        """
        Return nothing.
        """

    def __getattr__(self, question: str) -> Any:
        return getattr(self._io, question)
