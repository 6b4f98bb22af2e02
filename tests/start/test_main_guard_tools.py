"""
Workers under the tools that run people's code: pytest, doctest, IPython, Jupyter, debuggers, profilers, torchrun.
"""

import json
import sys
from pathlib import Path

import pytest

from start.running import SAMPLES, run, write

pytestmark = [
    pytest.mark.torch,
    pytest.mark.real_host,
    pytest.mark.skipif(sys.platform == "win32", reason="scripts choose forkserver; under Wine each takes a minute"),
]

FORKSERVER, FORKED, SPAWNED = ([*SAMPLES, f"process {method}"] for method in ("forkserver", "fork", "spawn"))

GUARDED = """
from data import Numbers, auto_loader, multiprocessing, show

class Own(Numbers):
    pass

def main():
    show(auto_loader(Own(), 4, num_workers=2))
    show(auto_loader(Numbers(), 4, num_workers=2))

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver", force=True)
    main()
"""

UNGUARDED = """
from data import Numbers, auto_loader, multiprocessing

multiprocessing.set_start_method("spawn", force=True)
for batch in auto_loader(Numbers(), 4, num_workers=2):
    print(batch.tolist())
"""

LINE_AT_FAULT = "and line 4 of it, 'for batch in auto_loader(Numbers(), 4, num_workers=2):', would start workers"


def tool(name: str) -> str:
    """
    Return the path of a command that is installed beside this Python.
    """
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"{name} is not installed")
    return str(path)


TESTS = """
from data import Numbers, auto_loader, multiprocessing

class Own(Numbers):
    pass

def test_own():
    multiprocessing.set_start_method("forkserver")
    for workers in (2, None):
        loader = auto_loader(Own(), 4, num_workers=workers)
        assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert [loader.plan.value(name) for name in ("backend", "multiprocessing_context")] == ["process", "forkserver"]
"""


@pytest.mark.parametrize("command", ["-m pytest", "pytest"])
def test_pytest(command: str, tmp_path: Path) -> None:
    """
    A test's own class loads in workers: they import pytest's command, which is guarded, or nothing.
    """
    write(tmp_path, {"test_own.py": TESTS})
    start = ("-m", "pytest") if command == "-m pytest" else (tool("pytest"),)
    ran = run(tmp_path, *start, "-q", "-W", "error", "-p", "no:cacheprovider", "test_own.py")
    assert (ran.code, ran.errors) == (0, ""), ran.lines
    assert "1 passed" in ran.lines[-1]
    assert ["forkserver" in command for command in ran.children] == [True]


EXAMPLES = '''
"""
>>> from data import auto_loader, multiprocessing, show
>>> multiprocessing.set_start_method("forkserver")
>>> show(auto_loader(Own(), 4, num_workers=2))
[0, 1, 2, 3]
[4, 5, 6, 7]
process forkserver
"""

from data import Numbers

class Own(Numbers):
    pass
'''


def test_doctest(tmp_path: Path) -> None:
    """
    The examples of a module, run by doctest's command: workers import doctest again, and do nothing there.
    """
    write(tmp_path, {"examples.py": EXAMPLES})
    ran = run(tmp_path, "-m", "doctest", "examples.py")
    assert (ran.code, ran.lines, ran.errors) == (0, [], "")
    assert ["forkserver" in command for command in ran.children] == [True]


IPYTHON = """
from data import *
class Own(Numbers):
    pass

multiprocessing.set_start_method("forkserver")
show(auto_loader(Numbers(), 4, num_workers=2))
show(auto_loader(Own(), 4, num_workers=2))
get_ipython().run_line_magic("run", "guarded.py")
get_ipython().run_line_magic("run", "unguarded.py")
print("end")
"""


def test_ipython(tmp_path: Path) -> None:
    """
    What is typed is not imported again, and its classes load in forked workers; ``%run`` makes a script of a file.
    """
    write(tmp_path, {"guarded.py": GUARDED, "unguarded.py": UNGUARDED})
    options = ("--no-banner", "--colors=NoColor", "--quick")
    ran = run(tmp_path, tool("ipython"), *options, "-c", IPYTHON, IPYTHONDIR=str(tmp_path / "ipython"))
    assert (ran.code, ran.errors) == (0, "")
    batches = [*FORKSERVER, *FORKED, *FORKSERVER * 2]
    assert ran.lines[: len(batches)] == batches
    assert any(line.startswith("MissingMainGuardError: ") and LINE_AT_FAULT in line for line in ran.lines)
    assert ran.lines[-1] == "end"


NOTEBOOK = """
import json, os, sys
from jupyter_client.manager import KernelManager

manager = KernelManager()
manager.start_kernel()
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)

def run_cell(code):
    said = {"stdout": "", "stderr": ""}
    def note(message):
        content = message["content"]
        if message["msg_type"] == "stream":
            said[content["name"]] += content["text"]
        elif message["msg_type"] == "error":
            said["stderr"] += content["evalue"]
    client.execute_interactive(code, timeout=60, output_hook=note)
    return said

with open("cells.json") as file:
    print(json.dumps([run_cell(code) for code in json.load(file)]))
client.stop_channels()
manager.shutdown_kernel()
"""
"""
Executes cells as a notebook does.
"""

CELLS = [
    """
import torch
from data import *
class Own(Numbers):
    pass
product = torch.ones(500, 500) @ torch.ones(500, 500)
for batch in auto_loader(Own(), 4, num_workers=2):
    print(batch.tolist())
""",
    "show(auto_loader(Own(), 4))",
    "multiprocessing.set_start_method('spawn', force=True); show(auto_loader(Own(), 4, num_workers=2))",
    "show(auto_loader(Numbers(), 4, num_workers=2))",
    "show(auto_loader(Own(), 4, num_workers=2, multiprocessing_context='spawn'))",
]


def test_jupyter(tmp_path: Path) -> None:
    """
    Cells of a real kernel: a notebook's class loads in forked workers whatever is set, a module's as it is set.
    """
    pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    write(tmp_path, {"notebook.py": NOTEBOOK, "cells.json": json.dumps(CELLS)})
    folders = {name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")}
    ran = run(tmp_path, "notebook.py", **folders)
    assert ran.code == 0, ran.errors
    cells = json.loads(ran.lines[-1])
    assert [cell["stdout"].splitlines() for cell in cells] == [
        SAMPLES,
        FORKED,
        FORKED,
        SPAWNED,
        [*SAMPLES, "thread spawn"],
    ]
    assert [cell["stderr"] for cell in cells[:4]] == [""] * 4
    assert (
        "AutoloaderWarning: backend.unloadable: num_workers=2 starts no process, because a worker that spawn starts "
        "cannot load dataset: it is of the class Own, which a worker does not find in the main module; batches load in "
        "the training process. Move Own into a .py file and import it from there." in cells[4]["stderr"]
    )


def test_typed_line_by_line(tmp_path: Path) -> None:
    """
    The prompt of ``python -i``: a module's class loads in workers of the method that is set.
    """
    typed = GUARDED.partition("class Own")[0] + (
        "multiprocessing.set_start_method('forkserver')\n"
        "show(auto_loader(Numbers(), 4, num_workers=2))\n"
        "class Own(Numbers): pass\n\n"
        "show(auto_loader(Own(), 4, num_workers=2))\n"
    )
    ran = run(tmp_path, "-i", stdin=typed)
    assert (ran.code, ran.lines) == (0, [*FORKSERVER, *FORKED])
    assert "Error" not in ran.errors
    assert "Warning" not in ran.errors


def test_coverage_and_cprofile(tmp_path: Path) -> None:
    """
    Under coverage the script is the main module; to cProfile it is none, and its class loads in forked workers.
    """
    write(tmp_path, {"job.py": GUARDED})
    ran = run(tmp_path, "-m", "coverage", "run", "--data-file=coverage", "job.py")
    assert (ran.code, ran.lines, ran.errors) == (0, FORKSERVER * 2, "")
    ran = run(tmp_path, "-m", "cProfile", "-o", "profile", "job.py")
    assert (ran.code, ran.lines, ran.errors) == (0, [*FORKED, *FORKSERVER], "")


def test_pdb(tmp_path: Path) -> None:
    """
    A guarded script has workers, by fork where the debugger leaves multiprocessing no other way (CPython 3.11).
    """
    write(tmp_path, {"job.py": GUARDED})
    ran = run(tmp_path, "-m", "pdb", "job.py", stdin="c\nq\n")
    assert (ran.code, ran.errors) == (0, "")
    said = [line.removeprefix("(Pdb) ") for line in ran.lines]
    assert said.count(SAMPLES[0]) == said.count(SAMPLES[1]) == 2
    assert sum(line.startswith("process fork") for line in said) == 2


def test_torchrun(tmp_path: Path) -> None:
    """
    Two ranks of one node run an unguarded script: both load in a thread, and the first says so.
    """
    job = """
from data import *
multiprocessing.set_start_method("spawn")
loader = auto_loader(Numbers(), 4)
seen = [batch.tolist() for batch in loader]
open(f"rank{os.environ['RANK']}", "w").write(f"{seen} {loader.plan.value('backend')}")
"""
    write(tmp_path, {"job.py": "import os\n" + job})
    ran = run(tmp_path, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "job.py")
    assert ran.code == 0, ran.errors
    for rank in "01":
        assert (tmp_path / f"rank{rank}").read_text() == "[[0, 1, 2, 3], [4, 5, 6, 7]] thread"
    assert ran.errors.count("AutoloaderWarning: backend.missing-main-guard: num_workers=1 starts no process") == 1
    assert ran.errors.count("AutoloaderWarning") == 1
    assert [command for command in ran.children if not command.endswith("job.py")] == []
    assert len(ran.children) == 2


EMBEDDED = """
import sys
python, sys.executable = sys.executable, {program!r}
from data import *

show(auto_loader(Numbers(), 4, num_workers=2, multiprocessing_context="spawn"))
show(auto_loader(Numbers(), 4, num_workers=2, multiprocessing_context="forkserver"))
show(auto_loader(Numbers(), 4, num_workers=2, multiprocessing_context="fork"))
multiprocessing.set_executable(python)
sys.frozen = True
show(auto_loader(Numbers(), 4, num_workers=2, multiprocessing_context="spawn"))
multiprocessing.set_start_method("spawn")
show(auto_loader(Numbers(), 4, num_workers=2))
show(auto_loader(Numbers(), 4))
"""


def test_program_that_is_not_python_is_never_started(tmp_path: Path) -> None:
    """
    An application that embeds Python, and one that is frozen: a thread or forked workers instead, said once.
    """
    program = tmp_path / "application"
    program.write_text(f"#!/bin/sh\necho started >> {tmp_path}/application-started\n")
    program.chmod(0o755)
    write(tmp_path, {"job.py": EMBEDDED.format(program=str(program))})
    ran = run(tmp_path, "job.py")
    assert ran.code == 0, ran.errors
    threads = [[*SAMPLES, f"thread {method}"] for method in ("spawn", "forkserver")]
    assert ran.lines[:12] == [*threads[0], *threads[1], *FORKED, *threads[0]]
    assert ran.lines[12:15] == FORKED
    assert ran.lines[15:17] == SAMPLES
    assert (
        f"AutoloaderWarning: backend.not-python: num_workers=2 starts no process, because spawn would start {program} "
        "for each worker, which is not a Python interpreter; batches load in the training process. Call "
        "multiprocessing.set_executable() with the path of one, or pass num_workers=0." in ran.errors
    )
    assert ran.errors.count("AutoloaderWarning") == 1
    assert not (tmp_path / "application-started").exists()
    assert len(ran.started) == 1
