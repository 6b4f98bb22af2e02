"""
What times of reads say of the storage: the verdicts, and the facts that they become.
"""

import json
from typing import Any

import pytest

from autoloader.facts import StorageFacts, StorageKind
from autoloader.probe import probe_host
from autoloader.probe.latency import judge, percentile, with_latency
from autoloader.probe.questions import DiskSpace, MacVolume, TimedReads, WindowsVolume
from autoloader.probe.recording import Recorder, ReplayedHost
from autoloader.records import from_json, to_json
from support import FakeHost

MIB, GIB = 1 << 20, 1 << 30
MS = 1e-3

PLENTY = TimedReads(is_reached=True, files=2000, bytes=8 * GIB, way="direct")
"""
A folder with enough data to tell a disk from its cache.
"""


def reads(milliseconds: float, count: int = 128, **changes: Any) -> TimedReads:
    """
    Return reads that took the same time each.
    """
    return PLENTY._replace(seconds=(milliseconds * MS,) * count, **changes)


def together(milliseconds: float, count: int = 200) -> dict[str, Any]:
    """
    Return what differs where reads of which four were under way took the same time each.
    """
    return {"together_seconds": (milliseconds * MS,) * count}


# The verdict.


@pytest.mark.parametrize(
    ("found", "known", "expected"),
    [
        pytest.param(reads(0.09), "virtual", ("storage", "ssd", "low"), id="flash-below-a-virtual-disk"),
        pytest.param(reads(0.09), "unknown", ("storage", "ssd", "low"), id="flash-below-what-is-not-known"),
        pytest.param(reads(0.09), None, ("storage", "ssd", "low"), id="flash-on-a-system-that-tells-nothing"),
        pytest.param(reads(0.09), "nvme", ("storage", "nvme", "high"), id="nvme-is-nvme"),
        pytest.param(reads(0.09), "ssd", ("storage", "ssd", "high"), id="ssd-is-ssd"),
        pytest.param(reads(0.09), "hdd", ("storage", "ssd", "low"), id="flash-that-says-it-turns"),
        pytest.param(reads(0.02), "virtual", ("storage", "ssd", "low"), id="fastest-flash"),
        pytest.param(reads(0.0199), "virtual", ("memory", None, "low"), id="faster-than-flash"),
        pytest.param(reads(0.002), "nvme", ("memory", None, "low"), id="memory"),
        pytest.param(reads(0.999), "virtual", ("storage", "ssd", "low"), id="slowest-flash"),
        pytest.param(reads(1, **together(1)), "virtual", ("storage", "network", "low"), id="far-away"),
        pytest.param(reads(1, **together(4)), "virtual", ("storage", "hdd", "low"), id="one-at-a-time-without-turns"),
        pytest.param(reads(9, **together(24)), "virtual", ("storage", "hdd", "high"), id="turning-disk"),
        pytest.param(reads(9, **together(24)), "ssd", ("storage", "hdd", "high"), id="turning-disk-behind-usb"),
        pytest.param(reads(9, **together(9)), "virtual", ("storage", "network", "low"), id="many-disks-or-a-server"),
        pytest.param(reads(9, **together(14.4)), "virtual", ("storage", "network", "low"), id="gain-of-2.5"),
        pytest.param(reads(9, **together(14.5)), "virtual", ("storage", "hdd", "high"), id="gain-below-2.5"),
        pytest.param(reads(9), "virtual", ("storage", None, "low"), id="slow-and-nothing-read-at-once"),
        pytest.param(reads(9, **together(9, 15)), "virtual", ("storage", None, "low"), id="slow-and-15-read-at-once"),
        pytest.param(reads(0.09, 15), "virtual", ("storage", None, "low"), id="15-reads"),
        pytest.param(reads(0.09, 16), "virtual", ("storage", "ssd", "low"), id="16-reads"),
        pytest.param(reads(9, 15, **together(24)), "virtual", ("storage", None, "low"), id="15-slow-reads"),
        pytest.param(reads(0.09, bytes=256 * MIB - 1), "virtual", ("storage", None, "low"), id="little-data"),
        pytest.param(reads(0.09, bytes=256 * MIB), "virtual", ("storage", "ssd", "low"), id="enough-data"),
        pytest.param(reads(9, bytes=MIB, **together(24)), "virtual", ("storage", "hdd", "high"), id="little-and-slow"),
        pytest.param(reads(0.09, way="plain"), "virtual", ("storage-or-memory", None, "low"), id="plain-and-fast"),
        pytest.param(reads(9, way="plain", **together(24)), None, ("storage", "hdd", "high"), id="plain-and-slow"),
        pytest.param(reads(0.002, way="plain"), None, ("memory", None, "low"), id="plain-and-memory"),
        pytest.param(reads(0.09, way="dropped"), "virtual", ("storage", "ssd", "low"), id="dropped"),
        pytest.param(reads(0.09, 60, way="dropped", cached=60), None, ("storage", "ssd", "low"), id="half-in-cache"),
        pytest.param(reads(0.09, 60, way="dropped", cached=61), None, ("memory", None, "low"), id="more-in-cache"),
        pytest.param(reads(0, 0, way="dropped", cached=9), None, ("memory", None, "low"), id="all-in-cache"),
        pytest.param(reads(0.09, 1, problem="no answer in 6 s"), None, ("storage", None, "low"), id="one-answer"),
        pytest.param(reads(0, 0), "virtual", ("nothing", None, "low"), id="empty"),
        pytest.param(None, "virtual", ("nothing", None, "low"), id="no-process"),
    ],
)
def test_verdict_truth_table(
    found: TimedReads | None, known: StorageKind | None, expected: tuple[str, StorageKind | None, str]
) -> None:
    """
    Flash needs no time to seek, one disk that turns serves one read at a time, what is far away serves many.
    """
    verdict = judge(found, known)
    assert (verdict.answered_by, verdict.kind, verdict.confidence) == expected


def test_flash_that_sometimes_lets_a_read_wait_is_less_certain() -> None:
    """
    One read of ten took as long as a turn: something else may lie below, or use it.
    """
    found = reads(0.09, 116)
    verdict = judge(found._replace(seconds=(*found.seconds, *[9 * MS] * 12)), "nvme")
    assert (verdict.kind, verdict.confidence) == ("nvme", "low")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param(None, "no process that reads them could be started", id="no-process"),
        pytest.param(PLENTY._replace(files=0), "no file with data was found", id="empty"),
        pytest.param(PLENTY._replace(unreadable=3), "no file there could be read", id="unreadable"),
        pytest.param(TimedReads(problem="no answer in 6 s"), "no answer in 6 s", id="silent"),
        pytest.param(reads(0.09), "128 reads in 2000 files, past the page cache", id="storage"),
        pytest.param(
            reads(0.09, files=1, way="dropped"),
            "128 reads in 1 file, after the page cache dropped them",
            id="dropped",
        ),
        pytest.param(
            reads(0.09, way="plain"), "128 reads in 2000 files, which the page cache may have had", id="plain"
        ),
        pytest.param(
            reads(0.001),
            "128 reads in 2000 files, past the page cache, but faster than any storage: memory answered",
            id="memory",
        ),
        pytest.param(
            reads(0.09, 20, cached=108, way="dropped"),
            "the page cache had 108 of 128 blocks, and did not drop them",
            id="cached",
        ),
        pytest.param(
            reads(0.09, 8), "8 reads in 2000 files, past the page cache, too few to tell the kind", id="too-few"
        ),
        pytest.param(
            reads(9),
            "128 reads in 2000 files, past the page cache, too few at once to tell the kind",
            id="none-at-once",
        ),
        pytest.param(
            reads(0.09, bytes=MIB),
            (
                "128 reads in 2000 files, past the page cache, with so little data that a disk's own cache may have "
                "had them"
            ),
            id="little-data",
        ),
        pytest.param(
            reads(9, **together(24)),
            "128 reads in 2000 files, past the page cache; 4 at once are 1.5 times as fast",
            id="hdd",
        ),
    ],
)
def test_verdict_says_how_it_is_known(found: TimedReads | None, text: str) -> None:
    """
    How many, where, whether the page cache could answer, and what more would be needed.
    """
    assert judge(found, "virtual").because == text


@pytest.mark.parametrize(
    ("seconds", "fraction", "expected"),
    [
        pytest.param([3, 1, 2], 0.5, 2, id="median-of-3"),
        pytest.param([4, 3, 1, 2], 0.5, 2, id="median-of-4"),
        pytest.param([*range(1, 101)], 0.95, 95, id="95-of-100"),
        pytest.param([*range(1, 129)], 0.95, 122, id="95-percent-of-128"),
        pytest.param([7], 0.95, 7, id="one"),
    ],
)
def test_percentile_is_one_of_the_times(seconds: list[float], fraction: float, expected: float) -> None:
    """
    The smallest that so many do not exceed.
    """
    assert percentile(seconds, fraction) == expected


# Facts.


def test_facts_of_timed_reads_have_their_sources() -> None:
    """
    Latencies, the rate of one file, and the kind in the place of what was not certain.
    """
    found = reads(0.3)._replace(sequential=(64 * MIB, 0.25))
    facts = with_latency(StorageFacts(kind="virtual", confidence="low", sources={"kind": "/sys/x"}), found)
    assert (facts.kind, facts.confidence, facts.answered_by) == ("ssd", "low", "storage")
    assert (facts.read_latency_seconds, facts.read_latency_p95_seconds) == (0.3 * MS, 0.3 * MS)
    assert facts.sequential_bytes_per_second == 256 * MIB
    counted = "128 reads in 2000 files, past the page cache"
    assert facts.sources == {
        "answered_by": counted,
        "kind": f"timed: {counted}",
        "confidence": f"timed: {counted}",
        "read_latency_seconds": "128 reads of 4 KiB, past the page cache",
        "read_latency_p95_seconds": "128 reads of 4 KiB, past the page cache",
        "sequential_bytes_per_second": "64 MiB of one file, past the page cache",
    }
    assert from_json(StorageFacts, to_json(facts)) == facts


@pytest.mark.parametrize("kind", ["network", "memory", "hdd", "nvme"])
def test_kind_that_is_certain_stays(kind: StorageKind) -> None:
    """
    A server that answers at once is still a server; the times are told.
    """
    facts = with_latency(StorageFacts(kind=kind, confidence="high", sources={"kind": "/x"}), reads(0.3))
    assert (facts.kind, facts.confidence, facts.sources["kind"]) == (kind, "high", "/x")
    assert facts.read_latency_seconds == 0.3 * MS


@pytest.mark.parametrize("found", [None, PLENTY, TimedReads(problem="x"), PLENTY._replace(sequential=(0, 0.0))])
def test_facts_without_reads_have_a_reason_only(found: TimedReads | None) -> None:
    """
    What is known of the storage stays.
    """
    known = StorageFacts(kind="virtual", confidence="low", sources={"kind": "/x", "confidence": "/x"})
    facts = with_latency(known, found)
    assert facts == known._replace(answered_by="nothing", sources=facts.sources)
    assert set(facts.sources) == {"kind", "confidence", "answered_by"}


# The probe.


MOUNTS = "20 1 8:2 / / rw - ext4 /dev/vda2 rw\n21 20 0:40 / /data rw - fuse.mergerfs a:b rw\n"


def a_host(**changes: Any) -> FakeHost:
    """
    Return a host with a mount that shows nothing of what lies below.
    """
    known: dict[str, Any] = {
        "files": {"/proc/self/mountinfo": MOUNTS},
        "links": {"/link": "/data/train"},
        "spaces": {"/data": DiskSpace(10, 5), "/data/train": DiskSpace(10, 5), "/dev/shm": DiskSpace(8, 4)},
        "folders": ("/dev/shm",),
        **changes,
    }
    return FakeHost(**known)


def test_reads_are_timed_only_where_that_is_asked_for() -> None:
    """
    A probe that reads files for seconds is nothing that a loader may do by itself.
    """

    class Refusing(FakeHost):
        def timed_reads(self, path: str) -> TimedReads | None:
            raise AssertionError("nobody asked for that")

    assert probe_host(io=Refusing(), path="/data", full=True).storage.answered_by is None
    with pytest.raises(AssertionError, match="nobody asked for that"):
        probe_host(io=Refusing(), path="/data", measure=True)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32", "freebsd14"])
def test_probe_that_measures_adds_to_the_storage_of_every_system(platform: str) -> None:
    """
    All other facts are the same; without a path the working directory is read.
    """
    host = a_host(platform=platform, timed={"/data/train": reads(0.3), "/work": reads(9, **together(24))})
    for path, kind in (("/data/train", "ssd"), (None, "hdd")):
        plain, timed = (probe_host(io=host, path=path, measure=measure) for measure in (False, True))
        assert timed._replace(storage=plain.storage) == plain
        assert (timed.storage.kind, timed.storage.answered_by) == (kind, "storage")
        assert timed.storage.size_bytes == plain.storage.size_bytes


@pytest.mark.parametrize(
    ("place", "path"), [("/data/train", "/data/train"), ("../data/train", "/data/train"), ("/link", "/link")]
)
def test_place_that_does_not_answer_is_asked_nothing_more(place: str, path: str) -> None:
    """
    What the table of mounts says of it is told all the same, and so is the rest.
    """

    class Silent(FakeHost):
        def real_path(self, path: str) -> str | None:
            assert not path.endswith(("train", "link")), "this would wait for the place"
            return super().real_path(path)

        def disk_space(self, path: str) -> DiskSpace | None:
            assert not path.startswith("/data"), "this would wait for the place"
            return super().disk_space(path)

    host = Silent(**vars(a_host(timed={place: TimedReads(problem="no answer in 6 s")})))
    facts = probe_host(io=host, path=place, measure=True)
    storage = facts.storage
    assert (storage.path, storage.size_bytes, storage.answered_by) == (path, None, "nothing")
    assert storage.filesystem == ("fuse.mergerfs" if "data" in place else "ext4")
    assert storage.sources["answered_by"] == "no answer in 6 s"
    assert facts.shared_memory.size_bytes == 8


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_place_that_does_not_answer_is_asked_nothing_more_on_other_systems(platform: str) -> None:
    """
    There are no questions of its volume, either.
    """

    class Silent(FakeHost):
        def windows_volume(self, path: str) -> WindowsVolume | None:
            raise AssertionError("this would wait for the place")

        def mac_volume(self, path: str) -> MacVolume | None:
            raise AssertionError("this would wait for the place")

        def disk_space(self, path: str) -> DiskSpace | None:
            raise AssertionError("this would wait for the place")

    host = Silent(platform=platform, drives={"/net/x": "remote"}, timed={"/net/x": TimedReads(problem="silent")})
    storage = probe_host(io=host, path="/net/x", measure=True).storage
    assert (storage.path, storage.answered_by) == ("/net/x", "nothing")
    assert storage.kind == ("network" if platform == "win32" else None)


# Records.


@pytest.mark.parametrize("found", [reads(0.3), TimedReads(problem="no answer in 6 s"), None])
def test_timed_reads_are_recorded_without_names(found: TimedReads | None) -> None:
    """
    How long they took, under a path without names; a replay that measures gives the same facts.
    """
    place = "/home/ana/pictures"
    host = a_host(timed={} if found is None else {place: found})
    recorder = Recorder(host)
    there = probe_host(io=recorder, path=place, measure=True)
    document = json.loads(json.dumps(recorder.document({"ana": "user"}, place)[0]))
    assert "ana" not in json.dumps(document)
    replayed = ReplayedHost(document)
    here = probe_host(io=replayed, path=replayed.path, measure=True)
    assert here.storage == there.storage._replace(path="/home/user/pictures")
    assert replayed.unanswered == replayed.unused == set()
