"""
What py-cpuinfo says of the processor: its brand, instruction sets and caches.
"""

import json
from collections.abc import Mapping
from typing import Any

from ..facts import CpuFacts
from .parse import parse_colons
from .questions import HostIO
from .readings import Readings

CACHES = {
    "l1_data_cache_size": "l1_data",
    "l1_instruction_cache_size": "l1_instruction",
    "l2_cache_size": "l2",
    "l3_cache_size": "l3",
}
"""
py-cpuinfo's names for caches, and ours.
"""

_IDENTITY = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "CPU part", "Hardware")
"""
Lines of /proc/cpuinfo that are the same for all CPUs of a kind, and at any time.
"""


def with_details(cpu: CpuFacts, io: HostIO) -> CpuFacts:
    """
    Add what py-cpuinfo knows; the brand only where the system's own text has none.
    """
    known = parse_details(io.processor_details())
    readings, source = Readings(), "py-cpuinfo"
    brand, flags = known.get("brand_raw"), known.get("flags")
    if cpu.model is None and isinstance(brand, str) and brand.strip():
        readings.put("model", brand.strip(), source)
    if isinstance(flags, list):
        readings.put("flags", tuple(sorted({flag for flag in flags if isinstance(flag, str)})), source)
    sizes = {ours: known.get(theirs) for theirs, ours in CACHES.items()}
    caches = {name: size for name, size in sizes.items() if type(size) is int and size > 0}
    readings.put("cache_bytes", caches or None, source)
    return readings.extend(cpu)


def parse_details(text: str | None) -> Mapping[str, Any]:
    """
    Return py-cpuinfo's answer; nothing where it is none.
    """
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def identity(cpuinfo: str | None, model: str | None) -> Mapping[str, str | None]:
    """
    Return what tells one kind of processor from another: a folder for caches may be shared by many machines.

    Args:
        cpuinfo: The text of /proc/cpuinfo, where there is one.
        model: Any other name of the processor.
    """
    first = parse_colons((cpuinfo or "").partition("\n\n")[0])
    return {**{name: first[name] for name in _IDENTITY if name in first}, "name": model}
