"""
A calibration as text: the verdict, where the time of a batch goes, and the curve.
"""

from collections.abc import Iterator

from ..calibration import Calibration
from ..records import number_text, seconds_text

MODELLED = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""
Numbers of workers for which the model's line is shown, as far as it goes.
"""

BAR = 40
"""
Characters of the longest bar.
"""


def render_calibration(calibration: Calibration) -> str:
    """
    Return the verdict with the figures behind it.
    """
    parts = [str(calibration), time_of_a_batch(calibration), curve(calibration)]
    return "\n\n".join(part for part in parts if part)


def time_of_a_batch(calibration: Calibration) -> str:
    """
    Return a bar for each part of the time that one process takes for a batch.
    """
    profile = calibration.profile
    cpu = min(profile.sample_cpu_seconds, profile.sample_seconds) * profile.batch_samples
    parts = {
        "fetch, on a CPU": cpu,
        "fetch, waiting": profile.sample_seconds * profile.batch_samples - cpu,
        "collate": profile.collate_seconds,
        "transfer": profile.transfer_seconds or 0.0,
    }
    rows = [("once: first access", profile.first_access_seconds)] if profile.first_access_seconds else []
    starts = [trial.first_batch_seconds for trial in calibration.trials if trial.num_workers]
    if starts:
        rows.append(("once: first batch from workers", min(starts)))
    title = f"Where the time of a batch of {number_text(profile.batch_samples)} goes:"
    return "\n".join([title, *_bars([*parts.items(), *rows])])


def curve(calibration: Calibration) -> str:
    """
    Return batches a second by number of workers, as measured and as the model expects them.
    """
    measured = {trial.num_workers: 1 / trial.step_seconds for trial in calibration.trials}
    model = {workers: 1 / seconds for workers, seconds in calibration.curve if seconds > 0}
    shown = sorted({*measured, *(workers for workers in MODELLED if workers in model)})
    longest = max([*measured.values(), *(model[each] for each in shown if each in model), 1e-9])
    lines = ["Batches a second by number of workers, measured (#) and by the model (.):"]
    for workers in shown:
        seen, expected = measured.get(workers), model.get(workers)
        mark = " <- chosen" if workers == calibration.num_workers else ""
        text = "" if seen is None else number_text(seen)
        bar = ("#" * round(BAR * (seen or 0) / longest)).ljust(round(BAR * (expected or 0) / longest), ".")
        lines.append(f"  {workers:>3}  {text:>7}  {bar}{mark}")
    limit = calibration.cpu_limit
    if limit is not None and limit <= 2 * longest:
        lines.append(f"  all CPUs busy at {number_text(limit)}")
    return "\n".join(lines)


def _bars(rows: list[tuple[str, float]]) -> Iterator[str]:
    longest, width = max(seconds for _, seconds in rows) or 1.0, max(len(name) for name, _ in rows)
    for name, seconds in rows:
        bar = "#" * round(BAR * seconds / longest)
        yield f"  {name:<{width}}  {seconds_text(seconds):>8}  {bar}".rstrip()
