"""
What can be wrong with what a caller passes: arguments, plans, a loader's state, recorded hosts, and TARGET.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="argument.too-small",
        title="A count is below the smallest that makes sense",
        text="{name}={value!r} is too small: {meaning}, and the smallest is {least}.",
        fix="Pass {least} or more, or leave {name} out.",
    ),
    Finding(
        id="argument.not-a-count",
        title="A count is not a whole number",
        text="{name}={value!r} is not a whole number: {meaning}.",
        fix="Pass an int of {least} or more, or leave {name} out.",
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
        id="argument.not-a-folder",
        title="A place whose storage is to be shown is no folder's path",
        text="--path={path!r} cannot be looked at: {reason}.",
        fix="Write the path of a folder here: for data in an object store, of where it is mounted or copied to.",
    ),
    Finding(
        id="argument.measure-where",
        title="--measure is given without a place",
        text="--measure cannot be done: it reads files for some seconds, and nothing says which.",
        fix="Add --path DIR, the folder where the data is.",
    ),
    Finding(
        id="argument.measure-replayed",
        title="--measure is given for a host that is replayed",
        text="--measure cannot be done with --replay={path!r}: what that host answered was recorded before.",
        fix="Leave --measure out: what was measured when it was recorded is shown.",
    ),
    Finding(
        id="argument.not-in-dataset",
        title="broadcast() is given a name that the dataset does not have",
        text=(
            "{name}=... cannot be set: neither the dataset, a {kind}, nor one that it wraps has an attribute {name!r}."
        ),
        fix="Check the name, or give the attribute a first value in the dataset's __init__.",
    ),
    Finding(
        id="state.malformed",
        title="load_state_dict() is given something else than a loader's state",
        text="This is no state of a loader: what state_dict() returns is a dictionary with schema {known}.",
        fix="Pass what state_dict() of an AutoLoader returned, in this version of autoloader.",
    ),
    Finding(
        id="state.other-loader",
        title="The state is of a loader with another number of batches",
        text=(
            "The state cannot be continued here: it was saved after {served} of {theirs} batches, and an epoch of this "
            "loader has {ours}."
        ),
        fix=(
            "Make the loader with the same dataset, batch_size, drop_last, shuffle, sampler, seed and number of ranks, "
            "or begin a new epoch."
        ),
    ),
    Finding(
        id="state.other-order",
        title="The state is of a loader whose samples come in another order",
        text=(
            "The state cannot be continued here: the order of the samples is another one, so that after {served} "
            "batches samples would be lost, and others come twice."
        ),
        fix="Make the loader with the same dataset, shuffle, sampler, generator and seed, or begin a new epoch.",
    ),
    Finding(
        id="state.switched-off",
        title="A place within an epoch is saved or loaded while autoloader is switched off",
        text="state.switched-off: AUTOLOADER_OFF is set, and torch's DataLoader knows no place within an epoch.",
        fix=(
            "Save and load with autoloader on. To silence this: "
            "warnings.filterwarnings('ignore', 'state.switched-off')."
        ),
    ),
    Finding(
        id="argument.distributed-sampler",
        title="distributed=True is given together with a sampler",
        text="distributed=True cannot share the samples of a {kind}: it makes a sampler of its own.",
        fix="Leave your sampler out, or leave distributed out and let your sampler give each rank its share.",
    ),
    Finding(
        id="argument.distributed-stream",
        title="distributed=True is given with an iterable-style dataset",
        text="distributed=True cannot share what a {kind} yields: an iterable-style dataset has no indices.",
        fix="Leave distributed out, and let __iter__ yield each rank its share (torch.distributed.get_rank()).",
    ),
    Finding(
        id="argument.no-process-group",
        title="distributed=True is given before there is a process group",
        text="distributed=True cannot share samples among {ranks} ranks yet: there is no process group.",
        fix="Call torch.distributed.init_process_group() before you make the loader.",
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
        id="record.unreadable",
        title="A recorded host cannot be read",
        text="{path!r} cannot be replayed: {reason}.",
        fix="Check the path, or record the host again: python -m autoloader probe --record FILE.",
    ),
    Finding(
        id="record.unwritable",
        title="A host cannot be recorded where it is to be",
        text="{path!r} cannot be written: {reason}.",
        fix="{advice}.",
    ),
    Finding(
        id="loader.closed",
        title="An iterator is used after its loader was closed",
        text="This iterator cannot give another batch: its loader was closed (batches served: {served}).",
        fix="Iterate over the loader again, which starts new workers, or close it later.",
    ),
    Finding(
        id="loader.interrupted",
        title="A batch was lost in an interrupt",
        text="This iterator cannot give another batch: an interrupt came just while one was taken, which is lost.",
        fix="Iterate over the loader again, or resume with its state_dict(), by which that batch was not served.",
    ),
    Finding(
        id="loader.inherited",
        title="An iterator is used in a process that was forked after it",
        text="This iterator cannot give another batch: its workers belong to the process that this one is forked from.",
        fix="Iterate over the loader again, which starts workers of this process.",
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
        fix="Mend that, --debug shows where; TARGET is called without arguments, or is the dataset itself.",
    ),
    Finding(
        id="target.not-a-dataset",
        title="TARGET gives something that is no dataset",
        text="TARGET={target!r} gave no dataset: it is {what}.",
        fix="Return the dataset itself, an object with __getitem__ and __len__ or an IterableDataset.",
    ),
)
"""
The findings of this area, in the order of the docs.
"""
