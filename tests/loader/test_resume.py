"""
A training that was left in the middle of an epoch goes on there: the same samples, order and random numbers.
"""

import functools
from typing import Any

import pytest
from torch.utils.data import RandomSampler

import datasets
from autoloader import auto_loader
from loader.chosen import NEEDS_FORK, chosen, chosen_way, epochs_of, global_states, plain, seed_all
from loader.conftest import Host
from loader.resuming import (
    KINDS,
    LENGTH,
    Run,
    arguments_of,
    distributed,
    indices,
    loader_of,
    resumed,
    through_a_checkpoint,
)

pytestmark = pytest.mark.filterwarnings("ignore:resume.fast-forward")  # test_resume_states.py looks at it

WAYS = [
    pytest.param("inline", 0, {}, id="inline"),
    pytest.param("thread", 2, {}, id="thread"),
    pytest.param("process", 1, {}, id="one-worker"),
    pytest.param("process", 3, {"prefetch_factor": 4}, id="three-workers", marks=pytest.mark.slow_spawn),
    pytest.param("process", 2, {"stay": False}, id="not-kept", marks=pytest.mark.slow_spawn),
    pytest.param("spawn", 2, {}, id="spawn", marks=pytest.mark.slow_spawn),
    pytest.param("forkserver", 2, {}, id="forkserver", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
]
"""
Where the second run loads its batches, with how many workers, and how else.
"""


@functools.cache
def run_of(kind: str, num_workers: int = 0) -> Run:
    """
    Return the run without interruption, over two epochs.
    """
    return Run(loader_of(kind, num_workers))


@pytest.mark.parametrize("kind", KINDS)
def test_epoch_cut_after_any_batch_goes_on_with_the_next_one(kind: str) -> None:
    """
    In each of two epochs, in a loader that is made anew while the global generators are elsewhere.
    """
    run = run_of(kind)
    for epoch, batches in enumerate(run.epochs):
        for cut in run.cuts(epoch):
            with resumed(loader_of(kind), run.states[epoch][cut]) as loader:
                assert epochs_of(loader) == [batches[cut:]], (epoch, cut)


@pytest.mark.parametrize("kind", ["users-drawn"])
@pytest.mark.parametrize(("way", "num_workers", "arguments"), WAYS)
def test_epoch_goes_on_the_same_whoever_loads_it(
    way: str, num_workers: int, arguments: dict[str, Any], kind: str, host: Host
) -> None:
    """
    With another number of workers, more batches ahead, another start method, or a thread.
    """
    run = run_of(kind)
    cuts = run.cuts(1) if way in {"inline", "thread"} else (4,)
    for cut in cuts:
        dataset = datasets.Draws(LENGTH)
        given = {**arguments_of(kind, dataset), **arguments}
        with resumed(chosen_way(way, host, dataset, num_workers, **given), run.states[1][cut]) as loader:
            assert epochs_of(loader) == [run.epochs[1][cut:]], cut


@pytest.mark.slow_spawn
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"in-order", "shuffle", "users-drawn"}])
def test_epoch_goes_on_the_same_with_workers(kind: str) -> None:
    """
    Any order, by two workers, which stay for the next epoch.
    """
    run = run_of(kind)
    with resumed(loader_of(kind, 2), run.states[0][1]) as loader:
        assert epochs_of(loader) == [run.epochs[0][1:]]
        assert len(indices(loader)) == len(indices(run.epochs[0]))


@pytest.mark.slow_spawn
@pytest.mark.parametrize("kind", ["shuffle", "seed", "users-batch-sampler", "no-batches"])
def test_batches_that_workers_had_ahead_are_not_lost(kind: str) -> None:
    """
    The first run had workers, which were far ahead of the training loop at each cut.
    """
    run = run_of(kind, 3)
    assert run.epochs == run_of(kind).epochs
    for epoch, batches in enumerate(run.epochs):
        for cut in run.cuts(epoch):
            with resumed(loader_of(kind), run.states[epoch][cut]) as loader:
                assert epochs_of(loader) == [batches[cut:]], (epoch, cut)


def test_batches_that_a_thread_had_ahead_are_not_lost(host: Host) -> None:
    """
    From the third on, a dataset that draws nothing loads in the thread.
    """

    def make() -> Any:
        return chosen_way("thread", host, datasets.Numbers(LENGTH), batch_size=1, shuffle=True)

    run = Run(make())
    for epoch, batches in enumerate(run.epochs):
        for cut in run.cuts(epoch):
            with resumed(make(), run.states[epoch][cut]) as loader:
                assert epochs_of(loader) == [batches[cut:]], (epoch, cut)
                assert loader.plan.value("backend") == "thread"


@pytest.mark.parametrize("kind", ["seed", "generator", "distributed", "users-by-epoch", "sampler-with-generator"])
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow_spawn)])
def test_epochs_after_a_resumed_one_are_the_original_ones(num_workers: int, kind: str) -> None:
    """
    Where the order comes from a seed, a generator that is given, or the epoch; and also after a cut between epochs.
    """
    run = Run(loader_of(kind), epochs=4)
    has_own_draws = kind in {"seed", "generator"}
    for epoch, cut in ((0, 1), (1, 3), (1, 6), (2, 4), (0, -1), (1, -1)):
        whole = run.epochs[epoch + (cut < 0) :]
        expected = whole if cut < 0 else [whole[0][cut:], *whole[1:]]
        with resumed(loader_of(kind, num_workers), run.states[epoch][cut]) as loader:
            found = epochs_of(loader, len(expected))
        if kind in {"generator", "sampler-with-generator"} and cut < 0:
            continue  # between epochs the generator is the script's to restore, like the global ones
        assert list(map(indices, found)) == list(map(indices, expected)), (epoch, cut)
        assert found == expected or not has_own_draws, (epoch, cut)


@pytest.mark.parametrize("kind", [*KINDS])
@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.slow_spawn)])
def test_callers_generators_do_not_notice_a_resume(num_workers: int, kind: str) -> None:
    """
    What the order depends on is set back for a moment only.
    """
    run = run_of(kind)
    with resumed(loader_of(kind, num_workers), run.states[0][2]) as loader:
        before = global_states()
        list(loader)
        assert global_states() == before


@pytest.mark.slow_spawn
@pytest.mark.parametrize("kind", ["shuffle", "seed", "users-drawn"])
def test_epoch_that_is_cut_again_and_again_is_whole(kind: str) -> None:
    """
    Each loader serves one batch, and its state is of all that came before.
    """
    run = run_of(kind)
    state, found = run.states[0][1], run.epochs[0][:1]
    for number in range(1, len(run.epochs[0])):
        with resumed(loader_of(kind, number % 2), state) as loader:
            found.append(plain(next(iter(loader))))
            state = through_a_checkpoint(loader.state_dict())
            assert state["served"] == number + 1
    assert found == run.epochs[0]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_state_after_an_early_break_is_that_of_the_break(num_workers: int) -> None:
    """
    The iterator is gone, and what it had ahead with it; another epoch of the same loader goes on, if it is told to.
    """
    seed_all()
    loader = loader_of("shuffle", num_workers)
    first = []
    for batch in loader:
        first.append(plain(batch))
        if len(first) == 2:
            break
    state = loader.state_dict()
    loader.close()
    assert loader.state_dict()["served"] == 2
    with loader:
        loader.load_state_dict(state)
        rest = epochs_of(loader)[0]
    assert sorted(indices(first + rest)) == list(range(LENGTH))
    with resumed(loader_of("shuffle"), through_a_checkpoint(state)) as other:
        assert epochs_of(other) == [rest]


@pytest.mark.parametrize("kind", ["shuffle", "users-by-epoch"])
def test_same_loader_can_go_back_to_an_earlier_state(kind: str) -> None:
    """
    Also to one of an epoch before, and more than once.
    """
    run = run_of(kind)
    with loader_of(kind) as loader:
        for epoch, cut in ((1, 4), (0, 2), (0, 2), (1, 1)):
            assert epochs_of(resumed(loader, run.states[epoch][cut])) == [run.epochs[epoch][cut:]]


@pytest.mark.parametrize("num_workers", [0, *(pytest.param(each, marks=pytest.mark.slow_spawn) for each in (1, 3))])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_batch_that_raised_an_error_is_not_loaded_again(count: int, num_workers: int) -> None:
    """
    It counts as served: the training has its error.
    """

    def draw(iterator: Any, most: int) -> list[int]:
        found = []
        for _ in range(most):
            try:
                found.append(int(next(iterator)[0, 0]))
            except KeyError:
                found.append(-1)
        return found

    expected = [0, 2, 4, -1, 8, 10]
    with chosen(datasets.Failing(LENGTH, at=6), num_workers, batch_size=2) as loader:
        iterator = iter(loader)
        assert draw(iterator, count) == expected[:count]
        state = through_a_checkpoint(loader.state_dict())
    for other in (0, 1):
        with resumed(chosen(datasets.Failing(LENGTH, at=6), other, batch_size=2), state) as loader:
            iterator = iter(loader)
            assert draw(iterator, 6 - count) == expected[count:]
            assert next(iterator, "end") == "end"


@pytest.mark.parametrize("replicas", [2, 3])
def test_share_of_a_rank_goes_on_with_its_epoch(replicas: int) -> None:
    """
    Nobody has to call set_epoch for the rest of the epoch; who does it as always gets the same.
    """

    def make() -> Any:
        dataset = datasets.Draws(LENGTH)
        return chosen(dataset, 0, batch_size=1, sampler=distributed(dataset, replicas))

    seed_all()
    with make() as loader:
        loader.set_epoch(3)
        iterator = iter(loader)
        found = [plain(next(iterator)) for _ in range(2)]
        state = through_a_checkpoint(loader.state_dict())
        rest = [plain(batch) for batch in iterator]
        loader.set_epoch(4)
        following = indices(loader)
    assert len(found + rest) == LENGTH // replicas
    for told in (None, 3):
        with resumed(make(), state) as loader:
            if told is not None:
                loader.set_epoch(told)
            assert epochs_of(loader) == [rest]
            assert loader.sampler.epoch == 3
            loader.set_epoch(4)
            assert indices(loader) == following
    with resumed(make(), state) as loader:
        loader.set_epoch(4)
        assert indices(loader) == following


def test_sampler_told_its_epoch_by_the_user_alone_goes_on() -> None:
    """
    ``sampler.set_epoch`` instead of the loader's, before the state was taken and again after it was loaded.
    """
    dataset = datasets.Draws(LENGTH)
    sampler = distributed(dataset, 2)
    with chosen(dataset, 0, batch_size=1, sampler=sampler) as loader:
        sampler.set_epoch(5)
        iterator = iter(loader)
        next(iterator)
        state = through_a_checkpoint(loader.state_dict())
        rest = [plain(batch) for batch in iterator]
    for told in (None, 5):
        sampler = distributed(dataset, 2)
        with resumed(chosen(dataset, 0, batch_size=1, sampler=sampler), state) as loader:
            if told is not None:
                sampler.set_epoch(told)
            assert epochs_of(loader) == [rest]


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (1, 2)])
@pytest.mark.slow_spawn
def test_samples_are_exact_with_workers_of_the_users(before: int, after: int) -> None:
    """
    With num_workers fixed the random numbers in samples are torch's own, which nobody can continue.
    """
    seed_all()
    with auto_loader(datasets.Draws(LENGTH), 2, shuffle=True, num_workers=before) as loader:
        iterator = iter(loader)
        first = indices([next(iterator), next(iterator)])
        state = through_a_checkpoint(loader.state_dict())
        rest = indices(iterator)
    with resumed(auto_loader(datasets.Draws(LENGTH), 2, shuffle=True, num_workers=after), state) as loader:
        assert indices(loader) == rest
    assert sorted(first + rest) == list(range(LENGTH))


@pytest.mark.slow_spawn
@pytest.mark.parametrize("epoch", [0, 2])
def test_workers_that_the_user_keeps_go_on_with_their_random_numbers(epoch: int) -> None:
    """
    With persistent_workers=True of the user's they draw no new base in later epochs, as torch's do not.
    """
    arguments = {"persistent_workers": True, "multiprocessing_context": "fork"}
    run = Run(loader_of("shuffle", 2, **arguments), epochs=3)
    with resumed(loader_of("shuffle", 1, **arguments), run.states[epoch][2]) as loader:
        assert epochs_of(loader) == [run.epochs[epoch][2:]]


def test_order_of_a_replacement_goes_on() -> None:
    """
    More samples than the dataset has, some of them several times.
    """

    def make() -> Any:
        dataset = datasets.Draws(LENGTH)
        sampler = RandomSampler(dataset, replacement=True, num_samples=40)
        return chosen(dataset, 0, batch_size=3, sampler=sampler)

    run = Run(make(), epochs=1)
    for cut in (1, 11, 13):
        with resumed(make(), run.states[0][cut]) as loader:
            assert epochs_of(loader) == [run.epochs[0][cut:]]
