"""
Chooses how many worker processes a loader starts.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any, NamedTuple

from ..facts import HostFacts
from ..plan import Choice, Limit, LoaderRequest, smallest
from ..records import number_text, seconds_text
from ..traits import DatasetTraits, Profile
from .backend import find_obstacle, find_obstacle_to
from .fixed import fixed_choice, needs_workers
from .limits import bytes_of_batch, cpu_budget, cpus_of_rank, cpus_text, measured_bytes, worker_limits
from .model import Outlook, fewest_workers
from .multiprocessing_context import fork_seconds, method_name
from .prefetch_factor import batches_ahead, crosses_network, lies_on_hdd

BATCHES_TO_A_LAST_ONE = 5
BATCHES_TO_A_DROPPED_ONE = 20
"""
Of the batches of an iterable-style dataset no more than one in so many is a worker's last one, which is not full; it
costs more where it is dropped with its samples.
"""

FEW_ITERATIONS = 10
"""
Fewer batches than this in all are over before a second worker would have started.
"""

MOST_UNMEASURED = 16
"""
Readers that keep an NVMe drive busy; on a faster medium nothing but a measurement says that more would help.
"""

SMALL_SAMPLE_BYTES = 3 * 96 * 96
"""
Between an image of 32x32 and one of 256x256, at one byte a channel: the geometric middle.
"""

LARGE_SAMPLE_BYTES = 3 * 512 * 512
"""
Between an image of 256x256 and one of 1024x1024, likewise.
"""


MOST_MEASURED = 256
"""
Workers of one rank that the model is asked about where nothing else sets a limit.
"""


MOST_ON_WINDOWS = 60
"""
Windows waits for at most 63 processes at a time, and what waits for ours may wait for others, too. Source: CPython,
``WaitForMultipleObjects`` in Modules/_winapi.c; concurrent.futures starts no more than 61 there.
"""

MEASURED = frozenset({"num_workers.measured", "num_workers.calibrated", "num_workers.inline-is-faster"})
"""
Rules that rest on a measurement, for which samples were loaded with torch at one thread.
"""


class Measured(NamedTuple):
    """
    What batches took, and what is left to load.
    """

    profile: Profile
    outlook: Outlook
    best: int | None = None
    """The number of workers that real trials found best; ``None`` to leave it to the model."""
    trials: str = ""
    """What they saw, in a clause."""


def choose_num_workers(
    facts: HostFacts,
    traits: DatasetTraits,
    request: LoaderRequest,
    context: Any,
    measured: Measured | None = None,
) -> Choice[int]:
    """
    Choose how many worker processes this rank starts.

    The user's value stands. Otherwise some datasets and processes must or should do without workers; for all others
    the answer is the smallest of a prior (the CPUs of this rank by what a sample looks like and where it lies) and
    of what memory, shared memory, open files, processes, shards and the batches of an epoch allow. Once batches were
    measured, a model takes the place of the prior.

    Args:
        facts: The host. Unknown facts set no limit.
        traits: The dataset.
        request: What the caller fixed.
        context: The start method chosen.
        measured: What the first batches took; ``None`` before.

    Returns:
        The number of workers (0 loads in the training process) and the rule that bound it.
    """
    fixed = fixed_choice("num_workers", request)
    if fixed is not None:
        return fixed
    choice = _without_workers(facts, traits, context)
    if choice is None and measured is not None:
        choice = _by_model(facts, traits, request, context, measured)
    choice = choice or _by_limits(facts, traits, request, context)
    needed_by = needs_workers(request)
    if choice.value == 0 and needed_by:
        because = f"you set {' and '.join(needed_by)}, which torch accepts with workers only"
        return Choice(value=1, rule="num_workers.needed", because=because)
    return choice


def _without_workers(facts: HostFacts, traits: DatasetTraits, context: Any) -> Choice[int] | None:
    """
    Return 0 where workers would repeat data, have nothing to gain or cannot start.
    """
    if traits.batches_per_epoch == 0:
        return _none("no-batches", "the dataset has no batches")
    if traits.is_in_memory:
        return _none("in-memory", "samples are slices of what is in memory already")
    if repeats_in_workers(traits):
        return _none("iterable-not-sharded", "each worker would yield the whole dataset again")
    found = find_obstacle(facts) or find_obstacle_to(method_name(context), facts)
    if found is not None:
        return _none(found.rule, found.because)
    if traits.open_handle is not None:
        because = f"dataset.{traits.open_handle} is open, and forked workers would share its position"
        return _none("open-handle", because)
    if traits.reads_open_file:
        because = (
            "samples are read from a file that was open before the first one, and workers would share its position"
        )
        return _none("reads-open-file", because)
    return None


def repeats_in_workers(traits: DatasetTraits) -> bool:
    """
    Return whether each worker would yield the whole of an iterable-style dataset.
    """
    return traits.style == "iterable" and not traits.is_worker_aware and traits.num_shards is None


def _none(rule: str, because: str) -> Choice[int]:
    return Choice(value=0, rule=f"num_workers.{rule}", because=because)


def _by_limits(facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, context: Any) -> Choice[int]:
    usual, least = batches_ahead(facts, traits, request)
    limits = [
        _prior(facts, traits),
        *_dataset_limits(traits, request),
        *_storage_limits(facts, traits),
        *worker_limits(facts, bytes_of_batch(traits, request), usual, least, method_name(context) == "fork"),
    ]
    binding, others = smallest(limits)
    return Choice(value=int(binding.value), rule=binding.rule, because=binding.because, limits=others)


def can_be_measured(facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, context: Any) -> bool:
    """
    Return whether a measurement could change the number of workers: it is not the user's, and no rule alone decides it.
    """
    return "num_workers" not in request.fixed and _without_workers(facts, traits, context) is None


def _by_model(
    facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, context: Any, measured: Measured
) -> Choice[int]:
    """
    Choose by what was measured, within the limits; a limit that keeps the model from a larger number names itself.
    """
    profile, outlook = measured.profile, measured.outlook
    if profile.transfer_seconds is None:
        return _none("cannot-send", "a batch holds something that cannot be pickled, so no worker could send it")
    fork = fork_seconds(facts, context)
    limits = _measured_limits(facts, traits, request, context, profile, outlook.batches)
    binding, others = smallest(limits)
    if binding.value < 1:
        return Choice(value=0, rule=binding.rule, because=binding.because, limits=others)
    cpus = cpus_of_rank(facts)

    # What a stream opens and where it stands would stay in this process, for workers that start later.
    least = int(request.has_worker_init or traits.style == "iterable")

    def best(most: float) -> int:
        return fewest_workers(profile, range(least, int(most) + 1), cpus, outlook, fork_seconds=fork)

    if measured.best is not None and least <= measured.best <= binding.value:
        rule = "num_workers.calibrated"
        return Choice(value=measured.best, rule=rule, because=measured.trials, limits=(binding, *others))
    workers = best(min(binding.value, _most(facts)))
    if not workers:
        return Choice(
            value=0, rule="num_workers.inline-is-faster", because=_inline_because(profile), limits=tuple(limits)
        )
    wanted = best(_most(facts))
    if workers == binding.value < wanted:
        because = f"{binding.because}; by what was measured, {wanted} would be faster"
        return Choice(value=workers, rule=binding.rule, because=because, limits=others)
    because = f"{_measured_text(profile)}: more than {workers} would not be faster by 3 %"
    return Choice(value=workers, rule="num_workers.measured", because=because, limits=(binding, *others))


def most_measured(
    facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, context: Any, profile: Profile
) -> int:
    """
    Return the most workers that all limits allow of a dataset whose batches are known.
    """
    limits = _measured_limits(facts, traits, request, context, profile, traits.batches_per_epoch)
    return int(min(_most(facts), *(limit.value for limit in limits)))


def _most(facts: HostFacts) -> int:
    return MOST_ON_WINDOWS if facts.system.platform == "windows" else MOST_MEASURED


def _measured_limits(
    facts: HostFacts,
    traits: DatasetTraits,
    request: LoaderRequest,
    context: Any,
    profile: Profile,
    batches: int | None,
) -> list[Limit]:
    _, least = batches_ahead(facts, traits, request)
    usual, _ = batches_ahead(facts, traits, request, profile)
    size = measured_bytes(facts, traits, profile)
    budgets = worker_limits(facts, size, usual, least, method_name(context) == "fork")
    return [*_model_limits(facts, traits, request, profile, batches), *budgets]


def _model_limits(
    facts: HostFacts, traits: DatasetTraits, request: LoaderRequest, profile: Profile, batches: int | None
) -> Iterator[Limit]:
    """
    Yield the limits on what the model chooses that no budget sets.
    """
    if profile.step_seconds is None and not trains_on_accelerator(facts):
        yield _no_accelerator(facts)
    if traits.style == "iterable" and batches is None:
        yield _prior(facts, traits)  # nobody knows how many workers would have a whole batch
    yield from _shards_limit(traits, request, batches)
    if lies_on_hdd(facts, traits):
        yield _limit("storage-hdd", 2, f"{traits.path} lies on a spinning disk")


def _measured_text(profile: Profile) -> str:
    load, cpu = profile.batch_seconds, profile.batch_cpu_seconds
    text = f"a batch takes {seconds_text(load)} to load ({seconds_text(min(cpu, load))} of it CPU)"
    return text if not profile.step_seconds else f"{text}, and {seconds_text(profile.step_seconds)} to train on"


def _inline_because(profile: Profile) -> str:
    transfer = profile.transfer_seconds or 0.0
    if profile.batch_seconds <= transfer:
        return f"{_measured_text(profile)}, and {seconds_text(transfer)} to come from a worker"
    return f"{_measured_text(profile)}: workers would not make up for their start"


def _prior(facts: HostFacts, traits: DatasetTraits) -> Limit:
    """
    Return the number to start from: so many workers a CPU, and never more than two a CPU.
    """
    cpus, budget = cpus_of_rank(facts), cpu_budget(facts)
    if crosses_network(facts, traits):
        because = f"the data lies across a network, {cpus_text(facts)}"
        return _limit("network-latency", max(1, int(2 * cpus)), because)
    if not trains_on_accelerator(facts):
        return _no_accelerator(facts)
    factor, rule = _workers_per_cpu(traits)
    if rule is None:
        return Limit(rule=budget.rule, value=int(budget.value), because=budget.because)
    workers = max(1, int(min(factor * budget.value, 2 * cpus)))
    return _limit(rule, workers, f"{number_text(factor)} workers a CPU, {budget.because}")


def _no_accelerator(facts: HostFacts) -> Limit:
    because = f"a quarter, at least 1, as training without an accelerator needs the CPU: {cpus_text(facts)}"
    return _limit("no-accelerator", max(1, int(cpus_of_rank(facts) / 4)), because)


def trains_on_accelerator(facts: HostFacts) -> bool:
    """
    Return whether there is an accelerator that this torch can use; torch for macOS has MPS in every build.

    A kind whose devices cannot be counted, as under WSL, counts as there.
    """
    device = facts.accelerator
    is_usable = device.kind == "mps" or facts.process.is_torch_built_for_accelerator is not False
    return device.kind is not None and device.devices != 0 and is_usable


def _workers_per_cpu(traits: DatasetTraits) -> tuple[float, str | None]:
    """
    Return the factor for what a sample looks like, and its rule; none where the CPUs themselves bind.
    """
    if traits.sample_kind == "text":
        return 2.0, "text"
    if traits.sample_bytes is not None and traits.sample_bytes < SMALL_SAMPLE_BYTES:
        return 1.5, "small-samples"
    if traits.sample_bytes is not None and traits.sample_bytes > LARGE_SAMPLE_BYTES:
        return 0.5, "large-samples"
    return 1.0, None


def _dataset_limits(traits: DatasetTraits, request: LoaderRequest) -> Iterator[Limit]:
    batches, epochs = traits.batches_per_epoch, request.epochs
    if batches is not None:
        yield _limit("batches-per-epoch", ceil(batches / 2), f"half of {batches} batches an epoch")
    if batches is not None and epochs is not None and batches * epochs < FEW_ITERATIONS:
        yield _limit("few-iterations", 1, f"{batches * epochs} batches in all")
    yield from _shards_limit(traits, request, batches)


def _shards_limit(traits: DatasetTraits, request: LoaderRequest, batches: int | None) -> Iterator[Limit]:
    if traits.num_shards is not None:
        yield _limit("shards", traits.num_shards, f"{traits.num_shards} shards")
    if traits.style == "iterable" and batches is not None:
        fewest = BATCHES_TO_A_DROPPED_ONE if request.drop_last else BATCHES_TO_A_LAST_ONE
        what = "drops" if request.drop_last else "ends with"
        because = f"each {what} a batch of its own that is not full, and an epoch has {batches}"
        yield _limit("last-batches", max(1, batches // fewest), because)


def _storage_limits(facts: HostFacts, traits: DatasetTraits) -> Iterator[Limit]:
    if crosses_network(facts, traits):
        yield _limit("unmeasured", 2 * MOST_UNMEASURED, "nothing was measured, and the data lies across a network")
    else:
        yield _limit("unmeasured", MOST_UNMEASURED, "nothing was measured")
        if lies_on_hdd(facts, traits):
            yield _limit("storage-hdd", 2, f"{traits.path} lies on a spinning disk")


def _limit(rule: str, value: float, because: str) -> Limit:
    return Limit(rule=f"num_workers.{rule}", value=value, because=because)
