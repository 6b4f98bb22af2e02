"""
A calibration as a picture.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoloader.calibration import Calibration
from autoloader.report import plot
from autoloader.report.plot import plot_calibration
from report.test_render_calibration import FOUND

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib draws it")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """
    Return a function that draws a calibration and returns the axes.
    """
    kept: list[Any] = []
    draw = plot._draw
    monkeypatch.setattr(plot, "_draw", lambda axes, found: (kept.append(axes), draw(axes, found)))

    def draws(found: Calibration) -> Any:
        plot_calibration(found, tmp_path / "curve.svg")
        return kept[-1]

    return draws


def points(axes: Any, label: str) -> list[tuple[float, float]]:
    """
    Return the points of the line whose label begins so.
    """
    (line,) = (line for line in axes.get_lines() if line.get_label().startswith(label))
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


@pytest.mark.parametrize(("name", "start"), [("curve.png", b"\x89PNG\r\n\x1a\n"), ("curve.SVG", b"<?xml")])
def test_file_is_of_the_kind_that_its_name_says(name: str, start: bytes, tmp_path: Path) -> None:
    """
    Its first bytes tell.
    """
    path = tmp_path / name
    plot_calibration(FOUND, path)
    assert path.read_bytes().startswith(start)
    assert b"<svg" in path.read_bytes() or name.endswith("png")


def test_picture_has_the_model_the_trials_the_choice_and_the_limit(drawn: Any) -> None:
    """
    In batches a second.
    """
    axes = drawn(FOUND)
    assert points(axes, "model") == [(0, 4), (1, 4), (2, 8)]
    assert points(axes, "measured") == [(0, 5), (2, 10)]
    assert points(axes, "chosen: num_workers=2, 10 batches/s") == [(2, 10)]
    assert [y for _, y in points(axes, "all 2 CPUs busy")] == pytest.approx([10, 10])
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "num_workers (0: in the training process)",
        "batches a second",
    )
    assert axes.get_ylim()[0] == 0


def test_picture_has_the_training_alone_where_that_is_near(drawn: Any) -> None:
    """
    Twelve steps a second.
    """
    found = replace(FOUND, profile=replace(FOUND.profile, step_seconds=1 / 12))
    assert [y for _, y in points(drawn(found), "training alone")] == pytest.approx([12, 12])


def test_picture_without_trials_marks_the_choice_on_the_models_line(drawn: Any) -> None:
    """
    Nothing was measured there.
    """
    axes = drawn(replace(FOUND, trials=()))
    assert points(axes, "chosen: num_workers=2, 8 batches/s") == [(2, 8)]
    assert "measured" not in [line.get_label() for line in axes.get_lines()]


def test_file_that_cannot_be_written_is_the_systems_error(tmp_path: Path) -> None:
    """
    The command line says it.
    """
    with pytest.raises(FileNotFoundError):
        plot_calibration(FOUND, tmp_path / "nowhere" / "curve.png")
