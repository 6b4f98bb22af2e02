"""
The one catalogue of what can be wrong or worth changing: it serves plan notes, errors and docs.

Each text says what is wrong, because of which fact, and what to do; ``{braces}`` are filled with the evidence.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """
    One kind of thing that can be wrong.
    """

    id: str
    """The stable id, as notes, docs and searches name it."""
    title: str
    """What is wrong, in general."""
    text: str
    """What is wrong here, because of which fact, with places for the evidence."""
    fix: str
    """What to do about it."""


CATALOGUE: dict[str, Finding] = {
    finding.id: finding
    for finding in (
        Finding(
            id="argument.too-small",
            title="A count is below the smallest that makes sense",
            text="{name}={value!r} is too small: {meaning}, so the smallest is {least}.",
            fix="Pass {least} or more, or leave {name} out and autoloader chooses.",
        ),
        Finding(
            id="argument.not-a-count",
            title="A count is not a whole number",
            text="{name}={value!r} is not a whole number: {meaning}.",
            fix="Pass an int of {least} or more, or leave {name} out and autoloader chooses.",
        ),
        Finding(
            id="argument.not-in-plan",
            title="A plan is asked about an argument that it does not decide",
            text="name={value!r} is not in this plan: it decides {known}.",
            fix="Ask for one of these.",
        ),
        Finding(
            id="plan.not-a-plan",
            title="plan= is neither a plan nor the path of one",
            text="plan={value!r} is not a plan: it is of type {type}.",
            fix="Pass a Plan, or the path of a file that Plan.save wrote.",
        ),
        Finding(
            id="plan.unreadable",
            title="A plan file cannot be opened",
            text="plan={path!r} cannot be read: {reason}.",
            fix="Check the path, or write the file with Plan.save.",
        ),
        Finding(
            id="plan.malformed",
            title="A plan file does not hold a plan",
            text="plan={path!r} is not a plan: {reason}.",
            fix="Write it again with Plan.save, or leave plan= out.",
        ),
        Finding(
            id="plan.other-schema",
            title="A plan file has a layout that this version does not read",
            text="plan={path!r} has another layout: its schema is {schema!r}, and this version reads {known}.",
            fix="Write it again with Plan.save, or leave plan= out.",
        ),
        Finding(
            id="loader.closed",
            title="An iterator is used after its loader was closed",
            text="This iterator cannot give another batch: its loader was closed (batches served: {served}).",
            fix="Iterate over the loader again, which starts new workers, or close it later.",
        ),
        Finding(
            id="target.malformed",
            title="TARGET does not name a factory",
            text="TARGET={target!r} does not name a factory: a module or file, a ':' and a name are needed.",
            fix="Write module:factory or file.py:factory.",
        ),
        Finding(
            id="target.not-found",
            title="TARGET leads nowhere",
            text="TARGET={target!r} does not exist: {reason}.",
            fix="Write module:factory or file.py:factory, with a path from the current folder.",
        ),
        Finding(
            id="target.failed",
            title="TARGET's own code raised an error",
            text="TARGET={target!r} failed: it raised {error}.",
            fix="Name a function or class that needs no arguments; add --debug to see where it fails.",
        ),
        Finding(
            id="target.not-a-dataset",
            title="TARGET gives something that is no dataset",
            text="TARGET={target!r} gave no dataset: it is {what}.",
            fix="Return the dataset itself, an object with __getitem__ and __len__ or an IterableDataset.",
        ),
        Finding(
            id="torch.missing",
            title="torch cannot be imported",
            text="{what} needs torch, and torch cannot be imported: {reason}.",
            fix="Install it with 'pip install torch', in the environment of {python}.",
        ),
        Finding(
            id="demo.missing",
            title="A package that only the demo uses is missing",
            text="The demo needs {package}, which cannot be imported.",
            fix="Install it with 'pip install torch-autoloader[demo]', in the environment of {python}.",
        ),
        Finding(
            id="host.shared-memory-small",
            title="Shared memory is too small for worker processes",
            text="Shared memory is small: {path} has {free} free, and batches travel through it.",
            fix="Start the container with --shm-size=1g (Kubernetes: an emptyDir with medium: Memory at /dev/shm).",
        ),
        Finding(
            id="host.shared-memory-read-only",
            title="Worker processes cannot write to shared memory",
            text="Shared memory cannot be used: this process may not write to {path}, through which batches travel.",
            fix="Mount a writable tmpfs there (Docker: --tmpfs /dev/shm:size=1g).",
        ),
        Finding(
            id="host.open-files-low",
            title="Few files may be open",
            text="Few files may be open: the limit is {limit}, and each worker and each prefetched batch needs some.",
            fix="Raise it before training with 'ulimit -n 8192' (Docker: --ulimit nofile=8192).",
        ),
        Finding(
            id="host.cpu-quota",
            title="A quota grants fewer CPUs than the host shows",
            text="A quota grants {quota} CPUs of the {logical} that the host shows.",
            fix="Start the container with more --cpus (Kubernetes: a higher cpu limit) if loading is too slow.",
        ),
        Finding(
            id="dataset.iterable-not-sharded",
            title="An iterable-style dataset would be repeated by each worker",
            text="Each worker would yield the whole dataset: its __iter__ does not look at get_worker_info().",
            fix="Yield each worker its share (torch.utils.data.get_worker_info()), or set num_workers yourself.",
        ),
        Finding(
            id="dataset.iterable-repeated",
            title="Each worker yields the whole of an iterable-style dataset",
            text="Each of {workers} workers yields the whole dataset: its __iter__ does not look at get_worker_info().",
            fix="Yield each worker its share (torch.utils.data.get_worker_info()), or pass num_workers=0.",
        ),
        Finding(
            id="dataset.open-handle",
            title="The dataset holds an open file",
            text="dataset.{name} is open: forked workers would share its position and read each other's data.",
            fix="Open it in __getitem__, when it is first needed, so that each worker has its own.",
        ),
        Finding(
            id="dataset.empty",
            title="The dataset has no batches",
            text="The dataset gives no batches: its length, or that of its sampler, is 0.",
            fix="Check the path or pattern that it reads.",
        ),
        Finding(
            id="dataset.not-one",
            title="What was given as dataset is none",
            text="dataset={value} is not a dataset: it is {what}.",
            fix="Pass the dataset itself, an object with __getitem__ and __len__ or an IterableDataset.",
        ),
        Finding(
            id="process.reimports-main",
            title="Workers would import the main module again",
            text="Workers started by {method} would import {main} again, so batches load in the training process.",
            fix="Pass multiprocessing_context='fork' where that is safe.",
        ),
        Finding(
            id="process.workers-not-started",
            title="The user's workers cannot start in this process",
            text="{rule}: num_workers={workers} starts no process here, because {because}; batches load inline.",
            fix="Pass num_workers=0 if that is fine, which also silences this warning.",
        ),
        Finding(
            id="storage.network",
            title="The data lies across a network",
            text="{path} lies on {filesystem}: each read waits for the network.",
            fix="Copy the data to a local disk if it fits.",
        ),
        Finding(
            id="storage.hdd",
            title="The data lies on a spinning disk",
            text="{path} lies on a spinning disk, which slows down when many workers read at once.",
            fix="Pack small files into few large ones, or copy the data to an SSD.",
        ),
    )
}
"""
Every finding by its id.
"""


def describe(finding_id: str, **evidence: object) -> str:
    """
    Return the text and the fix of a finding, filled with *evidence*.
    """
    finding = CATALOGUE[finding_id]
    return f"{finding.text} {finding.fix}".format(**evidence)
