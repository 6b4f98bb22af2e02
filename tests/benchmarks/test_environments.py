"""
Environments of packages, made from a wheel that is written here.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchmarks import environments, packages


def test_pins_are_those_of_the_peers_that_are_packages() -> None:
    """Each has one version."""
    pins = environments.read_pins()
    assert pins == {packages.EFFICIO: "efficio==0.1.1", packages.LOADTUNE: "loadtune==0.3.0"}


def test_parse_pins_leaves_out_comments_and_empty_lines() -> None:
    """The name stands before the two signs."""
    assert environments.parse_pins("# two\none==1.0\n\n two==2.0 \n") == {"one": "one==1.0", "two": "two==2.0"}


def test_python_of_a_peer_that_is_no_package_is_this_one(tmp_path: Path) -> None:
    """Only packages have an environment."""
    assert environments.python_of("paddle", tmp_path) == sys.executable
    assert Path(environments.python_of("loadtune", tmp_path)).is_relative_to(tmp_path / "loadtune")


def make_wheel(folder: Path) -> None:
    """
    Write a wheel of ``sparepart`` 1.0, which requires a package that there is not.
    """
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: sparepart\nVersion: 1.0\nRequires-Dist: no-such-package\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / "sparepart-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("sparepart.py", "NUMBER = 7\n")
        for name, text in about.items():
            wheel.writestr(f"sparepart-1.0.dist-info/{name}", text)


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Let ``sparepart`` be the only pin, and return where its wheel and its environment lie.
    """
    path = tmp_path / "pins.txt"
    path.write_text("sparepart==1.0\n", encoding="utf-8")
    monkeypatch.setattr(environments, "PINS", path)
    make_wheel(tmp_path)
    return tmp_path


@pytest.mark.slow_spawn
def test_make_installs_the_package_beside_what_this_python_has(pinned: Path) -> None:
    """It is missing until it is made, and again once it has another pin."""
    pytest.importorskip("pip", reason="needs pip")
    assert environments.missing(pinned) == ("sparepart",)
    environments.make("sparepart", "sparepart==1.0", ["--no-index", "--find-links", str(pinned)], pinned)
    assert environments.missing(pinned) == ()
    code = "import pytest, sparepart; print(sparepart.NUMBER, pytest.__file__)"
    command = [environments.python_of("sparepart", pinned), "-c", code]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (ran.stdout.split(maxsplit=1), ran.stderr) == (["7", pytest.__file__ + "\n"], "")
    environments.PINS.write_text("sparepart==2.0\n", encoding="utf-8")
    assert environments.missing(pinned) == ("sparepart",)


def test_main_makes_what_is_missing_and_tells_where_it_is(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its arguments go to pip."""
    made = []
    monkeypatch.setattr(environments, "make", lambda *arguments: made.append(arguments))
    monkeypatch.setattr(environments, "missing", lambda: ("sparepart",))
    assert environments.main(["--no-index"]) == 0
    assert made == [("sparepart", "sparepart==1.0", ["--no-index"])]
    assert capsys.readouterr().out.startswith("sparepart==1.0: ")


def test_main_says_that_pip_failed(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Why has been told by pip, on the same terminal."""

    def fail(*arguments: object) -> None:
        raise subprocess.CalledProcessError(2, "pip")

    monkeypatch.setattr(environments, "make", fail)
    monkeypatch.setattr(environments, "missing", lambda: ("sparepart",))
    assert environments.main([]) == 1
    assert capsys.readouterr().err == "sparepart==1.0 is not installed: pip ended with status 2, see above.\n"
