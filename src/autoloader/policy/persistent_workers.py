"""
Chooses whether workers stay alive between epochs.
"""

from ..plan import Choice, LoaderRequest
from ..traits import DatasetTraits
from .fixed import fixed_choice
from .num_workers import FEW_ITERATIONS

NAME = "persistent_workers"


def choose_persistent_workers(traits: DatasetTraits, request: LoaderRequest, num_workers: Choice[int]) -> Choice[bool]:
    """
    Choose to keep workers wherever more than one epoch is expected, which is so unless *epochs* says otherwise.
    """
    fixed = fixed_choice(NAME, request)
    if fixed is not None:
        return fixed
    if not num_workers.value:
        return Choice(value=False, rule=f"{NAME}.no-workers", because="there are no workers")
    if num_workers.rule == "num_workers.fixed":
        return torchs_own()
    batches, epochs = traits.batches_per_epoch, request.epochs
    if epochs == 1:
        return Choice(value=False, rule=f"{NAME}.one-epoch", because="you expect one epoch")
    if epochs is not None and batches is not None and batches * epochs < FEW_ITERATIONS:
        return Choice(value=False, rule=f"{NAME}.few-iterations", because=f"{batches * epochs} batches in all")
    expected = "many epochs are expected" if epochs is None else f"you expect {epochs} epochs"
    return Choice(value=True, rule=f"{NAME}.many-epochs", because=expected)


def torchs_own() -> Choice[bool]:
    """
    Return torch's default, for a number of workers that the user set.

    Each epoch has then what torch's DataLoader would give it: workers with new random streams, and with a new copy of
    the dataset and of whatever it holds or counts.
    """
    because = "you set num_workers, and torch starts new workers for each epoch"
    return Choice(value=False, rule=f"{NAME}.torchs-own", because=because)
