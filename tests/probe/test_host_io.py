"""
The one place that asks the machine: it answers like the machine's own tools, never raises, and changes nothing.
"""

import errno
import functools
import json
import os
import socket
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoloader.probe.host_io import DiskSpace, MainModule, PythonThread, RealHost
from live.running import clean_environment, output_of, run_python

pytestmark = [
    pytest.mark.real_host,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with the tools of Linux"),
]

HOST = RealHost()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/nowhere/at/all", id="missing"),
        pytest.param("", id="empty"),
        pytest.param("/proc/self/status/below-a-file", id="below-a-file"),
        pytest.param("/nul\0byte", id="nul"),
        pytest.param("/\ud800", id="lone-surrogate"),
        pytest.param("/" + "x" * 300, id="name-too-long"),
        pytest.param("/x" * 5000, id="path-too-long"),
    ],
)
def test_paths_that_cannot_be_are_no_answer(path: str) -> None:
    """
    No path makes a question raise.
    """
    assert HOST.read_text(path) is None
    assert HOST.list_dir(path) is None
    assert HOST.is_writable(path) is None
    assert HOST.disk_space(path) is None
    HOST.real_path(path)


@pytest.mark.real_host
@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
@pytest.mark.parametrize(
    "path",
    [
        *(
            "a/b",
            "a/up/a/b",
            "a/far/c",
            "a/far/../d",
            "a/b/../up/./a//b",
            "chain",
            "chain/x/../y",
            "missing/../a",
            "a/b/..",
        ),
        *("relative/c", "dangling/x", "a/file/below", ".", "..", "", "a/up/../../a"),
    ],
)
def test_real_path_is_pythons_own(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of links in links, of parents behind links, of what does not exist; absolute, and from the current folder.
    """
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").touch()
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    for link, target in {
        "a/up": "..",
        "a/far": str(tmp_path / "elsewhere/deep"),
        "chain": "a/up/a/far",
        "relative": "a/../elsewhere",
        "dangling": "nowhere/at/all",
    }.items():
        (tmp_path / link).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    assert HOST.real_path(path) == os.path.realpath(path)
    assert HOST.real_path(f"{tmp_path}/{path}") == os.path.realpath(f"{tmp_path}/{path}")


def test_real_path_of_links_is_their_end(tmp_path: Path) -> None:
    """
    Links are followed, also to what is not there; a loop of links and a NUL byte are survived.
    """
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "loop").symlink_to("loop")
    assert HOST.real_path(f"{tmp_path}/link/not/there") == str(tmp_path.resolve() / "folder/not/there")
    assert HOST.real_path(f"{tmp_path}/loop") == str(tmp_path.resolve() / "loop")
    assert HOST.real_path("/nul\0byte") is None
    assert HOST.read_text(f"{tmp_path}/loop") is None


def test_read_text_of_a_binary_file_has_bytes_as_paths_have_them(tmp_path: Path) -> None:
    """
    So that a mount point that is not UTF-8 is found again in a path.
    """
    (tmp_path / "binary").write_bytes(b"a\xff\x00b\n")
    assert HOST.read_text(str(tmp_path / "binary")) == "a\udcff\x00b\n"


def test_read_text_of_a_huge_file_is_its_beginning(tmp_path: Path) -> None:
    """
    No more than 4 MiB are read, of a file without an end too.
    """
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert HOST.read_text(str(tmp_path / "huge")) == "\0" * (4 << 20)
    assert len(HOST.read_text("/dev/zero") or "") == 4 << 20


def test_read_text_of_a_folder_or_a_failing_file_is_no_answer(tmp_path: Path) -> None:
    """
    A folder, a socket, and a file whose read fails (/proc/self/mem at address 0) give nothing.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert HOST.read_text(str(tmp_path / "socket")) is None
    assert HOST.read_text(str(tmp_path)) is None
    assert HOST.read_text("/proc/self/mem") is None


def test_questions_without_permission_are_no_answer(tmp_path: Path) -> None:
    """
    A user without rights gets no text, no names and no leave to write (root first becomes nobody).
    """
    (tmp_path / "secret").write_text("text")
    (tmp_path / "closed").mkdir()
    (tmp_path / "secret").chmod(0)
    (tmp_path / "closed").chmod(0)
    code = """
import json, os, sys
from autoloader.probe.host_io import RealHost
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
host, folder = RealHost(), sys.argv[1]
answers = [host.read_text(f"{folder}/secret"), host.list_dir(f"{folder}/closed"), host.disk_space(f"{folder}/closed/x")]
print(json.dumps([*answers, host.is_writable("/proc"), host.is_writable(f"{folder}/closed/x")]))
"""
    try:
        assert json.loads(run_python(code, str(tmp_path))) == [None, None, None, False, None]
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_is_writable_says_what_this_user_may_do(tmp_path: Path) -> None:
    """
    A folder that takes files, and a file, which is no folder.
    """
    (tmp_path / "file").write_text("")
    assert HOST.is_writable(str(tmp_path)) is True
    assert HOST.is_writable(str(tmp_path / "file")) is None


def test_list_dir_is_sorted_names(tmp_path: Path) -> None:
    """
    Names of files and folders, hidden ones too.
    """
    for name in ("b", ".a", "c"):
        (tmp_path / name).touch()
    assert HOST.list_dir(str(tmp_path)) == (".a", "b", "c")


def test_disk_space_is_as_df_says() -> None:
    """
    Size is exact, free space moves while other programs write.
    """
    size, free = map(int, output_of("df", "-B1", "--output=size,avail", "/dev/shm").split()[-2:])
    space = HOST.disk_space("/dev/shm")
    assert isinstance(space, DiskSpace)
    assert space.total == size
    assert space.free == pytest.approx(free, abs=256 << 20)


def test_affinity_and_cpu_count_are_the_systems() -> None:
    """
    The mask is the one of taskset's own call, the count that of getconf.
    """
    assert HOST.affinity() == tuple(sorted(os.sched_getaffinity(0)))
    assert HOST.cpu_count() == int(output_of("getconf", "_NPROCESSORS_ONLN"))


def test_cpu_count_with_the_users_limit_stays_the_systems() -> None:
    """
    ``-X cpu_count`` is a limit of its own, which Python 3.13 and newer also put into ``os.cpu_count()``.
    """
    code = "from autoloader.probe.host_io import RealHost as R; print(R().cpu_count(), R().python_cpu_count())"
    answer = output_of(sys.executable, "-X", "cpu_count=77", "-c", code)
    assert answer.split() == [output_of("getconf", "_NPROCESSORS_ONLN").strip(), "77"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        pytest.param("4", 4, id="number"),
        pytest.param("default", None, id="default"),
        pytest.param(True, None, id="no-value"),
        pytest.param("9" * 5000, None, id="too-many-digits"),
        pytest.param("-1", None, id="negative"),
    ],
)
def test_python_cpu_count_of_the_option_is_a_number_or_none(
    monkeypatch: pytest.MonkeyPatch, option: str | bool, expected: int | None
) -> None:
    """
    What Python itself refuses, or takes for its default, is no limit.
    """
    monkeypatch.setitem(sys._xoptions, "cpu_count", option)
    assert HOST.python_cpu_count() == expected


def test_resource_limits_are_as_getrlimit_says() -> None:
    """
    Unlimited is infinite; a limit that the system does not know is unknown.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    as_float = {resource.RLIM_INFINITY: float("inf")}
    assert HOST.resource_limit("NOFILE") == (as_float.get(soft, soft), as_float.get(hard, hard))
    assert HOST.resource_limit("NO_SUCH_LIMIT") is None
    code = """
import resource
from autoloader.probe.host_io import RealHost
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print(RealHost().resource_limit("CORE"), RealHost().resource_limit("RSS"))
"""
    assert run_python(code).startswith("(0, 0) (inf, inf)")


def test_uname_is_as_the_command_says() -> None:
    """
    Release and machine type.
    """
    assert list(HOST.uname()) == output_of("uname", "-r", "-m").split()


def test_python_is_the_running_one() -> None:
    """
    Implementation, version, and whether the GIL is there.
    """
    version, is_free_threaded = HOST.python()
    assert version == f"{sys.implementation.name.replace('cpython', 'CPython')} {sys.version.split()[0]}"
    assert is_free_threaded is (not getattr(sys, "_is_gil_enabled", lambda: True)())


TEMP_DIR = """
from autoloader.probe.host_io import RealHost
mine = RealHost().temp_dir()
import tempfile
print(mine == tempfile.gettempdir(), mine)
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({"TMPDIR": "first", "TEMP": "second"}, "first", id="tmpdir"),
        pytest.param({"TMPDIR": "missing", "TEMP": "second"}, "second", id="tmpdir-is-missing"),
        pytest.param({"TMPDIR": "", "TMP": "second"}, "second", id="tmpdir-is-empty"),
        pytest.param({"TMPDIR": "missing"}, "/tmp", id="only-missing"),
        pytest.param({}, "/tmp", id="none-set"),
    ],
)
def test_temp_dir_is_where_tempfile_would_write(tmp_path: Path, variables: dict[str, str], expected: str) -> None:
    """
    The same folder as ``tempfile`` comes to afterwards; names are relative to the working directory.
    """
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    wanted = expected if expected.startswith("/") else str(tmp_path / expected)
    environment = clean_environment(**variables)
    assert run_python(TEMP_DIR, cwd=tmp_path, environment=environment) == f"True {wanted}\n"


def test_temp_dir_chosen_in_this_process_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    ``tempfile.tempdir`` goes before all variables.
    """
    monkeypatch.setattr(tempfile, "tempdir", "/chosen")
    assert HOST.temp_dir() == "/chosen"


def test_working_directory_that_was_removed_is_no_answer(tmp_path: Path) -> None:
    """
    ``getcwd`` fails there, and so does what is relative to it.
    """
    code = """
import os, sys
from autoloader.probe.host_io import RealHost
os.mkdir(sys.argv[1]), os.chdir(sys.argv[1]), os.rmdir(sys.argv[1])
print(RealHost().working_directory(), RealHost().list_dir("."), RealHost().real_path("x"))
"""
    assert run_python(code, str(tmp_path / "gone")) == "None () None\n"


class Waiting(threading.Thread):
    """
    A thread that runs its own method.
    """

    def __init__(self, done: threading.Event) -> None:
        super().__init__(name="waiting")
        self.done = done

    def run(self) -> None:
        self.done.wait()


def wait_for(done: threading.Event) -> None:
    """
    Return when the event is set.
    """
    done.wait()


def named(target: Any, *arguments: Any) -> threading.Thread:
    """
    Return a thread with a name.
    """
    return threading.Thread(target=target, args=arguments, name="waiting")


@pytest.mark.parametrize(
    ("make", "runs"),
    [
        pytest.param(lambda done: named(wait_for, done), f"{__name__}.wait_for", id="function"),
        pytest.param(lambda done: named(done.wait), "threading.Event.wait", id="method"),
        pytest.param(lambda done: named(functools.partial(wait_for, done)), "functools.", id="partial"),
        pytest.param(Waiting, f"{__name__}.Waiting", id="class-of-its-own"),
    ],
)
def test_other_threads_are_told_by_name_and_by_what_they_run(
    make: Callable[[threading.Event], threading.Thread], runs: str
) -> None:
    """
    A thread runs its target, or the method of its own class; it is gone when it has ended.
    """
    before, done = HOST.other_threads(), threading.Event()
    thread = make(done)
    thread.start()
    try:
        started = set(HOST.other_threads()) - set(before)
    finally:
        done.set()
        thread.join()
    assert started == {PythonThread("waiting", runs)}
    assert HOST.other_threads() == before


def test_other_threads_of_a_thread_include_the_main_thread() -> None:
    """
    Whoever asks is not told of itself.
    """
    found: list[tuple[PythonThread, ...]] = []
    thread = threading.Thread(target=lambda: found.append(HOST.other_threads()), name="asking")
    thread.start()
    thread.join()
    assert PythonThread("MainThread", "threading._MainThread") in found[0]
    assert "asking" not in {each.name for each in found[0]}


def test_other_threads_without_the_module_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A process that has not loaded threading has started none with it.
    """
    monkeypatch.delitem(sys.modules, "threading")
    assert HOST.other_threads() == ()


def test_loaded_modules_are_those_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A module that may not be imported stands as None among the modules; asking imports nothing.
    """
    monkeypatch.setitem(sys.modules, "polars", types.ModuleType("polars"))
    monkeypatch.setitem(sys.modules, "jax", None)
    asked = ["threading", "jax", "no_such_module_anywhere", "polars"]
    assert HOST.loaded_modules(asked) == ("threading", "polars")
    assert HOST.loaded_modules([]) == ()
    assert "no_such_module_anywhere" not in sys.modules


INTERPRETER = """
import multiprocessing.spawn, sys
from autoloader.probe.host_io import RealHost
multiprocessing.spawn.set_executable({path})
print(RealHost().interpreter())
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("'/opt/app/python3'", "/opt/app/python3", id="text"),
        pytest.param("b'/opt/app/python3'", "/opt/app/python3", id="bytes"),
        pytest.param("sys.executable", sys.executable, id="this-one"),
    ],
)
def test_interpreter_is_the_one_that_multiprocessing_would_start(path: str, expected: str) -> None:
    """
    An application that embeds Python names the program to start.
    """
    assert run_python(INTERPRETER.format(path=path)) == f"{expected}\n"


@pytest.mark.parametrize(
    ("executable", "expected"),
    [
        pytest.param("/usr/bin/python3", "/usr/bin/python3", id="path"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="none"),
    ],
)
def test_interpreter_before_multiprocessing_is_loaded_is_pythons_own(
    monkeypatch: pytest.MonkeyPatch, executable: str | None, expected: str | None
) -> None:
    """
    Where Python does not know its own program, there is none.
    """
    monkeypatch.delitem(sys.modules, "multiprocessing.spawn", raising=False)
    monkeypatch.setattr(sys, "executable", executable)
    assert HOST.interpreter() == expected


@pytest.mark.parametrize("chosen", [pytest.param(None, id="none"), pytest.param("", id="empty")])
def test_interpreter_that_multiprocessing_does_not_know_is_none(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    """
    An embedded Python has no program unless somebody names one.
    """
    monkeypatch.setitem(sys.modules, "multiprocessing.spawn", types.SimpleNamespace(get_executable=lambda: chosen))
    assert HOST.interpreter() is None


@pytest.mark.parametrize(
    ("frozen", "expected"),
    [pytest.param(True, True, id="pyinstaller"), pytest.param("macosx_app", True, id="py2app")],
)
def test_frozen_program_says_so(monkeypatch: pytest.MonkeyPatch, frozen: object, expected: bool) -> None:
    """
    Programs that pack Python set ``sys.frozen``; an ordinary Python has no such name.
    """
    assert HOST.is_frozen() is False
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    assert HOST.is_frozen() is expected


def test_semaphores_are_there_and_leave_no_trace() -> None:
    """
    The semaphore that is made to see it has no name any more, as multiprocessing's own.
    """
    before = sorted(os.listdir("/dev/shm"))
    assert HOST.has_semaphores() is True
    assert [name for name in os.listdir("/dev/shm") if "autoloader" in name and name not in before] == []


def failing(error: Exception) -> types.ModuleType:
    """
    Return a ``_multiprocessing`` whose semaphores fail.
    """

    def refuse(*arguments: object) -> None:
        raise error

    return types.SimpleNamespace(SemLock=refuse)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(None, id="not-importable"),
        pytest.param(types.ModuleType("_multiprocessing"), id="built-without-semaphores"),
        pytest.param(failing(OSError(errno.ENOSYS, "Function not implemented")), id="not-implemented"),
        pytest.param(failing(PermissionError(errno.EACCES, "Permission denied")), id="no-permission"),
        pytest.param(failing(FileNotFoundError(errno.ENOENT, "No such file")), id="no-dev-shm"),
        pytest.param(failing(OSError(errno.ENOSPC, "No space left on device")), id="no-space"),
    ],
)
def test_semaphores_that_cannot_be_made_are_none(
    monkeypatch: pytest.MonkeyPatch, module: types.ModuleType | None
) -> None:
    """
    Whatever keeps a semaphore from being made, the answer is no.
    """
    monkeypatch.setitem(sys.modules, "_multiprocessing", module)
    assert HOST.has_semaphores() is False


def test_process_of_a_pool_is_daemonic() -> None:
    """
    A process that multiprocessing may start no children in says so; the main process does not.
    """
    code = """
import multiprocessing, sys
from autoloader.probe.host_io import RealHost
def check():
    sys.exit(7 if RealHost().is_daemonic() else 8)
child = multiprocessing.get_context("fork").Process(target=check, daemon=True)
child.start(), child.join()
print(child.exitcode, RealHost().is_daemonic())
"""
    assert run_python(code) == "7 False\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(["{folder}/script.py"], "None {folder}/script.py True", id="script"),
        pytest.param(["-m", "script"], "script {folder}/script.py True", id="module"),
        pytest.param(["-c", "import script"], "None None None", id="command-line"),
        pytest.param(
            ["-c", "import os, runpy; os.chdir('/'); runpy.run_path('{folder}/script.py')"],
            "None None None",
            id="run-path",
        ),
    ],
)
def test_main_module_is_as_it_was_started(tmp_path: Path, command: list[str], expected: str) -> None:
    """
    The name of the spec and the file, as multiprocessing's spawn goes by.
    """
    (tmp_path / "script.py").write_text(
        "from autoloader.probe.host_io import RealHost\nprint(*RealHost().main_module())\n"
    )
    words = [word.format(folder=tmp_path) for word in command]
    assert output_of(sys.executable, *words, cwd=tmp_path) == f"{expected.format(folder=tmp_path)}\n"


def test_main_module_from_standard_input_is_no_file() -> None:
    """
    Python names it ``<stdin>``, and no child can import that.
    """
    code = "from autoloader.probe.host_io import RealHost\nprint(*RealHost().main_module())\n"
    assert output_of(sys.executable, "-", stdin=None, input=code) == "None <stdin> False\n"


MOVING = """
import os, sys
from autoloader.probe.host_io import RealHost
__file__ = "script.py"
{before}
os.chdir("/")
print(RealHost().main_module().is_file)
os.unlink(sys.argv[1])
print(RealHost().main_module().is_file)
"""


def test_main_module_is_looked_for_where_multiprocessing_does(tmp_path: Path) -> None:
    """
    A relative path counts from where multiprocessing was loaded, as in ``get_preparation_data``; a file can go.
    """
    script = tmp_path / "script.py"
    script.write_text(MOVING.format(before="import multiprocessing.process"))
    assert output_of(sys.executable, str(script), str(script), cwd=tmp_path) == "True\nFalse\n"
    script.write_text(MOVING.format(before=""))
    assert output_of(sys.executable, str(script), str(script), cwd=tmp_path) == "False\nFalse\n"


@pytest.mark.parametrize(
    "file",
    [pytest.param(None, id="none"), pytest.param(7, id="number"), pytest.param(Path("/x/train.py"), id="path-object")],
)
def test_main_module_without_a_path_as_text_has_no_file(monkeypatch: pytest.MonkeyPatch, file: object) -> None:
    """
    Whatever a program puts there, only text is a path.
    """
    main: Any = types.ModuleType("__main__")
    main.__file__ = file
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert HOST.main_module() == MainModule(None, None, None)


def test_main_module_of_an_impossible_path_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A path with a NUL byte does not make the question raise.
    """
    main: Any = types.ModuleType("__main__")
    main.__file__ = "/nul\0byte.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert HOST.main_module() == MainModule(None, "/nul\0byte.py", False)


def loaded_torch(**version: str | None) -> types.ModuleType:
    """
    Return a module that looks like a torch whose CUDA was initialised.
    """
    torch: Any = types.ModuleType("torch")
    torch.version = types.SimpleNamespace(**version)
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
    return torch  # type: ignore[no-any-return]


def half_imported() -> types.ModuleType:
    """
    Return torch while another thread imports it: the package is there, and empty; so is a part of it.
    """
    torch: Any = types.ModuleType("torch")
    torch.cuda = types.ModuleType("torch.cuda")
    return torch  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("torch", "initialised", "accelerators"),
    [
        pytest.param(None, False, None, id="not-importable"),
        pytest.param(half_imported(), False, None, id="being-imported"),
        pytest.param(loaded_torch(cuda="12.4", hip=None), True, ("cuda",), id="cuda"),
        pytest.param(loaded_torch(cuda=None, hip="6.2"), True, ("rocm",), id="rocm"),
        pytest.param(loaded_torch(cuda=None, xpu="2025"), True, ("xpu",), id="xpu"),
        pytest.param(loaded_torch(cuda=None), True, (), id="cpu"),
    ],
)
def test_torch_is_asked_only_where_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
    torch: types.ModuleType | None,
    initialised: bool,
    accelerators: tuple[str, ...] | None,
) -> None:
    """
    A torch that is missing, or not all there yet, has initialised nothing.
    """
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.utils.data", types.ModuleType("torch.utils.data"))
    assert HOST.is_accelerator_initialised() is initialised
    assert HOST.torch_accelerators() == accelerators
    assert HOST.is_dataloader_worker() is False


def broken_psutil(error: BaseException) -> types.ModuleType:
    """
    Return a psutil whose question about memory fails.
    """

    def virtual_memory() -> None:
        raise error

    psutil: Any = types.ModuleType("psutil")
    psutil.virtual_memory = virtual_memory
    return psutil  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "psutil",
    [
        pytest.param(None, id="missing"),
        pytest.param(types.ModuleType("psutil"), id="empty"),
        pytest.param(broken_psutil(PermissionError("/proc/meminfo")), id="permission"),
        pytest.param(broken_psutil(RuntimeWarning("cannot parse")), id="warning-as-error"),
    ],
)
def test_psutil_that_is_broken_is_no_answer(monkeypatch: pytest.MonkeyPatch, psutil: types.ModuleType | None) -> None:
    """
    Whatever psutil raises, memory stays unknown.
    """
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    assert HOST.psutil_memory() is None


def test_psutil_memory_is_the_machines() -> None:
    """
    Total memory is what the kernel says.
    """
    pytest.importorskip("psutil", reason="psutil is not installed")
    memory = HOST.psutil_memory()
    assert memory is not None
    assert memory[0] == int(output_of("free", "-b").split()[7])


STATE = """
import gc, json, locale, os, random, signal, sys, threading, warnings
from autoloader.probe import probe_host
from autoloader.records import to_json

platform = sys.argv.pop(1)

def children():
    tasks = os.listdir("/proc/self/task")
    return sorted(open(f"/proc/self/task/{task}/children").read() for task in tasks)

def state():
    methods = sys.modules.get("multiprocessing")
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    return {
        "random": repr(random.getstate()),
        "environment": dict(os.environ),
        "open files": sorted(os.listdir("/proc/self/fd")),
        "Python's threads": [thread.name for thread in threading.enumerate()],
        "threads": len(os.listdir("/proc/self/task")),
        "children": children(),
        "start method": methods and methods.get_start_method(allow_none=True),
        "resource tracker": tracker and tracker._resource_tracker._fd,
        "heavy modules": [
            name for name in ("torch", "numpy", "psutil", "rich", "platformdirs", "cpuinfo", "subprocess", "tempfile")
            if name in sys.modules
        ],
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "limits": open("/proc/self/limits").read(),
        "affinity": sorted(os.sched_getaffinity(0)),
        "working directory": os.getcwd(),
        "mask of new files": (old := os.umask(0), os.umask(old))[0],
        "module path": sys.path,
        "warning filters": repr(warnings.filters),
        "garbage collector": (gc.isenabled(), gc.get_threshold()),
        "locale": locale.setlocale(locale.LC_ALL),
        "hooks": [repr(sys.excepthook), repr(threading.excepthook), repr(sys.unraisablehook)],
        "switch interval": sys.getswitchinterval(),
        "places of temporary files": [sorted(os.listdir(path)) for path in sys.argv[1:]],
    }

before = state()
to_json(probe_host(platform=platform))
after = state()
print(json.dumps({name: [before[name], after[name]] for name in before if before[name] != after[name]}))
"""


@pytest.mark.parametrize(
    ("platform", "changed"),
    [
        pytest.param("linux", {}, id="linux"),
        pytest.param("freebsd14", {"heavy modules": [[], ["psutil", "subprocess"]]}, id="elsewhere"),
    ],
)
def test_probe_changes_nothing_in_the_process(tmp_path: Path, platform: str, changed: dict[str, object]) -> None:
    """
    Random state, environment, files, threads, children and start method are as before; elsewhere psutil is loaded.
    """
    if changed:
        pytest.importorskip("psutil", reason="psutil is not installed, so that it cannot be loaded")
    environment = clean_environment(TMPDIR=str(tmp_path), HOME=str(tmp_path))
    answer = run_python(STATE, platform, str(tmp_path), environment=environment)
    assert json.loads(answer) == changed


def test_probe_does_not_fix_the_start_method() -> None:
    """
    After a probe a program may still choose how its children start.
    """
    code = """
import multiprocessing
from autoloader.probe import probe_host
facts = probe_host()
multiprocessing.set_start_method("spawn")
print(facts.start_methods.in_force, probe_host().start_methods.in_force)
"""
    assert run_python(code) == "None spawn\n"
