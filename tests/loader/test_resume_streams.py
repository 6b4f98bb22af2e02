"""
Iterable-style data in the middle of an epoch: with a state of its own it goes on, and without one it begins anew.
"""

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset, get_worker_info

import datasets
from autoloader import auto_loader
from autoloader.engine import processes
from autoloader.engine.inner import InnerLoader
from autoloader.errors import AutoloaderWarning
from loader.resuming import resumed, through_a_checkpoint


class Remembers(IterableDataset):
    """
    Yields each number below *length* in one worker only, and knows where it stands.
    """

    def __init__(self, length: int = 14) -> None:
        self.length = length
        self.drawn = 0

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        while first + self.drawn * step < self.length:
            self.drawn += 1
            yield first + (self.drawn - 1) * step
        self.drawn = 0

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "kept": torch.tensor([self.drawn])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = state["drawn"]
        assert state["kept"].tolist() == [self.drawn]


class Uneven(Remembers):
    """
    The first worker has a quarter as many numbers as the others.
    """

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        number = info.id if info else 0
        most = 3 if number == 0 else self.length
        while self.drawn < most:
            self.drawn += 1
            yield 100 * number + self.drawn
        self.drawn = 0


@pytest.fixture(autouse=True)
def _warnings_may_come_again() -> Iterator[None]:
    """
    Make a warning that no test expects an error, here as everywhere.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def loader_of(dataset: Any, num_workers: int, **arguments: Any) -> Any:
    """
    Return a loader with workers of the user's.
    """
    return auto_loader(dataset, **{"batch_size": 2, "num_workers": num_workers, **arguments})


def batches_of(loader: Any) -> list[Any]:
    """
    Return the batches of an epoch.
    """
    return [batch.tolist() for batch in loader]


@pytest.mark.slow_spawn
def test_stream_that_is_closed_by_another_thread_goes_on_with_the_worker_that_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Also where that comes just before a batch is noted: torch has forgotten its workers then.
    """
    note, states = InnerLoader.note_served, []

    def close_first(self: InnerLoader, state: Any) -> None:
        closing = threading.Thread(target=loader.close)
        closing.start()
        closing.join()
        note(self, state)

    for noted in (note, close_first):
        monkeypatch.setattr(InnerLoader, "note_served", noted)
        with loader_of(Remembers(), 2) as loader:
            next(iter(loader))
            states.append(loader.state_dict()["stream"]["turn"])
    assert states == [1, 1]


SLOW = pytest.mark.slow_spawn
WORKERS = [0, pytest.param(1, marks=SLOW), pytest.param(2, marks=SLOW)]


@pytest.mark.parametrize("kind", [Remembers, Uneven])
@pytest.mark.parametrize(
    ("num_workers", "arguments"),
    [
        pytest.param(0, {}, id="inline"),
        pytest.param(0, {"batch_size": None, "collate_fn": torch.tensor}, id="inline-one-by-one"),
        pytest.param(1, {}, id="one", marks=SLOW),
        pytest.param(2, {}, id="two", marks=SLOW),
        pytest.param(2, {"persistent_workers": True}, id="two-kept", marks=SLOW),
        pytest.param(2, {"prefetch_factor": 5}, id="two-far-ahead", marks=SLOW),
        pytest.param(2, {"drop_last": True}, id="two-drop-last", marks=SLOW),
    ],
)
def test_stream_with_its_own_state_goes_on_from_every_batch(
    num_workers: int, arguments: dict[str, Any], kind: type[Remembers]
) -> None:
    """
    The same rest in the same order, whatever workers had ahead, and then a whole epoch again.
    """
    found, states = [], []
    with loader_of(kind(), num_workers, **arguments) as loader:
        for batch in loader:
            found.append(batch.tolist())
            states.append(through_a_checkpoint(loader.state_dict()))
        assert batches_of(loader) == found
    for cut, state in enumerate(states, 1):
        with resumed(loader_of(kind(), num_workers, **arguments), state) as loader:
            assert batches_of(loader) == found[cut:], cut
            assert loader.state_dict()["epoch"] == 1
            if not arguments.get("persistent_workers") or cut == 3:
                assert batches_of(loader) == found


@pytest.mark.slow_spawn
def test_stream_of_three_workers_of_which_one_ends_early_goes_on() -> None:
    """
    Whose turn it is next is known, also when some have nothing left.
    """
    found, states = [], []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create 3")
        with loader_of(Uneven(9), 3) as loader:
            for batch in loader:
                found.append(batch.tolist())
                states.append(through_a_checkpoint(loader.state_dict()))
        for cut, state in enumerate(states, 1):
            with resumed(loader_of(Uneven(9), 3), state) as loader:
                assert batches_of(loader) == found[cut:], cut


@pytest.mark.parametrize("num_workers", WORKERS)
def test_stream_that_is_cut_again_and_again_is_whole(num_workers: int) -> None:
    """
    Each run serves two batches; what a worker did not serve in one is not forgotten in the next.
    """
    found, state = [], None
    for _ in range(4):
        loader = loader_of(Remembers(), num_workers)
        if state is not None:
            resumed(loader, state)
        with loader:
            for number, batch in enumerate(loader, 1):
                found += batch.tolist()
                state = through_a_checkpoint(loader.state_dict())
                if number == 2:
                    break
    assert sorted(found) == list(range(14))


@pytest.mark.parametrize("num_workers", WORKERS)
def test_stream_between_epochs_has_nothing_to_continue(num_workers: int) -> None:
    """
    Before the first epoch, and after one.
    """
    with loader_of(Remembers(), num_workers) as loader:
        states = [through_a_checkpoint(loader.state_dict())]
        whole = batches_of(loader)
        states.append(through_a_checkpoint(loader.state_dict()))
    for number, state in enumerate(states):
        assert (state["epoch"], state["stream"]) == (number, None)
        with resumed(loader_of(Remembers(), num_workers), state) as loader:
            assert batches_of(loader) == whole


@pytest.mark.slow_spawn
def test_state_of_a_stream_replaces_workers_that_are_kept() -> None:
    """
    Their copies stand elsewhere.
    """
    with loader_of(Remembers(), 2, persistent_workers=True) as loader:
        iterator = iter(loader)
        first = [next(iterator).tolist() for _ in range(3)]
        state = loader.state_dict()
        rest = batches_of(iterator)
        for _ in range(2):
            loader.load_state_dict(state)
            assert batches_of(loader) == rest
        assert batches_of(loader) == first + rest


RESTARTS = (
    "resume.stream-restarts: the epoch begins anew, although 2 of its batches were served, as {}. Give the dataset "
    "state_dict() and load_state_dict(state), and resume with the same num_workers. To silence this: "
    "warnings.filterwarnings('ignore', 'resume.stream-restarts')."
)
OTHER_NUMBER = "Remembers was read by {} workers, and would be by {} now"


@pytest.mark.parametrize(
    ("before", "after"),
    [(0, 1), pytest.param(1, 0, marks=SLOW), pytest.param(2, 1, marks=SLOW), pytest.param(1, 2, marks=SLOW)],
)
def test_stream_with_another_number_of_workers_begins_anew_and_says_so(before: int, after: int) -> None:
    """
    Nobody knows how its parts belong to other workers.
    """
    with loader_of(Remembers(), before) as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = through_a_checkpoint(loader.state_dict())
    with resumed(loader_of(Remembers(), after), state) as loader:
        with pytest.warns(AutoloaderWarning) as caught:
            found = batches_of(loader)
        assert sorted(number for batch in found for number in batch) == list(range(14))
        assert (loader.stats().total.batches, loader.state_dict()["epoch"]) == (len(found), 1)
    (warning,) = caught
    assert (str(warning.message), warning.filename) == (RESTARTS.format(OTHER_NUMBER.format(before, after)), __file__)


@pytest.mark.parametrize("num_workers", WORKERS)
def test_stream_without_a_state_begins_anew_and_says_so(num_workers: int) -> None:
    """
    Every batch comes again.
    """
    with loader_of(datasets.SharedStream(), num_workers) as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = through_a_checkpoint(loader.state_dict())
    assert (state["served"], state["stream"]) == (2, None)
    with resumed(loader_of(datasets.SharedStream(), num_workers), state) as loader:
        with pytest.warns(AutoloaderWarning) as caught:
            found = batches_of(loader)
        assert sorted(number for batch in found for number in batch) == list(range(20))
    (warning,) = caught
    assert str(warning.message) == RESTARTS.format("SharedStream does not keep its own state")


def test_stream_whose_workers_cannot_start_begins_anew_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is read inline instead, which is another number of workers.
    """

    def refuse(process: Any) -> None:
        raise processes.WorkerStartError("OSError: no")

    with loader_of(Remembers(), 1) as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = through_a_checkpoint(loader.state_dict())
    monkeypatch.setattr(processes._Member, "start", refuse)
    with resumed(loader_of(Remembers(), 1), state) as loader:
        with pytest.warns(AutoloaderWarning) as caught:
            assert batches_of(loader) == [[number, number + 1] for number in range(0, 14, 2)]
        assert loader.stats().total.batches == 7
        assert loader.state_dict()["epoch"] == 1
    said = [str(warning.message).partition(":")[0] for warning in caught]
    assert sorted(said) == ["backend.start-failed", "resume.stream-restarts"]
    assert RESTARTS.format(OTHER_NUMBER.format(1, 0)) in [str(warning.message) for warning in caught]


class Broken(Remembers):
    """
    Does not know where it stands after all.
    """

    def state_dict(self) -> dict[str, Any]:
        raise KeyError("no state")


def test_error_of_state_dict_is_an_error_where_it_is_called() -> None:
    """
    In a worker it stands in the place of the batch, as it is asked there.
    """
    with loader_of(Broken(), 0) as loader:
        next(iter(loader))
        with pytest.raises(KeyError, match="no state"):
            loader.state_dict()
    with loader_of(Broken(), 1) as loader, pytest.raises(KeyError, match="no state"):
        next(iter(loader))


def test_batch_of_a_stream_that_came_while_its_loader_was_closed_is_served() -> None:
    """
    Another thread ends the workers between the arrival of a batch and the note of where its worker stands.
    """
    loader = auto_loader(Remembers(), 2, num_workers=1)
    batches: Any = iter(loader)
    assert next(batches).tolist() == [0, 1]
    source, inner = batches.source, batches.inner

    class Closes:
        def __next__(self) -> Any:
            batch = next(source)
            inner.close()
            return batch

    batches.source = Closes()
    assert next(batches).tolist() == [2, 3]
    state = loader.state_dict()
    loader.close()
    with resumed(auto_loader(Remembers(), 2, num_workers=1), through_a_checkpoint(state)) as loader:
        assert next(iter(loader)).tolist() == [4, 5]
