"""
The facts of a host as a table of short lines, in plain ASCII.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ..facts import HostFacts
from ..records import NO_LIMIT, field_names, is_record, number_text, printable

UNKNOWN = "unknown"

CPU_SETS = frozenset({"affinity", "affinity_now", "launcher_affinity", "cpuset", "node_cpus"})
"""
Facts that are numbers of CPUs, long on large machines.
"""


def render_facts(facts: HostFacts) -> str:
    """
    Return one line for each group of facts; control characters and line ends in them are escaped.

    Storage whose reads were timed has a second one.
    """
    lines = {
        "system": _system(facts),
        "environment": _environment(facts),
        "CPU": facts.cpu.model or UNKNOWN,
        "usable CPUs": _usable_cpus(facts),
        "CPU limits": _cpu_limits(facts),
        "NUMA nodes": _count(facts.numa.nodes or facts.numa.cpu_nodes),
        "memory": _memory(facts),
        "shared memory": _shared_memory(facts),
        "limits": _limits(facts),
        "storage": _storage(facts),
        "timed reads": _timed_reads(facts),
        "accelerator": _accelerator(facts),
        "start methods": _start_methods(facts),
        "job": _job(facts),
    }
    return "\n".join(f"{name:<13}  {printable(text, None)}" for name, text in lines.items() if text)


def render_every_fact(facts: HostFacts) -> str:
    """
    Return each fact that is known, a line each, with where it was read, and at the end the names of the others.

    Control characters and line ends in facts are escaped.
    """
    lines, unknown = [], []
    for group in field_names(facts):
        record = getattr(facts, group)
        sources = getattr(record, "sources", {})
        for name in (name for name in field_names(record) if name != "sources") if is_record(record) else ():
            value = getattr(record, name)
            if name in sources:
                lines.append(printable(f"{f'{group}.{name}':<40}  {_value(name, value)}  [{sources[name]}]", None))
            elif value is None or value == ():
                unknown.append(f"{group}.{name}")
    return "\n".join([*lines, "", f"not known here, or there is none: {', '.join(unknown) or 'nothing'}"])


def _value(name: str, value: Any) -> str:
    """
    Return one fact as people read it.
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_value(name, item)}" for key, item in value.items())
    if isinstance(value, tuple):
        return _runs(value) if name in CPU_SETS else ", ".join(_value(name, each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return render_bytes(value) if name.endswith("_bytes") else number_text(value)
    return str(value)


def _runs(numbers: tuple[int, ...]) -> str:
    """
    Return numbers as the kernel lists them, ``0-3,8``.
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "none"


def render_bytes(size: float | None) -> str:
    """
    Return a size in the unit that people would use.
    """
    if size is None:
        return UNKNOWN
    if size == NO_LIMIT:
        return "no limit"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} bytes"


def _count(number: float | None, unit: str = "") -> str:
    text = UNKNOWN if number is None else number_text(number)
    return f"{text} {unit}{'' if number == 1 else 's'}" if unit else text


def _system(facts: HostFacts) -> str:
    system = facts.system
    names = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}
    kernel = [names.get(system.platform or "", system.platform), system.release, system.architecture]
    free = "without GIL" if system.is_free_threaded else None
    parts = [" ".join(part for part in kernel if part), system.distribution, system.python, free]
    return ", ".join(part for part in parts if part) or UNKNOWN


def _environment(facts: HostFacts) -> str:
    system = facts.system
    parts = []
    if system.wsl_version:
        parts.append(f"WSL {system.wsl_version}")
    if system.container not in {None, "none"}:
        parts.append(f"{system.container} container")
    if system.notebook not in {None, "none"}:
        parts.append(f"{system.notebook} notebook")
    return ", ".join(parts) or (UNKNOWN if system.container is None else "no container, no notebook")


def _usable_cpus(facts: HostFacts) -> str:
    cpu = facts.cpu
    parts = [f"bound by {cpu.bound_by}" if cpu.bound_by else "", f"of {_count(cpu.logical)} logical"]
    parts += [_count(cpu.physical, "core"), _count(cpu.sockets, "socket")]
    return f"{_count(cpu.usable_cpus)} ({', '.join(part for part in parts if part)})"


def _cpu_limits(facts: HostFacts) -> str:
    cpu = facts.cpu

    def listed() -> Iterator[str]:
        yield f"affinity {UNKNOWN if cpu.affinity is None else len(cpu.affinity)}"
        yield f"cpuset {UNKNOWN if cpu.cpuset is None else len(cpu.cpuset)}"
        yield "no quota" if cpu.quota_cpus == NO_LIMIT else f"quota {_count(cpu.quota_cpus)}"
        if cpu.scheduler_cpus is not None:
            yield f"batch system {_count(cpu.scheduler_cpus)}"
        if cpu.python_cpu_count is not None:
            yield f"PYTHON_CPU_COUNT {cpu.python_cpu_count}"

    return ", ".join(listed())


def _memory(facts: HostFacts) -> str:
    memory = facts.memory
    host = f"{render_bytes(memory.available_bytes)} available of {render_bytes(memory.total_bytes)}"
    limit, left = memory.cgroup_limit_bytes, memory.cgroup_headroom_bytes
    kills = f", {_count(memory.oom_kills, 'out-of-memory kill')} so far" if memory.oom_kills else ""
    if limit is None or limit == NO_LIMIT:
        return f"{host}, {'cgroup limit unknown' if limit is None else 'no cgroup limit'}{kills}"
    return f"{host}, cgroup limit {render_bytes(limit)} with {render_bytes(left)} left{kills}"


def _shared_memory(facts: HostFacts) -> str:
    shared = facts.shared_memory
    if shared.path is None:
        return UNKNOWN
    state = ", not writable" if shared.is_writable is False else ""
    return f"{render_bytes(shared.free_bytes)} free of {render_bytes(shared.size_bytes)} at {shared.path}{state}"


def _limits(facts: HostFacts) -> str:
    limits = facts.limits
    files = f"{_count(limits.open_files_soft)} open files ({_count(limits.open_files_hard)} if raised)"
    return f"{files}, {_count(limits.processes_soft)} processes, cgroup leaves {_count(limits.pids_headroom)}"


def _storage(facts: HostFacts) -> str:
    storage = facts.storage
    if storage.path is None:
        return UNKNOWN
    on = f"{storage.filesystem} on {storage.device or UNKNOWN}" if storage.filesystem else "file system unknown"
    return f"{storage.kind or UNKNOWN}, {on}, {render_bytes(storage.free_bytes)} free, at {storage.path}"


def _timed_reads(facts: HostFacts) -> str:
    """
    Return how long reads took, and what answered them; nothing where none were timed.
    """
    storage = facts.storage
    if storage.answered_by is None:
        return ""
    because = storage.sources.get("answered_by", UNKNOWN)
    if storage.read_latency_seconds is None:
        return f"none: {because}"
    latencies = (storage.read_latency_seconds, storage.read_latency_p95_seconds or storage.read_latency_seconds)
    median, p95 = (f"{number_text(latency * 1e3)} ms" for latency in latencies)
    rate = storage.sequential_bytes_per_second
    in_sequence = "" if rate is None else f", {render_bytes(rate)}/s in sequence"
    return f"median {median}, 95 % within {p95}{in_sequence}; {because}"


def _accelerator(facts: HostFacts) -> str:
    device = facts.accelerator
    if device.kind is None:
        return UNKNOWN if device.devices is None else "none"
    return f"{_count(device.devices)} {device.kind}, driver {device.driver or UNKNOWN}"


def _start_methods(facts: HostFacts) -> str:
    methods = facts.start_methods
    marked = (f"{name} (default)" if name == methods.default else name for name in methods.available)
    return ", ".join(marked) or UNKNOWN


def _job(facts: HostFacts) -> str:
    job = facts.job
    if job.launcher is None:
        return UNKNOWN if job.local_world_size is None else "single process"
    return (
        f"{job.launcher}, rank {_count(job.rank)}, local rank {_count(job.local_rank)}"
        f" of {_count(job.local_world_size)} on this node"
    )
