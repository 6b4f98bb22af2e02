"""
The one place that asks the machine: it answers like the machine's own tools, never raises, and changes nothing.
"""

import json
import os
import socket
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from autoloader.probe.host_io import DiskSpace, RealHost
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


def test_read_text_of_a_binary_file_replaces_what_is_no_text(tmp_path: Path) -> None:
    """
    Bytes that are not UTF-8 become the replacement character.
    """
    (tmp_path / "binary").write_bytes(b"a\xff\x00b\n")
    assert HOST.read_text(str(tmp_path / "binary")) == "a\ufffd\x00b\n"


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


def test_other_threads_are_counted() -> None:
    """
    One more thread is one more.
    """
    before, done = HOST.other_threads(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert before is not None
        assert HOST.other_threads() == before + 1
    finally:
        done.set()
        thread.join()


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
        pytest.param(["{folder}/script.py"], "None {folder}/script.py", id="script"),
        pytest.param(["-m", "script"], "script {folder}/script.py", id="module"),
        pytest.param(["-c", "import script"], "None None", id="command-line"),
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
