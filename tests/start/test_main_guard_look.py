"""
The look for a missing main guard from real stacks: every way to run Python, without torch.
"""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from start.launchers import DEVELOP_SCRIPT, PIP_SCRIPT, SETUPTOOLS_SCRIPT, TOOL
from start.running import PATIENCE_SECONDS, environment_in, run, write

pytestmark = [
    pytest.mark.real_host,
]

LOOK = """
from autoloader.probe import probe_process
from autoloader.start.main_guard import find_unguarded


def look(file=None):
    again = probe_process().process.reimported_main is not None
    place = find_unguarded()
    said = "not imported again" if not again else "guarded" if place is None else f"line {place.line}: {place.code}"
    print(said, *[place.fix] if again and place is not None else [], sep="\\n", file=file, flush=True)
"""
"""
What a loader asks before it starts a worker, without the loader: no torch is loaded.
"""

GUARDED = ["guarded"]
NOT_AGAIN = ["not imported again"]

IN_A_GUARD = '    if __name__ == "__main__":\n        '

IN_A_FUNCTION = (
    '    def main():\n        {}  # and what belongs to it\n\n    if __name__ == "__main__":\n        main()'
)


def place(line: int, code: str, fix: str) -> list[str]:
    """
    Return what the look from an unguarded line prints.
    """
    return [f"line {line}: {code}", *fix.splitlines()]


def guarded_call(line: int, code: str) -> list[str]:
    """
    Return what the look from an unguarded call prints: the call goes under a guard.
    """
    return place(line, code, IN_A_GUARD + code)


def block(line: int, code: str) -> list[str]:
    """
    Return what the look from an unguarded block prints: the block becomes a function.
    """
    return place(line, code, IN_A_FUNCTION.format(code))


LOOKS = [
    pytest.param({"job.py": "from look import look\n\nlook()\n"}, ("job.py",), guarded_call(3, "look()"), id="call"),
    pytest.param(
        {"job.py": "from look import look\nfor epoch in range(1):\n    look()\n"},
        ("job.py",),
        place(3, "look()", IN_A_FUNCTION.format("for epoch in range(1):")),
        id="loop",
    ),
    pytest.param(
        {"job.py": "from look import look\ndef main():\n    look()\nresult = main()\n"},
        ("job.py",),
        guarded_call(4, "result = main()"),
        id="function",
    ),
    pytest.param(
        {"job.py": "from look import look\ndef main(*paths):\n    look()\nmain(\n    'a',\n    'b',\n)\n"},
        ("job.py",),
        place(4, "main(", IN_A_GUARD + "main('a', 'b')"),
        id="call-over-lines",
    ),
    pytest.param(
        {"job.py": "from look import look\ntry:\n    look()\nfinally:\n    pass\n"},
        ("job.py",),
        place(3, "look()", IN_A_FUNCTION.format("try:")),
        id="try",
    ),
    pytest.param(
        {"job.py": "from look import look\nclass Trainer:\n    look()\n"},
        ("job.py",),
        block(2, "class Trainer:"),
        id="class",
    ),
    pytest.param(
        {"job.py": "from look import look\nif __name__ == '__main__':\n    look()\n"}, ("job.py",), GUARDED, id="guard"
    ),
    pytest.param(
        {"job.py": "from look import look\nif '__main__' == __name__:\n    look()\n"},
        ("job.py",),
        GUARDED,
        id="guard-turned-round",
    ),
    pytest.param(
        {
            "job.py": "from look import look\ndef main():\n    if __name__ == '__main__':\n        look()\nmain()\n",
        },
        ("job.py",),
        GUARDED,
        id="guard-in-function",
    ),
    pytest.param(
        {"train.py": "from look import look\nfor epoch in range(1):\n    look()\n", "job.py": "import train\n"},
        ("job.py",),
        place(
            1,
            "import train",
            "    # in train.py, line 3 (look()) goes into a function: def main(): ...\n"
            "    import train\n" + IN_A_GUARD + "train.main()",
        ),
        id="imported-module",
    ),
    pytest.param(
        {"train.py": "from look import look\nlook()\nloss = 0\n", "job.py": "from train import (\n    loss,\n)\n"},
        ("job.py",),
        place(
            1,
            "from train import (",
            "    # in train.py, line 2 (look()) goes into a function: def main(): ...\n"
            "    from train import loss\n" + IN_A_GUARD + "import train\n        train.main()",
        ),
        id="name-from-imported-module",
    ),
    pytest.param(
        {
            "project/__init__.py": "from . import fit\n",
            "project/fit.py": "from look import look\nlook()\n",
            "job.py": "import project\n",
        },
        ("job.py",),
        place(
            1,
            "import project",
            "    # in fit.py, line 2 (look()) goes into a function: def main(): ...\n"
            "    import project\n" + IN_A_GUARD + "import project.fit\n        project.fit.main()",
        ),
        id="imported-by-imported-module",
    ),
    pytest.param(
        {
            "train.py": "from look import look\nlook()\n",
            "job.py": "import importlib\nimportlib.import_module('train')\n",
        },
        ("job.py",),
        guarded_call(2, "importlib.import_module('train')"),
        id="imported-by-call",
    ),
    pytest.param(
        {"train.py": "from look import look\nlook()\n", "job.py": "if __name__ == '__main__':\n    import train\n"},
        ("job.py",),
        GUARDED,
        id="imported-under-guard",
    ),
    pytest.param(
        {"project/__init__.py": "", "project/__main__.py": "from look import look\nlook()\n"},
        ("-m", "project"),
        NOT_AGAIN,
        id="package",
    ),
    pytest.param(
        {"project/__init__.py": "", "project/fit.py": "from look import look\nlook()\n"},
        ("-m", "project.fit"),
        guarded_call(2, "look()"),
        id="module",
    ),
    pytest.param(
        {
            "project/__init__.py": "",
            "project/fit.py": "from look import look\nif __name__ == '__main__':\n    look()\n",
        },
        ("-m", "project.fit"),
        GUARDED,
        id="module-guarded",
    ),
    pytest.param({}, ("-c", "from look import look; look()"), NOT_AGAIN, id="command"),
    pytest.param(
        {**TOOL, "tool/cli.py": "from look import look as main\n", "tool-x": PIP_SCRIPT}, ("tool-x",), GUARDED, id="pip"
    ),
    pytest.param(
        {**TOOL, "tool/cli.py": "from look import look as main\n", "tool-x": SETUPTOOLS_SCRIPT},
        ("tool-x",),
        GUARDED,
        id="setuptools",
    ),
    pytest.param(
        {"job.py": "from look import look\nif __name__ == '__main__':\n    look()\n", "tool-x": DEVELOP_SCRIPT},
        ("tool-x",),
        GUARDED,
        id="develop-guarded",
    ),
    pytest.param(
        {"job.py": "from look import look\nlook()\n", "tool-x": DEVELOP_SCRIPT},
        ("tool-x",),
        guarded_call(2, "look()"),
        id="develop",
    ),
    pytest.param(
        {"job.py": "from look import look\nlook()\n", "tool.py": "import runpy\nrunpy.run_path('job.py')\n"},
        ("tool.py",),
        guarded_call(2, "runpy.run_path('job.py')"),
        id="run-path",
    ),
    pytest.param(
        {
            "job.py": "from look import look\nlook()\n",
            "tool.py": "import runpy\nrunpy.run_module('job', alter_sys=True)\n",
        },
        ("tool.py",),
        guarded_call(2, "runpy.run_module('job', alter_sys=True)"),
        id="run-module",
    ),
    pytest.param(
        {
            "job.py": "from look import look\nlook()\n",
            "tool.py": "import runpy\nrunpy.run_path('job.py', run_name='__main__')\n",
        },
        ("tool.py",),
        guarded_call(2, "look()"),
        id="run-path-as-main",
    ),
    pytest.param(
        {
            "job.py": "from look import look\nif __name__ == '__main__':\n    look()\n",
            "tool.py": "import runpy\nrunpy.run_path('job.py', run_name='__main__')\n",
        },
        ("tool.py",),
        GUARDED,
        id="run-path-as-main-guarded",
    ),
    pytest.param(
        {
            "job.py": "from look import look\nif __name__ == '__main__':\n    look()\n",
            "tool.py": "import runpy\nrunpy.run_module('job', run_name='__main__', alter_sys=True)\n",
        },
        ("tool.py",),
        GUARDED,
        id="run-module-as-main-guarded",
    ),
    pytest.param(
        {
            "job.py": "import threading\nfrom look import look\n"
            "thread = threading.Thread(target=look)\nthread.start(); thread.join()\n"
        },
        ("job.py",),
        block(4, "thread.start(); thread.join()"),
        id="thread",
    ),
    pytest.param(
        {
            "job.py": "import threading\nfrom look import look\n"
            "def work():\n    threading.main_thread().join()\n    look()\n"
            "threading.Thread(target=work).start()\n",
        },
        ("job.py",),
        NOT_AGAIN,
        id="thread-that-outlives-the-script",
    ),
    pytest.param({"app/__main__.py": "from look import look\nlook()\n"}, ("app",), NOT_AGAIN, id="folder"),
]


@pytest.mark.parametrize(("files", "command", "said"), LOOKS)
def test_look_from_a_real_stack_tells_what_a_worker_would_run_again(
    files: dict[str, str], command: tuple[str, ...], said: list[str], tmp_path: Path
) -> None:
    """
    Every way to run Python: the line at fault and what to write instead, or that nothing is missing.
    """
    write(tmp_path, {"look.py": LOOK, **files})
    ran = run(tmp_path, *command)
    assert (ran.code, ran.errors) == (0, "")
    assert ran.lines == said


EXAMPLES = """
from look import look

def example():
    '''
    >>> look(open("said", "w"))
    '''

import doctest
"""

TOOLS = [
    pytest.param(
        "from look import look\nlook(open('said', 'w'))\n", guarded_call(2, "look(open('said', 'w'))"), id="call"
    ),
    pytest.param(f"{EXAMPLES}doctest.testmod()\n", guarded_call(9, "doctest.testmod()"), id="doctest"),
    pytest.param(f"{EXAMPLES}if __name__ == '__main__':\n    doctest.testmod()\n", GUARDED, id="doctest-guarded"),
]


@pytest.mark.parametrize(("job", "said"), TOOLS)
def test_look_under_a_debugger_is_the_same(job: str, said: list[str], tmp_path: Path) -> None:
    """
    The script is the main module under pdb, too; what doctest runs is no line of it, but the call of doctest is.
    """
    write(tmp_path, {"look.py": LOOK, "job.py": job})
    assert run(tmp_path, "job.py").code == 0
    assert (tmp_path / "said").read_text().splitlines() == said
    (tmp_path / "said").unlink()
    assert run(tmp_path, "-m", "pdb", "job.py", stdin="c\nq\n").code == 0
    assert (tmp_path / "said").read_text().splitlines() == said


@pytest.mark.parametrize("options", [("-",), ("-i",), ("-i", "job.py")], ids=["stdin", "interactive", "after-script"])
def test_look_from_what_is_typed_finds_nothing_to_import_again(options: tuple[str, ...], tmp_path: Path) -> None:
    """
    A script on standard input has a name and no file; what is typed after a script has that script's file no more.
    """
    write(tmp_path, {"look.py": LOOK, "job.py": "x = 1\n"})
    ran = run(tmp_path, *options, stdin="from look import look\nlook()\n")
    assert ran.code == 0
    assert ran.lines == (GUARDED if options == ("-",) else NOT_AGAIN)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_look_from_a_terminal_finds_nothing_to_import_again(tmp_path: Path) -> None:
    """
    Python 3.13 has a prompt of its own there, whose main module has a file.
    """
    import pty

    write(tmp_path, {"look.py": LOOK})
    ours, its = pty.openpty()
    environment = {**environment_in(tmp_path), "TERM": "xterm", "PYTHON_HISTORY": str(tmp_path / "history")}
    streams = {"stdin": its, "stdout": its, "stderr": its}
    with subprocess.Popen([sys.executable, "-q"], cwd=tmp_path, env=environment, **streams) as python:
        os.close(its)
        os.write(ours, b"from look import look\nlook(open('said', 'w'))\nexit()\n")
        shown = read_to_the_end(ours)
        assert python.wait(PATIENCE_SECONDS) == 0, shown
    os.close(ours)
    assert (tmp_path / "said").read_text().splitlines() == NOT_AGAIN, shown


def read_to_the_end(terminal: int) -> bytes:
    """
    Return what a process shows until it closes its terminal.
    """
    shown, deadline = b"", time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # Linux's way to say that nobody is at the other end
                break
    return shown


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_each_python_that_is_started_is_counted(tmp_path: Path) -> None:
    """
    What the tests beside this one count: a child of each method leaves a line.
    """
    job = """
import multiprocessing

def work():
    pass

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=work)
        process.start()
        process.join()
"""
    write(tmp_path, {"job.py": job})
    ran = run(tmp_path, "job.py")
    assert (ran.code, ran.errors) == (0, "")
    assert ["spawn_main" in command for command in ran.children] == [True, False]
