"""
Facts of the running interpreter, the same on every system: how it starts children, and in what state it is.
"""

from ..facts import ProcessFacts, StartMethodFacts
from .host_io import HostIO
from .parse import parse_int, reimported_main
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


def read_process(io: HostIO) -> ProcessFacts:
    """
    Read the state of this process that decides how it may start others.
    """
    readings = Readings()
    readings.put("other_threads", io.other_threads(), "threading.active_count()")
    readings.put("is_daemonic", io.is_daemonic(), "multiprocessing.current_process().daemon")
    readings.put("is_dataloader_worker", io.is_dataloader_worker(), "torch.utils.data.get_worker_info()")
    readings.put("is_accelerator_initialised", io.is_accelerator_initialised(), "torch.cuda.is_initialized()")
    built_for = io.torch_accelerators()
    readings.put("is_torch_built_for_accelerator", None if built_for is None else bool(built_for), "torch.version")
    readings.put("reimported_main", reimported_main(*io.main_module()), "__main__.__spec__ and __main__.__file__")
    return readings.build(ProcessFacts)


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
