"""
All that one run of ``python -m benchmarks`` found, as JSON that can be read again, and put together from several runs.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autoloader import records

from .measure import Effort, Measured
from .peers import Facts

INTERVAL = "order-statistic interval of the median (David and Nagaraja, Order Statistics, 3rd edition, section 7.1)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """
    Where and with what was measured.
    """

    cpu: str | None
    """The processor's brand text; ``None`` where it is not known."""
    system: str
    """Platform, architecture and distribution."""
    python: str | None
    """Implementation and version."""
    torch: str
    """Its version."""
    autoloader: str
    """Its version."""


def read_host() -> Host:
    """
    Return this host.
    """
    import torch

    from autoloader import __version__, probe_host

    facts = probe_host()
    system = (facts.system.platform, facts.system.architecture, facts.system.distribution)
    return Host(
        cpu=facts.cpu.model,
        system=" ".join(part for part in system if part),
        python=facts.system.python,
        torch=torch.__version__,
        autoloader=__version__,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """
    What was measured, where and how.
    """

    host: Host
    """The machine and versions."""
    facts: Facts
    """What the rules were told of it."""
    effort: Effort
    """What was tried."""
    seeds: tuple[int, ...] = ()
    """Seeds of unseen workloads."""
    left_out: tuple[str, ...] = ()
    """Names of the workloads that a quick run had no time for."""
    workloads: tuple[Measured, ...] = ()
    """All raw numbers."""


def as_json(results: Results) -> dict[str, Any]:
    """
    Return all raw numbers, and the ratios made of them, as JSON's types.
    """
    return {
        **records.to_json(results),
        "interval": INTERVAL,
        "workloads": [_workload(each) for each in results.workloads],
    }


def _workload(measured: Measured) -> dict[str, Any]:
    ratios = {key: measured.ratio(key) for key in measured.rounds}
    told = {key: None if ratio is None else asdict(ratio) for key, ratio in ratios.items()}
    return {**records.to_json(measured), "best": measured.best, "ratios_best_by_own": told}


def parse(text: str) -> Results:
    """
    Return what :func:`as_json` was given; the ratios are made anew from the raw numbers.

    Raises:
        ValueError: *text* is something else.
    """
    told = json.loads(text)
    if not isinstance(told, dict) or not isinstance(told.get("workloads"), list):
        raise ValueError("It is no file of python -m benchmarks --json")
    raw = [{key: each[key] for key in each if key not in {"best", "ratios_best_by_own"}} for each in told["workloads"]]
    return records.from_json(Results, {**{key: told[key] for key in told if key != "interval"}, "workloads": raw})


def merge(parts: Mapping[str, Results]) -> Results:
    """
    Return the workloads of all *parts*, by the names of their files, in their order.

    Raises:
        ValueError: They have another host or effort, or the same workload twice.
    """
    (first_name, first), *others = parts.items()
    found = {each.workload: first_name for each in first.workloads}
    for name, part in others:
        for what in ("host", "facts", "effort"):
            if getattr(part, what) != getattr(first, what):
                raise ValueError(
                    f"{name} cannot join {first_name}, because its {what} is {getattr(part, what)}, not "
                    f"{getattr(first, what)}. Measure all parts on one host, all with --quick or none."
                )
        for each in part.workloads:
            if each.workload in found:
                raise ValueError(
                    f"{name} cannot join {found[each.workload]}, because both have {each.workload}. Leave one out."
                )
            found[each.workload] = name
    return Results(
        host=first.host,
        facts=first.facts,
        effort=first.effort,
        seeds=tuple(sorted({seed for part in parts.values() for seed in part.seeds})),
        left_out=tuple(sorted({name for part in parts.values() for name in part.left_out} - set(found))),
        workloads=tuple(each for part in parts.values() for each in part.workloads),
    )
