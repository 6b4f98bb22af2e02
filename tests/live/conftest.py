"""
What the live tests share: the machine as the command and as lscpu show it.
"""

import pytest

from live.running import output_of, probe_lines


@pytest.fixture(scope="session")
def lines() -> dict[str, str]:
    """
    Return what the command prints here for people.
    """
    return probe_lines()


@pytest.fixture(scope="session")
def topology() -> tuple[int, int, int]:
    """
    Return CPUs online, cores and sockets as lscpu counts them.
    """
    listed = output_of("lscpu", "-p=CPU,CORE,SOCKET").splitlines()
    rows = [row.split(",") for row in listed if not row.startswith("#")]
    return len(rows), len({(core, socket) for _, core, socket in rows}), len({socket for _, _, socket in rows})
