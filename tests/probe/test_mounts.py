"""
The mount table, by proc_pid_mountinfo(5).
"""

import pytest

from autoloader.probe.mounts import Mount, is_below, mount_of, parse_mountinfo, parse_overlay_layers

ROOT = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"


def test_mountinfo_line_of_the_manual_is_parsed() -> None:
    """
    The example of proc_pid_mountinfo(5), with its optional field, gives each part.
    """
    line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    assert parse_mountinfo(line) == (
        Mount(
            number=36,
            parent=35,
            device=(98, 0),
            root="/mnt1",
            mount_point="/mnt2",
            filesystem="ext3",
            source="/dev/root",
            super_options=("rw", "errors=continue"),
        ),
    )


@pytest.mark.parametrize("optional", ["", "shared:1 ", "master:2 propagate_from:3 ", "unbindable "])
def test_mountinfo_with_any_number_of_optional_fields_is_parsed(optional: str) -> None:
    """
    Zero or more optional fields stand before the hyphen.
    """
    (mount,) = parse_mountinfo(f"36 35 8:1 / /data rw {optional}- xfs /dev/sda1 rw\n")
    assert (mount.mount_point, mount.filesystem) == ("/data", "xfs")


def test_mountinfo_escapes_in_octal_are_put_back() -> None:
    """
    Space, tab, newline and backslash come as three octal digits each.
    """
    (mount,) = parse_mountinfo("36 35 8:1 /a\\134b /with\\040space\\011tab\\012line rw - ext4 /dev/a\\040b rw\n")
    assert mount.mount_point == "/with space\ttab\nline"
    assert mount.root == "/a\\b"
    assert mount.source == "/dev/a b"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="empty"),
        pytest.param("36 35 8:1 / / rw", id="no-hyphen"),
        pytest.param("36 35 8:1 / - ext4", id="cut-off"),
        pytest.param("36 35 8 / / rw - ext4 /dev/sda1 rw", id="no-minor"),
        pytest.param("x y 8:1 / / rw - ext4 /dev/sda1 rw", id="no-numbers"),
        pytest.param("36 35 " + "9" * 5000 + ":1 / / rw - ext4 /dev/sda1 rw", id="too-many-digits"),
        pytest.param("\ufffd\x00\x01", id="binary"),
    ],
)
def test_mountinfo_line_without_sense_is_left_out(line: str) -> None:
    """
    A line that is no mount spoils none of the others.
    """
    assert [mount.mount_point for mount in parse_mountinfo(f"{line}\n{ROOT}")] == ["/"]


def test_mountinfo_without_a_file_is_empty() -> None:
    """
    A host without /proc has no known mounts.
    """
    assert parse_mountinfo(None) == ()
    assert mount_of("/data", ()) is None


@pytest.mark.parametrize(
    ("path", "lines", "expected"),
    [
        pytest.param("/data/train", [], "/dev/sda1", id="only-the-root"),
        pytest.param("/data/train", ["2 1 8:2 / /data rw - ext4 b rw"], "b", id="below-a-mount"),
        pytest.param("/data", ["2 1 8:2 / /data rw - ext4 b rw"], "b", id="the-mount-point"),
        pytest.param("/database", ["2 1 8:2 / /data rw - ext4 b rw"], "/dev/sda1", id="same-first-letters"),
        pytest.param(
            "/data/in/x",
            ["2 1 8:2 / /data rw - ext4 b rw", "3 2 8:3 / /data/in rw - ext4 c rw"],
            "c",
            id="innermost",
        ),
        pytest.param(
            "/data/x",
            ["2 1 8:2 / /data rw - ext4 b rw", "3 2 0:9 / /data rw - tmpfs c rw"],
            "c",
            id="mounted-over",
        ),
        pytest.param(
            "/data/in/x",
            ["2 1 8:2 / /data/in rw - ext4 b rw", "3 1 0:9 / /data rw - tmpfs c rw"],
            "c",
            id="hidden-by-a-mount-above",
        ),
        pytest.param(
            "/data/in/deep/x",
            [
                "2 1 8:2 / /data/in rw - ext4 b rw",
                "4 2 8:4 / /data/in/deep rw - ext4 d rw",
                "3 1 0:9 / /data rw - tmpfs c rw",
            ],
            "c",
            id="hidden-with-its-parent",
        ),
        pytest.param(
            "/data/in/x",
            [
                "2 1 8:2 / /data/in rw - ext4 b rw",
                "3 1 0:9 / /data rw - tmpfs c rw",
                "5 3 8:5 / /data/in rw - ext4 e rw",
            ],
            "e",
            id="mounted-again-above-the-hidden",
        ),
        pytest.param(
            "/data/x",
            ["2 1 8:2 / /data rw - ext4 b rw", "3 1 0:9 / / rw - tmpfs c rw"],
            "b",
            id="over-the-root-hides-nothing",
        ),
        pytest.param(
            "/with space/x",
            ["2 1 8:2 / /with\\040space rw - ext4 b rw"],
            "b",
            id="a-space",
        ),
    ],
)
def test_mount_of_a_path_is_the_one_that_a_walk_meets(path: str, lines: list[str], expected: str) -> None:
    """
    The innermost mount holds a path, of several on one folder the last, unless a later one above hides it.
    """
    mount = mount_of(path, parse_mountinfo("\n".join([ROOT.strip(), *lines])))
    assert mount is not None
    assert mount.source == expected


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        pytest.param("/a/b", "/a", True, id="inside"),
        pytest.param("/a", "/a", True, id="itself"),
        pytest.param("/ab", "/a", False, id="same-first-letters"),
        pytest.param("/a", "/", True, id="root"),
        pytest.param("/", "/", True, id="root-itself"),
        pytest.param("/", "/a", False, id="above"),
    ],
)
def test_is_below_goes_by_whole_names(path: str, folder: str, expected: bool) -> None:
    """
    A folder holds what follows its slash.
    """
    assert is_below(path, folder) is expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param("rw,lowerdir=/l,upperdir=/u,workdir=/w", ("/l", "/u"), id="lower-and-upper"),
        pytest.param("ro,lowerdir=/a:/b:/c", ("/a", "/b", "/c"), id="three-lower"),
        pytest.param("rw,lowerdir=/a::/data", ("/a", "/data"), id="data-only"),
        pytest.param("ro,lowerdir+=/a,lowerdir+=/b:c,datadir+=/d", ("/a", "/b:c", "/d"), id="an-option-for-each"),
        pytest.param("ro,lowerdir=/a\\134:b:/c", ("/a:b", "/c"), id="colon-in-a-name"),
        pytest.param("rw,upperdir=/with\\040space\\054comma", ("/with space,comma",), id="octal"),
        pytest.param("rw,lowerdir=l/A:l/B,upperdir=/u", ("/u",), id="relative"),
        pytest.param("rw,workdir=/w,index=off", (), id="none"),
    ],
)
def test_overlay_layers_are_the_folders_of_its_options(options: str, expected: tuple[str, ...]) -> None:
    """
    Each folder that shows through an overlay is named; its working folder does not show.
    """
    assert parse_overlay_layers(tuple(options.split(","))) == expected


def test_mount_of_among_very_many_is_found() -> None:
    """
    Thousands of mounts over one another, a chain of them, and as many beside: the work grows with their number only.
    """
    many = 20_000
    over = [f"{number} 1 0:{number} / /a rw - tmpfs t rw" for number in range(2, many)]
    chain = [f"{many + number} {many + number - 1} 0:1 / /a/b rw - tmpfs t rw" for number in range(many)]
    beside = [f"{3 * many + number} 1 0:1 / /x/{number} rw - tmpfs t rw" for number in range(many)]
    mounts = parse_mountinfo("\n".join(["1 0 8:1 / / rw - ext4 /dev/sda1 rw", *over, *chain, *beside]))
    found = mount_of("/a/b/c", mounts)
    assert found is not None
    assert found.number == 2 * many - 1


def test_mount_point_that_is_not_utf_8_holds_its_paths() -> None:
    """
    The kernel's text and Python's paths have its bytes alike.
    """
    lines = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:30 / /mnt/\xff rw - tmpfs t rw\n"
    mounts = parse_mountinfo(lines.decode("utf-8", "surrogateescape"))
    found = mount_of("/mnt/\udcff/data", mounts)
    assert found is not None
    assert found.filesystem == "tmpfs"
