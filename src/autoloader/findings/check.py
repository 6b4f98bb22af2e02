"""
What the source check finds in a script.
"""

from .finding import Finding

FINDINGS = (
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
        fix=(
            "Define it at the top of a module, or, but not on Windows, pass multiprocessing_context='fork' where that "
            "is safe."
        ),
    ),
    Finding(
        id="check.pinned-blocking",
        title="A pinned batch is copied to the device while the script waits",
        text="{code!r} waits until the batch is copied: it lies in pinned memory, and only non_blocking=True makes "
        "use of that.",
        fix="Pass non_blocking=True, or leave pin_memory out.",
    ),
)
"""
The findings of this area, in the order of the docs.
"""
