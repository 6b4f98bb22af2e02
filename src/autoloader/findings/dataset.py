"""
What can be wrong with a dataset.
"""

from .finding import Finding

FINDINGS = (
    Finding(
        id="dataset.iterable-not-sharded",
        title="An iterable-style dataset would be repeated by each worker",
        text="No workers load it, because each would yield the whole dataset: its code does not name get_worker_info.",
        fix=(
            "Yield each worker its share (torch.utils.data.get_worker_info()). Set num_workers yourself only if the "
            "samples are shared out elsewhere, in worker_init_fn for one: otherwise they repeat."
        ),
    ),
    Finding(
        id="dataset.iterable-repeated",
        title="Each worker yields the whole of an iterable-style dataset",
        text="Each of {workers} workers yields the whole dataset: its code does not name get_worker_info.",
        fix=(
            "Yield each worker its share (torch.utils.data.get_worker_info()), or pass num_workers=0. All is well if "
            "the samples are shared out elsewhere, in worker_init_fn for one."
        ),
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
        text="An epoch has no batches: the dataset or its sampler is empty, or drop_last drops the only batch.",
        fix="Check the path or pattern that it reads, and batch_size.",
    ),
    Finding(
        id="dataset.not-one",
        title="What was given as dataset is none",
        text="dataset={value} is not a dataset: it is {what}.",
        fix="Pass the dataset itself, an object with __getitem__ and __len__ or an IterableDataset.",
    ),
    Finding(
        id="dataset.nothing-to-shuffle",
        title="An empty dataset is to be shuffled",
        text="The dataset, a {kind}, has no samples to shuffle: its length is 0.",
        fix="Check the path or pattern that it reads.",
    ),
    Finding(
        id="sampler.not-sharded",
        title="Each rank loads all samples",
        text="Each of {ranks} ranks loads all samples: the sampler does not know of ranks.",
        fix="Pass distributed=True, or a DistributedSampler, if each rank is to train on a share of the dataset.",
    ),
    Finding(
        id="dataset.iterable-in-ranks",
        title="An iterable-style dataset is loaded in several ranks",
        text="Each of {ranks} ranks yields the whole dataset, unless its code looks which rank it is in.",
        fix="Yield each rank its share (torch.distributed.get_rank()), and in that each worker its own.",
    ),
    Finding(
        id="sampler.epoch-not-set",
        title="A distributed sampler gives the same order in every epoch",
        text=(
            "sampler.epoch-not-set: the sampler shuffles by the number of the epoch, which nobody has set since the "
            "last one: this epoch has the same order."
        ),
        fix=(
            "Call loader.set_epoch(epoch) before each epoch, on all ranks. To silence this: "
            "warnings.filterwarnings('ignore', 'sampler.epoch-not-set')."
        ),
    ),
    Finding(
        id="resume.fast-forward",
        title="An epoch is continued with a sampler that is not torch's own",
        text=(
            "resume.fast-forward: {served} batches of indices are skipped, as {sampler} cannot be set to the middle of "
            "an epoch; that is the right place if its order depends on its epoch, its attribute 'generator', or what "
            "it draws from global generators before the first batch."
        ),
        fix=(
            "Check the first batches after a resume, or use one of torch's samplers. To silence this: "
            "warnings.filterwarnings('ignore', 'resume.fast-forward')."
        ),
    ),
    Finding(
        id="resume.stream-restarts",
        title="An iterable-style dataset cannot be continued in the middle of an epoch",
        text=(
            "resume.stream-restarts: the epoch begins anew, although {served} of its batches were served, as {kind} "
            "{because}."
        ),
        fix=(
            "Give the dataset state_dict() and load_state_dict(state), and resume with the same num_workers. To "
            "silence this: warnings.filterwarnings('ignore', 'resume.stream-restarts')."
        ),
    ),
)
"""
The findings of this area, in the order of the docs.
"""
