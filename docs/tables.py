"""
Write the pages of rules and findings from the code's own catalogues: ``python docs/tables.py``.
"""

from pathlib import Path

from autoloader.findings import CATALOGUE
from autoloader.policy import RULES

REFERENCE = Path(__file__).parent / "reference"


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
        "Search here for an id, or for words of a message.\n"
    )
    sections = (
        f"## `{each.id}`\n\n{each.title}.\n\n{_quoted(each.text)}\n\n{each.fix}\n" for each in CATALOGUE.values()
    )
    return "\n".join([intro, *sections])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def main() -> None:
    """
    Write both pages.
    """
    (REFERENCE / "rules.md").write_text(rules_page(), encoding="utf-8")
    (REFERENCE / "findings.md").write_text(findings_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
