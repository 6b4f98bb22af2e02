"""
The one catalogue of what can be wrong or worth changing: it serves plan notes, errors and docs.

Each text says what is wrong, because of which fact, and what to do; ``{braces}`` are filled with the evidence. One
module holds the findings of one area.
"""

from . import arguments, calibration, check, dataset, host, process, storage, worker
from .finding import Finding

__all__ = ["CATALOGUE", "Finding", "describe", "describe_parts"]

CATALOGUE: dict[str, Finding] = {
    finding.id: finding
    for area in (arguments, calibration, check, host, dataset, process, worker, storage)
    for finding in area.FINDINGS
}
"""
Every finding by its id.
"""


def describe(finding_id: str, **evidence: object) -> str:
    """
    Return the text and the fix of a finding, filled with *evidence*.
    """
    finding = CATALOGUE[finding_id]
    return f"{finding.text} {finding.fix}".format(**evidence)


def describe_parts(finding_id: str, **evidence: object) -> tuple[str, str]:
    """
    Return the text of a finding and its fix one by one, filled with *evidence*.
    """
    finding = CATALOGUE[finding_id]
    return finding.text.format(**evidence), finding.fix.format(**evidence)
