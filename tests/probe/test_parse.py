"""
From the kernel's text to values, by the formats that its documents give.
"""

import pytest

from autoloader.probe.parse import (
    NO_LIMIT,
    is_python_program,
    is_rotation_reported,
    parse_cfs_quota,
    parse_colons,
    parse_cpu_list,
    parse_cpu_max,
    parse_cpu_model,
    parse_distances,
    parse_flat_keyed,
    parse_int,
    parse_limit,
    parse_load,
    parse_lsf_slots,
    parse_mapped_libraries,
    parse_meminfo,
    parse_node_cpus,
    parse_os_release,
    parse_slurm_count,
    reimported_main,
    tightest,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("42\n", 42, id="a-line"),
        pytest.param("-1\n", -1, id="negative"),
        pytest.param(" 7 ", 7, id="white-space"),
        pytest.param("18446744073709551615", 2**64 - 1, id="largest-of-64-bits"),
        pytest.param("9" * 21, None, id="more-than-64-bits"),
        pytest.param("9" * 5000, None, id="more-digits-than-python-converts"),
        pytest.param("1_000", None, id="underscore"),
        pytest.param("١٢", None, id="digits-of-another-script"),
        pytest.param("0x10", None, id="hexadecimal"),
        pytest.param("max", None, id="word"),
        pytest.param("1 2", None, id="two-numbers"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_int_of_a_file_is_a_kernel_number_or_none(text: str | None, expected: int | None) -> None:
    """
    A number fits 64 bits and stands alone; anything else is no number.
    """
    assert parse_int(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0-3,8,10-11\n", (0, 1, 2, 3, 8, 10, 11), id="ranges-and-numbers"),
        pytest.param("0\n", (0,), id="one"),
        pytest.param("2,0", (0, 2), id="sorted"),
        pytest.param("0-1,1-2", (0, 1, 2), id="overlapping"),
        pytest.param("0-8191", tuple(range(8192)), id="largest-machine"),
        pytest.param("\n", None, id="empty-line"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="no-file"),
        pytest.param("3-0", None, id="backwards"),
        pytest.param("0-4294967295", None, id="too-wide"),
        pytest.param("0-" + "9" * 5000, None, id="too-many-digits"),
        pytest.param("0,,2", None, id="hole"),
        pytest.param("0-3:1/2", None, id="stride"),
        pytest.param("all", None, id="word"),
        pytest.param("-1", None, id="negative"),
    ],
)
def test_cpu_list_by_cpuset_7_is_numbers_or_none(text: str | None, expected: tuple[int, ...] | None) -> None:
    """
    The list format of cpuset(7) gives sorted numbers; what is no such list is unknown.
    """
    assert parse_cpu_list(text) == expected


def test_meminfo_in_kilobytes_is_bytes() -> None:
    """
    Sizes in kB are KiB; counts without a unit stay counts; lines that make no sense are left out.
    """
    text = "MemTotal:       24684096 kB\nActive(anon):  12 kB\nHugePages_Total:       3\nVmallocTotal: kB\nBad: -1 kB\n"
    assert parse_meminfo(text) == {"MemTotal": 25_276_514_304, "Active": 12_288, "HugePages_Total": 3}


def test_meminfo_of_a_memory_node_is_bytes() -> None:
    """
    Each line of a node's file begins with its number.
    """
    text = "Node 10 MemTotal:         984716 kB\nNode 10 Active(anon):          8 kB\nNode 10 HugePages_Total:     0\n"
    assert parse_meminfo(text) == {"MemTotal": 1_008_349_184, "Active": 8192, "HugePages_Total": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0-2,4-5\n", (0, 1, 2, 4, 5), id="holes"),
        pytest.param("\n", (), id="memory-only"),
        pytest.param("", (), id="empty"),
        pytest.param("all\n", None, id="word"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_cpus_of_a_memory_node_may_be_none_at_all(text: str | None, expected: tuple[int, ...] | None) -> None:
    """
    An empty line says that there are none; no file says nothing.
    """
    assert parse_node_cpus(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10 21 17\n", (10, 21, 17), id="three"),
        pytest.param("10\n", (10,), id="one"),
        pytest.param("10 far\n", None, id="word"),
        pytest.param("\n", None, id="empty"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_distances_of_a_memory_node_are_numbers_or_none(text: str | None, expected: tuple[int, ...] | None) -> None:
    """
    A row of which one number makes no sense is unknown as a whole.
    """
    assert parse_distances(text) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        pytest.param("\0\ufffd\0\x3c\x1c\x20\0\0", True, id="7200-turns"),
        pytest.param("\0\ufffd\0\x3c\x3a\ufffd\0\0", True, id="15000-turns"),
        pytest.param("\0\ufffd\0\x3c\0\1\0\0", True, id="does-not-turn"),
        pytest.param("\0\ufffd\0\x3c\0\0\0\0", False, id="not-reported"),
        pytest.param("\0\ufffd\0", None, id="cut-off"),
        pytest.param(None, None, id="no-page"),
    ],
)
def test_rotation_of_a_scsi_page_is_reported_or_not(page: str | None, expected: bool | None) -> None:
    """
    Bytes 4 and 5 of page B1h are 0 where the disk does not report its rotation rate.
    """
    assert is_rotation_reported(page) is expected


@pytest.mark.parametrize("text", ["", "\x00\ufffd", "MemTotal: " + "9" * 5000 + " kB", None])
def test_meminfo_of_garbage_is_empty(text: str | None) -> None:
    """
    No line that makes sense leaves nothing.
    """
    assert parse_meminfo(text) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("200000 100000\n", 2.0, id="two-cpus"),
        pytest.param("50000 100000\n", 0.5, id="half-a-cpu"),
        pytest.param("max 100000\n", NO_LIMIT, id="no-quota"),
        pytest.param("max\n", NO_LIMIT, id="max-alone"),
        pytest.param("150000\n", 1.5, id="default-period"),
        pytest.param("30000 20000\n", 1.5, id="short-period"),
        pytest.param("", None, id="empty"),
        pytest.param("\n", None, id="empty-line"),
        pytest.param(None, None, id="no-file"),
        pytest.param("0 100000", None, id="zero"),
        pytest.param("-1 100000", None, id="negative"),
        pytest.param("100000 0", None, id="period-of-zero"),
        pytest.param("100000 x", None, id="no-period"),
        pytest.param("9" * 400 + " 1", None, id="larger-than-a-float"),
    ],
)
def test_cpu_max_by_cgroup_v2_is_cpus(text: str | None, expected: float | None) -> None:
    """
    ``$MAX $PERIOD`` of cgroup-v2.rst is a number of CPUs.
    """
    assert parse_cpu_max(text) == expected


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        pytest.param("400000\n", "100000\n", 4.0, id="four-cpus"),
        pytest.param("25000\n", "50000\n", 0.5, id="half-a-cpu"),
        pytest.param("-1\n", "100000\n", NO_LIMIT, id="no-quota"),
        pytest.param("-1\n", None, NO_LIMIT, id="no-quota-no-period"),
        pytest.param("400000\n", None, None, id="no-period"),
        pytest.param("400000\n", "0", None, id="period-of-zero"),
        pytest.param(None, "100000", None, id="no-file"),
        pytest.param("", "", None, id="empty"),
        pytest.param("9" * 400, "1", None, id="larger-than-a-float"),
    ],
)
def test_cfs_quota_by_cgroup_v1_is_cpus(quota: str | None, period: str | None, expected: float | None) -> None:
    """
    ``cpu.cfs_quota_us`` over ``cpu.cfs_period_us`` is a number of CPUs, -1 none at all.
    """
    assert parse_cfs_quota(quota, period) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("max\n", NO_LIMIT, id="v2-none"),
        pytest.param("4294967296\n", 4294967296.0, id="four-gib"),
        pytest.param("0\n", 0.0, id="nothing-allowed"),
        pytest.param("9223372036854771712\n", NO_LIMIT, id="v1-none-4k-pages"),
        pytest.param("9223372036854710272\n", NO_LIMIT, id="v1-none-64k-pages"),
        pytest.param("18446744073709551615\n", NO_LIMIT, id="v1-none-old-kernels"),
        pytest.param("-1", None, id="negative"),
        pytest.param("", None, id="empty"),
        pytest.param("maximum", None, id="word"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_limit_of_a_group_is_bytes_or_no_limit(text: str | None, expected: float | None) -> None:
    """
    Version 2 says ``max``, version 1 a number near 2**63.
    """
    assert parse_limit(text) == expected


def test_flat_keyed_with_bad_lines_keeps_the_good() -> None:
    """
    Lines that are not a name and a number are left out.
    """
    text = "anon 4096\ninactive_file 8192\nbad\nworse 1 2\nworst x\n"
    assert parse_flat_keyed(text) == {"anon": 4096, "inactive_file": 8192}
    assert parse_flat_keyed(None) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "Debian GNU/Linux 12 (bookworm)", id="double"),
        pytest.param("PRETTY_NAME='Alpine Linux v3.19'\n", "Alpine Linux v3.19", id="single"),
        pytest.param("PRETTY_NAME=Arch\n", "Arch", id="bare"),
        pytest.param('NAME="x=y"\nPRETTY_NAME="a=b"\n', "a=b", id="equals-in-value"),
        pytest.param('# PRETTY_NAME="comment"\n', None, id="comment"),
        pytest.param("PRETTY_NAME\n", None, id="no-sign"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_os_release_value_is_without_quotes(text: str | None, expected: str | None) -> None:
    """
    os-release(5) is a list of shell assignments.
    """
    assert parse_os_release(text).get("PRETTY_NAME") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7B13 \n",
            "AMD EPYC 7B13",
            id="x86",
        ),
        pytest.param("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported", id="power"),
        pytest.param("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n", None, id="arm-names-none"),
        pytest.param(
            "processor\t: 0\nCPU part\t: 0xd08\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
            "Raspberry Pi 4 Model B Rev 1.4",
            id="raspberry-pi",
        ),
        pytest.param("system type\t: x\ncpu model\t\t: MIPS 24Kc V7.4\n", "MIPS 24Kc V7.4", id="mips"),
        pytest.param("model name\t:\n", None, id="empty-name"),
        pytest.param("cpu MHz\t\t: 2449.998\ncpu family\t: 25\n", None, id="other-lines-that-start-with-cpu"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_cpu_model_of_each_architecture_is_its_brand(text: str | None, expected: str | None) -> None:
    """
    Each architecture names its processor in a line of its own, ARM in none.
    """
    assert parse_cpu_model(text) == expected


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [
        pytest.param("8", 0, 8, id="one-node"),
        pytest.param("8(x2)", 0, 8, id="two-equal-nodes"),
        pytest.param("8(x2)", 1, 8, id="the-second-of-equal-nodes"),
        pytest.param("8(x2),4", 1, 8, id="before-the-last-run"),
        pytest.param("8(x2),4", 2, 4, id="in-the-last-run"),
        pytest.param("2,4(x3),1", 3, 4, id="inside-a-run"),
        pytest.param("4", 7, 4, id="one-count-for-all-nodes"),
        pytest.param("72(x2),36", 9, 36, id="beyond-the-list"),
        pytest.param("8(x", 0, None, id="cut-off"),
        pytest.param("eight", 0, None, id="word"),
        pytest.param("9" * 5000, 0, None, id="too-many-digits"),
        pytest.param("", 0, None, id="empty"),
        pytest.param(None, 0, None, id="not-set"),
    ],
)
def test_slurm_count_of_a_node_is_its_share(text: str | None, node: int, expected: int | None) -> None:
    """
    Slurm writes runs of equal nodes as ``count(xnodes)``.
    """
    assert parse_slurm_count(text, node) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("hosta 6", 6, id="one-host"),
        pytest.param("hosta 6 hostb 6", 6, id="equal-hosts"),
        pytest.param("hosta 8 hostb 4", 8, id="hosts-that-differ"),
        pytest.param("8 4", 4, id="host-with-a-number-for-a-name"),
        pytest.param("hosta 6 hostb", None, id="cut-off"),
        pytest.param("hosta x", None, id="word"),
        pytest.param("hosta 0", None, id="nothing"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="not-set"),
    ],
)
def test_lsf_slots_are_those_of_the_host_with_most(text: str | None, expected: int | None) -> None:
    """
    LSF writes pairs of a host and its slots, and does not say which host this one is.
    """
    assert parse_lsf_slots(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0.34 0.20 0.18 1/138 4211\n", 0.34, id="loadavg"),
        pytest.param("17.00", 17.0, id="alone"),
        pytest.param("nan 0 0", None, id="not-a-number"),
        pytest.param("1e999", None, id="infinite"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="no-file"),
    ],
)
def test_load_of_loadavg_is_its_first_number(text: str | None, expected: float | None) -> None:
    """
    The first of the three averages is the last minute's.
    """
    assert parse_load(text) == expected


@pytest.mark.parametrize(
    ("spec_name", "file", "expected"),
    [
        pytest.param(None, "/home/me/train.py", "/home/me/train.py", id="script"),
        pytest.param("package.train", "/x/package/train.py", "package.train", id="python-m-module"),
        pytest.param("package.__main__", "/x/package/__main__.py", None, id="python-m-package"),
        pytest.param("__main__", "/x/__main__.py", None, id="folder-or-zip"),
        pytest.param(None, None, None, id="python-c-or-prompt"),
        pytest.param(None, "/usr/bin/ipython", None, id="ipython"),
        pytest.param(None, "C:\\Scripts\\ipython.py", None, id="ipython-on-windows"),
    ],
)
def test_reimported_main_of_a_start_is_what_spawn_imports(
    spec_name: str | None, file: str | None, expected: str | None
) -> None:
    """
    The rows follow ``_fixup_main_from_name`` and ``_fixup_main_from_path`` of multiprocessing.spawn.
    """
    assert reimported_main(spec_name, file) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/usr/bin/python", True, id="python"),
        pytest.param("/usr/bin/python3.12", True, id="python-of-a-version"),
        pytest.param("/usr/bin/python3.13t", True, id="python-without-gil"),
        pytest.param("/opt/py/bin/python3-dbg", True, id="debug-python"),
        pytest.param("/nix/store/abc-python3/bin/.python3-wrapped", True, id="wrapped"),
        pytest.param("/Library/Frameworks/Python.framework/Versions/3.12/bin/Python", True, id="capital-on-macos"),
        pytest.param("python3", True, id="no-folder"),
        pytest.param("C:\\Python312\\python.exe", True, id="windows"),
        pytest.param("C:\\Python312\\PYTHONW.EXE", True, id="windows-without-a-console"),
        pytest.param("C:/msys64/usr/bin/python3.exe", True, id="windows-with-slashes"),
        pytest.param("\\\\server\\share\\python_d.exe", True, id="windows-debug-on-a-share"),
        pytest.param("/opt/pypy/bin/pypy3.10", True, id="pypy"),
        pytest.param("/opt/graalpy/bin/graalpy", True, id="graalpy"),
        pytest.param("/usr/autodesk/maya2025/bin/mayapy", True, id="maya"),
        pytest.param("/opt/hfs20/bin/hython", True, id="houdini"),
        pytest.param("/opt/blender/4.2/python/bin/blender", False, id="blender-below-a-folder-python"),
        pytest.param("C:\\Python312\\app.exe", False, id="application-in-python's-folder"),
        pytest.param("/usr/bin/uwsgi", False, id="uwsgi"),
        pytest.param("/usr/lib/R/bin/exec/R", False, id="r"),
        pytest.param("/home/me/dist/train", False, id="frozen"),
        pytest.param("/usr/bin/python3/", False, id="folder"),
        pytest.param("", False, id="empty"),
    ],
)
def test_python_program_is_one_by_its_name(path: str, expected: bool) -> None:
    """
    Only the last part of a path counts, whichever way its slashes lean.
    """
    assert is_python_program(path) is expected


MAPS = """\
55d0c2a00000-55d0c2c00000 r--p 00000000 08:01 1049 /usr/bin/python3.12
55d0c3b00000-55d0c3d00000 rw-p 00000000 00:00 0 [heap]
7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0
7f1c10000000-7f1c10100000 r--p 00000000 08:01 2001                       /lib/x86_64-linux-gnu/libc.so.6
7f1c10100000-7f1c10200000 r-xp 00100000 08:01 2001                       /lib/x86_64-linux-gnu/libc.so.6
7f1c20000000-7f1c20100000 r-xp 00000000 08:01 2002                       /home/my data/lib/libgomp-a34b3233.so.1.0.0
7f1c30000000-7f1c30100000 rw-s 00000000 00:01 2003                       /dev/shm/psm_1234
7f1c40000000-7f1c40100000 rw-s 00000000 00:0f 2004                       /memfd:libfake.so (deleted)
7f1c50000000-7f1c50100000 r--p 00000000 08:01 2005                       /x/_core.cpython-312-x86_64-linux-gnu.so
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            MAPS,
            {
                *("libc.so.6", "libgomp-a34b3233.so.1.0.0", "_core.cpython-312-x86_64-linux-gnu.so"),
                "memfd:libfake.so (deleted)",
            },
            id="maps",
        ),
        pytest.param("1-2 r--p 0 8:1 7 /lib/libomp.so (deleted)\n", {"libomp.so (deleted)"}, id="deleted"),
        pytest.param("1-2 r--p 0 8:1 7 libomp.so\n", {"libomp.so"}, id="no-folder"),
        pytest.param("1-2 r--p 0 8:1 7 /lib.so/data\n", set(), id="folder-like-a-library"),
        pytest.param("1-2 r--p 0 8:1 7\n", set(), id="no-path"),
        pytest.param("1-2 r--p 0 8:1 7 /lib/libm", set(), id="cut-off"),
        pytest.param("1-2 r--p 0\n\n   \n", set(), id="too-few-columns"),
        pytest.param("\0\ufffd libgomp.so", set(), id="nonsense"),
        pytest.param("", set(), id="empty"),
    ],
)
def test_mapped_libraries_are_the_names_of_shared_objects(text: str, expected: set[str]) -> None:
    """
    Each library stands there once for every part of it that is mapped; the sixth column is its path.
    """
    assert parse_mapped_libraries(text) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"a": 4, "b": 2.5}, (2.5, "b"), id="smallest"),
        pytest.param({"a": 2, "b": 2.0}, (2, "a"), id="first-of-equal"),
        pytest.param({"a": None, "b": 3}, (3, "b"), id="unknown-sets-no-limit"),
        pytest.param({"a": 0, "b": -1, "c": 8}, (8, "c"), id="nothing-and-less-are-no-limits"),
        pytest.param({"a": NO_LIMIT, "b": 8}, (8, "b"), id="no-limit"),
        pytest.param({"a": None}, None, id="nothing-known"),
        pytest.param({"a": None, "b": NO_LIMIT}, None, id="no-limit-and-nothing-else"),
    ],
)
def test_tightest_of_limits_is_the_smallest_known(
    limits: dict[str, float | None], expected: tuple[float, str] | None
) -> None:
    """
    Limits that are unknown, that would leave nothing or everything, do not bind.
    """
    assert tightest(limits) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Model: \t\t NVIDIA X\nIRQ:\t 5\n", {"Model": "NVIDIA X", "IRQ": "5"}, id="tabs"),
        pytest.param("Bus Location: 0000:04:00.0", {"Bus Location": "0000:04:00.0"}, id="first-colon-counts"),
        pytest.param("no value\n\nempty:\n", {"empty": ""}, id="lines-without"),
        pytest.param(None, {}, id="no-file"),
    ],
)
def test_colons_part_names_from_values(text: str | None, expected: dict[str, str]) -> None:
    """
    As the NVIDIA driver's files in /proc have them.
    """
    assert parse_colons(text) == expected
