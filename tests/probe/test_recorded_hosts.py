"""
Machines that were recorded: every fact is as the people who built them wrote it down. See tests/hosts/README.md.
"""

import functools
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from autoloader.facts import HostFacts
from autoloader.probe import probe_host
from autoloader.probe.parse import NO_LIMIT
from autoloader.probe.recording import ReplayedHost

FOLDER = Path(__file__).parent.parent / "hosts"
NAMES = tuple(sorted(path.name.removesuffix(".truth.json") for path in FOLDER.glob("*.truth.json")))

KIND_WORDS = {"unknown": "virtual", "ram": "memory", "host-share": "network", "pseudo": "unknown"}
"""
Our words for those of the truth: it says ``unknown`` of a virtio disk, and ours for what lies on nothing is that.
"""

KERNEL_FRACTION = 0.12
"""
The most of a node's memory that firmware and the kernel's own image take on these machines, whose nodes are small.
"""

NO_SUCH_FACT = {
    "cgroup": "the sources of limits name it",
    "cgroup_version": "the sources of limits show it",
    "isolated": "affinity leaves these CPUs out",
    "mems_allowed": "no fact says which nodes memory may come from",
    "offline": "only CPUs that are online are counted",
    "possible": "only CPUs that are online are counted",
    "present": "only CPUs that are online are counted",
    "threads_per_core": "it is not one number where some threads are offline",
}
"""
What is true of a machine and told by none of the facts.
"""

NO_SUCH_STORAGE_FACT = {
    "encrypted": "the kind of disk is the same",
    "mixed": "the slowest disk is the one that is told",
    "note": "it is for people",
}
"""
What is true of storage and told by none of the facts.
"""


@functools.cache
def document(name: str) -> Any:
    """
    Return what a machine answered.
    """
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@functools.cache
def truth(name: str) -> Any:
    """
    Return what is true of a machine.
    """
    return json.loads((FOLDER / f"{name}.truth.json").read_text(encoding="utf-8"))


@functools.cache
def facts_of(name: str, path: str | None = None) -> HostFacts:
    """
    Return the facts of a machine, with those of the storage at *path*.
    """
    return probe_host(io=ReplayedHost(document(name)), path=path)


def numbers(text: str) -> tuple[int, ...]:
    """
    Return the numbers of a list such as ``0-2,4``, none of an empty one.
    """
    ends = (part.partition("-") for part in text.split(",") if part)
    return tuple(number for first, _, last in ends for number in range(int(first), int(last or first) + 1))


def allowed(facts: HostFacts) -> tuple[int, ...]:
    """
    Return the CPUs that are online and in the affinity mask and the cpuset.
    """
    sets = [set(known) for known in (facts.cpu.affinity, facts.cpu.cpuset) if known is not None]
    return tuple(sorted(set.intersection(*sets)))


def expected_distances(machine: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """
    Return the rows of the table by the numbers of their nodes.
    """
    return {number: tuple(row) for number, row in zip(machine["numa_nodes"], machine["numa_distance"], strict=True)}


def expected_memory_limit(machine: Mapping[str, Any]) -> float:
    """
    Return the smaller of the limit that kills and the one that slows down: beyond either no loader should plan.
    """
    known = (machine["memory_limit_bytes"], machine["memory_high_bytes"])
    return min((float(limit) for limit in known if limit is not None), default=NO_LIMIT)


COMPARED: dict[str, tuple[Callable[[HostFacts], Any], Callable[[Mapping[str, Any]], Any]]] = {
    "arch": (lambda facts: facts.system.architecture, lambda machine: machine["arch"]),
    "cores": (lambda facts: facts.cpu.physical, lambda machine: len(machine["cores"])),
    "cpu_quota": (lambda facts: facts.cpu.quota_cpus, lambda machine: machine["cpu_quota"] or NO_LIMIT),
    "effective_cpus": (lambda facts: facts.cpu.usable_cpus, lambda machine: machine["effective_cpus"]),
    "in_container": (
        lambda facts: facts.system.container != "none",
        lambda machine: machine.get("in_container", False),
    ),
    "memory_high_bytes": (lambda facts: facts.memory.cgroup_limit_bytes, expected_memory_limit),
    "memory_limit_bytes": (lambda facts: facts.memory.cgroup_limit_bytes, expected_memory_limit),
    "numa_distance": (lambda facts: facts.numa.node_distances, expected_distances),
    "numa_nodes": (
        lambda facts: facts.numa.node_cpus,
        lambda machine: {number: numbers(node["cpus"]) for number, node in machine["numa_nodes"].items()},
    ),
    "online": (lambda facts: facts.cpu.logical, lambda machine: len(numbers(machine["online"]))),
    "packages": (lambda facts: facts.cpu.sockets, lambda machine: len(machine["packages"])),
    "physical_cores": (lambda facts: facts.cpu.physical, lambda machine: machine["physical_cores"]),
    "sockets": (lambda facts: facts.cpu.sockets, lambda machine: machine["sockets"]),
    "virtual_machine": (
        lambda facts: facts.system.hypervisor in {"qemu", "kvm", "unnamed"},
        lambda machine: machine["virtual_machine"],
    ),
    "usable_count": (lambda facts: len(allowed(facts)), lambda machine: machine["usable_count"]),
    "usable_cpus": (allowed, lambda machine: numbers(machine["usable_cpus"])),
}
"""
For each field of the truth: what the facts say of it, and what they should say.
"""

STORED = [(name, path) for name in NAMES for path in truth(name).get("storage", {})]


def test_recorded_hosts_are_all_that_were_handed_over() -> None:
    """
    Each of the fourteen machines has its answers and its truth, so that no test below has nothing to do.
    """
    assert len(NAMES) == 14
    assert {path.name for path in FOLDER.glob("*.json")} == {
        f"{name}{ending}" for name in NAMES for ending in (".json", ".truth.json")
    }


@pytest.mark.parametrize("field", COMPARED)
@pytest.mark.parametrize("name", NAMES)
def test_recorded_host_has_the_facts_that_are_true(name: str, field: str) -> None:
    """
    What the probe finds in a machine's files is what its builders know of it.
    """
    found, expected = COMPARED[field]
    assert found(facts_of(name)) == expected(truth(name))


@pytest.mark.parametrize("name", NAMES)
def test_recorded_host_has_the_memory_that_is_built_in(name: str) -> None:
    """
    A node has a little less memory than is built in, or none; the nodes together have the machine's.
    """
    facts, machine = facts_of(name), truth(name)
    found = facts.numa.node_memory_bytes or {}
    built_in = {number: node["memory"] for number, node in machine["numa_nodes"].items()}
    assert set(found) == set(built_in)
    for number, size in built_in.items():
        assert size * (1 - KERNEL_FRACTION) <= found[number] <= size
    assert facts.numa.nodes == sum(size > 0 for size in built_in.values())
    assert facts.numa.cpu_nodes == sum(node["cpus"] != "" for node in machine["numa_nodes"].values())
    assert facts.memory.total_bytes == sum(found.values())
    assert sum(built_in.values()) == machine["memory_nominal_bytes"]


@pytest.mark.parametrize(("name", "path"), STORED)
def test_recorded_storage_is_of_the_kind_that_is_true(name: str, path: str) -> None:
    """
    The slowest disk below a path decides, whatever stands between; the file system is the one that holds the path.
    """
    storage, expected = facts_of(name, path).storage, truth(name)["storage"][path]
    assert storage.kind == KIND_WORDS.get(expected["kind"], expected["kind"])
    assert storage.filesystem == expected["fstype"]
    # What is recorded has no names of servers.
    assert storage.device == re.sub(r"^[^/:]+:", "server:", expected["source"])
    if expected["disks"]:
        assert posixpath.basename(storage.sources["kind"]) in expected["disks"]
        assert set(expected["disks"]) <= set(storage.devices)
    if "chain" in expected:
        assert storage.devices[0] == expected["chain"][0]
        assert set(storage.devices) == {name for level in expected["chain"] for name in level.split("+")}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_truth_is_compared_or_has_no_fact(name: str) -> None:
    """
    No field of the truth is forgotten: it is compared, or a reason says why it cannot be.
    """
    machine = truth(name)
    assert machine["machine"] == name
    elsewhere = {"machine", "memory_nominal_bytes", "storage"}
    assert set(machine) <= {*COMPARED, *NO_SUCH_FACT, *elsewhere}
    compared = {"kind", "fstype", "source", "disks", "chain"}
    for each in machine.get("storage", {}).values():
        assert set(each) <= {*compared, *NO_SUCH_STORAGE_FACT}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_answers_are_those_that_a_probe_asks_for(name: str) -> None:
    """
    A probe asks nothing that was not recorded, and all that was recorded is asked for.
    """
    host = ReplayedHost(document(name))
    for path in (None, *truth(name).get("storage", {})):
        probe_host(io=host, path=path)
    assert (host.unanswered, host.unused) == (set(), set())
