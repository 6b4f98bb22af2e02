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
            id="argument.unknown-word",
            title="An argument is given a word that it does not take",
            text="{name}={value!r} is not known: the argument takes {known}.",
            fix="Pass one of these, or leave {name} out.",
        ),
        Finding(
            id="argument.not-in-plan",
            title="A plan is asked about an argument that it does not decide",
            text="name={value!r} is not in this plan: it decides {known}.",
            fix="Ask for one of these.",
        ),
        Finding(
            id="argument.no-such-path",
            title="A path that is to be checked does not exist",
            text="PATH={path!r} cannot be checked: there is no such file or folder.",
            fix="Write the path of a Python file, or of a folder with Python files.",
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
            id="check.unguarded-iteration",
            title="A script starts workers outside its main guard",
            text="{code!r} starts workers, and no main guard is around it: workers that start by spawn or forkserver "
            "import this file, and would come to this line, too.",
            fix="Put it into a function, and call that under 'if __name__ == \"__main__\":', or pass num_workers=0.",
        ),
        Finding(
            id="check.loader-in-epoch-loop",
            title="A loader is made anew in each epoch",
            text="{code!r} makes the same loader in each round of the loop at line {line}: its workers end with the "
            "round, and the next round waits for new ones.",
            fix="Make it once, before the loop; with persistent_workers=True its workers stay between epochs.",
        ),
        Finding(
            id="check.top-level-side-effect",
            title="Each worker repeats what a script does outside its main guard",
            text="{code!r} {effect} in each worker: workers that start by spawn or forkserver import this file, and "
            "no main guard is around this line.",
            fix="Put it into a function, and call that under 'if __name__ == \"__main__\":'.",
        ),
        Finding(
            id="check.not-importable",
            title="A loader is given something that workers cannot import",
            text="{name!r} does not reach workers that start by spawn or forkserver: they import it by its name, and "
            "{because}.",
            fix="Define it at the top of a module, or pass multiprocessing_context='fork' where that is safe.",
        ),
        Finding(
            id="check.pinned-blocking",
            title="A pinned batch is copied to the device while the script waits",
            text="{code!r} waits until the batch is copied: it lies in pinned memory, and only non_blocking=True makes "
            "use of that.",
            fix="Pass non_blocking=True, or leave pin_memory out.",
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
            id="host.openmp-binding",
            title="OpenMP may have bound this process to few CPUs",
            text="{variable} is set, and this process may use {cpus} CPUs only: all workers would share them.",
            fix="Import autoloader before torch, which shows what OpenMP took away, or set OMP_PROC_BIND=false.",
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
            id="process.nested-worker",
            title="A loader is used inside a worker of another one",
            text="This process is itself a worker of a DataLoader.",
            fix="Load in the training process what the worker loads here, or pass num_workers=0 to the inner loader.",
        ),
        Finding(
            id="process.daemonic",
            title="A loader is used in a daemonic process",
            text="This process is daemonic, and Python lets it have no children.",
            fix=(
                "Iterate in a process that is not daemonic (multiprocessing.Process(daemon=False), "
                "concurrent.futures), or pass num_workers=0."
            ),
        ),
        Finding(
            id="process.shared-memory-read-only",
            title="Worker processes cannot write to shared memory",
            text="This process may not write to {path}, through which batches travel.",
            fix="Mount a writable tmpfs there (Docker: --tmpfs /dev/shm:size=1g), or pass num_workers=0.",
        ),
        Finding(
            id="process.no-semaphores",
            title="This system has no semaphores",
            text="The system grants no semaphore, which every queue between processes needs.",
            fix="Mount a writable tmpfs at /dev/shm, or pass num_workers=0.",
        ),
        Finding(
            id="process.temp-dir-too-long",
            title="The path of the temporary folder is too long for sockets",
            text="The temporary folder {path} is {bytes} bytes long, and sockets between processes fit up to {most}.",
            fix="Set TMPDIR to a shorter path before Python starts (export TMPDIR=/tmp), or pass num_workers=0.",
        ),
        Finding(
            id="process.few-processes",
            title="The limit of processes leaves no room for workers",
            text="num_workers={workers} needs about {needed} processes and threads, and {allowed} more are allowed.",
            fix="Raise the limit (ulimit -u; Docker --pids-limit; Kubernetes podPidsLimit), or pass fewer num_workers.",
        ),
        Finding(
            id="process.not-python",
            title="The program that would be started for a worker is not Python",
            text="{method} would start {program} for each worker, which is not a Python interpreter.",
            fix="Call multiprocessing.set_executable() with the path of one, or pass num_workers=0.",
        ),
        Finding(
            id="process.main-missing",
            title="The main module cannot be imported by a worker",
            text="Each worker that {method} starts would import {main}, which does not exist.",
            fix="Save the code as a file and run that, or pass num_workers=0.",
        ),
        Finding(
            id="process.missing-main-guard",
            title="The script has no main guard where it starts workers",
            text=(
                "Each worker that {method} starts imports {file} again, and line {line} of it, {code!r}, would "
                "start workers there, too."
            ),
            fix="Write it like this:\n\n{fix}\n\nThen it runs in this process only.",
        ),
        Finding(
            id="process.importing-main",
            title="A worker that is starting iterates over a loader",
            text=(
                "This process is a worker that is importing {file}, whose line {line}, {code!r}, iterates over a "
                "loader again."
            ),
            fix="Write it like this:\n\n{fix}\n\nThen it runs in this process only.",
        ),
        Finding(
            id="process.unloadable",
            title="A worker cannot load the dataset",
            text="A worker that {method} starts cannot load {path}: {reason}.",
            fix="{fix}.",
        ),
        Finding(
            id="process.too-large",
            title="Copies of the dataset for all workers do not fit into memory",
            text="Copies of the dataset for {workers} workers would take {copied}, and {free} of memory is free.",
            fix="Keep large data in a file that __getitem__ opens, or pass fewer num_workers.",
        ),
        Finding(
            id="process.start-failed",
            title="A worker process could not be started",
            text="A worker process could not be started: {error}.",
            fix="Mend what it says, free what is short, or pass num_workers=0.",
        ),
        Finding(
            id="process.workers-not-started",
            title="Batches load without worker processes",
            text="{rule}: {what}, because {because}; batches load {where}.",
            fix="{fix} To silence this: warnings.filterwarnings('ignore', '{rule}').",
        ),
        Finding(
            id="process.not-forked",
            title="Workers are not forked where torch would fork them",
            text=(
                "multiprocessing_context.fork-unsafe: workers start by {method}, because {because}; "
                "they import your modules anew, so that global variables, the environment and torch's defaults are "
                "not as you set them at run time."
            ),
            fix=(
                "Pass multiprocessing_context='{method}' if that is fine, or 'fork' if fork is safe here after all. "
                "To silence this: warnings.filterwarnings('ignore', 'multiprocessing_context.fork-unsafe')."
            ),
        ),
        Finding(
            id="process.fork-unsafe",
            title="Workers are forked from a process in which that is not safe",
            text="backend.fork-unsafe: workers are forked, as you set it, but {because}; they may hang.",
            fix=(
                "Leave multiprocessing_context out and autoloader chooses. To silence this: "
                "warnings.filterwarnings('ignore', 'backend.fork-unsafe')."
            ),
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


def describe_parts(finding_id: str, **evidence: object) -> tuple[str, str]:
    """
    Return the text of a finding and its fix one by one, filled with *evidence*.
    """
    finding = CATALOGUE[finding_id]
    return finding.text.format(**evidence), finding.fix.format(**evidence)
