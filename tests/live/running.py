"""
Starts Python in processes of its own, where a test may take away what the test runner itself needs.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import autoloader

SOURCE = str(Path(autoloader.__file__).parent.parent)
TIMEOUT_SECONDS = 60

_OTHERS = re.compile(
    r"(SLURM|OMPI|PMI|MPI|PBS|LSB|TORCHELASTIC|OMP|COVERAGE|COLAB|KAGGLE|KUBERNETES|APPTAINER|SINGULARITY)_.*"
    r"|RANK|LOCAL_RANK|LOCAL_WORLD_SIZE|NCPUS|NSLOTS|PYTHON_CPU_COUNT|JPY_PARENT_PID|container|TMPDIR|TEMP|TMP"
    r"|PYTHONIOENCODING|PYTHONWARNINGS|PYTHONUNBUFFERED|(CUDA|HIP|ROCR)_VISIBLE_DEVICES"
)
"""
Variables that change what the probe says.
"""


def clean_environment(**changes: str | None) -> dict[str, str]:
    """
    Return this process's environment without what changes the facts, and with some variables set or taken away.
    """
    kept = {name: value for name, value in os.environ.items() if not _OTHERS.fullmatch(name)}
    wanted = {**kept, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1", **changes}
    return {name: value for name, value in wanted.items() if value is not None}


def run(
    *command: str, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """
    Run a command to its end and return it, its output as text.
    """
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        command,
        env=clean_environment() if environment is None else dict(environment),
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        **options,
    )


def output_of(*command: str, **options: Any) -> str:
    """
    Return what a command that succeeds and complains of nothing prints.
    """
    done = run(*command, **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def run_python(code: str, *arguments: str, **options: Any) -> str:
    """
    Return what a piece of Python prints.
    """
    return output_of(sys.executable, "-c", code, *arguments, **options)


def probe_command(*options: str) -> list[str]:
    """
    Return the command that shows the facts.
    """
    return [sys.executable, "-m", "autoloader", "probe", *options]


def probe_json(*before: str, **options: Any) -> dict[str, Any]:
    """
    Return the facts as the command prints them; *before* is a command that starts another.
    """
    return dict(json.loads(output_of(*before, *probe_command("--json"), **options)))


def probe_lines(*before: str, **options: Any) -> dict[str, str]:
    """
    Return the lines that the command prints for people, by their names.
    """
    lines = output_of(*before, *probe_command(), **options).splitlines()
    parts = [re.fullmatch(r"(\S.*?) {2,}(\S.*)", line) for line in lines]
    assert None not in parts, lines
    return {part[1]: part[2] for part in parts if part is not None}
