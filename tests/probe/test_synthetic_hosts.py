"""
Machines that were written by hand from documents: every fact is as the documents say. See tests/hosts/README.md.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from autoloader.facts import HostFacts
from autoloader.probe import probe_host
from autoloader.probe.recording import ReplayedHost
from probe.synthetic_truth import FACTS, MANY, STORAGE, TIMED

FOLDER = Path(__file__).parent.parent / "hosts" / "synthetic"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def topology_of_many() -> Iterator[tuple[str, str]]:
    """
    Yield the files of 1,024 CPUs: four packages of 128 cores each, whose second threads have the upper numbers.
    """
    for cpu in range(1024):
        folder, core = f"/sys/devices/system/cpu/cpu{cpu}/topology", cpu % 512
        yield f"{folder}/core_cpus_list", f"{core},{core + 512}\n"
        yield f"{folder}/physical_package_id", f"{core // 128}\n"


@functools.cache
def document(name: str) -> Any:
    """
    Return what a host answers; that of the largest is made longer here.
    """
    read = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if name == MANY:
        read["answers"]["affinity"] = list(range(1024))
        read["answers"]["read_text"].update(topology_of_many())
    return read


@functools.cache
def facts_of(name: str, path: str | None = None) -> HostFacts:
    """
    Return the facts of a host, with those of the storage at *path*.
    """
    return probe_host(io=ReplayedHost(document(name)), path=path)


def look_up(facts: Any, fact: str) -> Any:
    """
    Return a fact by its dotted name; the last part may be a key.
    """
    for part in fact.split("."):
        facts = facts[part] if isinstance(facts, Mapping) else getattr(facts, part)
    return facts


@pytest.mark.parametrize(
    ("name", "fact", "expected"),
    [pytest.param(name, fact, value, id=f"{name}-{fact}") for name in FACTS for fact, value in FACTS[name].items()],
)
def test_synthetic_host_has_the_facts_of_its_documents(name: str, fact: str, expected: Any) -> None:
    """
    What the probe finds in a host's answers is what the documents say of such a host.
    """
    assert look_up(facts_of(name), fact) == expected


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [pytest.param(name, path, STORAGE[name][path], id=f"{name}-{path}") for name in STORAGE for path in STORAGE[name]],
)
def test_synthetic_storage_is_of_its_kind(name: str, path: str, expected: tuple[str | None, str, int | None]) -> None:
    """
    The mount that holds a path tells its kind; a network mount is not asked for its size.
    """
    storage = facts_of(name, path).storage
    assert (storage.filesystem, storage.kind, storage.size_bytes) == expected


@pytest.mark.parametrize(
    ("name", "fact", "expected"),
    [pytest.param(name, fact, value, id=f"{name}-{fact}") for name in TIMED for fact, value in TIMED[name].items()],
)
def test_synthetic_host_whose_reads_were_timed_has_their_facts(name: str, fact: str, expected: Any) -> None:
    """
    What the times say goes before what a hypervisor passed on.
    """
    assert look_up(probe_host(io=ReplayedHost(document(name)), measure=True), fact) == expected


def test_synthetic_hosts_all_have_facts() -> None:
    """
    No document is without a row, and no row without a document.
    """
    assert set(NAMES) == set(FACTS)
    assert set(STORAGE) <= set(NAMES)
    assert set(TIMED) == {name for name in NAMES if "timed_reads" in document(name)["answers"]}


@pytest.mark.parametrize("name", NAMES)
def test_synthetic_host_names_the_documents_that_it_is_from(name: str) -> None:
    """
    Nobody takes what was written by hand for the answers of a machine.
    """
    source = document(name)["synthetic"]
    assert isinstance(source, str)
    assert len(source) > len("none")


@pytest.mark.parametrize("name", NAMES)
def test_synthetic_answers_are_those_that_a_probe_asks_for(name: str) -> None:
    """
    A probe asks nothing that was not written, and all that was written is asked for.
    """
    host = ReplayedHost(document(name))
    for path in (None, *STORAGE.get(name, {})):
        probe_host(io=host, path=path)
    probe_host(io=host, full=True, measure=name in TIMED)
    assert (host.unanswered, host.unused) == (set(), set())
