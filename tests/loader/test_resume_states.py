"""
The state of a loader: what it says, what it refuses, and what it brings back besides the place in an epoch.
"""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler

import datasets
from autoloader.engine.inner import InnerLoader
from autoloader.errors import ArgumentError, AutoloaderWarning
from live.running import SOURCE
from loader.chosen import chosen, epochs_of, plain, seed_all
from loader.resuming import LENGTH, USERS, Run, indices, loader_of, resumed, through_a_checkpoint

TESTS = str(Path(datasets.__file__).parent)
PATIENCE_SECONDS = 60


def test_state_before_the_first_epoch_is_its_begin() -> None:
    """
    Nothing was drawn yet, so that the order is that of the run which loads it.
    """
    state = through_a_checkpoint(loader_of("shuffle").state_dict())
    assert (state["epoch"], state["served"], state["served_ahead"], state["begun_with"]) == (0, 0, [], None)
    seed_all(99)
    with loader_of("shuffle") as loader:
        expected = epochs_of(loader)
    with resumed(loader_of("shuffle"), state) as loader:
        assert epochs_of(loader) == expected


def test_state_of_an_epoch_that_served_nothing_is_its_begin() -> None:
    """
    Also when its workers had batches ahead.
    """
    with loader_of("seed", 1) as loader:
        list(loader)
        iterator = iter(loader)
        state = through_a_checkpoint(loader.state_dict())
        expected = [plain(batch) for batch in iterator]
    assert (state["epoch"], state["served"], state["begun_with"]) == (1, 0, None)
    with resumed(loader_of("seed"), state) as loader:
        assert epochs_of(loader) == [expected]


def test_state_after_the_last_batch_is_followed_by_the_next_epoch() -> None:
    """
    An epoch that is exhausted is not continued; the next has its number, also in the statistics.
    """
    run = Run(loader_of("seed"), epochs=3)
    state = run.states[1][-1]
    assert (state["epoch"], state["served"], state["begun_with"]) == (2, 0, None)
    with resumed(loader_of("seed"), state) as loader:
        assert epochs_of(loader) == run.epochs[2:]
        assert [epoch.epoch for epoch in loader.stats().epochs] == [2]


def test_state_with_the_last_batch_served_leaves_an_empty_rest() -> None:
    """
    Who saves in the loop's body at the last step goes through nothing, and then through the next epoch.
    """
    run = Run(loader_of("seed"))
    state = run.states[0][6]
    assert (state["epoch"], state["served"], state["batches"]) == (0, 6, 6)
    for num_workers in (0, 1):
        with resumed(loader_of("seed", num_workers), state) as loader:
            assert epochs_of(loader, 2) == [[], run.epochs[1]]


@pytest.mark.parametrize("cut", [0, 2, 6, -1])
def test_state_that_was_loaded_is_given_back_until_the_epoch_begins(cut: int) -> None:
    """
    A checkpoint that is written before the first batch of the second run is as good as the one that was read.
    """
    run = Run(loader_of("shuffle"))
    state = run.states[1][cut]
    loader = resumed(loader_of("shuffle"), state)
    again = through_a_checkpoint(loader.state_dict())
    assert json.dumps(as_lists(again)) == json.dumps(as_lists(state))
    with resumed(loader_of("shuffle"), again) as other, loader:
        assert epochs_of(other) == epochs_of(resumed(loader, state))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_interrupt_while_a_resumed_epoch_begins_keeps_its_place(
    num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A checkpoint that is written then, by a signal handler or after it, is the one that was read; so is what follows.
    """
    run = Run(loader_of("shuffle"))
    state = run.states[1][2]
    loader = resumed(loader_of("shuffle", num_workers), state)
    seen = []

    def interrupted(_self: InnerLoader, *_: Any) -> None:
        seen.append(through_a_checkpoint(loader.state_dict()))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(InnerLoader, "start_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            iter(loader)
    for told in (*seen, through_a_checkpoint(loader.state_dict())):
        assert json.dumps(as_lists(told)) == json.dumps(as_lists(state))
    with resumed(loader_of("shuffle"), state) as other, loader:
        assert epochs_of(loader) == epochs_of(other)


@pytest.mark.parametrize("told", ["epoch", "broadcast", "nothing"])
def test_interrupt_while_a_resumed_epoch_begins_keeps_what_was_set_since(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is newer than the checkpoint.
    """
    with chosen(datasets.Numbers(LENGTH), 0, batch_size=2) as first:
        first.set_epoch(1)
        first.broadcast(scale=5)
        next(iter(first))
        first.broadcast(scale=7)
        state = through_a_checkpoint(first.state_dict())
    found = []
    for is_interrupted in (False, True):
        with resumed(chosen(datasets.Numbers(LENGTH), 0, batch_size=2), state) as loader:
            if told == "epoch":
                loader.set_epoch(4)
            elif told == "broadcast":
                loader.broadcast(scale=9)
            if is_interrupted:
                with monkeypatch.context() as patch:
                    patch.setattr(InnerLoader, "start_epoch", lambda *_: signal.raise_signal(signal.SIGINT))
                    with pytest.raises(KeyboardInterrupt):
                        iter(loader)
            found.append((epochs_of(loader, 2), loader.state_dict()["epoch"]))
    assert found[0] == found[1]
    (first_batch, *_), second_epoch = found[0][0]
    scales = {"epoch": (5, 7), "broadcast": (9, 7), "nothing": (5, 7)}[told]
    assert (first_batch[0][1], second_epoch[0][0][1]) == scales


def as_lists(value: Any) -> Any:
    """
    Return a state with its tensors as lists.
    """
    if isinstance(value, dict):
        return {name: as_lists(each) for name, each in value.items()}
    return [as_lists(each) for each in value] if isinstance(value, (list, tuple)) else plain(value)


def test_state_stays_as_it_was_taken() -> None:
    """
    The epoch goes on, and the next begins, without a change in it.
    """
    with loader_of("users-drawn") as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        taken = json.dumps(as_lists(state))
        list(iterator)
        list(loader)
        assert json.dumps(as_lists(state)) == taken


def test_other_epoch_is_begun_if_it_is_told() -> None:
    """
    load_state_dict and then set_epoch with another number: nothing is continued.
    """
    run = Run(loader_of("users-by-epoch"), epochs=4)
    for told in (0, 1, 3):
        with warnings.catch_warnings(), resumed(loader_of("users-by-epoch"), run.states[0][-1]) as loader:
            warnings.simplefilter("ignore")
            loader.load_state_dict(run.states[2][3])
            loader.set_epoch(told)
            assert indices(loader) == indices(run.epochs[told])
            assert loader.state_dict()["epoch"] == told + 1


def test_same_epoch_is_continued_if_it_is_told() -> None:
    """
    Training scripts call set_epoch at the begin of each epoch, the resumed one included.
    """
    run = Run(loader_of("users-by-epoch"), epochs=3)
    with warnings.catch_warnings(), loader_of("users-by-epoch") as loader:
        warnings.simplefilter("ignore")
        resumed(loader, run.states[2][3])
        loader.set_epoch(2)
        assert indices(loader) == indices(run.epochs[2][3:])


def test_what_was_broadcast_comes_back() -> None:
    """
    And so does the epoch that the dataset was told, in this process and in workers.
    """
    dataset = datasets.Numbers(LENGTH)
    with chosen(dataset, 0, batch_size=2) as loader:
        loader.broadcast(scale=5)
        next(iter(loader))
        state = through_a_checkpoint(loader.state_dict())
    for num_workers in (0, 1):
        dataset = datasets.Numbers(LENGTH)
        with resumed(chosen(dataset, num_workers, batch_size=2), state) as loader:
            assert [batch.tolist() for batch in loader] == [[[i, 5], [i + 1, 5]] for i in range(2, LENGTH, 2)]
            assert {batch[0, 1].item() for batch in loader} == {5}
        assert dataset.scale == 5


def test_epochs_of_a_distributed_sampler_go_on_counting() -> None:
    """
    The user's set_epoch was called in the first run only.
    """
    dataset = datasets.Numbers(LENGTH)

    def make() -> Any:
        return chosen(dataset, 0, batch_size=2, sampler=DistributedSampler(dataset, num_replicas=2, rank=0))

    with make() as loader:
        loader.set_epoch(7)
        next(iter(loader))
        state = through_a_checkpoint(loader.state_dict())
    with resumed(make(), state) as loader:
        list(loader)
        assert loader.sampler.epoch == 7
        assert loader.state_dict()["epoch"] == 8


@pytest.mark.parametrize("kind", sorted(USERS))
def test_sampler_that_is_not_torchs_is_warned_of_once(kind: str) -> None:
    """
    Batches of indices are skipped, and what that depends on is said.
    """
    run = Run(loader_of(kind), epochs=1)
    name = {"users-by-epoch": "ByEpoch"}.get(kind, "Drawn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            loader_of(kind).load_state_dict(run.states[0][2])
    (warning,) = caught
    assert (warning.category, warning.filename) == (AutoloaderWarning, __file__)
    assert str(warning.message) == (
        f"resume.fast-forward: 2 batches of indices are skipped, as {name} cannot be set to the middle of an "
        "epoch; that is the right place if its order depends on its epoch, its attribute 'generator', or what it "
        "draws from global generators before the first batch. Check the first batches after a resume, or use one "
        "of torch's samplers. To silence this: warnings.filterwarnings('ignore', 'resume.fast-forward')."
    )


@pytest.mark.parametrize("kind", ["shuffle", "subset", "weighted", "batch-sampler", "distributed"])
def test_torchs_own_samplers_are_not_warned_of(kind: str) -> None:
    """
    What their order depends on is known, and a warning would be an error here.
    """
    run = Run(loader_of(kind), epochs=1)
    with resumed(loader_of(kind), run.states[0][2]) as loader:
        assert epochs_of(loader) == [run.epochs[0][2:]]


@pytest.mark.parametrize(
    "arguments",
    [{"sampler": [3, 1, 2, 0]}, {"sampler": range(4)}, {"batch_size": 1, "batch_sampler": [[3, 1], [2], [0]]}],
    ids=["list", "range", "batches"],
)
def test_order_that_is_a_list_is_not_warned_of(arguments: dict[str, Any]) -> None:
    """
    It depends on nothing.
    """
    with chosen(datasets.Numbers(4), 0, **arguments) as loader:
        iterator = iter(loader)
        next(iterator)
        state = through_a_checkpoint(loader.state_dict())
        rest = [plain(batch) for batch in iterator]
    with resumed(chosen(datasets.Numbers(4), 0, **arguments), state) as loader:
        assert epochs_of(loader) == [rest]


MALFORMED = (
    "This is no state of a loader: what state_dict() returns is a dictionary with schema 1. Pass what state_dict() of "
    "an AutoLoader returned, in this version of autoloader."
)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: None, id="none"),
        pytest.param(lambda state: [state], id="list"),
        pytest.param(lambda state: {}, id="empty"),
        pytest.param(lambda state: {"epoch": 3, "step": 17}, id="another-programs"),
        pytest.param(lambda state: {**state, "schema": 2}, id="another-schema"),
        *(
            pytest.param(lambda state, name=name: {key: state[key] for key in state if key != name}, id=f"no-{name}")
            for name in ("schema", "epoch", "served", "served_ahead", "batches", "begun_with", "stream", "broadcast")
        ),
    ],
)
def test_what_is_no_state_is_refused(change: Any) -> None:
    """
    The loader stays as it was.
    """
    run = Run(loader_of("seed"), epochs=1)
    loader = loader_of("seed")
    before = as_lists(loader.state_dict())
    with pytest.raises(ArgumentError) as caught:
        loader.load_state_dict(change(run.states[0][2]))
    assert str(caught.value) == MALFORMED
    assert isinstance(caught.value, ValueError)
    assert as_lists(loader.state_dict()) == before
    with loader:
        assert epochs_of(loader) == run.epochs


def test_state_of_a_longer_loader_is_refused_in_the_middle_of_an_epoch() -> None:
    """
    Between epochs the next one begins anyway.
    """
    run = Run(loader_of("shuffle"), epochs=1)
    loader = chosen(datasets.Draws(30), 0, batch_size=2, shuffle=True)
    with pytest.raises(ArgumentError) as caught:
        loader.load_state_dict(run.states[0][2])
    assert str(caught.value) == (
        "The state cannot be continued here: it was saved after 2 of 6 batches, and an epoch of this loader has 15. "
        "Make the loader with the same dataset, batch_size, drop_last, shuffle, sampler, seed and number of ranks, or "
        "begin a new epoch."
    )
    loader.load_state_dict(run.states[0][-1])
    assert len(list(loader)) == 15


@pytest.mark.slow_spawn
@pytest.mark.parametrize(("kind", "workers"), [("shuffle", 0), ("users-drawn", 2)])
def test_other_process_goes_on_from_the_file(kind: str, workers: int, tmp_path: Path) -> None:
    """
    The same rest, number for number.
    """
    run = Run(loader_of(kind))
    checkpoint = tmp_path / "last.pt"
    torch.save(run.states[1][2], checkpoint)
    command = [sys.executable, str(Path(__file__).with_name("resume_job.py")), str(checkpoint), kind, str(workers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((TESTS, SOURCE))}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == run.epochs[1][2:]
