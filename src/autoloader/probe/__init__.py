"""
What this host is: OS, processors and their limits, memory, storage, accelerators, ranks.
"""

import importlib

from ..facts import HostFacts
from .host_io import HostIO, RealHost
from .interpreter import read_process, read_start_methods
from .job import read_job

BACKENDS = {"linux": "linux"}
"""
The module for each system that has one of its own, by Python's name for it; only the one that is used is imported.
"""

__all__ = ["HostIO", "RealHost", "probe_host", "probe_process"]


def probe_host(*, io: HostIO | None = None, platform: str | None = None, path: str | None = None) -> HostFacts:
    """
    Read the facts of this host that matter for loading data.

    It never raises and changes nothing in the process: what a host does not say is ``None``.

    Args:
        io: Where to ask; this machine by default.
        platform: Python's name for the operating system; what *io* says by default.
        path: The place whose storage is asked about; the working directory by default.
    """
    host = RealHost() if io is None else io
    backend = BACKENDS.get(platform or host.platform, "fallback")
    facts: HostFacts = importlib.import_module(f".{backend}", __name__).collect(host, path)
    return facts


def probe_process(*, io: HostIO | None = None) -> HostFacts:
    """
    Read only what concerns this process: its start methods, its state and its rank; all else is unknown.
    """
    host = RealHost() if io is None else io
    return HostFacts(start_methods=read_start_methods(host), job=read_job(host.environment), process=read_process(host))
