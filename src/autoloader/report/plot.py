"""
A calibration as a picture: the curve as measured, the model's line, what the CPUs allow, and the choice.
"""

from pathlib import Path
from typing import Any

from ..calibration import Calibration
from ..records import number_text

INCHES = (7.0, 4.2)


def plot_calibration(calibration: Calibration, path: Path) -> None:
    """
    Draw a calibration into a file, as the ending of its name says: PNG or SVG.

    Raises:
        ImportError: matplotlib is missing.
        OSError: The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, layout="constrained")  # no pyplot, which would pick a window system
    FigureCanvasAgg(figure)
    _draw(figure.add_subplot(), calibration)
    figure.savefig(path, dpi=150)


def _draw(axes: Any, calibration: Calibration) -> None:
    line = [(workers, 1 / seconds) for workers, seconds in calibration.curve if seconds > 0]
    tried = [(trial.num_workers, 1 / trial.step_seconds) for trial in calibration.trials]
    chosen = calibration.num_workers
    axes.plot(*zip(*line, strict=True), color="0.6", label="model") if line else None
    axes.plot(*zip(*tried, strict=True), "o", color="C0", label="measured") if tried else None
    rate = dict(tried or line).get(chosen)
    if rate is not None:
        label = f"chosen: num_workers={chosen}, {number_text(rate)} batches/s"
        axes.plot([chosen], [rate], "o", markersize=13, fillstyle="none", color="C3", label=label)
    highest = max([value for _, value in (*line, *tried)], default=1.0)
    limit = calibration.cpu_limit
    if limit is not None and limit <= 2 * highest:
        axes.axhline(limit, linestyle=":", color="C1", label=f"all {number_text(calibration.cpus)} CPUs busy")
    step = calibration.profile.step_seconds
    if step and 1 / step <= 2 * highest:
        axes.axhline(1 / step, linestyle="--", color="C2", label="training alone")
    axes.set(xlabel="num_workers (0: in the training process)", ylabel="batches a second", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="lower right", fontsize="small")
