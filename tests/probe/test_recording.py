"""
What one host answered can be asked again elsewhere, without the names of people and machines.
"""

import json
from typing import Any

import pytest

from autoloader.probe import probe_host
from autoloader.probe.host_io import DiskSpace, MainModule, PythonThread
from autoloader.probe.recording import Recorder, ReplayedHost
from support import FakeHost

MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 0:40 / /data rw - nfs4 filer.example.org:/export/ana rw
31 21 0:41 / /ana rw - cifs //filer/ana rw,username=ana.b,domain=LAB,addr=10.0.0.7,uid=0
32 21 0:42 / /lustre rw - lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/fs rw,flock
33 21 0:43 / /ceph rw - ceph [fd00::7]:6789,[fd00::8]:6789:/ rw,secret=<hidden>
"""


def a_host() -> FakeHost:
    """
    Return a host with an answer of each kind.
    """
    return FakeHost(
        files={"/proc/self/mountinfo": MOUNTS, "/proc/meminfo": "MemTotal: 1000 kB\n", "/proc/1/x": "\N{SNOWMAN}"},
        folders=("/srv/ana/pictures", "/dev"),
        environment={"LOCAL_WORLD_SIZE": "2", "SECRET": "ana"},
        spaces={"/srv/ana/pictures": DiskSpace(10, 5)},
        mask=(0, 2),
        resource_limits={"NOFILE": (1024, float("inf"))},
        main=MainModule(None, "/srv/ana/train.py", True),
        threads=(PythonThread("ana", "threading.Thread"),),
        modules=("grpc",),
        memory=(7, 5),
    )


def recorded(host: Any, private: dict[str, str] | None = None, **asked: Any) -> Any:
    """
    Return the document of one probe, as it comes out of a file.
    """
    recorder = Recorder(host)
    probe_host(io=recorder, **asked)
    return json.loads(json.dumps(recorder.document(private or {}, asked.get("path"))[0]))


@pytest.mark.parametrize("path", [None, "/srv/ana/pictures"])
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_replayed_host_has_the_same_facts(platform: str, path: str | None) -> None:
    """
    Each answer comes back with its type, and each was asked for.
    """
    host = a_host()
    host.platform = platform
    replayed = ReplayedHost(recorded(host, path=path))
    assert replayed.path == path
    assert probe_host(io=replayed, path=replayed.path) == probe_host(io=host, path=path)
    assert replayed.unused == replayed.unanswered == set()


def test_document_holds_what_was_asked_for_only() -> None:
    """
    No other variables, no other files.
    """
    document = recorded(a_host())
    assert document["schema"] == 1
    assert document["synthetic"] is None
    assert document["answers"]["environment"] == {"LOCAL_WORLD_SIZE": "2"}
    assert "/proc/1/x" not in document["answers"]["read_text"]


def test_answer_that_changes_is_kept_as_it_was_given() -> None:
    """
    What is asked twice in one probe has one answer; after a pause the host is asked anew.
    """
    host = a_host()
    recorder = Recorder(host)
    assert recorder.list_dir("/dev") == ()
    host.files["/dev/x"] = ""
    assert recorder.list_dir("/dev") == ()
    assert recorder.document({})[0]["answers"]["list_dir"] == {"/dev": []}
    recorder.pause()
    assert recorder.list_dir("/dev") == ("x",)
    assert recorder.document({})[0]["answers"]["list_dir"] == {"/dev": ["x"]}


def test_names_do_not_travel() -> None:
    """
    Those of users and hosts stand for themselves only: in ``analysis`` nothing is replaced.
    """
    host = a_host()
    host.main = MainModule(None, "/home/ana/analysis/box.py", True)
    text = json.dumps(recorded(host, {"ana": "user", "box": "host"}, path="/home/ana/pictures"))
    assert "ana" not in text.replace("analysis", "")
    assert "/home/user/analysis/host.py" in text
    assert not [word for word in ("filer", "LAB", "10.0.0", "fd00", "o2ib") if word in text]
    assert "lustre server:/fs rw,flock" in text
    assert "username=private,domain=private,addr=private,uid=0" in text
    assert "nfs4 server:/export/user" in text
    assert "cifs //server/user" in text


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param([], "a recorded host should be an object with 'schema' 1", id="list"),
        pytest.param({"answers": {}}, "a recorded host should be an object with 'schema' 1", id="no-schema"),
        pytest.param({"schema": 2}, "a recorded host should be an object with 'schema' 1", id="other-schema"),
        pytest.param({"schema": 1}, "a recorded host should have 'answers', an object", id="no-answers"),
        pytest.param(
            {"schema": 1, "answers": {"colour": 1}},
            "a recorded host has answers to 'colour', which no probe asks",
            id="unknown-question",
        ),
        pytest.param(
            {"schema": 1, "answers": {"affinity": "0-3"}}, "affinity should be a list, and is '0-3'", id="wrong-type"
        ),
        pytest.param(
            {"schema": 1, "answers": {"uname": ["6.1"]}}, "uname should be a list of 2, and is ['6.1']", id="too-short"
        ),
        pytest.param(
            {"schema": 1, "answers": {"read_text": "x"}},
            "read_text should be an object of answers, and is 'x'",
            id="flat",
        ),
        pytest.param(
            {"schema": 1, "answers": {"read_text": {"/a": 3}}}, "read_text./a should be text, and is 3", id="wrong-item"
        ),
    ],
)
def test_what_is_no_document_is_an_error(document: Any, text: str) -> None:
    """
    The text says what is wrong, before anything is asked.
    """
    with pytest.raises(ValueError) as caught:
        ReplayedHost(document)
    assert str(caught.value) == text


def test_questions_without_an_answer_are_told() -> None:
    """
    They get that of a host which does not say.
    """
    replayed = ReplayedHost(
        {"schema": 1, "synthetic": "by hand", "answers": {"affinity": [1], "read_text": {"/a": "b"}}}
    )
    facts = probe_host(io=replayed)
    assert facts.cpu.affinity == (1,)
    assert facts.memory.total_bytes is None
    assert replayed.unused == {("read_text", "/a")}
    assert {("read_text", "/proc/meminfo"), ("uname", None)} <= replayed.unanswered
