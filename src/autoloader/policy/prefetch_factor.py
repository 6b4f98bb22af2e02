"""
Chooses how many batches each worker prepares ahead.
"""

from ..facts import HostFacts
from ..plan import Choice, LoaderRequest
from ..traits import DatasetTraits
from .fixed import fixed_choice

UNMEASURED = 2
LATENCY = 4


def choose_prefetch_factor(
    facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, num_workers: int
) -> Choice[int | None]:
    """
    Choose torch's own default of 2, and 4 where batches cross a network; ``None`` without workers.
    """
    fixed = fixed_choice("prefetch_factor", request)
    if fixed is not None:
        return fixed
    if not num_workers:
        return Choice(value=None, rule="prefetch_factor.no-workers", because="nothing is prefetched without workers")
    if crosses_network(facts, traits):
        because = "batches that cross a network arrive unevenly"
        return Choice(value=LATENCY, rule="prefetch_factor.latency", because=because)
    return Choice(value=UNMEASURED, rule="prefetch_factor.default", because="torch's default, nothing was measured")


def batches_ahead(facts: HostFacts, traits: DatasetTraits, request: LoaderRequest) -> int:
    """
    Return the batches in flight for each worker that budgets must count with.
    """
    return choose_prefetch_factor(facts, traits, request, num_workers=1).value or UNMEASURED


def crosses_network(facts: HostFacts, traits: DatasetTraits) -> bool:
    """
    Return whether samples come over a network; the storage that was probed says so only of a path that is known.
    """
    return traits.is_remote or (traits.path is not None and facts.storage.kind == "network")
