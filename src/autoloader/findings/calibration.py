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
        fix="Mend the dataset: list(DataLoader(dataset, num_workers={workers})) shows the same error here.",
    ),
    Finding(
        id="calibration.in-a-group",
        title="A calibration is asked for in a process group",
        text=(
            "calibration.in-a-group: calibrate=True measures nothing in a process group, because all ranks would wait "
            "for it, and then share the CPUs that were free in its trials."
        ),
        fix=(
            "Leave it out, or calibrate in one process, divide the number of workers that it finds by the ranks on a "
            "node, and pass that as num_workers=. To silence this: "
            "warnings.filterwarnings('ignore', 'calibration.in-a-group')."
        ),
    ),
    Finding(
        id="calibration.went-on",
        title="A calibration before the first epoch failed",
        text="calibration.went-on: calibrate=True found nothing ({error}), and training goes on without.",
        fix=(
            "Leave it out until calibrate() works for this dataset. To silence this: "
            "warnings.filterwarnings('ignore', 'calibration.went-on')."
        ),
    ),
    Finding(
        id="calibration.no-batch",
        title="A dataset without a batch is to be measured",
        text="Nothing can be measured, because the dataset gives no batch.",
        fix="Check the path or pattern that it reads, its sampler, and drop_last.",
    ),
    Finding(
        id="calibration.no-process",
        title="No process can be started to measure in",
        text="Nothing can be measured, because no process can start for it: {because}.",
        fix="{fix} Then calibrate again.",
    ),
    Finding(
        id="calibration.not-started",
        title="The process that measures does not start",
        text="Nothing can be measured, because the process for it did not start: {reason}.",
        fix=(
            "If something cannot be pickled, it is the sampler: pass a list of indices. Otherwise memory, processes or "
            "open files are short."
        ),
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
        id="calibration.switched-off",
        title="A calibration is asked for while autoloader is switched off",
        text="Nothing is measured, because AUTOLOADER_OFF is set, which leaves loading to torch and its defaults.",
        fix="Unset the variable, or leave calibrate() out for as long as it is set.",
    ),
    Finding(
        id="calibration.step-without-batch",
        title="A training step is to be timed with batches that cannot be pickled",
        text="step= cannot be timed, because a batch holds something that cannot be pickled, and cannot come here.",
        fix="Make batches of tensors, numbers and text, or leave step= out.",
    ),
    Finding(
        id="calibration.out-of-time",
        title="A calibration's time was over before its first batches came",
        text="Nothing could be measured in {seconds} seconds: {what}.",
        fix="Pass more, budget_seconds=60 for instance, or see why a batch takes so long.",
    ),
)
