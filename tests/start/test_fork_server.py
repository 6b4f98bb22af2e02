"""
The fork server loads torch and numpy, unless the user said what it loads, and is started once.
"""

import sys
from pathlib import Path

import pytest

from start.running import Ran, run, write

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork server"),
]

JOB = """
import multiprocessing, os, sys
from multiprocessing import forkserver
from autoloader.start import fork_server

def tell(connection):
    connection.send([name for name in ("first", "second", "numpy", "torch") if name in sys.modules] + [os.getppid()])

def loaded():
    context = multiprocessing.get_context("forkserver")
    ours, other = context.Pipe()
    process = context.Process(target=tell, args=(other,))
    process.start()
    *names, server = ours.recv()
    process.join()
    return names, server

if __name__ == "__main__":
    if sys.argv[1] != "default":
        fork_server.PRELOADED = ("first", "numpy", "module_that_is_not_there")
    if sys.argv[1] == "theirs":
        multiprocessing.set_forkserver_preload(["second"])
    elif sys.argv[1] == "running":
        forkserver.ensure_running()
    fork_server.ensure_running()
    names, server = loaded()
    multiprocessing.set_forkserver_preload(["second", "first"])
    fork_server.ensure_running()
    again = loaded()
    print(names, again == (names, server), forkserver._forkserver._preload_modules)
"""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        pytest.param("ours", "['first', 'numpy'] True ['second', 'first']", id="ours"),
        pytest.param("theirs", "['second'] True ['second', 'first']", id="theirs"),
        pytest.param("default", "['numpy', 'torch'] True ['second', 'first']", id="default", marks=pytest.mark.torch),
        pytest.param("running", "[] True ['second', 'first']", id="already-running"),
    ],
)
def test_what_the_fork_server_loads_is_set_once_and_only_where_the_user_has_not(
    case: str, said: str, tmp_path: Path
) -> None:
    """
    A module that is missing does no harm, a server that runs is not replaced, and the user's list is left alone.
    """
    pytest.importorskip("numpy")
    write(tmp_path, {"job.py": JOB, "first.py": "", "second.py": ""})
    ran: Ran = run(tmp_path, "job.py", case)
    assert (ran.code, ran.errors) == (0, "")
    assert ran.lines == [said]
    assert ["forkserver" in command for command in ran.children] == [True]
