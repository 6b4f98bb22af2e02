"""
What py-cpuinfo says of the processor, and the child that asks it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from autoloader.facts import CpuFacts
from autoloader.probe import cpuinfo_child, probe_host
from autoloader.probe.cpu_model import identity, with_details
from autoloader.store import Store
from support import FakeHost

SAID = {
    "brand_raw": "Example CPU @ 3 GHz",
    "flags": ["sse2", "avx", "sse2"],
    "l1_data_cache_size": 32768,
    "l2_cache_size": 1 << 20,
    "l3_cache_size": "16 MiB",
}


def test_details_are_flags_and_caches_and_a_brand_where_there_is_none() -> None:
    """
    Sizes that are no numbers are left out, and the system's own name of the processor stays.
    """
    host = FakeHost(details=json.dumps(SAID))
    facts = with_details(CpuFacts(), host)
    assert (facts.model, facts.flags) == ("Example CPU @ 3 GHz", ("avx", "sse2"))
    assert facts.cache_bytes == {"l1_data": 32768, "l2": 1 << 20}
    assert set(facts.sources) == {"model", "flags", "cache_bytes"}
    assert with_details(CpuFacts(model="Own"), host).model == "Own"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("Traceback", id="no-json"),
        pytest.param("[1]", id="no-object"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"flags": "sse2", "brand_raw": 7, "l2_cache_size": true}', id="other-types"),
    ],
)
def test_details_that_make_no_sense_are_unknown(text: str | None) -> None:
    """
    A missing or broken py-cpuinfo changes nothing.
    """
    assert with_details(CpuFacts(logical=4), FakeHost(details=text)) == CpuFacts(logical=4)


def test_details_are_asked_for_in_a_full_probe_only() -> None:
    """
    They take seconds.
    """
    host = FakeHost(details=json.dumps(SAID))
    assert probe_host(io=host).cpu.flags == ()
    assert probe_host(io=host, full=True).cpu.flags == ("avx", "sse2")


def test_identity_is_the_same_for_all_cpus_of_a_kind_and_at_any_time() -> None:
    """
    Clock rates and numbers of CPUs change; another processor has other flags.
    """
    cpuinfo = "processor\t: {}\nmodel name\t: A\ncpu MHz\t\t: {}\nflags\t\t: {}\n\nprocessor\t: 1\n"
    here = identity(cpuinfo.format(0, 2000, "fpu sse2"), None)
    assert here == identity(cpuinfo.format(3, 800, "fpu sse2"), None)
    assert here != identity(cpuinfo.format(0, 2000, "fpu"), None)
    assert identity(None, "Intel64 Family 6") == {"name": "Intel64 Family 6"}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """
    Count how often the child runs, in place of which this answers.
    """
    seen: list[Any] = []
    monkeypatch.setattr(cpuinfo_child, "_run", lambda interpreter: seen.append(interpreter) or '{"flags": ["avx"]}')
    return seen


def test_answer_is_kept_for_a_processor(tmp_path: Path, runs: list[Any]) -> None:
    """
    The second time nothing is started; another processor is asked about anew.
    """
    store = Store(tmp_path)
    answers = [cpuinfo_child.ask("python", store, {"processor": name}) for name in ("a", "a", "b")]
    assert answers == ['{"flags": ["avx"]}'] * 3
    assert len(runs) == 2


@pytest.mark.parametrize("kept", ["", "garbage", "[]", "{}", 5, None])
def test_answer_that_makes_no_sense_is_asked_for_again(tmp_path: Path, runs: list[Any], kept: Any) -> None:
    """
    What is kept would hide flags and caches for good.
    """
    store = Store(tmp_path)
    store.write("cpuinfo", {"processor": "a"}, kept)
    assert cpuinfo_child.ask("python", store, {"processor": "a"}) == '{"flags": ["avx"]}'
    assert len(runs) == 1


@pytest.mark.real_host
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes")
def test_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """
    And so does what it started: batch systems end jobs without asking.
    """
    (tmp_path / "cpuinfo.py").write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(f'{{child.pid}}\\n')\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    code = "from autoloader.probe.cpuinfo_child import _run; import sys; _run(sys.executable)"
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    deadline, pid = time.monotonic() + 60, ""
    while not pid.endswith("\n") and time.monotonic() < deadline:
        pid = (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""
        time.sleep(0.01)
    parent.kill()
    parent.wait(60)
    while psutil.pid_exists(int(pid)) and time.monotonic() < deadline:
        if psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("code", "is_answer"),
    [
        pytest.param("print('{\"flags\": []}')", True, id="answers"),
        pytest.param("print('nonsense')", False, id="no-json"),
        pytest.param("raise SystemExit(3)", False, id="fails"),
        pytest.param("import time; time.sleep(60)", False, id="hangs"),
        pytest.param(
            "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
            "time.sleep(60)",
            False,
            id="hangs-with-a-child",
        ),
    ],
)
@pytest.mark.slow_spawn
def test_child_that_fails_or_hangs_is_no_answer(
    code: str, is_answer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is ended with all that it started, and nothing of it is kept.
    """
    monkeypatch.setattr(cpuinfo_child, "_CODE", code)
    monkeypatch.setattr(cpuinfo_child, "PATIENCE_SECONDS", 20.0 if is_answer else 1.0)
    answer = cpuinfo_child.ask(sys.executable, Store(tmp_path), {})
    assert (answer is not None) == is_answer
    assert len(list(tmp_path.glob("cpuinfo-*"))) == is_answer


def test_interpreter_that_cannot_be_started_is_no_answer(tmp_path: Path) -> None:
    """
    As in a program that moved its Python away.
    """
    assert cpuinfo_child.ask(str(tmp_path / "missing"), Store(None), {}) is None
