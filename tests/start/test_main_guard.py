"""
Scripts with and without a main guard, run with real workers: what is said, what is started, and that all samples come.
"""

import py_compile
import sys
from pathlib import Path

import pytest

from start.running import SAMPLES, Ran, run, write

pytestmark = [
    pytest.mark.torch,
    pytest.mark.real_host,
]

NEEDS_FORK = pytest.mark.skipif(sys.platform == "win32", reason="the script forks or has a fork server")

BECAUSE = (
    "each worker that {method} starts imports {file} again, and line {line} of it, {code!r}, would start workers "
    "there, too"
)
FIX = "Write it like this:\n\n{fix}\n\nThen only this process runs it."

ERROR = f"autoloader.errors.MissingMainGuardError: num_workers=2 cannot start: {BECAUSE}. {FIX}\n"

WARNING = (
    "{at}: AutoloaderWarning: backend.missing-main-guard: num_workers=1 starts no process, because "
    f"{BECAUSE}; batches load in the training process. {FIX} "
    "To silence this: warnings.filterwarnings('ignore', 'backend.missing-main-guard')."
)

LOOP_IN_FUNCTION = """\
    def main():
        for batch in loader:  # and what belongs to it

    if __name__ == "__main__":
        main()"""


def check_error(ran: Ran, *, lines: list[str], **evidence: object) -> None:
    """
    Check that a script ended with the error, after so many lines, and that it was the only Python that ran.
    """
    assert ran.errors.endswith(ERROR.format(**evidence)), ran.errors
    assert (ran.code, ran.errors.count("Traceback")) == (1, 1)
    assert "bootstrapping phase" not in ran.errors  # torch's own, from a child
    assert ran.lines == lines
    assert len(ran.started) == 1


def test_loop_at_top_level(tmp_path: Path) -> None:
    """
    Our own workers become a thread and a warning, those of the user's an error; nothing was started for either.
    """
    job = """
from data import Numbers, auto_loader, multiprocessing

multiprocessing.set_start_method("spawn")
loader = auto_loader(Numbers(), 4)
for epoch in range(2):
    for batch in loader:
        print(batch.tolist())
loader = auto_loader(Numbers(), 4, num_workers=2)
for batch in loader:
    print(batch.tolist())
"""
    write(tmp_path, {"job.py": job})
    ran, file = run(tmp_path, "job.py"), str(tmp_path / "job.py")
    check_error(
        ran,
        lines=[*SAMPLES, *SAMPLES],
        method="spawn",
        file=file,
        line=9,
        code="for batch in loader:",
        fix=LOOP_IN_FUNCTION,
    )
    warning = WARNING.format(
        at=f"{file}:6",
        method="spawn",
        file=file,
        line=6,
        code="for batch in loader:",
        fix=LOOP_IN_FUNCTION.replace("for batch in loader:", "for epoch in range(2):"),
    )
    assert warning in ran.errors
    assert ran.errors.count("AutoloaderWarning") == 1


@NEEDS_FORK
def test_call_at_top_level(tmp_path: Path) -> None:
    """
    The loop stands in a function, and the call of that is what has to be guarded.
    """
    job = """
from data import Numbers, auto_loader, multiprocessing, show


def main():
    show(auto_loader(Numbers(), 4, num_workers=2))


multiprocessing.set_start_method("forkserver")
main()
"""
    write(tmp_path, {"job.py": job})
    check_error(
        run(tmp_path, "job.py"),
        lines=[],
        method="forkserver",
        file=tmp_path / "job.py",
        line=9,
        code="main()",
        fix='    if __name__ == "__main__":\n        main()',
    )


@pytest.mark.slow_spawn
def test_loop_at_top_level_of_an_imported_module(tmp_path: Path) -> None:
    """
    The main module is only ``import train``: both places are named.
    """
    train = """
from data import Numbers, auto_loader, multiprocessing

multiprocessing.set_start_method("spawn")
for batch in auto_loader(Numbers(), 4, num_workers=2):
    print(batch.tolist())
"""
    write(tmp_path, {"train.py": train, "main.py": "import train\n"})
    check_error(
        run(tmp_path, "main.py"),
        lines=[],
        method="spawn",
        file=tmp_path / "main.py",
        line=1,
        code="import train",
        fix="    # in train.py, line 4 (for batch in auto_loader(Numbers(), 4, num_workers=2):) goes into a function: "
        'def main(): ...\n    import train\n    if __name__ == "__main__":\n        train.main()',
    )


@NEEDS_FORK
def test_module_of_a_package_is_imported_again(tmp_path: Path) -> None:
    """
    ``python -m package.module`` needs a guard like a script, and works with one.
    """
    fit = """
from data import Numbers, auto_loader, multiprocessing

class Own(Numbers):
    pass

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
for batch in auto_loader(Own(), 4, num_workers=2):
    print(batch.tolist())
"""
    write(tmp_path, {"project/__init__.py": "", "project/fit.py": fit})
    check_error(
        run(tmp_path, "-m", "project.fit"),
        lines=[],
        method="forkserver",
        file=tmp_path / "project" / "fit.py",
        line=8,
        code="for batch in auto_loader(Own(), 4, num_workers=2):",
        fix=LOOP_IN_FUNCTION.replace("loader:", "auto_loader(Own(), 4, num_workers=2):"),
    )
    write(tmp_path, {"project/fit.py": GUARDED.format(guard='__name__ == "__main__"')})
    check_workers(run(tmp_path, "-m", "project.fit"))


@pytest.mark.slow_spawn
def test_thread_that_the_script_waits_for(tmp_path: Path) -> None:
    """
    The loop runs in a thread, and the line at fault is where the main thread waits; runpy's caller counts like it.
    """
    job = """
import runpy, threading
from data import Numbers, auto_loader, multiprocessing, show

def work():
    try:
        show(auto_loader(Numbers(), 4, num_workers=2))
    except RuntimeError as error:
        print(error)

multiprocessing.set_start_method("spawn")
thread = threading.Thread(target=work)
thread.start(); thread.join()
runpy.run_path("train.py")
"""
    train = "from data import *\nfor batch in auto_loader(Numbers(), 4, num_workers=2):\n    pass\n"
    write(tmp_path, {"job.py": job, "train.py": train})
    ran, file = run(tmp_path, "job.py"), tmp_path / "job.py"
    code = "thread.start(); thread.join()"
    fix = LOOP_IN_FUNCTION.replace("for batch in loader:", code)
    said = ERROR.format(method="spawn", file=file, line=12, code=code, fix=fix).partition(": ")[2].splitlines()
    code = 'runpy.run_path("train.py")'
    fix = f'    if __name__ == "__main__":\n        {code}'
    check_error(ran, lines=said, method="spawn", file=file, line=13, code=code, fix=fix)


GUARDED = """
from data import Numbers, auto_loader, multiprocessing, show

class Own(Numbers):
    pass

if {guard}:
    multiprocessing.set_start_method("forkserver")
    show(auto_loader(Own(), 4, num_workers=2))
    show(auto_loader(Own(), 4))
"""
"""
A guarded script, whose workers need its class.
"""

IN_WORKERS = [*SAMPLES, "process forkserver"] * 2

GUARD_IN_FUNCTION = """
from data import Numbers, auto_loader, multiprocessing, show

class Own(Numbers):
    pass

def main():
    if __name__ != "__main__":
        return
    multiprocessing.set_start_method("forkserver")
    show(auto_loader(Own(), 4, num_workers=2))
    show(auto_loader(Own(), 4))

main()
"""


def check_workers(ran: Ran, *, lines: list[str] = IN_WORKERS) -> None:
    """
    Check that a script loaded all samples in workers of one fork server, without a word.
    """
    assert (ran.code, ran.errors) == (0, "")
    assert ran.lines == lines
    assert ["forkserver" in command for command in ran.children] == [True]


@NEEDS_FORK
@pytest.mark.parametrize(
    "job",
    [GUARDED.format(guard='"__main__" == __name__'), GUARD_IN_FUNCTION],
    ids=["guard-turned-round", "guard-in-function"],
)
def test_guarded_script_has_workers(job: str, tmp_path: Path) -> None:
    """
    The user's number of workers and our own start; the class of the script is found there.
    """
    write(tmp_path, {"job.py": job})
    check_workers(run(tmp_path, "job.py"))


@NEEDS_FORK
def test_package_needs_no_guard(tmp_path: Path) -> None:
    """
    ``python -m package`` runs its ``__main__``, which no worker imports: with plain torch it works unguarded, too.
    """
    plain = """
import threading
from torch.utils.data import DataLoader
print([b.tolist() for b in DataLoader(Own(), 4, num_workers=2)])
for thread in threading.enumerate():
    if thread.name == "QueueFeederThread":
        thread.join()  # torch does not wait for it, and Python warns of its semaphores if it ends before
"""
    job = GUARDED.format(guard="True").replace("class Own(Numbers):\n    pass", "Own = Numbers")
    write(tmp_path, {"project/__init__.py": "", "project/__main__.py": job + plain})
    check_workers(run(tmp_path, "-m", "project"), lines=[*IN_WORKERS, "[[0, 1, 2, 3], [4, 5, 6, 7]]"])


@NEEDS_FORK
def test_runpy_as_main_is_like_a_script(tmp_path: Path) -> None:
    """
    A launcher that runs a file or a module under the name ``__main__``: workers import that file, not the launcher.
    """
    job = GUARDED.format(guard='__name__ == "__main__"').replace('"forkserver"', '"forkserver", force=True')
    launcher = """
import runpy
runpy.run_path("job.py", run_name="__main__")
runpy.run_module("job", run_name="__main__", alter_sys=True)
"""
    write(tmp_path, {"job.py": job, "launcher.py": launcher})
    check_workers(run(tmp_path, "launcher.py"), lines=IN_WORKERS * 2)


COMMAND = """
from data import Numbers, auto_loader, multiprocessing, show
multiprocessing.set_start_method("forkserver")
show(auto_loader(Numbers(), 4, num_workers=2))
show(auto_loader(Numbers(), 4))
class Own(Numbers):
    pass
show(auto_loader(Own(), 4, num_workers=2))
show(auto_loader(Own(), 4, num_workers=2, multiprocessing_context="forkserver"))
"""

UNFINDABLE = (
    "AutoloaderWarning: backend.unloadable: num_workers=2 starts no process, because a worker that forkserver starts "
    "cannot load dataset: it is of the class Own, which a worker does not find in the main module; batches load in the "
    "training process. Move Own into a .py file and import it from there. "
    "To silence this: warnings.filterwarnings('ignore', 'backend.unloadable').\n"
)
FORKED, IN_A_THREAD = [*SAMPLES, "process fork"], [*SAMPLES, "thread forkserver"]


@NEEDS_FORK
def test_command_on_the_command_line_needs_no_guard(tmp_path: Path) -> None:
    """
    ``python -c``: a class of a module loads in workers; one that is typed there only in forked ones, or in a thread.
    """
    ran = run(tmp_path, "-c", COMMAND)
    assert (ran.code, ran.lines) == (0, [*IN_WORKERS, *FORKED, *IN_A_THREAD])
    assert UNFINDABLE in ran.errors
    assert ran.errors.count("AutoloaderWarning") == 1


@NEEDS_FORK
def test_script_on_standard_input_forks(tmp_path: Path) -> None:
    """
    Its name is ``<stdin>``, which multiprocessing would look for as a file: plain torch fails there.
    """
    ran = run(tmp_path, "-", stdin=COMMAND)
    assert (ran.code, ran.lines) == (0, [*FORKED, *FORKED, *FORKED, *IN_A_THREAD])
    text = (
        "AutoloaderWarning: backend.main-missing: num_workers=2 starts no process, because each worker that forkserver "
        "starts would import <stdin>, which does not exist; batches load in the training process. Save the code as a "
        "file and run that, or pass num_workers=0. "
        "To silence this: warnings.filterwarnings('ignore', 'backend.main-missing').\n"
    )
    assert text in ran.errors
    assert ran.errors.count("AutoloaderWarning") == 1
    assert len(ran.started) == 1


COMPILED = """
from data import Numbers, auto_loader, multiprocessing, show

multiprocessing.set_start_method("spawn", force=True)
loader = auto_loader(Numbers(), 4, num_workers=2)
show(loader)
show(loader)
show(auto_loader(Numbers(), 4, num_workers=2, multiprocessing_context="spawn"))
"""


@NEEDS_FORK
def test_script_without_source_is_stopped_in_its_first_child(tmp_path: Path) -> None:
    """
    Nothing tells whether it is guarded: one child comes to the loop, says so and ends, and no other is started.
    """
    write(tmp_path, {"job.py": COMPILED})
    py_compile.compile(str(tmp_path / "job.py"), str(tmp_path / "job.pyc"), dfile="job.py")
    (tmp_path / "job.py").unlink()
    ran = run(tmp_path, "job.pyc")
    assert (ran.code, ran.lines) == (0, [*FORKED * 2, *SAMPLES, "thread spawn"])
    assert ran.errors.count("Traceback") == 1
    assert (
        "autoloader.errors.MissingMainGuardError: This process is a worker that is importing job.py, whose line 5, "
        "'...', iterates over a loader again. Write it like this:\n\n"
        + LOOP_IN_FUNCTION.replace("for batch in loader:", "...")
        in ran.errors
    )
    assert ran.errors.count("AutoloaderWarning: backend.start-failed") == 1
    assert len(ran.children) == 1
