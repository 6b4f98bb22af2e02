"""
Sphinx: the four doors of the docs, and tables written from the code's own catalogues.
"""

from pathlib import Path

from sphinx.application import Sphinx

import autoloader
from autoloader.findings import CATALOGUE
from autoloader.policy import RULES

project = "autoloader"
author = "the autoloader authors"
release = version = autoloader.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "autoloader"
exclude_patterns = ["_build", "reference/generated"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(SCHEMA|torch|collections|pathlib|weakref|autoloader\.loader\.auto_loader|P|T|R)(\..*)?")
]
autodoc_member_order = "bysource"
autodoc_typehints = "none"

GENERATED = Path(__file__).parent / "reference" / "generated"


def rules_table() -> str:
    """
    Return every rule as a Markdown table.
    """
    rows = (f"| `{rule}` | {meaning} |" for rule, meaning in RULES.items())
    return "\n".join(["| rule | meaning |", "| --- | --- |", *rows])


def findings_table() -> str:
    """
    Return every finding as a Markdown section.
    """
    return "\n\n".join(f"## `{each.id}`\n\n{each.title}.\n\n> {each.text}\n\n{each.fix}" for each in CATALOGUE.values())


def write_tables(_app: Sphinx) -> None:
    """
    Write the tables before Sphinx reads its sources, so that docs and code cannot differ.
    """
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "rules.md").write_text(rules_table() + "\n", encoding="utf-8")
    (GENERATED / "findings.md").write_text(findings_table() + "\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """
    Be called by Sphinx.
    """
    app.connect("builder-inited", write_tables)
