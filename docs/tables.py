"""
Write the pages of rules, findings and facts from the code's own catalogues: ``python docs/tables.py``.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from autoloader.facts import HostFacts
from autoloader.findings import CATALOGUE
from autoloader.policy import RULES
from autoloader.probe import probe_host
from autoloader.probe.recording import ReplayedHost
from autoloader.records import field_names, is_record

REFERENCE = Path(__file__).parent / "reference"
HOSTS = Path(__file__).parent.parent / "tests" / "hosts"

SYSTEMS = ("linux", "windows", "macos", "elsewhere")


def rules_page() -> str:
    """
    Return the page that lists every rule.
    """
    intro = "# Rules\n\nEvery choice in a plan carries the id of the rule that decided.\n"
    rows = (f"| `{rule}` | {meaning} |" for rule, meaning in RULES.items())
    return "\n".join([intro, "| rule | meaning |", "| --- | --- |", *rows, ""])


def findings_page() -> str:
    """
    Return the page that shows every finding with its text and fix.
    """
    intro = (
        "# Findings and errors\n\nOne catalogue serves the notes of a plan and the texts of errors. "
        "Search here for words of a message, or for an id. What a warning about starting workers begins with, "
        "`backend.missing-main-guard` for instance, stands here as `process.missing-main-guard`.\n"
    )
    sections = (
        f"## `{each.id}`\n\n{each.title}.\n\n{_quoted(each.text)}\n\n{each.fix}\n" for each in CATALOGUE.values()
    )
    return "\n".join([intro, *sections])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def known_facts(facts: HostFacts) -> Iterator[str]:
    """
    Yield the names of the facts that are known, with the names of their groups.
    """
    for group in field_names(facts):
        record = getattr(facts, group)
        if is_record(record):
            yield from (f"{group}.{name}" for name in record.sources)


def all_facts() -> list[str]:
    """
    Return the names of all facts, in order.
    """
    groups = ((group, getattr(HostFacts(), group)) for group in field_names(HostFacts))
    names = ((group, field_names(record)) for group, record in groups if is_record(record))
    return [f"{group}.{name}" for group, fields in names for name in fields if name != "sources"]


def facts_by_system(*, full: bool, measure: bool = False) -> dict[str, set[str]]:
    """
    Return the facts that any of the tests' hosts of a system tells: what one of them answered, the system can tell.

    Args:
        full: Whether the probe asks also what takes seconds.
        measure: Whether it reads files, on hosts where that was recorded.
    """
    found: dict[str, set[str]] = {system: set() for system in SYSTEMS}
    paths = [path for path in sorted(HOSTS.rglob("*.json")) if not path.name.endswith(".truth.json")]
    for path in paths:
        document = json.loads(path.read_text(encoding="utf-8"))
        is_timed = measure and "timed_reads" in document["answers"]
        facts = probe_host(io=ReplayedHost(document), full=full, measure=is_timed)
        platform = facts.system.platform or ""
        found[platform if platform in SYSTEMS else "elsewhere"] |= set(known_facts(facts))
    return found


def facts_table() -> str:
    """
    Return the table: ``yes`` where a system tells a fact, and else the option of the command that makes it tell it.
    """
    told = {
        "yes": facts_by_system(full=False),
        "full": facts_by_system(full=True),
        "measure": facts_by_system(full=True, measure=True),
    }
    rows = ["| fact | Linux | Windows | macOS | elsewhere |", "| --- | --- | --- | --- | --- |"]
    for fact in all_facts():
        cells = (next((word for word in told if fact in told[word][each]), "") for each in SYSTEMS)
        rows.append(f"| `{fact}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """
    Write the pages; of that of facts, the table.
    """
    facts = REFERENCE / "facts-by-system.md"
    text, _, _ = facts.read_text(encoding="utf-8").partition("| fact |")
    facts.write_text(f"{text}{facts_table()}\n", encoding="utf-8")
    (REFERENCE / "rules.md").write_text(rules_page(), encoding="utf-8")
    (REFERENCE / "findings.md").write_text(findings_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
