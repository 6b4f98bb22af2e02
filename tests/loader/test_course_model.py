"""
A loader and its successors, driven at random through all that a training may do, against a model of what must come.
"""

import copy
import multiprocessing
import os
import pickle
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from autoloader.errors import LoaderClosedError
from loader.chosen import NEEDS_FORK, chosen, global_states, seed_all
from loader.conftest import Host
from loader.course_model import KINDS, LENGTH, SHAPES, Marked, Model, Pass, arguments_of, rows_of
from loader.resuming import through_a_checkpoint

MOST_RUNNING = 3
PATIENCE_SECONDS = 20

WORKERS = st.integers(1, 3)
PREFETCH = st.integers(1, 3)
WHICH = st.integers(0, MOST_RUNNING - 1)
DIFFICULTY = st.integers(1, 9)
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda loader: pickle.loads(pickle.dumps(loader))}


def wait_for(condition: Any) -> bool:
    """
    Return whether *condition* became true before the deadline.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(condition())


class Training(RuleBasedStateMachine):
    """
    One loader after the other, and up to three iterators that run.

    Args:
        host: The facts that loaders read.
        ways: Where batches of the first loader load, and of those that continue it.
        fuses: An empty folder.
    """

    def __init__(self, host: Host, ways: tuple[str, ...], fuses: Path) -> None:
        super().__init__()
        self.host = host
        self.ways = ways
        self.fuses = fuses
        self.loader: Any = None
        self.running: list[Pass] = []
        self.ended: list[Any] = []
        self.lit: Counter[int] = Counter()
        self.saved: Any = None
        self.kills = 0
        self.key = 0

    @initialize(
        kind=st.sampled_from(KINDS),
        shape=st.sampled_from(SHAPES),
        draws=st.booleans(),
        stay=st.booleans(),
        workers=WORKERS,
        prefetch=PREFETCH,
    )
    def make(self, kind: str, shape: Any, draws: bool, stay: bool, workers: int, prefetch: int) -> None:
        """
        Make the first loader.
        """
        for fuse in self.fuses.iterdir():
            fuse.unlink()
        self.stay = stay
        self.model = Model(kind, shape, draws, self.ways[0])
        self.loader = self.loader_of(self.model, workers, prefetch)

    def loader_of(self, model: Model, workers: int, prefetch: int) -> Any:
        """
        Return a new loader, as the training script makes it.
        """
        way = model.way
        self.host.change("process", is_daemonic=way == "thread")
        arguments = arguments_of(model.kind, model.shape)
        if model.kind == "seed":
            arguments["seed"] = 3
        if way not in {"inline", "thread"}:
            arguments["multiprocessing_context"] = way
        return chosen(
            Marked(draws=model.draws, fuses=self.fuses, pause_seconds=0.0005 if way == "thread" else 0),
            0 if way == "inline" else workers,
            prefetch_factor=prefetch,
            stay=self.stay,
            on_worker_death="restart",
            **arguments,
        )

    @precondition(lambda self: len(self.running) < MOST_RUNNING)
    @rule()
    def begin(self) -> None:
        """
        Begin an epoch, also beside one that runs.
        """
        self.key += 1
        self.model.prepare(self.key)
        continues = self.model.continues is not None
        before_all = self.model.state
        epoch = self.model.begin()
        if self.model.state != before_all:
            for other in self.running:
                if other.model is self.model and (not self.model.is_process or self.kills):
                    other.states.append(self.model.state)
        seed_all(self.key)
        before = global_states()
        epoch.iterator = iter(self.loader)
        assert global_states() == (before if continues else self.model.states_after)
        self.running.append(epoch)

    def pick(self, which: int) -> Pass:
        """
        Return one of the epochs that run.
        """
        return self.running[which % len(self.running)]

    def step(self, epoch: Pass) -> bool:
        """
        Take the next batch, and return whether there was one, or an error in its place.
        """
        due, before = epoch.due, global_states()
        must_raise = epoch.model.way == "inline" and due is not None and self.burning(due)
        try:
            batch = next(epoch.iterator)  # type: ignore[arg-type]
        except StopIteration:
            assert due is None
            epoch.complete()
            epoch.is_exhausted = True
            self.running.remove(epoch)
            if epoch.model is self.model:
                self.ended.append(epoch.iterator)
            epoch.iterator = None
            return False
        except KeyError as error:
            assert due is not None
            self.lit.subtract([int(str(error).split("KeyError: ")[-1].split()[0])])
            assert min(self.lit.values()) >= 0
            epoch.at += 1
        else:
            assert not must_raise
            epoch.check(rows_of(batch))
        finally:
            assert global_states() == before
        return True

    def burning(self, indices: list[int]) -> bool:
        """
        Return whether one of some samples will raise an error.
        """
        return any((self.fuses / str(index)).exists() for index in indices)

    @precondition(lambda self: self.running)
    @rule(which=WHICH, count=st.integers(1, 5))
    def take(self, which: int, count: int) -> None:
        """
        Take some batches.
        """
        epoch = self.pick(which)
        for _ in range(count):
            if not self.step(epoch):
                break

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def exhaust(self, which: int) -> None:
        """
        Take all batches that are left.
        """
        epoch = self.pick(which)
        while self.step(epoch):
            pass

    @precondition(lambda self: self.ended)
    @rule(which=WHICH)
    def ask_again(self, which: int) -> None:
        """
        Ask an exhausted iterator for more.
        """
        with pytest.raises(StopIteration):
            next(self.ended[which % len(self.ended)])

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        """
        Leave an epoch early.
        """
        epoch = self.pick(which)
        self.running.remove(epoch)
        epoch.iterator = None

    @rule(epoch=st.integers(0, 6))
    def set_epoch(self, epoch: int) -> None:
        """
        Say which epoch is next.
        """
        self.loader.set_epoch(epoch)
        self.model.set_epoch(epoch)

    @rule(difficulty=DIFFICULTY)
    def broadcast(self, difficulty: int) -> None:
        """
        Change the dataset from the next epoch on.
        """
        self.loader.broadcast(difficulty=difficulty)
        self.model.broadcast(difficulty)

    @precondition(lambda self: not self.running)
    @rule(difficulty=DIFFICULTY)
    def assign(self, difficulty: int) -> None:
        """
        Change the dataset at once.
        """
        self.loader.dataset.difficulty = difficulty
        self.model.dataset["difficulty"] = difficulty

    @rule()
    def save(self) -> None:
        """
        Write a checkpoint.
        """
        self.saved = through_a_checkpoint(self.loader.state_dict()), self.model.save()

    @precondition(lambda self: self.saved is not None)
    @rule(data=st.data(), workers=WORKERS, prefetch=PREFETCH)
    def load(self, data: Any, workers: int, prefetch: int) -> None:
        """
        Continue from the last checkpoint with a new loader.
        """
        model = Model(self.model.kind, self.model.shape, self.model.draws, data.draw(st.sampled_from(self.ways)))
        closes, goes_on = data.draw(st.tuples(st.booleans(), st.booleans()))
        self.succeed(self.loader_of(model, workers, prefetch), model, closes=closes, goes_on=goes_on)
        self.go_back()

    @precondition(lambda self: self.saved is not None)
    @rule()
    def go_back(self) -> None:
        """
        Load the last checkpoint into this loader.
        """
        state, saved = self.saved
        self.loader.load_state_dict(state)
        self.model.load(saved)

    def succeed(self, loader: Any, model: Model, *, closes: bool, goes_on: bool) -> None:
        """
        Let another loader take over; what runs goes on, or not.
        """
        if closes:
            self.close()
        elif not goes_on:
            self.leave_all()
        self.ended.clear()  # they hold the old loader's workers
        self.loader, self.model = loader, model

    def leave_all(self) -> None:
        """
        Leave all that runs.
        """
        for epoch in self.running:
            epoch.iterator = None
        self.running.clear()

    @precondition(lambda self: self.model.loaded is None)
    @rule(how=st.sampled_from(sorted(COPIES)), closes=st.booleans(), goes_on=st.booleans())
    def copy(self, how: str, closes: bool, goes_on: bool) -> None:
        """
        Go on with a copy of the loader.
        """
        self.succeed(COPIES[how](self.loader), self.model.copied(), closes=closes, goes_on=goes_on)

    @rule()
    def close(self) -> None:
        """
        Close the loader: what runs ends with an error, and it can be iterated again.
        """
        self.loader.close()
        for epoch in [each for each in self.running if each.model is self.model]:
            for _ in range(0 if epoch.is_complete else 2):
                with pytest.raises(LoaderClosedError):
                    next(epoch.iterator)  # type: ignore[arg-type]
            self.running.remove(epoch)
            epoch.iterator = None

    @rule(index=st.integers(0, LENGTH - 1))
    def light(self, index: int) -> None:
        """
        Let the next one who fetches a sample find that it raises an error.
        """
        fuse = self.fuses / str(index)
        self.lit[index] += not fuse.exists()
        fuse.touch()

    @precondition(lambda self: multiprocessing.active_children())
    @rule(victims=st.sets(st.integers(0, 3), min_size=1), waits=st.booleans())
    def kill(self, victims: set[int], waits: bool) -> None:
        """
        Kill workers, and go on when they are gone or before.
        """
        children = sorted(multiprocessing.active_children(), key=lambda child: child.pid or 0)
        chosen_ones = [children[place] for place in victims if place < len(children)]
        for child in chosen_ones:
            os.kill(child.pid or 0, signal.SIGKILL)
        if waits:
            assert wait_for(lambda: all(not child.is_alive() for child in chosen_ones))
        self.kills += len(chosen_ones)
        for epoch in self.running:
            epoch.states.append(epoch.model.state)

    @invariant()
    def statistics_count_what_was_served(self) -> None:
        """
        Compare the statistics with the model's.
        """
        if self.loader is None:
            return
        stats, passes = self.loader.stats(), self.model.passes
        counted = [(each.epoch, each.batches, each.samples, each.is_exhausted) for each in stats.epochs]
        assert counted == [(each.number, each.batches, each.samples, each.is_complete) for each in passes]
        assert (stats.total.epochs, stats.total.batches) == (len(passes), sum(each.batches for each in passes))
        assert stats.total.restarts <= self.kills
        if not self.running:
            assert stats.in_flight == 0

    @invariant()
    def processes_are_those_of_what_runs(self) -> None:
        """
        Where nothing runs, only kept workers are left.
        """
        if self.loader is not None and not self.running:
            most = 3 if self.stay and self.model.is_process else 0
            assert wait_for(lambda: len(multiprocessing.active_children()) <= most)

    def teardown(self) -> None:
        """
        Close everything, after which no child is left.
        """
        self.leave_all()
        self.ended.clear()
        if self.loader is not None:
            self.loader.close()
        self.loader = None
        assert wait_for(lambda: not multiprocessing.active_children())


SETTINGS = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.filterwarnings("ignore:resume.fast-forward")
@pytest.mark.parametrize(
    ("ways", "examples"),
    [
        pytest.param(("inline", "thread"), 25, id="inline"),
        pytest.param(("thread", "inline"), 25, id="thread"),
        pytest.param(("fork", "inline", "thread"), 25, id="fork", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
        pytest.param(("forkserver", "inline"), 2, id="forkserver", marks=[NEEDS_FORK, pytest.mark.slow_spawn]),
        pytest.param(("spawn", "inline"), 2, id="spawn", marks=pytest.mark.slow_spawn),
    ],
)
def test_random_training_gets_what_the_model_says(
    ways: tuple[str, ...], examples: int, host: Host, tmp_path: Path
) -> None:
    """
    Order, dataset, random numbers, errors and statistics, whatever was done before, wherever batches load.
    """
    host.change("memory", oom_kills=0)
    run_state_machine_as_test(
        partial(Training, host, ways, tmp_path), settings=settings(SETTINGS, max_examples=examples)
    )
