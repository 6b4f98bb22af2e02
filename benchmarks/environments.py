"""
``python -m benchmarks.environments``: makes an environment for each package of ``peers-requirements.txt``.

It lies in ``build/peers/NAME`` and holds the package alone; all else, torch among it, comes from the Python that makes
it, so that pip follows no dependencies. It is good for this Python and this pin: for others it counts as not made.
Further arguments are pip's, as ``--no-index --find-links FOLDER``.
"""

import site
import subprocess
import sys
import venv
from pathlib import Path

PINS = Path(__file__).with_name("peers-requirements.txt")
FOLDER = Path(__file__).parent.parent / "build" / "peers"
LINK = "this-python.pth"
"""
A line of Python in each environment's ``site-packages``, by which it sees what this Python has.
"""


def parse_pins(text: str) -> dict[str, str]:
    """
    Return the pin of each package, ``NAME==VERSION``, by its name.
    """
    pins = (line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {pin.partition("==")[0]: pin for pin in pins}


def read_pins() -> dict[str, str]:
    """
    Return the pins of the packages that are compared with.
    """
    return parse_pins(PINS.read_text(encoding="utf-8"))


def python_of(name: str, folder: Path = FOLDER) -> str:
    """
    Return the Python of the environment of *name*; this one where no package of that name is pinned.
    """
    if name not in read_pins():
        return sys.executable
    return _python(folder / name)


def missing(folder: Path = FOLDER) -> tuple[str, ...]:
    """
    Return the packages that have no environment for this Python and their pin.
    """
    return tuple(name for name, pin in read_pins().items() if not _is_made(folder / name, pin))


def make(name: str, pin: str, pip_arguments: list[str], folder: Path = FOLDER) -> None:
    """
    Make the environment of one package anew.

    The link is written last: an environment without it is not made.

    Raises:
        subprocess.CalledProcessError: pip failed, and has said why.
    """
    venv.create(folder / name, clear=True)
    pip = [sys.executable, "-m", "pip", "--python", _python(folder / name), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, *pip_arguments, pin], check=True)
    _link_path(folder / name).write_text(_link(pin), encoding="utf-8")


def _python(environment: Path) -> str:
    return str(environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def _is_made(environment: Path, pin: str) -> bool:
    path = _link_path(environment)
    return path.exists() and path.read_text(encoding="utf-8") == _link(pin)


def _link_path(environment: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    inside = ("Lib",) if sys.platform == "win32" else ("lib", version)
    return environment.joinpath(*inside, "site-packages", LINK)


def _link(pin: str) -> str:
    """
    Return the line; ``addsitedir`` follows the links that lie there in turn, that of an editable install for one.
    """
    folders = [each for each in (*site.getsitepackages(), site.getusersitepackages()) if each in sys.path]
    return f"import site; {'; '.join(f'site.addsitedir({each!r})' for each in folders)}  # {pin}\n"


def main(argv: list[str] | None = None) -> int:
    """
    Make what is missing, and tell where it is; 1 where pip failed.
    """
    pins = read_pins()
    for name in missing():
        try:
            make(name, pins[name], sys.argv[1:] if argv is None else argv)
        except subprocess.CalledProcessError as error:
            print(
                f"{pins[name]} is not installed: pip ended with status {error.returncode}, see above.", file=sys.stderr
            )
            return 1
    for name, pin in pins.items():
        print(f"{pin}: {python_of(name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
