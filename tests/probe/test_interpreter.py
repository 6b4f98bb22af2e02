"""
How Python starts children, and in what state it is.
"""

from typing import Any

import pytest

from autoloader.probe.host_io import MainModule, PythonThread, StartMethods
from autoloader.probe.interpreter import (
    FORK_UNSAFE_MODULES,
    HARMLESS_THREADS,
    read_affinity,
    read_process,
    read_python_cpu_count,
    read_start_methods,
)
from support import FakeHost

WRITER = PythonThread("writer", "__main__.write")
PYTHON_FOR_WINDOWS = "C:\\Users\\me\\anaconda3\\pythonw.exe"
BLENDER_FOR_WINDOWS = "C:\\Python\\Blender 4.2\\blender.exe"


@pytest.mark.parametrize(
    "methods",
    [
        pytest.param(StartMethods(("fork", "spawn", "forkserver"), "fork", None), id="linux-up-to-3.13"),
        pytest.param(StartMethods(("forkserver", "fork", "spawn"), "forkserver", None), id="linux-from-3.14-on"),
        pytest.param(StartMethods(("spawn",), "spawn", "spawn"), id="windows-fixed-already"),
    ],
)
def test_start_methods_are_as_multiprocessing_says(methods: StartMethods) -> None:
    """
    What nobody fixed stays unknown.
    """
    facts = read_start_methods(FakeHost(methods=methods))
    assert (facts.available, facts.default, facts.in_force) == methods
    assert ("in_force" in facts.sources) is (methods.in_force is not None)


def test_start_methods_without_multiprocessing_are_unknown() -> None:
    """
    Some builds of Python have no multiprocessing (WebAssembly).
    """
    facts = read_start_methods(FakeHost(methods=None))
    assert (facts.available, facts.default, facts.in_force, dict(facts.sources)) == ((), None, None, {})


@pytest.mark.parametrize(
    ("answers", "field", "expected"),
    [
        pytest.param({}, "other_threads", (), id="no-threads"),
        pytest.param({"threads": (WRITER,)}, "other_threads", ("writer",), id="a-thread"),
        pytest.param({}, "fork_unsafe_modules", (), id="no-modules"),
        pytest.param({"modules": ("jax", "numpy", "grpc")}, "fork_unsafe_modules", ("jax", "grpc"), id="modules"),
        pytest.param({"daemonic": True}, "is_daemonic", True, id="daemon"),
        pytest.param({"dataloader_worker": True}, "is_dataloader_worker", True, id="worker"),
        pytest.param({"accelerator_initialised": True}, "is_accelerator_initialised", True, id="cuda-in-use"),
        pytest.param({"accelerators": None}, "is_torch_built_for_accelerator", None, id="torch-not-loaded"),
        pytest.param({"accelerators": ()}, "is_torch_built_for_accelerator", False, id="torch-for-cpu"),
        pytest.param({"accelerators": ("cuda",)}, "is_torch_built_for_accelerator", True, id="torch-for-cuda"),
        pytest.param({"main": MainModule(None, "/x/train.py")}, "reimported_main", "/x/train.py", id="script"),
        pytest.param({"main": MainModule("pkg.__main__", "/x")}, "reimported_main", None, id="python-m-package"),
        pytest.param({"main": MainModule(None, "/x/train.py", True)}, "is_main_missing", False, id="script-is-there"),
        pytest.param({"main": MainModule(None, "<stdin>", False)}, "is_main_missing", True, id="standard-input"),
        pytest.param({"main": MainModule(None, "/x/train.py", None)}, "is_main_missing", False, id="file-unknown"),
        pytest.param({"main": MainModule("train", "/x/train.py", False)}, "is_main_missing", False, id="found-by-name"),
        pytest.param({"main": MainModule("pkg.__main__", "/x", False)}, "is_main_missing", False, id="not-imported"),
        pytest.param({"main": MainModule(None, "/usr/bin/ipython", False)}, "is_main_missing", False, id="ipython"),
        pytest.param({"main": MainModule(None, None)}, "is_main_missing", False, id="no-file"),
        pytest.param({"program": "/x/bin/python3.12"}, "interpreter", "/x/bin/python3.12", id="interpreter"),
        pytest.param({"program": None}, "interpreter", None, id="no-interpreter"),
        pytest.param({"program": "/x/bin/python3.12"}, "is_interpreter_python", True, id="python"),
        pytest.param({"program": PYTHON_FOR_WINDOWS}, "is_interpreter_python", True, id="python-on-windows"),
        pytest.param({"program": BLENDER_FOR_WINDOWS}, "is_interpreter_python", False, id="application-on-windows"),
        pytest.param({"program": "/usr/bin/uwsgi"}, "is_interpreter_python", False, id="application"),
        pytest.param({"program": None}, "is_interpreter_python", False, id="no-program-is-no-python"),
        pytest.param({"frozen": True}, "is_interpreter_python", False, id="frozen"),
        pytest.param(
            {"frozen": True, "program": "/x/python-app"}, "is_interpreter_python", False, id="frozen-whatever-its-name"
        ),
        pytest.param({}, "has_semaphores", True, id="semaphores"),
        pytest.param({"semaphores": False}, "has_semaphores", False, id="no-semaphores"),
    ],
)
def test_process_state_is_read_with_its_source(answers: dict[str, object], field: str, expected: object) -> None:
    """
    False is known and has a source; what is unknown, and a list of nothing, has none.
    """
    facts = read_process(FakeHost(**answers))  # type: ignore[arg-type]
    assert getattr(facts, field) == expected
    assert (field in facts.sources) is (expected not in {None, ()})


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param("tqdm._monitor.TMonitor", id="tqdm-monitor"),
        pytest.param("torch.utils.data._utils.pin_memory._pin_memory_loop", id="torch-pinning"),
        pytest.param("multiprocessing.queues.Queue._feed", id="queue-feeder"),
        pytest.param("multiprocessing.resource_sharer._ResourceSharer._serve", id="resource-sharer"),
        pytest.param("ipykernel.iostream.IOPubThread._thread_main", id="ipykernel-output"),
        pytest.param("ipykernel.heartbeat.Heartbeat", id="ipykernel-heartbeat"),
        pytest.param("ipykernel.control.ControlThread", id="ipykernel-control"),
        pytest.param("IPython.core.history.HistorySavingThread", id="ipython-history"),
        pytest.param("zmq.utils.garbage.GarbageCollectorThread", id="zmq-garbage"),
        pytest.param("debugpy.server.api._settrace", id="debugpy"),
        pytest.param("_pydevd_bundle.pydevd_comm.ReaderThread", id="pydevd-reader"),
        pytest.param("pydevd.CheckAliveThread", id="pydevd-alive"),
        pytest.param("tensorboard.summary.writer.event_file_writer._AsyncWriterThread", id="tensorboard"),
        pytest.param("wandb.sdk.interface.router.MessageRouter.message_loop", id="wandb"),
    ],
)
def test_harmless_thread_is_left_out(runs: str) -> None:
    """
    What notebooks, loggers and loaders keep beside training does not stand in the way of a fork; others do.
    """
    facts = read_process(FakeHost(threads=(PythonThread("Thread-1", runs), WRITER)))
    assert facts.other_threads == ("writer",)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param("__main__.write", id="the-script's"),
        pytest.param("concurrent.futures.thread._worker", id="executor"),
        pytest.param("multiprocessing.pool.Pool._handle_tasks", id="pool"),
        pytest.param("threading._MainThread", id="main-thread"),
        pytest.param("threading.Timer", id="timer"),
        pytest.param("autoloader.engine.threads._run", id="our-own"),
        pytest.param("mytqdm.monitor", id="name-that-ends-like-one"),
        pytest.param("tqdm_like.monitor", id="name-that-starts-like-one"),
        pytest.param("torchvision.read", id="another-library-of-torch's"),
        pytest.param("functools.", id="partial"),
        pytest.param(".", id="nameless"),
        pytest.param("", id="empty"),
    ],
)
def test_thread_that_may_hold_a_lock_is_named(runs: str) -> None:
    """
    Whatever is not known to be harmless counts, whatever its thread's name.
    """
    facts = read_process(FakeHost(threads=(PythonThread("tqdm._monitor", runs),)))
    assert facts.other_threads == ("tqdm._monitor",)


def test_threads_are_named_in_their_order_as_often_as_they_are_there() -> None:
    """
    Names are not unique.
    """
    threads = (WRITER, PythonThread("reader", "a.b"), WRITER)
    assert read_process(FakeHost(threads=threads)).other_threads == ("writer", "reader", "writer")


def test_prefixes_of_harmless_threads_end_at_a_module() -> None:
    """
    A prefix without its dot would let another package pass.
    """
    assert [prefix for prefix in HARMLESS_THREADS if not prefix.endswith(".")] == []
    assert [name for name in FORK_UNSAFE_MODULES if "." in name] == []


def maps_of(*libraries: str) -> str:
    """
    Return a ``/proc/self/maps`` with two mappings of each library.
    """
    lines = ("7f00-7f10 r--p 00000000 08:01 1  /usr/lib/{0}\n7f10-7f20 r-xp 00010000 08:01 1  /usr/lib/{0}\n",)
    return "".join(line.format(name) for name in ("libc.so.6", *libraries) for line in lines)


def tasks(count: int) -> tuple[str, ...]:
    """
    Return the folders that so many threads have in /proc.
    """
    return tuple(f"/proc/self/task/{100 + number}" for number in range(count))


TORCH = ("libtorch_cpu.so", "libgomp-a34b3233.so.1")
NUMPY = ("libscipy_openblas64_-99b71e71.so",)
TQDM = PythonThread("Thread-1", "tqdm._monitor.TMonitor")


@pytest.mark.parametrize(
    ("threads", "python_threads", "libraries", "cpus", "expected"),
    [
        pytest.param(1, (), (), 8, 0, id="alone"),
        pytest.param(2, (), (), 8, 1, id="one-more"),
        pytest.param(2, (WRITER,), (), 8, 0, id="a-python-thread"),
        pytest.param(2, (TQDM,), (), 8, 0, id="a-harmless-python-thread-counts-as-python's"),
        pytest.param(1, (WRITER,), (), 8, 0, id="a-python-thread-that-just-ended"),
        pytest.param(3, (WRITER,), (), 8, 1, id="a-python-thread-and-one-more"),
        pytest.param(9, (), NUMPY, 8, 0, id="openblas-a-thread-a-cpu"),
        pytest.param(10, (), NUMPY, 8, 1, id="openblas-and-one-more"),
        pytest.param(25, (), TORCH, 8, 0, id="torch-has-three-pools"),
        pytest.param(26, (), TORCH, 8, 1, id="torch-and-one-more"),
        pytest.param(33, (), (*TORCH, *NUMPY), 8, 0, id="torch-and-numpy"),
        pytest.param(34, (), (*TORCH, *NUMPY), 8, 1, id="torch-and-numpy-and-one-more"),
        pytest.param(9, (), ("libmkl_rt.so.2",), 8, 0, id="mkl"),
        pytest.param(17, (), ("libiomp5.so", "libomp.so"), 8, 0, id="both-of-intel's"),
        pytest.param(3, (), ("libzmq-7b73ddcf.so.5.2.5",), 8, 0, id="zmq-has-two"),
        pytest.param(4, (), ("libzmq-7b73ddcf.so.5.2.5",), 8, 1, id="zmq-and-one-more"),
        pytest.param(9, (), ("libarrow.so.1700",), 8, 8, id="another-library's-pool"),
        pytest.param(9, (), ("not-libgomp.so.1",), 8, 8, id="name-that-ends-like-a-pool's"),
        pytest.param(2, (), NUMPY, None, 0, id="cpus-unknown-count-as-one"),
        pytest.param(3, (), NUMPY, None, 1, id="cpus-unknown-and-one-more"),
    ],
)
def test_native_threads_are_those_beyond_python_and_pools(
    threads: int, python_threads: tuple[PythonThread, ...], libraries: tuple[str, ...], cpus: int | None, expected: int
) -> None:
    """
    A pool may have a thread a CPU; what runs beyond all pools that are loaded belongs to a library of another kind.
    """
    host = FakeHost(
        files={"/proc/self/maps": maps_of(*libraries)}, folders=tasks(threads), threads=python_threads, cpus=cpus
    )
    facts = read_process(host)
    assert facts.native_threads == expected
    assert "native_threads" in facts.sources


@pytest.mark.parametrize(
    ("counts", "expected", "pauses"),
    [
        pytest.param([1], 0, 0, id="none"),
        pytest.param([2, 1], 0, 1, id="ended-after-one-pause"),
        pytest.param([3, 2, 1], 0, 2, id="ended-after-two-pauses"),
        pytest.param([3, 2, 2], 1, 2, id="one-stays"),
        pytest.param([3, 3, 3], 2, 2, id="two-stay"),
    ],
)
def test_native_thread_that_is_about_to_end_is_not_counted(counts: list[int], expected: int, pauses: int) -> None:
    """
    A thread of Python's that was joined may be there for a moment more; what stays for some pauses is a library's.
    """

    class Ending(FakeHost):
        def list_dir(self, path: str) -> tuple[str, ...] | None:
            return tasks(counts[paused[0]]) if path == "/proc/self/task" else super().list_dir(path)

        def pause(self) -> None:
            paused[0] += 1

    paused = [0]
    assert read_process(Ending(files={"/proc/self/maps": maps_of()}, cpus=8)).native_threads == expected
    assert paused == [pauses]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            "Name:\tpython\nVmRSS:\t  230000 kB\nRssAnon:\t  150400 kB\nRssFile:\t79668 kB\n", 150400 << 10, id="linux"
        ),
        pytest.param("Name:\tpython\nVmRSS:\t  230000 kB\n", None, id="older-than-4.5"),
        pytest.param(None, None, id="no-proc"),
    ],
)
def test_anonymous_memory_is_what_no_file_backs(status: str | None, expected: int | None) -> None:
    """
    A fork copies the page tables of it.
    """
    facts = read_process(FakeHost(files={} if status is None else {"/proc/self/status": status}))
    assert facts.anonymous_bytes == expected
    assert ("anonymous_bytes" in facts.sources) is (expected is not None)


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        pytest.param({}, (), id="neither"),
        pytest.param({}, tasks(3), id="no-maps"),
        pytest.param({"/proc/self/maps": maps_of()}, (), id="no-tasks"),
    ],
)
def test_native_threads_without_proc_are_unknown(files: dict[str, str], folders: tuple[str, ...]) -> None:
    """
    Other systems do not say how many threads a process has.
    """
    facts = read_process(FakeHost(files=files, folders=folders))
    assert facts.native_threads is None
    assert "native_threads" not in facts.sources


def test_native_threads_of_an_empty_map_have_no_pools() -> None:
    """
    A map that tells no library explains no thread.
    """
    assert read_process(FakeHost(files={"/proc/self/maps": ""}, folders=tasks(3), cpus=8)).native_threads == 2


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        pytest.param(None, "4", (4, "PYTHON_CPU_COUNT"), id="variable"),
        pytest.param(2, None, (2, "-X cpu_count"), id="option"),
        pytest.param(2, "4", (2, "-X cpu_count"), id="option-goes-first"),
        pytest.param(None, "default", (None, "PYTHON_CPU_COUNT"), id="default"),
        pytest.param(None, "0", (None, "PYTHON_CPU_COUNT"), id="zero"),
        pytest.param(None, "-3", (None, "PYTHON_CPU_COUNT"), id="negative"),
        pytest.param(0, "4", (4, "PYTHON_CPU_COUNT"), id="option-of-zero"),
        pytest.param(None, "9" * 400, (None, "PYTHON_CPU_COUNT"), id="too-many-digits"),
        pytest.param(None, None, (None, "PYTHON_CPU_COUNT"), id="neither"),
    ],
)
def test_python_cpu_count_is_a_positive_number_or_none(
    option: int | None, variable: str | None, expected: tuple[int | None, str]
) -> None:
    """
    Python takes positive numbers and the word "default" only.
    """
    environment = {} if variable is None else {"PYTHON_CPU_COUNT": variable}
    assert read_python_cpu_count(FakeHost(own_cpu_count=option, environment=environment)) == expected


BOUND = {"OMP_PLACES": "cores"}
FOUR = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param({"mask": FOUR}, (FOUR, "sched_getaffinity", None), id="no-variable"),
        pytest.param(
            {"mask": (0,), "mask_at_import": FOUR}, ((0,), "sched_getaffinity", None), id="the-users-own-mask-since"
        ),
        pytest.param(
            {"mask": (0,), "mask_at_import": FOUR, "environment": BOUND},
            (FOUR, "sched_getaffinity before torch was loaded", "OMP_PLACES"),
            id="bound-since",
        ),
        pytest.param(
            {"mask": (0,), "mask_at_import": FOUR, "environment": {"GOMP_CPU_AFFINITY": "0"}},
            (FOUR, "sched_getaffinity before torch was loaded", "GOMP_CPU_AFFINITY"),
            id="bound-by-gnus-own-variable",
        ),
        pytest.param(
            {"mask": (0,), "mask_at_import": FOUR, "environment": {**BOUND, "OMP_PROC_BIND": "FALSE"}},
            ((0,), "sched_getaffinity", None),
            id="binding-switched-off",
        ),
        pytest.param(
            {"mask": FOUR, "mask_at_import": FOUR, "environment": BOUND},
            (FOUR, "sched_getaffinity", None),
            id="not-bound",
        ),
        pytest.param(
            {"mask": (4,), "mask_at_import": FOUR, "environment": BOUND},
            ((4,), "sched_getaffinity", None),
            id="moved-elsewhere",
        ),
        pytest.param(
            {"mask": (4,), "mask_at_import": FOUR, "environment": {"GOMP_CPU_AFFINITY": "4"}},
            (FOUR, "sched_getaffinity before torch was loaded", "GOMP_CPU_AFFINITY"),
            id="moved-elsewhere-by-gnus-own-variable",
        ),
        pytest.param(
            {"mask": (0,), "cpus": 4, "environment": BOUND},
            ((0,), "sched_getaffinity", "OMP_PLACES"),
            id="torch-came-first",
        ),
        pytest.param(
            {"mask": FOUR, "cpus": 4, "environment": BOUND},
            (FOUR, "sched_getaffinity", None),
            id="torch-came-first-and-nothing-is-missing",
        ),
        pytest.param({"environment": BOUND}, (None, "sched_getaffinity", None), id="no-masks"),
    ],
)
def test_affinity_is_that_before_openmp_took_cpus_away(answers: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """
    Only a variable of OpenMP's makes an earlier mask count, and only if it was wider.
    """
    assert read_affinity(FakeHost(**answers)) == expected
