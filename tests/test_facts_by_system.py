"""
The page of facts by system says what the backends tell.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """
    Return the module that writes the table.
    """
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_has_the_table_of_what_is_told(pages: ModuleType) -> None:
    """
    A fact that a backend learns to tell, or forgets, changes the page.
    """
    text = (ROOT / "docs" / "reference" / "facts-by-system.md").read_text(encoding="utf-8")
    assert text.partition("| fact |")[1:] == ("| fact |", pages.facts_table().removeprefix("| fact |") + "\n")


def test_every_fact_is_told_somewhere(pages: ModuleType) -> None:
    """
    A fact that no host has told was never seen to work.
    """
    told = set().union(*pages.facts_by_system(full=True, measure=True).values())
    assert told == set(pages.all_facts())


@pytest.mark.parametrize(
    ("system", "fact", "is_told"),
    [
        pytest.param("windows", "memory.commit_limit_bytes", True, id="commit-limit-on-windows"),
        pytest.param("linux", "memory.commit_limit_bytes", False, id="commit-limit-on-linux"),
        pytest.param("macos", "cpu.affinity", False, id="affinity-on-macos"),
        pytest.param("elsewhere", "cpu.quota_cpus", False, id="quota-elsewhere"),
        pytest.param("linux", "cpu.quota_cpus", True, id="quota-on-linux"),
        pytest.param("linux", "cpu.flags", False, id="flags-need-a-full-probe"),
        pytest.param("linux", "storage.read_latency_seconds", False, id="latencies-need-to-be-measured"),
    ],
)
def test_system_tells_what_it_can(pages: ModuleType, system: str, fact: str, is_told: bool) -> None:
    """
    Some cells, known from the systems themselves.
    """
    assert (fact in pages.facts_by_system(full=False)[system]) == is_told
