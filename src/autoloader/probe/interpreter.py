"""
Facts of the running interpreter, the same on every system: how it starts children, and in what state it is.
"""

from ..facts import CpuFacts, ProcessFacts, StartMethodFacts
from .host_io import HostIO
from .parse import is_python_program, parse_int, parse_mapped_libraries, parse_meminfo, reimported_main
from .readings import Readings


def read_start_methods(io: HostIO) -> StartMethodFacts:
    """
    Read which start methods there are; none gets fixed by asking.
    """
    methods = io.start_methods()
    readings = Readings()
    if methods is not None:
        readings.put("available", methods.available, "multiprocessing.get_all_start_methods()")
        readings.put("default", methods.default, "multiprocessing.get_all_start_methods()[0]")
        readings.put("in_force", methods.in_force, "multiprocessing.get_start_method(allow_none=True)")
    return readings.build(StartMethodFacts)


HARMLESS_THREADS = (
    "multiprocessing.queues.",
    "multiprocessing.resource_sharer.",
    "torch.",
    "tqdm.",
    "IPython.",
    "ipykernel.",
    "zmq.",
    "debugpy.",
    "_pydevd_bundle.",
    "pydevd.",
    "tensorboard.",
    "wandb.",
    "mlflow.",
    "comet_ml.",
    "clearml.",
    "execnet.",
)
"""
Where the code of threads begins that hold nothing a worker waits for: queues' feeders and torch's pinning belong to the
loaders that started them, torch's compiler has one that reads a pipe; notebooks, debuggers, progress bars and loggers
are forked every day, and so are the workers of pytest-xdist.
"""

FORK_UNSAFE_MODULES = ("polars", "jax", "tensorflow", "grpc")
"""
Their own documentation says not to fork a process that has used them: polars' user guide ("Multiprocessing"), jax's
warning at ``os.fork()``, TensorFlow's and gRPC's notes on fork.
"""

POOL_LIBRARIES = ("libopenblas", "libscipy_openblas", "libgomp", "libomp", "libiomp5", "libmkl_rt", "libblis")
"""
Libraries that keep a pool of at most a thread a CPU, and that stop it before a fork or start it anew after one.
"""

_POOLS_OF_TORCH = 2
"""
Beside OpenMP's: its inter-op threads, and those of NNPACK and XNNPACK.
"""

_LOOKS = 3
"""
A thread that was joined has gone from the kernel's list after a millisecond or two.
"""

_THREADS_OF_ZMQ = 2
"""
Notebooks: zmq's reaper and its thread for input and output.
"""


def read_process(io: HostIO) -> ProcessFacts:
    """
    Read the state of this process that decides how it may start others.
    """
    readings, threads, main = Readings(), io.other_threads(), io.main_module()
    named = tuple(thread.name for thread in threads if not thread.runs.startswith(HARMLESS_THREADS))
    readings.put("other_threads", named, "threading.enumerate()")
    readings.put("native_threads", _read_native_threads(io), "/proc/self/task and /proc/self/maps")
    readings.put("fork_unsafe_modules", io.loaded_modules(FORK_UNSAFE_MODULES), "sys.modules")
    readings.put("is_daemonic", io.is_daemonic(), "multiprocessing.current_process().daemon")
    readings.put("is_dataloader_worker", io.is_dataloader_worker(), "torch.utils.data.get_worker_info()")
    readings.put("is_accelerator_initialised", io.is_accelerator_initialised(), "torch.cuda.is_initialized()")
    built_for = io.torch_accelerators()
    readings.put("is_torch_built_for_accelerator", None if built_for is None else bool(built_for), "torch.version")
    again = readings.put(
        "reimported_main", reimported_main(main.spec_name, main.file), "__main__.__spec__ and __main__.__file__"
    )
    is_path = again is not None and main.spec_name is None
    readings.put("is_main_missing", is_path and main.is_file is False, "__main__.__file__")
    interpreter = readings.put("interpreter", io.interpreter(), "multiprocessing.spawn.get_executable()")
    is_python = not io.is_frozen() and interpreter is not None and is_python_program(interpreter)
    readings.put("is_interpreter_python", is_python, "sys.frozen and the program's name")
    sizes = parse_meminfo(io.read_text("/proc/self/status"))  # which proc_pid_status(5) writes in the same way
    readings.put("anonymous_bytes", sizes.get("RssAnon"), "/proc/self/status")
    readings.put("has_semaphores", io.has_semaphores(), "multiprocessing's SemLock")
    return readings.build(ProcessFacts)


OPENMP_BINDING = ("OMP_PLACES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY")
"""
Variables by which an OpenMP runtime binds the thread that loads it (OpenMP 5.0, section 6.4 and 6.5; libgomp's manual).
"""


def read_affinity(io: HostIO) -> tuple[tuple[int, ...] | None, str, str | None]:
    """
    Read the CPUs that this process may use, as they were before OpenMP bound its main thread.

    Returns:
        The CPUs, where they were read, and the variable by which OpenMP took some away, or may have.
    """
    now, seen = io.affinity(), io.affinity_at_import()
    variable = next((name for name in OPENMP_BINDING if io.environment.get(name)), None)
    if now is None or variable is None or "false" in io.environment.get("OMP_PROC_BIND", "").lower():
        return now, "sched_getaffinity", None
    if seen is None:
        return now, "sched_getaffinity", variable if len(now) < (io.cpu_count() or 0) else None
    # Places are made of the CPUs in the mask; GNU's own variable also names others.
    is_bound = set(now) < set(seen) or (variable == "GOMP_CPU_AFFINITY" and not set(now) >= set(seen))
    return (
        (seen, "sched_getaffinity before torch was loaded", variable) if is_bound else (now, "sched_getaffinity", None)
    )


def put_affinity(readings: Readings, io: HostIO) -> tuple[int, ...] | None:
    """
    Note the CPUs that this process may use, and those of this moment; return the former.
    """
    affinity, source, variable = read_affinity(io)
    readings.put("affinity", affinity, source)
    readings.put("affinity_bound_by", variable, "the environment")
    readings.put("affinity_now", io.affinity(), "sched_getaffinity")
    return affinity


def read_cpus_now(io: HostIO) -> CpuFacts:
    """
    Read only what may change while a process runs: the CPUs that it may use.
    """
    readings = Readings()
    put_affinity(readings, io)
    return readings.build(CpuFacts)


def _read_native_threads(io: HostIO) -> int | None:
    """
    Return the threads that neither Python nor a pool of BLAS or OpenMP accounts for; Linux tells them.

    Up to Python 3.12 the kernel still counts a thread for a moment after it was joined, so what is seen once may be
    gone when it is looked for again.
    """
    for _ in range(_LOOKS - 1):
        found = _count_native_threads(io)
        if not found:
            return found
        io.pause()
    return _count_native_threads(io)


def _count_native_threads(io: HostIO) -> int | None:
    tasks, maps = io.list_dir("/proc/self/task"), io.read_text("/proc/self/maps")
    if tasks is None or maps is None:
        return None
    native = len(tasks) - 1 - len(io.other_threads())
    if native <= 0:
        return 0
    libraries = parse_mapped_libraries(maps)
    pools = sum(name.startswith(POOL_LIBRARIES) for name in libraries)
    pools += _POOLS_OF_TORCH if "libtorch_cpu.so" in libraries else 0
    of_zmq = _THREADS_OF_ZMQ if any(name.startswith("libzmq") for name in libraries) else 0
    return max(0, native - pools * (io.cpu_count() or 1) - of_zmq)


def read_python_cpu_count(io: HostIO) -> tuple[int | None, str]:
    """
    Return the user's own limit on CPUs and where it was set; the option goes before the variable.

    Source: Python documentation, "Command line and environment", ``-X cpu_count`` and ``PYTHON_CPU_COUNT``.
    """
    by_option = io.python_cpu_count()
    if by_option:
        return by_option, "-X cpu_count"
    by_variable = parse_int(io.environment.get("PYTHON_CPU_COUNT"))
    return by_variable if by_variable is not None and by_variable > 0 else None, "PYTHON_CPU_COUNT"
