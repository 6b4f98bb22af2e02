"""
A calibration as text.
"""

from dataclasses import replace

import pytest

from autoloader.calibration import Calibration, Trial
from autoloader.plan import Choice, Plan
from autoloader.report.calibration import curve, render_calibration, time_of_a_batch
from autoloader.traits import Profile

PROFILE = Profile(
    batches=8,
    batch_samples=10,
    sample_seconds=0.02,
    sample_cpu_seconds=0.01,
    collate_seconds=0.05,
    transfer_seconds=0.025,
    step_seconds=0.0,
    step_cpu_seconds=0.0,
)
TRIALS = tuple(
    Trial(num_workers=each, step_seconds=step, first_batch_seconds=0.4, runs=1, batches=8, expected_seconds=0.25)
    for each, step in ((0, 0.2), (2, 0.1))
)
FOUND = Calibration(
    plan=Plan(choices={"num_workers": Choice(value=2, rule="num_workers.calibrated", because="two were best")}),
    profile=PROFILE,
    trials=TRIALS,
    cpus=2.0,
    curve=((0, 0.25), (1, 0.25), (2, 0.125)),
    seconds=4.0,
)

TEXT = """\
num_workers=2: two were best [num_workers.calibrated]
That is 10 batches a second, 100 samples a second.
The 2 CPUs allow about 10: no setting gains much more, only cheaper samples or steps, or more CPUs.
Measured in 4 s, ended when the order was clear.

Where the time of a batch of 10 goes:
  fetch, on a CPU                   100 ms  ##########
  fetch, waiting                    100 ms  ##########
  collate                            50 ms  #####
  transfer                           25 ms  ##
  once: first batch from workers    400 ms  ########################################

Batches a second by number of workers, measured (#) and by the model (.):
    0        5  ####################
    1           ................
    2       10  ######################################## <- chosen
  all CPUs busy at 10"""


def test_text_has_verdict_parts_and_curve() -> None:
    """
    The longest bar has forty characters; 2 CPUs by 0.1 + 0.05 + 2 x 0.025 s allow 10 batches a second.
    """
    assert render_calibration(FOUND) == TEXT
    assert TEXT.isascii()


def test_curve_without_trials_is_the_models() -> None:
    """
    The longest bar is of the model then, and the choice is marked on it.
    """
    assert curve(replace(FOUND, trials=())).splitlines()[1:] == [
        "    0           ....................",
        "    1           ....................",
        "    2           ........................................ <- chosen",
        "  all CPUs busy at 10",
    ]


def test_curve_shows_what_was_tried_and_doubled_numbers_of_the_model() -> None:
    """
    Of the model's line 0, 1, 2, 4 and so on; a limit that is far off is left out.
    """
    line = tuple((workers, 1 / (workers or 1)) for workers in range(11))
    tried = (replace(TRIALS[1], num_workers=7, step_seconds=1 / 7),)
    lines = curve(replace(FOUND, curve=line, trials=tried, cpus=9.0)).splitlines()[1:]
    assert [int(line.split()[0]) for line in lines] == [0, 1, 2, 4, 7, 8]


def test_bars_without_workers_have_no_first_batch_of_theirs() -> None:
    """
    The longest is another one; a first access stands out.
    """
    profile = replace(PROFILE, first_access_seconds=0.2, transfer_seconds=None, sample_cpu_seconds=0.03)
    assert time_of_a_batch(replace(FOUND, trials=TRIALS[:1], profile=profile)).splitlines()[1:] == [
        "  fetch, on a CPU       200 ms  ########################################",
        "  fetch, waiting          0 us",
        "  collate                50 ms  ##########",
        "  transfer                0 us",
        "  once: first access    200 ms  ########################################",
    ]


@pytest.mark.parametrize("trials", [TRIALS, ()], ids=["trials", "no-trials"])
def test_nothing_measured_is_no_division_by_zero(trials: tuple[Trial, ...]) -> None:
    """
    A batch that takes no time at all, and a model without a line.
    """
    nothing = Profile(batches=1, batch_samples=1, sample_seconds=0.0, sample_cpu_seconds=0.0)
    text = render_calibration(replace(FOUND, profile=nothing, curve=(), trials=trials))
    assert "Where the time of a batch of 1 goes:" in text
