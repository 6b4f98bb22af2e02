"""
What can go wrong when settings are measured.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="calibration.budget",
        title="A calibration is given no time",
        text="budget_seconds={value!r} is no time to measure in.",
        fix="Pass a number of seconds above 0; 20 is the default.",
    ),
    Finding(
        id="calibration.failed",
        title="The dataset failed while it was measured",
        text="Nothing could be measured, because loading failed: {error}.",
        fix="Mend the dataset: list(DataLoader(dataset, num_workers=0)) shows the same error here.",
    ),
    Finding(
        id="calibration.no-process",
        title="No process can be started to measure in",
        text="Nothing can be measured, because no process can start for it: {because}.",
        fix="{fix} Then calibrate again.",
    ),
    Finding(
        id="calibration.plot-ending",
        title="A plot is asked for in a form that is not drawn",
        text="--plot {path!r} cannot be drawn: its ending is neither .png nor .svg.",
        fix="Name a file that ends with one of them.",
    ),
    Finding(
        id="calibration.plot-missing",
        title="A plot is asked for where matplotlib is missing",
        text="--plot needs matplotlib, which cannot be imported here: {reason}.",
        fix="Install it with '{python} -m pip install matplotlib', or leave --plot out: the curve is in the text, too.",
    ),
    Finding(
        id="calibration.out-of-time",
        title="A calibration's time was over before its first batches came",
        text="Nothing could be measured in {seconds} seconds: {what}.",
        fix="Pass more, budget_seconds=60 for instance, or see why a batch takes so long.",
    ),
)
