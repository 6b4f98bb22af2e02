"""
Limits of the control groups around this process: every ancestor, version 1, version 2 and both at once.

Sources: kernel, admin-guide/cgroup-v2.rst and cgroup-v1/*.rst; cgroups(7); cgroup_namespaces(7).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .host_io import HostIO
from .mounts import Mount, is_below
from .parse import (
    NO_LIMIT,
    parse_cfs_quota,
    parse_cpu_list,
    parse_cpu_max,
    parse_flat_keyed,
    parse_int,
    parse_limit,
    parse_oom_kills,
)


class Found(NamedTuple):
    """
    The tightest value of all levels, and the file that it stands in.
    """

    value: float
    source: str


class Hierarchy(NamedTuple):
    """
    The folders of this process's groups in one hierarchy, from its own up to the mount point.
    """

    version: int
    folders: tuple[str, ...]


Level = Callable[[HostIO, str], tuple[float | None, str]]


def parse_own_groups(text: str | None) -> dict[str, str]:
    """
    Return this process's group in each hierarchy by controller, the one of version 2 under the empty name.
    """
    groups: dict[str, str] = {}
    for line in (text or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[2].startswith("/"):
            groups.update(dict.fromkeys(parts[1].split(","), parts[2]))
    return groups


def find_hierarchies(controller: str, io: HostIO, mounts: tuple[Mount, ...]) -> tuple[Hierarchy, ...]:
    """
    Return the hierarchies that may limit *controller*: the one of version 1 that has it, and that of version 2.

    A hierarchy may be mounted more than once, for containers inside: only mounts that hold this process's group count.
    """
    groups = parse_own_groups(io.read_text("/proc/self/cgroup"))
    first = [mount for mount in mounts if mount.filesystem == "cgroup" and controller in mount.super_options]
    second = [mount for mount in mounts if mount.filesystem == "cgroup2"]
    found = []
    for version, name, mounted in ((1, controller, first), (2, "", second)):
        group = groups.get(name)
        if group is not None:
            own = [mount for mount in mounted if is_below(group, mount.root)]
            found += [Hierarchy(version, _folders(group, mount, io)) for mount in own or mounted]
    return tuple(found)


def _folders(group: str, mount: Mount, io: HostIO) -> tuple[str, ...]:
    """
    Return the folders from *group* up to the mount point.

    A container often sees its own group mounted while /proc names it as the host does, or names it relative to a
    namespace (``/../x``): where the path does not exist below the mount, the mount point is the group.
    """
    relative = group[len(mount.root.rstrip("/")) :] if is_below(group, mount.root) else "/"
    parts = [part for part in relative.split("/") if part]
    own = "/".join([mount.mount_point, *parts])
    if ".." in parts or io.list_dir(own) is None:
        parts = []
    return tuple("/".join([mount.mount_point, *parts[:depth]]) for depth in range(len(parts), -1, -1))


def tightest_level(hierarchies: tuple[Hierarchy, ...], levels: Mapping[int, Level], io: HostIO) -> Found | None:
    """
    Return the smallest value over all hierarchies and all their levels; ``None`` where none gave one.
    """
    found = []
    for version, folders in hierarchies:
        for folder in folders:
            value, source = levels[version](io, folder)
            if value is not None:
                found.append(Found(value, source))
    return min(found, key=lambda each: each.value, default=None)


def read_quota(io: HostIO, mounts: tuple[Mount, ...]) -> Found | None:
    """
    Return the CPUs that the tightest quota grants.
    """
    return tightest_level(find_hierarchies("cpu", io, mounts), {1: _quota_v1, 2: _quota_v2}, io)


def _quota_v1(io: HostIO, folder: str) -> tuple[float | None, str]:
    quota = f"{folder}/cpu.cfs_quota_us"
    return parse_cfs_quota(io.read_text(quota), io.read_text(f"{folder}/cpu.cfs_period_us")), quota


def _quota_v2(io: HostIO, folder: str) -> tuple[float | None, str]:
    return _v2_limit(io, folder, "cpu.max", parse_cpu_max)


def _v2_limit(
    io: HostIO, folder: str, name: str, parse: Callable[[str | None], float | None]
) -> tuple[float | None, str]:
    """
    Read a limit of version 2; a group without the file is not limited by that controller.
    """
    path = f"{folder}/{name}"
    text = io.read_text(path)
    if text is None and io.list_dir(folder) is not None and name not in (io.list_dir(folder) or ()):
        return NO_LIMIT, path
    return parse(text), path


def read_memory_limit(io: HostIO, mounts: tuple[Mount, ...]) -> Found | None:
    """
    Return the tightest memory limit, in bytes.
    """
    return tightest_level(find_hierarchies("memory", io, mounts), {1: _memory_v1, 2: _memory_v2}, io)


def read_memory_headroom(io: HostIO, mounts: tuple[Mount, ...]) -> Found | None:
    """
    Return the least that any group still grants, in bytes; file cache that can be dropped counts as free.
    """
    levels = {1: _memory_headroom_v1, 2: _memory_headroom_v2}
    return tightest_level(find_hierarchies("memory", io, mounts), levels, io)


def read_memory_usage(limit: Found, io: HostIO) -> Found | None:
    """
    Return the bytes that the group of a memory limit holds, without the file cache that can be dropped.

    Args:
        limit: As :func:`read_memory_limit` gave it; without a limit there is no group to ask.
        io: The host.
    """
    folder, _, name = limit.source.rpartition("/")
    usage, cache = _USAGE_V1 if name == "memory.limit_in_bytes" else _USAGE_V2
    held = _usage(io, f"{folder}/{usage}", cache) if limit.value < NO_LIMIT else None
    return None if held is None else Found(max(0, held), f"{folder}/{usage}")


def read_oom_kills(io: HostIO, mounts: tuple[Mount, ...]) -> tuple[int, str] | None:
    """
    Return the out-of-memory kills that this process's group counts, and where it does.

    Version 1 counts the processes of that very group, so that the groups above say nothing of it. Version 2 counts
    those of the groups below as well: where the innermost group leaves memory to the one above, that one counts.

    Source: kernel, cgroup-v1/memory.rst, "OOM Control"; cgroup-v2.rst, "memory.events"; both since Linux 4.13.
    """
    for version, folders in find_hierarchies("memory", io, mounts):
        name, shown = ("memory.oom_control", folders[:1]) if version == 1 else ("memory.events", folders)
        for path in (f"{folder}/{name}" for folder in shown):
            kills = parse_oom_kills(io.read_text(path))
            if kills is not None:
                return kills, path
    return None


_USAGE_V1 = ("memory.usage_in_bytes", "total_inactive_file")
_USAGE_V2 = ("memory.current", "inactive_file")
"""
The file that tells the use of a group, and the line of memory.stat with what can be dropped of it.
"""


def _memory_v1(io: HostIO, folder: str) -> tuple[float | None, str]:
    path = f"{folder}/memory.limit_in_bytes"
    return parse_limit(io.read_text(path)), path


def _memory_v2(io: HostIO, folder: str) -> tuple[float | None, str]:
    both = [_v2_limit(io, folder, name, parse_limit) for name in ("memory.max", "memory.high")]
    known = [(value, path) for value, path in both if value is not None]
    return min(known) if known else (None, folder)


def _memory_headroom_v1(io: HostIO, folder: str) -> tuple[float | None, str]:
    limit, path = _memory_v1(io, folder)
    return _headroom(limit, io, folder, *_USAGE_V1), path


def _memory_headroom_v2(io: HostIO, folder: str) -> tuple[float | None, str]:
    limit, path = _memory_v2(io, folder)
    return _headroom(limit, io, folder, *_USAGE_V2), path


def _headroom(limit: float | None, io: HostIO, folder: str, usage: str, cache: str) -> float | None:
    if limit is None or limit == NO_LIMIT:
        return limit
    held = _usage(io, f"{folder}/{usage}", cache)
    return None if held is None else max(0.0, limit - held)


def _usage(io: HostIO, path: str, cache: str) -> int | None:
    usage = parse_int(io.read_text(path))
    if usage is None:
        return None
    folder = path.rpartition("/")[0]
    return usage - parse_flat_keyed(io.read_text(f"{folder}/memory.stat")).get(cache, 0)


def read_pids_headroom(io: HostIO, mounts: tuple[Mount, ...]) -> Found | None:
    """
    Return how many processes and threads the tightest group still grants.
    """
    return tightest_level(find_hierarchies("pids", io, mounts), {1: _pids_v1, 2: _pids_v2}, io)


def _pids_v1(io: HostIO, folder: str) -> tuple[float | None, str]:
    path = f"{folder}/pids.max"
    if io.read_text(path) is None and io.list_dir(folder) is not None:
        return NO_LIMIT, path
    return _pids_headroom(io, folder, parse_limit(io.read_text(path))), path


def _pids_v2(io: HostIO, folder: str) -> tuple[float | None, str]:
    limit, path = _v2_limit(io, folder, "pids.max", parse_limit)
    return _pids_headroom(io, folder, limit), path


def _pids_headroom(io: HostIO, folder: str, limit: float | None) -> float | None:
    current = parse_int(io.read_text(f"{folder}/pids.current"))
    if limit is None or limit == NO_LIMIT or current is None:
        return limit
    return max(0.0, limit - current)


def read_cpuset(io: HostIO, mounts: tuple[Mount, ...]) -> tuple[tuple[int, ...], str] | None:
    """
    Return the CPUs that the groups leave, as the kernel works it out for the innermost that says.
    """
    names = {1: ("cpuset.effective_cpus", "cpuset.cpus"), 2: ("cpuset.cpus.effective",)}
    for version, folders in find_hierarchies("cpuset", io, mounts):
        for path in (f"{folder}/{name}" for folder in folders for name in names[version]):
            cpus = parse_cpu_list(io.read_text(path))
            if cpus is not None:
                return cpus, path
    return None
