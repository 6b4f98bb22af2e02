"""
Chooses whether workers stay alive between epochs.
"""

from ..plan import Choice, LoaderRequest
from ..traits import DatasetTraits
from .fixed import fixed_choice
from .num_workers import FEW_ITERATIONS

NAME = "persistent_workers"


def choose_persistent_workers(traits: DatasetTraits, request: LoaderRequest, num_workers: int) -> Choice[bool]:
    """
    Choose to keep workers wherever more than one epoch is expected, which is so unless *epochs* says otherwise.
    """
    fixed = fixed_choice(NAME, request)
    if fixed is not None:
        return fixed
    if not num_workers:
        return Choice(value=False, rule=f"{NAME}.no-workers", because="there are no workers")
    batches, epochs = traits.batches_per_epoch, request.epochs
    if epochs == 1:
        return Choice(value=False, rule=f"{NAME}.one-epoch", because="you expect one epoch")
    if epochs is not None and batches is not None and batches * epochs < FEW_ITERATIONS:
        return Choice(value=False, rule=f"{NAME}.few-iterations", because=f"{batches * epochs} batches in all")
    expected = "many epochs are expected" if epochs is None else f"you expect {epochs} epochs"
    return Choice(value=True, rule=f"{NAME}.many-epochs", because=expected)


def without_new_streams(persistent: Choice[bool], num_workers: Choice[int]) -> Choice[bool]:
    """
    Return the choice for workers whose random streams cannot be begun anew from outside.

    Where the user set the number of workers, each epoch has the random streams that torch's DataLoader would give
    it. Workers that stay are seeded anew for it, but not behind the back of a ``worker_init_fn``, which may seed by
    itself, and not for iterable-style data, whose requests carry nothing.
    """
    if not persistent.value or persistent.rule == f"{NAME}.fixed" or num_workers.rule != "num_workers.fixed":
        return persistent
    because = "you set num_workers, so each epoch's workers draw what torch's would"
    return Choice(value=False, rule=f"{NAME}.torch-streams", because=because)
