"""
What holds for every plan, whatever the host, the dataset and the request.

The budgets, and what speaks against fork and against workers, are worked out here once more, from
docs/explanation/choosing.md and in other words: nothing is imported from the modules of ``autoloader.policy``.
"""

import inspect
import multiprocessing
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoloader.facts import (
    AcceleratorFacts,
    CpuFacts,
    HostFacts,
    JobFacts,
    LimitFacts,
    MemoryFacts,
    ProcessFacts,
    SharedMemoryFacts,
    StartMethodFacts,
    StorageFacts,
    SystemFacts,
)
from autoloader.plan import LoaderRequest, Plan
from autoloader.policy import RULES, find_obstacle, recommend, start_candidates, with_own_persistence
from autoloader.traits import DatasetTraits
from policy.baseline import GIB, MIB, NO_LIMIT, bound_cpu

METHODS = multiprocessing.get_all_start_methods()
PROPERTY = settings(max_examples=300, deadline=None)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """
    Return a strategy that also gives ``None``, for what is unknown.
    """
    return st.none() | strategy


def records(record_class: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """
    Return a strategy for facts with these fields; ``st.builds`` would make up all the others of a named tuple.
    """
    return st.fixed_dictionaries(fields).map(lambda values: record_class(**values))


COUNTS = st.integers(1, 300)
TRUTHS = st.none() | st.booleans()
SELDOM = st.sampled_from([None, False, False, False, True])
USUALLY = st.sampled_from([None, True, True, True, False])
SIZES = st.integers(0, 4096).map(lambda size: size * MIB)
LIMITS = st.just(NO_LIMIT) | st.integers(0, 5000).map(float)
MASKS = st.integers(1, 256).map(lambda count: tuple(range(count)))

CPUS = records(
    CpuFacts,
    logical=maybe(COUNTS),
    affinity=maybe(MASKS),
    launcher_affinity=maybe(MASKS),
    cpuset=maybe(MASKS),
    quota_cpus=maybe(st.just(NO_LIMIT) | st.floats(0.01, 300)),
    scheduler_cpus=maybe(COUNTS.map(float)),
    python_cpu_count=maybe(COUNTS),
).map(bound_cpu)


@st.composite
def start_methods(draw: st.DrawFn) -> StartMethodFacts:
    """
    Draw what a system may offer, spawn at least, of which any may be the default and any may be set; or nothing known.
    """
    available = draw(
        st.lists(st.sampled_from(METHODS), unique=True).map(lambda names: tuple(dict.fromkeys([*names, "spawn"])))
    )
    known = st.sampled_from([*available, None])
    return draw(
        st.just(StartMethodFacts())
        | st.builds(StartMethodFacts, available=st.just(available), default=known, in_force=known, sources=st.just({}))
    )


HOSTS = records(
    HostFacts,
    system=records(
        SystemFacts,
        platform=st.sampled_from(["linux", "macos", "windows", None]),
        wsl_version=st.sampled_from([None, 0, 2]),
    ),
    start_methods=start_methods(),
    cpu=CPUS,
    memory=records(MemoryFacts, headroom_bytes=maybe(SIZES.map(float) | st.just(NO_LIMIT)), bound_by=st.just("x")),
    shared_memory=records(SharedMemoryFacts, path=st.just("/dev/shm"), free_bytes=maybe(SIZES), is_writable=USUALLY),
    limits=records(
        LimitFacts,
        open_files_soft=maybe(LIMITS),
        open_files_now=maybe(st.integers(0, 200)),
        processes_soft=maybe(LIMITS),
        pids_headroom=maybe(LIMITS),
        temp_dir=maybe(st.sampled_from(["/tmp", "/" + 74 * "x", "/" + 75 * "x"])),
    ),
    storage=records(
        StorageFacts,
        kind=st.sampled_from([None, "nvme", "ssd", "hdd", "virtual", "network", "memory", "unknown"]),
        filesystem=st.sampled_from([None, "ext4", "nfs4"]),
    ),
    accelerator=records(
        AcceleratorFacts, kind=st.sampled_from([None, "cuda", "rocm", "xpu", "mps"]), devices=maybe(st.integers(0, 8))
    ),
    job=records(JobFacts, local_world_size=maybe(st.integers(1, 16))),
    process=records(
        ProcessFacts,
        other_threads=maybe(st.sampled_from([(), (), ("a",), ("a", "b")])),
        native_threads=maybe(st.integers(0, 3)),
        fork_unsafe_modules=st.sampled_from([(), (), ("jax",), ("polars", "grpc")]),
        is_daemonic=SELDOM,
        is_dataloader_worker=SELDOM,
        is_accelerator_initialised=TRUTHS,
        is_torch_built_for_accelerator=TRUTHS,
        reimported_main=st.sampled_from([None, "train.py"]),
        is_main_missing=SELDOM,
        interpreter=st.sampled_from([None, "/usr/bin/python3"]),
        is_interpreter_python=USUALLY,
        has_semaphores=USUALLY,
    ),
)

DATASETS = st.builds(
    DatasetTraits,
    style=st.sampled_from(["map", "iterable"]),
    samples=maybe(st.integers(0, 10**7)),
    batches_per_epoch=maybe(st.integers(0, 10**5)),
    is_in_memory=st.booleans(),
    num_shards=maybe(COUNTS),
    is_worker_aware=st.booleans(),
    path=st.sampled_from([None, "/data/train", "s3://bucket/train"]),
    is_remote=st.booleans(),
    sample_kind=st.sampled_from([None, "image", "text"]),
    sample_bytes=maybe(st.integers(0, 16 * MIB)),
    open_handle=st.sampled_from([None, None, None, "file"]),
)

REQUESTS = st.builds(
    LoaderRequest,
    fixed=st.fixed_dictionaries(
        {},
        optional={
            "num_workers": st.integers(0, 300),
            "prefetch_factor": st.integers(1, 8),
            "persistent_workers": st.booleans(),
            "pin_memory": st.booleans(),
            "multiprocessing_context": st.sampled_from([*METHODS, *map(multiprocessing.get_context, METHODS)]),
            "timeout": st.integers(0, 60),
            "in_order": st.just(False),
        },
    ),
    batch_size=maybe(st.integers(1, 512)),
    epochs=maybe(st.integers(1, 100)),
)


def given_situations(test: Any) -> Any:
    """
    Run *test* for random hosts, datasets and requests.
    """
    return PROPERTY(given(facts=HOSTS, traits=DATASETS, request_=REQUESTS)(test))


def contradicts_itself(fixed: Any) -> bool:
    """
    Return whether torch refuses the user's own values together, whatever else is passed.
    """
    asks_for_workers = bool({"prefetch_factor", "multiprocessing_context"} & set(fixed))
    return fixed.get("num_workers") == 0 and (asks_for_workers or fixed.get("persistent_workers") is True)


def is_chosen(plan: Plan) -> bool:
    """
    Return whether the number of workers was autoloader's to choose.
    """
    return plan.choices["num_workers"].rule not in {"num_workers.fixed", "num_workers.needed"}


@given_situations
def test_plan_passes_nothing_that_needs_workers_without_workers(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    At 0 workers no argument that torch refuses then is passed, unless the user gave it.
    """
    kwargs = recommend(facts, traits, request_).as_kwargs()
    refused = {"prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}
    if kwargs["num_workers"] == 0:
        assert refused & set(kwargs) <= set(request_.fixed)
    if "num_workers" not in request_.fixed and (set(kwargs) & refused - {"persistent_workers", "timeout"}):
        assert kwargs["num_workers"] > 0


@pytest.mark.torch
@given_situations
def test_plan_makes_a_dataloader(facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest) -> None:
    """
    Every plan is one that torch accepts; it refuses exactly what contradicts itself in the user's own values.
    """
    from torch.utils.data import DataLoader

    known = inspect.signature(DataLoader).parameters
    kwargs = recommend(facts, traits, request_).as_kwargs()
    with warnings.catch_warnings():
        # torch warns about many workers, which the user may fix and another host may have.
        warnings.simplefilter("ignore")
        try:
            DataLoader(range(8), batch_size=2, **{name: value for name, value in kwargs.items() if name in known})
            is_accepted = True
        except ValueError:
            is_accepted = False
    assert is_accepted is not contradicts_itself(request_.fixed)


@given_situations
def test_plan_keeps_what_the_user_set(facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest) -> None:
    """
    A value of the user's is in the plan and in its arguments, under the rule ``fixed``.
    """
    plan = recommend(facts, traits, request_)
    kwargs = plan.as_kwargs()
    for name, value in request_.fixed.items():
        assert kwargs[name] is value
        assert (plan.choices[name].value, plan.choices[name].rule) == (value, f"{name}.fixed")


@given_situations
def test_num_workers_is_between_zero_and_two_a_cpu(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    Without a measurement no rank starts more than two workers for each CPU that it may use, and never less than none.
    """
    plan = recommend(facts, traits, request_)
    workers = plan.value("num_workers")
    assert isinstance(workers, int)
    assert workers >= 0
    if is_chosen(plan):
        assert workers <= max(1, 2 * (facts.cpu.usable_cpus or 1))


@given_situations
def test_num_workers_fit_into_what_is_free(facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest) -> None:
    """
    The workers of all ranks fit into half of the free memory, shared memory and tasks, and into the open files.
    """
    plan = recommend(facts, traits, request_)
    workers, prefetch = plan.value("num_workers"), plan.value("prefetch_factor")
    if not is_chosen(plan) or not workers:
        return
    ranks = facts.job.local_world_size or 1
    batch = (traits.sample_bytes or 0) * (request_.batch_size or 0)
    context = plan.value("multiprocessing_context")
    method = context if context is None or isinstance(context, str) else context.get_start_method()
    base = 64 * MIB if method == "fork" else 256 * MIB
    free_memory, free_shared = facts.memory.headroom_bytes, facts.shared_memory.free_bytes
    files, tasks = facts.limits.open_files_soft, [facts.limits.pids_headroom, facts.limits.processes_soft]
    assert workers * (base + prefetch * batch) * ranks <= (NO_LIMIT if free_memory is None else free_memory) / 2
    assert workers * prefetch * batch * ranks <= (NO_LIMIT if free_shared is None else free_shared) / 2
    in_use = 64 + (facts.limits.open_files_now or 0)
    assert in_use + workers * (12 + 4 * prefetch) <= (NO_LIMIT if files is None else files)
    assert workers * 4 * ranks <= min([NO_LIMIT, *(limit for limit in tasks if limit is not None)]) / 2
    assert workers <= 32
    assert facts.shared_memory.is_writable is not False


@given_situations
def test_prefetch_factor_is_lowered_where_room_is_short(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    A prefetch factor of ours lies between 1 and 4, and above 1 only where that fits, whoever set the workers.
    """
    plan = recommend(facts, traits, request_)
    workers, prefetch = plan.value("num_workers"), plan.value("prefetch_factor")
    if "prefetch_factor" in request_.fixed or prefetch is None:
        return
    assert 1 <= prefetch <= 4
    if prefetch > 1:
        batch = (traits.sample_bytes or 0) * (request_.batch_size or 0)
        free, files = facts.shared_memory.free_bytes, facts.limits.open_files_soft
        ranks, in_use = facts.job.local_world_size or 1, 64 + (facts.limits.open_files_now or 0)
        assert workers * prefetch * batch * ranks <= (NO_LIMIT if free is None else free) / 2
        assert in_use + workers * (12 + 4 * prefetch) <= (NO_LIMIT if files is None else files)


@given_situations
def test_every_choice_has_a_rule_and_can_be_explained(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    Rules and limits stand in the catalogue under their argument's name, and each choice explains itself.
    """
    plan = recommend(facts, traits, request_)
    for name, choice in plan.choices.items():
        rules = [choice.rule, *(limit.rule for limit in choice.limits)]
        assert [rule for rule in rules if rule not in RULES or not rule.startswith(f"{name}.")] == []
        assert [limit.value for limit in choice.limits] == sorted(limit.value for limit in choice.limits)
        assert f"  rule: {choice.rule}\n" in plan.explain(name)
        assert plan.explain(name) in plan.explain()
        assert choice.because in str(plan)


@given_situations
def test_recommend_is_deterministic(facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest) -> None:
    """
    The same situation has the same plan.
    """
    assert recommend(facts, traits, request_) == recommend(facts, traits, request_)


def certain_hazards(facts: HostFacts, open_handle: str | None) -> set[str]:
    """
    Return what in this process a forked child is sure to find half-done.
    """
    process = facts.process
    has_native = bool(process.native_threads) and process.is_accelerator_initialised is not True
    found = {
        "macos": facts.system.platform == "macos",
        "threads": bool(process.other_threads),
        "modules": bool(process.fork_unsafe_modules),
        "handle": open_handle is not None,
        "native": has_native,
    }
    return {name for name, is_there in found.items() if is_there}


def may_start(facts: HostFacts, workers: int, method: str | None) -> bool:
    """
    Return whether *workers* may start by *method*, as far as facts tell.
    """
    process, temp_dir, tasks = facts.process, facts.limits.temp_dir or "", facts.limits.pids_headroom
    is_long = len(temp_dir) > 75 and facts.system.platform != "windows"
    is_full = tasks is not None and tasks / 4 < workers
    is_child = process.is_daemonic is True or process.is_dataloader_worker is True
    lacks_place = facts.shared_memory.is_writable is False or process.has_semaphores is False
    is_broken = process.is_interpreter_python is False or process.is_main_missing is True
    return not (is_long or is_full or is_child or lacks_place or (is_broken and method in {"spawn", "forkserver"}))


@given_situations
def test_candidates_never_fork_where_that_is_sure_to_break(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    No certain hazard leads to fork as a candidate, and macOS never does, unless it is the user's own.
    """
    fixed = "multiprocessing_context" in request_.fixed
    candidates = start_candidates(facts, request_, traits.open_handle)
    values = [candidate.value for candidate in candidates]
    assert 1 <= len(values) <= 2
    assert {candidate.rule for candidate in candidates} <= set(RULES)
    if fixed:
        assert values == [request_.fixed["multiprocessing_context"]]
        return
    assert len(set(values)) == len(values)
    assert set(values) <= {*facts.start_methods.available, facts.start_methods.default, "spawn"}
    if certain_hazards(facts, traits.open_handle):
        assert "fork" not in values


@given_situations
def test_candidates_fork_wherever_nothing_certain_speaks_against_it(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    A fork is tried first in a quiet process that set nothing else, and last in one that did or uses an accelerator.
    """
    methods = facts.start_methods
    if "multiprocessing_context" in request_.fixed or "fork" not in methods.available:
        return
    values = [candidate.value for candidate in start_candidates(facts, request_, traits.open_handle)]
    is_quiet = not certain_hazards(facts, traits.open_handle)
    if is_quiet and not facts.process.is_accelerator_initialised and methods.in_force in {None, "fork"}:
        assert values == ["fork"]
    elif is_quiet:
        assert values[0] in {"forkserver", "spawn", None}
        assert values[1:] == ["fork"]
    else:
        assert len(values) == 1


@given_situations
def test_backend_is_processes_only_where_workers_may_start(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest
) -> None:
    """
    Workers load where there are some and nothing keeps them from starting; streams never load in a thread.
    """
    plan = recommend(facts, traits, request_)
    workers, backend = plan.value("num_workers"), plan.value("backend")
    values = [candidate.value for candidate in start_candidates(facts, request_)]
    methods = [value if value is None or isinstance(value, str) else value.get_start_method() for value in values]
    if workers:
        assert (backend == "process") is any(may_start(facts, workers, method) for method in methods)
    else:
        assert backend != "process"
    if backend == "thread":
        assert traits.style == "map"
        assert not any(may_start(facts, workers or 1, method) for method in methods)
    assert (find_obstacle(facts, workers) is None) is may_start(facts, workers, "fork")
    assert plan.has_users_workers is not is_chosen(plan)
    if backend != "process" and is_chosen(plan):
        assert plan.as_kwargs()["num_workers"] == 0
    said = [note.finding for note in plan.notes if note.finding.startswith("process.")]
    rule = plan.choices["backend"].rule
    assert said == ([] if rule in {"backend.workers", "backend.no-workers"} else [rule.replace("backend", "process")])


@PROPERTY
@given(facts=HOSTS, traits=DATASETS, request_=REQUESTS, workers=st.integers(0, 8))
def test_number_that_is_set_later_changes_nothing_but_persistence(
    facts: HostFacts, traits: DatasetTraits, request_: LoaderRequest, workers: int
) -> None:
    """
    A number of the user's, set after the plan was made, takes at most our persistence of workers away.
    """
    plan = recommend(facts, traits, request_).with_fixed({"num_workers": workers})
    own = with_own_persistence(plan)
    changed = {name for name in plan.choices if plan.choices[name] != own.choices[name]}
    assert changed <= {"persistent_workers"} - set(request_.fixed)
    assert {choice.rule for choice in own.choices.values()} <= set(RULES)
    assert own.as_kwargs() == plan.as_kwargs()
    assert with_own_persistence(own) is own


@PROPERTY
@given(headroom=st.integers(0, 64).map(lambda size: size * GIB), ranks=st.integers(1, 8))
def test_less_of_a_resource_never_means_more_workers(headroom: int, ranks: int) -> None:
    """
    Taking memory away from a host, or adding ranks to it, never adds a worker.
    """
    traits, request_ = DatasetTraits(style="map", sample_bytes=MIB), LoaderRequest(batch_size=64)

    def workers(memory: float, local_world_size: int) -> int:
        facts = HostFacts(
            cpu=CpuFacts(logical=64, usable_cpus=64.0, bound_by="logical"),
            memory=MemoryFacts(headroom_bytes=memory),
            job=JobFacts(local_world_size=local_world_size),
            accelerator=AcceleratorFacts(kind="cuda", devices=8),
        )
        return int(recommend(facts, traits, request_).value("num_workers"))

    assert workers(headroom, ranks) <= workers(headroom + GIB, ranks)
    assert workers(headroom, ranks + 1) <= workers(headroom, ranks)
