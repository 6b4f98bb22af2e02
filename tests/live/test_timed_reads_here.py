"""
The command ``probe --measure`` on storage that is slow, or does not answer, in the kernel of this machine.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from live.running import TIMEOUT_SECONDS, clean_environment, output_of, probe_command, run

HAS_FUSE = hasattr(os, "geteuid") and os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.root,
    pytest.mark.skipif(not HAS_FUSE, reason="mounts a file system of its own, which takes root and /dev/fuse"),
]

SERVER = str(Path(__file__).with_name("slow_files.py"))

SCRIPT = """
"$1" "$2" "$3" "$4" >"$3.mounted" &
server=$!
until [ -s "$3.mounted" ]; do kill -0 $server || exit 99; sleep 0.05; done
shift 4
"$@"
code=$?
kill -9 $server
exit $code
"""
"""
Mounts the slow files, runs a command, and ends what served them.
"""


def beside_slow_files(point: Path, kind: str, *command: str) -> list[str]:
    """
    Return a command that runs another one where slow files are mounted.
    """
    if run("unshare", "--mount", "true").returncode != 0:
        pytest.skip("this machine does not let even root make a mount namespace")
    point.mkdir()
    return ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", sys.executable, SERVER, str(point), kind, *command]


def measured(point: Path, kind: str) -> dict[str, Any]:
    """
    Return the facts of storage of one kind.
    """
    command = beside_slow_files(point, kind, *probe_command("--json", "--path", str(point), "--measure"))
    return dict(json.loads(output_of(*command))["storage"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param("turning", ("hdd", "high"), id="one-block-after-another"),
        pytest.param("far", ("network", "low"), id="all-blocks-at-once"),
    ],
)
def test_storage_that_lets_reads_wait_is_told_by_how_several_wait(
    kind: str, expected: tuple[str, str], tmp_path: Path
) -> None:
    """
    20 ms a read are those of a disk that turns, unless four at once take no longer than one.
    """
    storage = measured(tmp_path / "data", kind)
    assert (storage["answered_by"], storage["filesystem"]) == ("storage", "fuse.mergerfs")
    assert (storage["kind"], storage["confidence"]) == expected
    assert storage["read_latency_p95_seconds"] >= storage["read_latency_seconds"] >= 0.02


def test_storage_that_never_answers_is_told_by_its_mount(tmp_path: Path) -> None:
    """
    A server that is dead holds whoever asks it, in the kernel: the command ends, and says what it is.
    """
    storage = measured(tmp_path / "data", "silent")
    assert (storage["path"], storage["kind"], storage["filesystem"]) == (
        str(tmp_path / "data"),
        "network",
        "fuse.sshfs",
    )
    assert (storage["answered_by"], storage["read_latency_seconds"]) == ("nothing", None)
    assert storage["sources"]["answered_by"] == "no answer in 6 s"


def waiting(process: psutil.Process) -> psutil.Process | None:
    """
    Return the process below one whose child times reads, once there is one.
    """
    for child in process.children(recursive=True):
        if any(word.endswith("timed_reads.py") for word in child.cmdline()):
            return child.parent()
    return None


def test_interrupt_ends_the_command_in_silence(tmp_path: Path) -> None:
    """
    Ctrl-C while a dead server is asked: 130, and not a word.
    """
    command = beside_slow_files(
        tmp_path / "data", "silent", *probe_command("--path", str(tmp_path / "data"), "--measure")
    )
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), text=True
    ) as started:
        end, asking = time.monotonic() + TIMEOUT_SECONDS, None
        while asking is None and started.poll() is None and time.monotonic() < end:
            asking = waiting(psutil.Process(started.pid))
            time.sleep(0.02)
        assert asking is not None
        asking.send_signal(signal.SIGINT)
        told = started.communicate(timeout=TIMEOUT_SECONDS)
    assert (told[0], started.returncode) == ("", 130)
    assert "Traceback" not in told[1]


@pytest.mark.parametrize("way", ["itself", "by-a-link", "below"])
def test_plain_probe_does_not_ask_a_mount_that_never_answers(way: str, tmp_path: Path) -> None:
    """
    What it is stands in the mount table: the kind is known, and nothing waits.
    """
    point, link = tmp_path / "data", tmp_path / "link"
    link.symlink_to(point)
    path = {"itself": point, "by-a-link": link / "train", "below": point / "train"}[way]
    command = beside_slow_files(point, "silent", *probe_command("--json", "--path", str(path)))
    storage = json.loads(output_of(*command))["storage"]
    assert storage["path"] == str(point if way == "itself" else point / "train")
    assert (storage["kind"], storage["filesystem"]) == ("network", "fuse.sshfs")
