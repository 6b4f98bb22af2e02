"""
Chooses how many batches each worker prepares ahead.
"""

from ..facts import HostFacts
from ..plan import Choice, Limit, LoaderRequest, smallest
from ..traits import DatasetTraits, Profile
from .fixed import fixed_choice
from .limits import bytes_of_batch, measured_bytes, prefetch_limits
from .model import is_uneven

UNMEASURED = 2
"""
torch's own default, as long as nothing was measured.
"""

LATENCY = 4
"""
For reads that take unevenly long, so that one slow batch does not stop all others (DALI issue 1524, pytorch issue
158218).
"""


def choose_prefetch_factor(
    facts: HostFacts,
    traits: DatasetTraits,
    request: LoaderRequest,
    num_workers: int,
    profile: Profile | None = None,
) -> Choice[int | None]:
    """
    Choose torch's own default of 2, and 4 where batches take unevenly long; ``None`` without workers.

    Where half of the free shared memory or the open files do not hold so many batches, it is less, but at least 1.
    """
    fixed = fixed_choice("prefetch_factor", request)
    if fixed is not None:
        return fixed
    if not num_workers:
        return Choice(value=None, rule="prefetch_factor.no-workers", because="nothing is prefetched without workers")
    size = bytes_of_batch(traits, request) if profile is None else measured_bytes(facts, traits, profile)
    limits = (_wanted(facts, traits, profile), *prefetch_limits(facts, size, num_workers))
    binding, others = smallest(limits)
    return Choice(value=max(1, int(binding.value)), rule=binding.rule, because=binding.because, limits=others)


def _wanted(facts: HostFacts, traits: DatasetTraits, profile: Profile | None) -> Limit:
    if crosses_network(facts, traits):
        because = "batches that cross a network arrive unevenly"
        return Limit(rule="prefetch_factor.latency", value=LATENCY, because=because)
    if lies_on_hdd(facts, traits):
        because = "reads from a spinning disk take unevenly long"
        return Limit(rule="prefetch_factor.latency", value=LATENCY, because=because)
    if profile is None:
        because = "torch's default, nothing was measured"
    elif is_uneven(profile):
        because = "some batches take much longer than others"
        return Limit(rule="prefetch_factor.uneven", value=LATENCY, because=because)
    else:
        because = "torch's default, batches take about equally long"
    return Limit(rule="prefetch_factor.default", value=UNMEASURED, because=because)


def batches_ahead(
    facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, profile: Profile | None = None
) -> tuple[int, int]:
    """
    Return the batches in flight for each worker that budgets must count with: usually, and where room is short.
    """
    fixed = request.fixed.get("prefetch_factor")
    return (fixed, fixed) if fixed else (int(_wanted(facts, traits, profile).value), 1)


def crosses_network(facts: HostFacts, traits: DatasetTraits) -> bool:
    """
    Return whether samples come over a network; the storage that was probed says so only of a path that is known.
    """
    return traits.is_remote or (traits.path is not None and facts.storage.kind == "network")


def lies_on_hdd(facts: HostFacts, traits: DatasetTraits) -> bool:
    """
    Return whether samples lie on a spinning disk of this host.
    """
    return traits.path is not None and not traits.is_remote and facts.storage.kind in {"hdd", "optical"}
