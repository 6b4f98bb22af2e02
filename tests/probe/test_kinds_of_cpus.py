"""
Processors with fast and slow cores, on Linux.
"""

import pytest

from autoloader.probe import probe_host
from support import FakeHost

CPU = "/sys/devices/system/cpu"


def capacities(*values: int | str) -> dict[str, str]:
    """
    Return the files of an ARM processor whose CPUs have these capacities.
    """
    return {f"{CPU}/cpu{cpu}/cpu_capacity": f"{value}\n" for cpu, value in enumerate(values)}


@pytest.mark.parametrize(
    ("online", "files", "expected"),
    [
        pytest.param(
            "0-19",
            {"/sys/devices/cpu_core/cpus": "0-11\n", "/sys/devices/cpu_atom/cpus": "12-19\n"},
            (12, 8),
            id="intel-hybrid",
        ),
        pytest.param("0-11", {"/sys/devices/cpu_core/cpus": "0-11\n"}, (None, None), id="slow-ones-switched-off"),
        pytest.param("0-3,12-19", {"/sys/devices/cpu_core/cpus": "0-11\n"}, (4, 8), id="some-fast-ones-offline"),
        pytest.param("0-7", {}, (None, None), id="one-kind"),
        pytest.param("0-7", capacities(*[446] * 4, *[1024] * 4), (4, 4), id="arm-big-little"),
        pytest.param("0-7", capacities(*[279] * 4, *[828] * 3, 1024), (1, 7), id="arm-three-kinds"),
        pytest.param("0-3", capacities(1024, 1024, 1024, 1024), (None, None), id="arm-one-kind"),
        pytest.param("0-3", capacities("x", 1024), (None, None), id="garbage"),
    ],
)
def test_fast_and_slow_cpus_are_counted_where_there_are_both(
    online: str, files: dict[str, str], expected: tuple[int | None, int | None]
) -> None:
    """
    Those that are online.
    """
    cpu = probe_host(io=FakeHost(files={f"{CPU}/online": f"{online}\n", **files})).cpu
    assert (cpu.performance_cpus, cpu.efficiency_cpus) == expected
    assert ("performance_cpus" in cpu.sources) == (expected[0] is not None)
