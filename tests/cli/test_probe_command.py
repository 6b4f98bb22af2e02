"""
The command ``probe``: what it records and replays, which places it shows, and what it says where it cannot.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoloader.cli import main, probe
from autoloader.facts import HostFacts

pytestmark = pytest.mark.real_host

HOSTS = Path(__file__).parent.parent / "hosts"

ON_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")

ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="this system has no such files")


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """
    Run the command line in a process of its own.
    """
    command = [sys.executable, "-m", "autoloader", "probe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


NEEDS_SHELL = pytest.mark.skipif(sys.platform == "win32", reason="closes and leads streams by a shell of Unix")


def shell(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """
    Run the command line with streams that a shell has closed or led elsewhere.
    """
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "autoloader", "probe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def document(**changes: Any) -> dict[str, Any]:
    """
    Return a small recorded host.
    """
    return {"schema": 1, "synthetic": None, "answers": {"platform": "linux", **changes}}


def without_sources(facts: dict[str, Any]) -> dict[str, Any]:
    """
    Return facts without where they were read: ids are replaced there.
    """
    groups = {name: group for name, group in facts.items() if isinstance(group, dict)}
    return {name: {key: item for key, item in group.items() if key != "sources"} for name, group in groups.items()}


# What is recorded


def test_record_is_replayed_with_the_facts_and_the_path_of_the_machine(tmp_path: Path) -> None:
    """
    The path that was asked about is in the file; facts that do not change from one moment to the next are the same.
    """
    file = tmp_path / "host.json"
    there = run("--json", "--path", str(tmp_path), "--record", str(file))
    here = run("--json", "--replay", str(file))
    assert (there.returncode, here.returncode, here.stderr) == (0, 0, "")
    told, found = (without_sources(json.loads(each.stdout)) for each in (there, here))
    assert found["storage"]["path"] is not None
    assert found["storage"]["filesystem"] == told["storage"]["filesystem"]
    assert found["storage"]["kind"] == told["storage"]["kind"]
    steady = ("cpu", "numa", "memory", "shared_memory", "accelerator", "start_methods", "job")
    assert {name: found[name] for name in steady} == {name: told[name] for name in steady}


@pytest.mark.parametrize("user", ["python", "dev", "memory", "tmp", "nvme0n1"])
@ON_POSIX
def test_record_of_an_awkward_user_is_replayed(user: str, tmp_path: Path) -> None:
    """
    A home folder that is the system's, and a name that is a word, lose nothing.
    """
    file = tmp_path / "host.json"
    for home in (f"/home/{user}", "/tmp"):
        environment = {**os.environ, "USER": user, "LOGNAME": user, "HOME": home}
        there = run("--json", "--path", str(tmp_path), "--record", str(file), env=environment)
        here = run("--json", "--replay", str(file))
        assert (there.returncode, here.returncode, here.stderr) == (0, 0, "")
        told, found = (without_sources(json.loads(each.stdout)) for each in (there, here))
        assert {**found, "process": 0, "system": 0} == {**told, "process": 0, "system": 0}
        assert found["process"]["is_interpreter_python"] is True


def test_remark_says_what_was_replaced_and_what_was_not(tmp_path: Path) -> None:
    """
    Who sends the file knows what to look for.
    """
    file = tmp_path / "host.json"
    remark = run("--record", str(file), env={**os.environ, "USER": "dev"}).stderr
    assert remark.startswith(f"Recorded in {file}. Replaced are the names of this user and of this host")
    assert "'dev'" in remark.partition(" in home folders only, as it is a common word")[0]
    assert remark.endswith("Other words and paths are not: look through it before you send it.\n")
    assert remark.count("\n") == 1


def test_replay_of_another_path_says_that_it_is_not_there(tmp_path: Path) -> None:
    """
    Unknown storage has a reason.
    """
    file = str(HOSTS / "a.json")
    result = run("--replay", file, "--path", "/nowhere/at/all")
    assert result.returncode == 0
    assert result.stderr.startswith("'/nowhere/at/all' is not in ")
    assert result.stderr.endswith(": its storage is unknown. Recorded was that of the folder it ran in.\n")


# Documents that are none


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("{}", "a recorded host should be an object with 'schema' 1", id="other"),
        pytest.param("[1,", "Expecting value: line 1 column 4", id="cut"),
        pytest.param("", "Expecting value: line 1 column 1", id="empty"),
        pytest.param("[" * 200_000, "its lists and objects are nested too deeply", id="deep"),
        pytest.param(
            '{"schema": true, "answers": {}}', "a recorded host should be an object with 'schema' 1", id="true"
        ),
        pytest.param('{"schema": 1, "schema": 1}', "the key 'schema' is there twice in one object", id="twice"),
        pytest.param('{"a": NaN}', "'NaN' is no number of JSON, or too large", id="nan"),
        pytest.param('{"a": -Infinity}', "'-Infinity' is no number of JSON, or too large", id="infinity"),
        pytest.param('{"a": 1e999}', "'1e999' is no number of JSON, or too large", id="too-large"),
        pytest.param(f'{{"a": {"9" * 400}}}', "a number has 400 digits: 9999999999...", id="digits"),
        pytest.param(f'{{"a": {"9" * 9000}}}', "a number has 9000 digits: 9999999999...", id="many-digits"),
        pytest.param(b"\xff\xfe", "it is no UTF-8 text from byte 0 on", id="not-utf-8"),
        pytest.param(
            json.dumps(document(windows_processors="zz")),
            "windows_processors should be bytes in hexadecimal, and is 'zz'",
            id="hexadecimal",
        ),
        pytest.param(
            json.dumps(document(windows_processors="000")),
            "windows_processors should be bytes in hexadecimal, and is '000'",
            id="odd",
        ),
        pytest.param(json.dumps({**document(), "path": 3}), "path should be text, and is 3", id="path"),
        pytest.param(json.dumps(document(**{"a\x1b\n" * 90: 1})), "a recorded host has answers to ", id="control"),
        pytest.param(json.dumps(document(affinity=["x" * 9000])), "affinity[0] should be a whole number", id="long"),
    ],
)
def test_document_that_is_none_is_one_error(
    content: str | bytes, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    What, because, do, in one line of a length that people read; no facts.
    """
    file = tmp_path / "host.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    assert main(["probe", "--replay", str(file)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {str(file)!r} cannot be replayed: {text}")
    assert told.err.endswith(" Check the path, or record the host again: python -m autoloader probe --record FILE.\n")
    assert told.err.count("\n") == 1
    assert told.err.rstrip("\n").isprintable()
    assert len(told.err) < 700


def test_document_of_any_types_is_an_error_or_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Each answer in the place of each other one gives no traceback.
    """
    file = tmp_path / "host.json"
    known = json.loads((HOSTS / "a.json").read_text(encoding="utf-8"))["answers"]
    for question in known:
        for value in (None, True, -1, 10**20, 0.5, "x", [], [[]], {}, {"/a": None}, {"/a": "x"}, {"/a": {"b": []}}):
            file.write_text(json.dumps(document(**{**known, question: value})))
            assert main(["probe", "--json", "--replay", str(file)]) in {0, 2}
            assert "NaN" not in capsys.readouterr().out


def test_document_with_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    """
    Editors of Windows write one.
    """
    file = tmp_path / "host.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(document()).encode())
    assert main(["probe", "--replay", str(file)]) == 0


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
def test_file_without_an_end_is_not_read_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    """
    No more than a bound is read.
    """
    assert main(["probe", "--replay", "/dev/zero"]) == 2
    assert "cannot be replayed: it is larger than 64 MiB." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gone", "x" * 5000])
def test_file_that_is_not_there_is_one_error(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Also one whose name no system takes.
    """
    assert main(["probe", "--replay", str(tmp_path / name)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert len(told) < 600


# Places


@pytest.mark.parametrize("path", ["s3://bucket/x", "http://host/x", "file:///data", "GS://b"])
def test_url_is_no_folder(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Nothing is claimed of what lies elsewhere.
    """
    assert main(["probe", "--path", path]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        (
            f"error: --path={path!r} cannot be looked at: a URL names a place that is not a folder of this machine. "
            "Write the path of a folder here: for data in an object store, of where it is mounted or copied to.\n"
        ),
    )


@pytest.mark.parametrize("path", ["", "  "])
def test_empty_path_is_no_folder(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    It is not the current folder either.
    """
    assert main(["probe", "--path", path]) == 2
    assert capsys.readouterr().err.startswith(f"error: --path={path!r} cannot be looked at: it is empty. Write ")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("nope/x", "No such file or directory", id="gone"),
        pytest.param("x" * 300, "File name too long", id="long"),
        pytest.param("loop", "Too many levels of symbolic links", id="loop"),
        pytest.param("dangling", "No such file or directory", id="dangling"),
        pytest.param("file/x", "Not a directory", id="below-a-file"),
        pytest.param("a\0b", "it has a character that no path has", id="zero-byte"),
        pytest.param("a\nb\x1b", "No such file or directory", id="control"),
    ],
)
@ON_POSIX
def test_path_that_cannot_be_reached_has_a_remark(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    It names the folder whose storage is shown.
    """
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "later")
    (tmp_path / "file").write_text("")
    assert main(["probe", "--json", "--path", f"{tmp_path}/{name}"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["storage"]["path"] == str(tmp_path.resolve())
    assert told.err.endswith(
        f" cannot be reached: {reason}. The storage shown is that of {str(tmp_path.resolve())!r}.\n"
    )
    assert told.err.count("\n") == 1
    assert told.err.rstrip("\n").isprintable()


def test_path_that_is_there_has_no_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Nothing is said of what is as it should be.
    """
    assert main(["probe", "--path", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


# Measured places


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """
    Return a folder with some files.
    """
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.bin").write_bytes(bytes(32 << 10))
    return folder


def test_measure_times_reads_of_the_files_there(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Median and 95th percentile, in both forms; nothing is said of what is as it should be.
    """
    assert main(["probe", "--json", "--path", str(data), "--measure"]) == 0
    told = capsys.readouterr()
    storage = json.loads(told.out)["storage"]
    assert told.err == ""
    assert storage["answered_by"] in {"storage", "memory", "storage-or-memory"}
    assert 0 < storage["read_latency_seconds"] <= storage["read_latency_p95_seconds"]
    assert " reads in 9 files, " in storage["sources"]["answered_by"]
    assert main(["probe", "--path", str(data), "--measure"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("timed reads")]
    assert " ms, 95 % within " in line
    assert main(["probe", "--full", "--path", str(data), "--measure"]) == 0
    assert "storage.read_latency_seconds " in capsys.readouterr().out


def test_reads_are_not_timed_unless_that_is_asked_for(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A plain probe is quick and reads no file of the user's.
    """
    assert main(["probe", "--path", str(data)]) == 0
    assert "timed reads" not in capsys.readouterr().out
    assert main(["probe", "--json", "--path", str(data)]) == 0
    assert json.loads(capsys.readouterr().out)["storage"]["answered_by"] is None


def test_measure_of_what_cannot_be_read_says_why(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    An empty folder and one that is not there are answers.
    """
    (data / "empty").mkdir()
    with pytest.raises(FileNotFoundError) as caught:
        os.stat(data / "gone")
    reasons = {"empty": "no file with data was found", "gone": caught.value.strerror}
    for name, reason in reasons.items():
        assert main(["probe", "--path", str(data / name), "--measure"]) == 0
        told = capsys.readouterr()
        assert (f"\ntimed reads    none: {reason}\n" in told.out, told.err) == (True, "")


def test_measure_without_a_place_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Nobody wants the files of the current folder read by accident.
    """
    assert main(["probe", "--measure"]) == 2
    assert capsys.readouterr() == (
        "",
        (
            "error: --measure cannot be done: it reads files for some seconds, and nothing says which. "
            "Add --path DIR, the folder where the data is.\n"
        ),
    )


def test_measure_of_a_replayed_host_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Its files are not here.
    """
    file = str(HOSTS / "a.json")
    assert main(["probe", "--measure", "--path", "/data", "--replay", file]) == 2
    assert capsys.readouterr() == (
        "",
        (
            f"error: --measure cannot be done with --replay={file!r}: what that host answered was recorded before. "
            "Leave --measure out: what was measured when it was recorded is shown.\n"
        ),
    )


def test_measure_of_a_url_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """
    As without.
    """
    assert main(["probe", "--measure", "--path", "s3://bucket/x"]) == 2
    assert " cannot be looked at: a URL names a place " in capsys.readouterr().err


def test_measured_host_is_recorded_and_replayed_with_its_times(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A disk that is judged wrongly becomes a test in one move; the file has no names of the user's files.
    """
    file = data.parent / "host.json"
    assert main(["probe", "--json", "--path", str(data), "--measure", "--record", str(file)]) == 0
    there = json.loads(capsys.readouterr().out)["storage"]
    assert "3.bin" not in file.read_text(encoding="utf-8")
    assert main(["probe", "--json", "--replay", str(file)]) == 0
    here = json.loads(capsys.readouterr().out)["storage"]
    assert there["read_latency_seconds"] is not None
    unchanged = ("kind", "confidence", "answered_by", "read_latency_seconds", "read_latency_p95_seconds")
    assert {name: here[name] for name in unchanged} == {name: there[name] for name in unchanged}


# Streams


@NEEDS_SHELL
@ON_FULL
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_stderr_that_takes_nothing_changes_nothing(redirection: str, tmp_path: Path) -> None:
    """
    Remarks are lost, and neither the output nor the exit code changes.
    """
    file = tmp_path / "host.json"
    recorded = shell(redirection, "--json", "--record", str(file))
    assert (recorded.returncode, json.loads(recorded.stdout)["schema"]) == (0, 1)
    assert json.loads(file.read_text())["schema"] == 1
    assert shell(redirection, "--replay", str(tmp_path / "nope")).returncode == 2
    assert shell(redirection, "--nope").returncode == 2


@NEEDS_SHELL
@ON_FULL
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_check_without_stderr_prints_its_document_only(redirection: str) -> None:
    """
    The summary is lost, and does not follow the JSON.
    """
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "autoloader", "check", "--json"]
    result = subprocess.run([*command, __file__], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, json.loads(result.stdout)["files"]) == (0, 1)


@NEEDS_SHELL
@ON_FULL
@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_full_stdout_is_one_error(arguments: tuple[str, ...]) -> None:
    """
    The output is named, and the exit code is not that of success.
    """
    result = shell(">/dev/full", *arguments)
    assert (result.returncode, result.stderr) == (
        1,
        "error: The output cannot be written: No space left on device. Free some space, or write somewhere else.\n",
    )
    assert shell(">/dev/full 2>/dev/full", *arguments).returncode == 1


def test_interrupt_ends_with_130_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    At any place in the command.
    """

    def interrupted(**_: object) -> HostFacts:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe, "probe_host", interrupted)
    assert main(["probe"]) == 130
    assert capsys.readouterr() == ("", "")


def test_json_never_has_what_is_not_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A number that is none is unknown.
    """
    facts = HostFacts()
    monkeypatch.setattr(probe, "probe_host", lambda **_: facts._replace(cpu=facts.cpu._replace(load_1min=float("nan"))))
    assert main(["probe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cpu"]["load_1min"] is None
