"""
What this host is: OS, processors and their limits, memory, storage, accelerators, ranks.
"""

from ..facts import HostFacts
from . import fallback, linux
from .host_io import HostIO, RealHost

__all__ = ["HostIO", "RealHost", "probe_host"]


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
    collect = linux.collect if (platform or host.platform) == "linux" else fallback.collect
    return collect(host, path)
