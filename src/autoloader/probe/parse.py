"""
Pure functions from the text of the kernel's files to values; text that makes no sense is ``None``.
"""

import re
from collections.abc import Mapping

NO_LIMIT = float("inf")


def parse_int(text: str | None) -> int | None:
    """
    Return the decimal number that *text* is, white space around it aside; the kernel's fit 64 bits, so 20 digits.
    """
    match = re.fullmatch(r"\s*([+-]?[0-9]{1,20})\s*", text or "")
    return None if match is None else int(match[1])


def parse_cpu_list(text: str | None) -> tuple[int, ...] | None:
    """
    Return the numbers of a kernel list such as ``0-3,8,10-11``; an empty list is ``None``.

    Source: cpuset(7), "List format".
    """
    cpus: set[int] = set()
    for part in (text or "").strip().split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < 1 << 16:
            return None
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus)) or None


def parse_node_cpus(text: str | None) -> tuple[int, ...] | None:
    """
    Return the CPUs of a memory node, none of them for an empty line, as the kernel writes it for a node without CPUs.
    """
    return () if text is not None and not text.strip() else parse_cpu_list(text)


def parse_distances(text: str | None) -> tuple[int, ...] | None:
    """
    Return the numbers of a memory node's ``distance``. Source: kernel, ABI/stable/sysfs-devices-node.
    """
    numbers = tuple(parse_int(word) for word in (text or "").split())
    return tuple(number for number in numbers if number is not None) if numbers and None not in numbers else None


def parse_meminfo(text: str | None) -> dict[str, int]:
    """
    Return the sizes of /proc/meminfo, or of a memory node's meminfo, in bytes by name. Source: proc_meminfo(5).
    """
    sizes = {}
    for line in (text or "").splitlines():
        match = re.fullmatch(r"(?:Node [0-9]+ )?(\w+)(?:\(\w+\))?:\s+([0-9]{1,20})(?: kB)?\s*", line)
        if match is not None:
            sizes[match[1]] = int(match[2]) * (1024 if line.rstrip().endswith("kB") else 1)
    return sizes


def parse_cpu_max(text: str | None) -> float | None:
    """
    Return the CPUs that a ``cpu.max`` of cgroup v2 grants. Source: kernel, cgroup-v2.rst, "CPU Interface Files".
    """
    words = (text or "").split()
    if not words:
        return None
    if words[0] == "max":
        return NO_LIMIT
    quota, period = parse_int(words[0]), parse_int(words[1]) if len(words) > 1 else 100_000
    return quota / period if quota and period and quota > 0 and period > 0 else None


def parse_cfs_quota(quota_text: str | None, period_text: str | None) -> float | None:
    """
    Return the CPUs that cgroup v1 grants; a quota of -1 is none. Source: kernel, sched-bwc.rst.
    """
    quota, period = parse_int(quota_text), parse_int(period_text)
    if quota is None:
        return None
    if quota < 0:
        return NO_LIMIT
    return quota / period if quota > 0 and period is not None and period > 0 else None


def parse_limit(text: str | None) -> float | None:
    """
    Return the number in a cgroup's limit file, infinite for ``max`` and for v1's way to say so.

    cgroup v1 has no word for "unlimited": it shows the largest page-aligned number, 9223372036854771712 on most
    machines. Whatever is 2**60 or more is taken for none.
    """
    if text is not None and text.strip() == "max":
        return NO_LIMIT
    limit = parse_int(text)
    if limit is None or limit < 0:
        return None
    return NO_LIMIT if limit >= 1 << 60 else float(limit)


def parse_flat_keyed(text: str | None) -> dict[str, int]:
    """
    Return the numbers of a ``name number`` file, ``memory.stat`` for instance.
    """
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: number for pair in pairs if len(pair) == 2 and (number := parse_int(pair[1])) is not None}


def parse_colons(text: str | None) -> dict[str, str]:
    """
    Return the values of lines ``name: value``, without the white space around both.
    """
    pairs = (line.partition(":") for line in (text or "").splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def parse_oom_kills(text: str | None) -> int | None:
    """
    Return the number of out-of-memory kills that ``memory.events``, ``memory.oom_control`` or ``/proc/vmstat`` counts.
    """
    kills = parse_flat_keyed(text).get("oom_kill")
    return None if kills is None or kills < 0 else kills


def parse_os_release(text: str | None) -> dict[str, str]:
    """
    Return the values of os-release(5), quotes removed.
    """
    pairs = (line.partition("=") for line in (text or "").splitlines() if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, sign, value in pairs if sign}


def parse_cpu_model(text: str | None) -> str | None:
    """
    Return the brand that /proc/cpuinfo names; ARM kernels name none.
    """
    match = re.search(r"^(?:model name|cpu model|cpu|Model)[ \t]*:[ \t]*(\S.*?)[ \t]*$", text or "", re.MULTILINE)
    return None if match is None else match[1]


def parse_slurm_count(text: str | None, node: int = 0) -> int | None:
    """
    Return one node's share of what Slurm counts node by node: ``8``, ``8(x2)`` or ``8(x2),4``.

    Args:
        text: As in ``SLURM_JOB_CPUS_PER_NODE`` and ``SLURM_TASKS_PER_NODE``; the last count holds for all nodes after.
        node: Number of the node in the job, from 0.
    """
    count = None
    for part in (text or "").split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\(x([0-9]{1,9})\))?\s*", part)
        if match is None:
            return None
        count, node = int(match[1]), node - int(match[2] or 1)
        if node < 0:
            break
    return count


def parse_lsf_slots(text: str | None) -> int | None:
    """
    Return the most slots that one of a job's hosts gives, by LSF's ``LSB_MCPU_HOSTS``: ``hosta 6 hostb 6``.

    Where its hosts differ, nothing in the environment tells which of them this one is.
    """
    words = (text or "").split()
    counts = [parse_int(word) for word in words[1::2]]
    known = [count for count in counts if count is not None and count > 0]
    return max(known) if known and len(known) * 2 == len(words) else None


def is_rotation_reported(page: str | None) -> bool | None:
    """
    Return whether a SCSI disk says how fast it turns, or that it does not turn at all.

    Args:
        page: Its page B1h, ``vpd_pgb1`` in sysfs, with U+FFFD for what is not UTF-8. Bytes 4 and 5 are the medium's
            rotation rate: 0 is "not reported", 1 "does not turn". Source: SCSI Block Commands 4, "Block Device
            Characteristics VPD page".
    """
    return None if page is None or len(page) < 6 else page[4:6] != "\0\0"


def parse_load(text: str | None) -> float | None:
    """
    Return the first number of /proc/loadavg.
    """
    match = re.match(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?:\s|$)", text or "")
    return None if match is None else float(match[1])


def reimported_main(spec_name: str | None, file: str | None) -> str | None:
    """
    Return the module or file that multiprocessing imports again in a child that it spawns.

    ``python -m package`` runs ``package.__main__``, which is not imported again, and neither is IPython, nor a
    ``__main__`` without a file. Source: CPython, Lib/multiprocessing/spawn.py, ``get_preparation_data``,
    ``_fixup_main_from_name``, ``_fixup_main_from_path``.
    """
    if spec_name is not None:
        return None if spec_name == "__main__" or spec_name.endswith(".__main__") else spec_name
    if file is None or re.split(r"[\\/]", file)[-1].partition(".")[0] == "ipython":
        return None
    return file


def is_python_program(path: str) -> bool:
    """
    Return whether a program's name says that it is a Python interpreter, alone or inside an application.

    ``python3.12``, ``pythonw.exe``, ``pypy3``, ``graalpy``, Maya's ``mayapy`` and Houdini's ``hython`` are; an
    application that embeds Python, ``blender`` for instance, would start once more.
    """
    name = re.split(r"[\\/]", path)[-1].lower()
    return re.search(r"python|pypy|graalpy|mayapy|hython", name) is not None


def parse_mapped_libraries(text: str) -> set[str]:
    """
    Return the names of the shared libraries in ``/proc/self/maps``.

    Source: Linux, Documentation/filesystems/proc.rst, "/proc/PID/maps": the sixth column is the path.
    """
    columns = (line.split(maxsplit=5) for line in text.splitlines())
    names = (column[5].rpartition("/")[2] for column in columns if len(column) == 6)
    return {name for name in names if ".so" in name}


def tightest(limits: Mapping[str, float | None]) -> tuple[float, str] | None:
    """
    Return the smallest of the limits that are known and greater than 0, and its name; of equal ones the first.

    "No limit" is none: where nothing else is known, the answer is ``None`` and not infinity.
    """
    known = [(limit, name) for name, limit in limits.items() if limit is not None and 0 < limit < NO_LIMIT]
    return min(known, key=lambda pair: pair[0]) if known else None
