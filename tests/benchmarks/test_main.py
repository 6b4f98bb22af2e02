"""
The command ``python -m benchmarks`` around workloads that are not run.
"""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("numpy", reason="needs numpy")

from benchmarks.measure import QUICK, Measured, Run  # noqa: E402
from benchmarks.results import parse, read_host  # noqa: E402

from benchmarks import __main__ as command  # noqa: E402


@pytest.mark.real_host
def test_main_keeps_what_was_measured_and_leaves_out_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file can be read again, and the table says what is missing."""

    def measured(workload: Any, effort: Any, seed: Any, theirs: Any, folder: Path) -> Measured:
        keys = {"0w", "control", *(setting.key for setting in theirs.values())}
        return Measured(
            workload=workload.name,
            screening={},
            rounds={key: (Run(wall_seconds=1.0),) for key in keys},
            finalists=("0w",),
            peers={name: setting.key for name, setting in theirs.items()},
            epochs=1,
        )

    monkeypatch.setattr(command, "measure_workload", measured)
    monkeypatch.setattr(command.environments, "missing", lambda: ("loadtune",))
    path = tmp_path / "found.json"
    arguments = ["--quick", "--only", "text", "--only", "unseen-7-0", "--seed", "7", "--json", str(path)]
    assert command.main(arguments) == 0
    found = parse(path.read_text(encoding="utf-8"))
    assert [each.workload for each in found.workloads] == ["text", "unseen-7-0"]
    assert (found.host, found.effort, found.seeds) == (read_host(), QUICK, (7,))
    assert found.host.torch == torch.__version__
    assert "loadtune" not in found.workloads[0].peers
    assert "Not installed: loadtune. `python -m benchmarks.environments` installs them." in capsys.readouterr().out
    assert json.loads(path.read_text(encoding="utf-8"))["workloads"][0]["best"] == "0w"
