"""
What this host is: OS, processors and their limits, memory, storage, accelerators, ranks.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType

from ..facts import HostFacts
from .host_io import HostIO, RealHost
from .interpreter import read_cpus_now, read_process, read_start_methods
from .job import read_job

BACKENDS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
"""
The module for each system that has one of its own, by Python's name for it; only the one that is used is imported.
"""

__all__ = ["HostIO", "RealHost", "probe_environment", "probe_host", "probe_memory", "probe_process"]


def probe_host(
    *,
    io: HostIO | None = None,
    platform: str | None = None,
    path: str | None = None,
    full: bool = False,
    measure: bool = False,
) -> HostFacts:
    """
    Read the facts of this host that matter for loading data.

    It never raises and changes nothing in the process: what a host does not say is ``None``.

    Args:
        io: Where to ask; this machine by default.
        platform: Python's name for the operating system; what *io* says by default.
        path: The place whose storage is asked about; the working directory by default.
        full: Whether to ask also what takes seconds: flags and caches of the processor, by py-cpuinfo in a child
            process whose answer is kept, and memory and load of NVIDIA's devices, by their management library.
        measure: Whether to read files at *path* for some seconds, in a child process, to see how late its storage
            answers. It comes first: a path that does not answer is not asked about otherwise.
    """
    host = RealHost() if io is None else io
    facts: HostFacts = _with_latency(host, platform, path) if measure else _backend(host, platform).collect(host, path)
    if full:
        from .accelerator import with_load
        from .cpu_model import with_details

        facts = facts._replace(cpu=with_details(facts.cpu, host), accelerator=with_load(facts.accelerator, host))
    return facts


def _with_latency(host: HostIO, platform: str | None, path: str | None) -> HostFacts:
    """
    Read the facts of a host, and what timed reads tell of its storage.
    """
    from .latency import Unreached, with_latency

    place = path or host.working_directory() or "."
    reads = host.timed_reads(place)
    asked = host if reads is None or reads.is_reached else Unreached(host, place)
    facts: HostFacts = _backend(host, platform).collect(asked, place)
    return facts._replace(storage=with_latency(facts.storage, reads))


def probe_memory(*, io: HostIO | None = None, platform: str | None = None) -> HostFacts:
    """
    Read only what a worker that died may have lacked: memory, shared memory and limits on files.

    It never raises, not even where no file can be opened any more.

    Args:
        io: Where to ask; this machine by default.
        platform: Python's name for the operating system; what *io* says by default.
    """
    host = RealHost() if io is None else io
    try:
        backend = _backend(host, platform)
    except (ImportError, OSError):
        return HostFacts()
    facts: HostFacts = backend.collect_memory(host)
    return facts


def probe_environment(*, io: HostIO | None = None) -> Mapping[str, str]:
    """
    Return the environment variables of this process, to be read only.
    """
    return (RealHost() if io is None else io).environment


def _backend(host: HostIO, platform: str | None) -> ModuleType:
    return importlib.import_module(f".{BACKENDS.get(platform or host.platform, 'fallback')}", __name__)


def probe_process(*, io: HostIO | None = None) -> HostFacts:
    """
    Read only what concerns this process: its CPUs, start methods, state and rank; all else is unknown.
    """
    host = RealHost() if io is None else io
    return HostFacts(
        start_methods=read_start_methods(host),
        cpu=read_cpus_now(host),
        job=read_job(host.environment),
        process=read_process(host),
    )
