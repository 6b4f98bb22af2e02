"""
Every code block in README and docs runs, and prints what it says.
"""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

SET_UP = {
    "pip install torch-autoloader",
    'pip install "torch-autoloader[demo]"',
    "python -m pip install tox && python -m tox run -m test",
    "python -m pip install tox && python -m tox run -e demo",
}
"""
Shell lines that install: .ci/run executes the test command, and with it all that these do.
"""


def blocks(page: Path, language: str) -> list[str]:
    """
    Return the code blocks of one language.
    """
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def scripts(page: Path) -> list[str]:
    """
    Return the Python of a page: one script, but a block with a main guard ends a script.

    What followed it in the same file would run in the workers, too, where they start by spawn.
    """
    found = [""]
    for block in blocks(page, "python"):
        found[-1] += block
        if "__main__" in block:
            found.append("")
    return [script for script in found if script]


def ids(page: Path) -> str:
    """
    Return a page's name within the project.
    """
    return page.relative_to(ROOT).as_posix()


MANY_STARTS = {"choosing.md", "epochs.md", "random.md"}
"""
Pages whose blocks start workers again and again.
"""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow_spawn] if page.name in MANY_STARTS else [])
        for page in PAGES
        if blocks(page, "python")
    ],
    ids=ids,
)
def test_python_blocks_run_and_print_what_they_say(page: Path, tmp_path: Path) -> None:
    """
    Its scripts run without a warning, and print what the comments behind their prints say.
    """
    script = tmp_path / "page.py"
    for code in scripts(page):
        script.write_text(code, encoding="utf-8")
        command = [sys.executable, "-W", "error", str(script)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        said = re.findall(r"^ *print\(.*\)  +# (.*)$", code, re.MULTILINE)
        printed = iter(result.stdout.splitlines())
        assert [comment for comment in said if comment not in printed] == []


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=ids)
def test_shell_blocks_run(page: Path) -> None:
    """
    Our own commands end with 0; any other line is one of the set-up.
    """
    for line in (line for block in blocks(page, "sh") for line in block.splitlines()):
        if line not in SET_UP:
            arguments = shlex.split(line)
            assert arguments[:3] == ["python", "-m", "autoloader"]
            subprocess.run([sys.executable, *arguments[1:]], capture_output=True, timeout=300, check=True)


def test_every_block_says_what_it_is() -> None:
    """
    A block without a language would be run by nobody.
    """
    languages = {
        language
        for page in PAGES
        for language in re.findall(
            r"^```([^\n]*)\n.*?^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    }
    assert {language for language in languages if not language.startswith("{")} <= {"python", "sh", "text"}


def test_readme_shows_the_first_result_within_25_lines() -> None:
    """
    A newcomer sees a runnable block with a result before scrolling.
    """
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    assert any(re.match(r" *print\(.*\)  +# ", line) for line in lines)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    """
    What the README calls the test command is what CI calls.
    """
    command = "python -m pip install tox && python -m tox run -m test"
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["rules", "findings"])
def test_page_of_a_catalogue_is_the_codes(name: str) -> None:
    """
    The list in the docs is the list in the code; python docs/tables.py writes it anew.
    """
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
    assert page == getattr(tables, f"{name}_page")()
