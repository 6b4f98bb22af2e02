"""
What keeps worker processes from starting, or makes it unwise.
"""

from .finding import Finding

FINDINGS = (
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
        fix="Write it like this:\n\n{fix}\n\nThen only this process runs it.",
    ),
    Finding(
        id="process.importing-main",
        title="A worker that is starting iterates over a loader",
        text=(
            "This process is a worker that is importing {file}, whose line {line}, {code!r}, iterates over a "
            "loader again."
        ),
        fix="Write it like this:\n\n{fix}\n\nThen only this process runs it.",
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
        fix="Usually memory, processes (ulimit -u) or open files (ulimit -n) are short. Or pass num_workers=0.",
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
            "{rule}: workers start by {method}, because {because}; "
            "they import your modules anew, so that global variables, the environment and torch's defaults are "
            "not as you set them at run time."
        ),
        fix=(
            "Pass multiprocessing_context='{method}' if that is fine, or 'fork' if fork is safe here after all. "
            "To silence this: warnings.filterwarnings('ignore', '{rule}')."
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
)
"""
The findings of this area, in the order of the docs.
"""
