"""
Workers die, and with ``on_worker_death="restart"`` the epoch goes on as if they had not.
"""

import functools
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import get_worker_info

import datasets
from autoloader import auto_loader
from autoloader.engine.inner import InnerLoader
from autoloader.errors import LoaderClosedError
from autoloader.loader.deaths import Deaths
from loader.chosen import chosen, epochs_of, global_states, plain, seed_all
from loader.conftest import Host
from loader.deadly import (
    PATIENCE_SECONDS,
    TOLD,
    Bomb,
    Deadly,
    DeadlyCollate,
    DeadlyInit,
    Heavy,
    as_they_are,
    kill,
    pids,
    warnings_in,
    workers,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers end by signals, which Windows has not")

SPAWN = {"multiprocessing_context": "spawn"}
SERVER = {"multiprocessing_context": "forkserver"}


@pytest.fixture(autouse=True)
def _memory_is_known(host: Host) -> None:
    """
    Let the kernel count no out-of-memory kill: where it cannot be asked, every SIGKILL may be one.
    """
    host.change("memory", oom_kills=0)


@functools.cache
def undisturbed(shuffle: bool = True, batch_size: int | None = 2) -> tuple[list[list[Any]], tuple[Any, ...]]:
    """
    Return what two epochs give in which nobody dies, and the caller's generators after the first and after both.
    """
    seed_all()
    epochs, states = [], []
    with chosen(datasets.Draws(20), 2, batch_size=batch_size, shuffle=shuffle) as loader:
        for _ in range(2):
            epochs += epochs_of(loader)
            states.append(global_states())
    return epochs, tuple(states)


def order(epoch: int = 0) -> list[int]:
    """
    Return the indices of an epoch of *undisturbed* in their order.
    """
    return [int(sample[0]) for batch in undisturbed()[0][epoch] for sample in batch]


def deadly(bomb: Bomb, where: str, **arguments: Any) -> Any:
    """
    Return a loader like the undisturbed one, with a bomb in it.
    """
    at = {"first": order()[0], "middle": order()[10], "last": order()[19]}.get(where, -1)
    hidden: dict[str, Any] = {}
    if where == "collate_fn":
        hidden["collate_fn"] = DeadlyCollate(bomb, at=(order()[8],))
    elif where == "worker_init_fn":
        hidden["worker_init_fn"] = DeadlyInit(bomb)
    seed_all()
    given = {"batch_size": 2, "shuffle": True, "on_worker_death": "restart", **hidden, **arguments}
    return chosen(Deadly(20, bomb, at=(at,)), 2, **given)


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    ("where", "how", "arguments"),
    [
        *(pytest.param("middle", how, {}, id=f"middle-{how}") for how in TOLD),
        pytest.param("first", "SIGKILL", {}, id="first-batch"),
        pytest.param("first", "sys-exit", {}, id="first-batch-quietly"),
        pytest.param("last", "SIGKILL", {}, id="last-batch"),
        pytest.param("last", "exit-0", {}, id="last-batch-quietly"),
        pytest.param("collate_fn", "SIGKILL", {}, id="collate"),
        pytest.param("collate_fn", "exit-3", {}, id="collate-exit"),
        pytest.param("worker_init_fn", "SIGKILL", {}, id="init"),
        pytest.param("worker_init_fn", "exit-0", {}, id="init-quietly"),
        pytest.param("middle", "SIGKILL", SERVER, id="forkserver"),
        pytest.param("collate_fn", "sys-exit", SERVER, id="forkserver-collate"),
        pytest.param("worker_init_fn", "exit-3", SERVER, id="forkserver-init"),
        pytest.param("middle", "SIGSEGV", SPAWN, id="spawn"),
        pytest.param("worker_init_fn", "SIGKILL", SPAWN, id="spawn-init"),
    ],
)
def test_epoch_goes_on_after_a_death_as_if_there_was_none(
    where: str, how: str, arguments: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Each sample once, in order, with the same random numbers; the caller's generators do not notice; new workers stay.
    """
    epochs, states = undisturbed()
    with deadly(Bomb(tmp_path, how), where, **arguments) as loader:
        assert epochs_of(loader) == epochs[:1]
        assert global_states() == states[0]
        assert loader.stats().total.restarts == 1
        kept = pids()
        assert epochs_of(loader) == epochs[1:]
        assert global_states() == states[1]
        assert (pids(), len(kept)) == (kept, 2)
        assert loader.stats().total.restarts == 1
    (told,) = warnings_in(caplog)
    assert told.startswith("on_worker_death: new workers go on with what was not served. Worker process ")
    assert TOLD[how] in told


@pytest.mark.slow_spawn
@pytest.mark.parametrize("after", [0, 4])
@pytest.mark.parametrize("victims", [1, 2])
@pytest.mark.parametrize("in_thread", [False, True])
def test_death_between_two_batches_is_none_of_the_training_loops_business(
    in_thread: bool, victims: int, after: int
) -> None:
    """
    Nothing is raised in the loop's body, in the main thread or another; the next batch comes from new workers.
    """
    found: list[Any] = []

    def train(loader: Any) -> None:
        try:
            for number, batch in enumerate(loader):
                found.append(plain(batch))
                if number == after:
                    kill(workers()[:victims])
        except BaseException as error:  # noqa: BLE001 (a thread's would be lost)
            found.append(error)

    seed_all()
    with chosen(
        datasets.Draws(20), 2, batch_size=2, shuffle=True, on_worker_death="restart", multiprocessing_context="fork"
    ) as loader:
        if in_thread:
            iterator = iter(loader)  # here, as a fork beside another thread is warned of
            thread = threading.Thread(target=train, args=(iterator,), daemon=True)
            thread.start()
            thread.join(PATIENCE_SECONDS)
        else:
            train(loader)
        assert found == undisturbed()[0][0]
        assert loader.stats().total.restarts == 1


@pytest.mark.slow_spawn
@pytest.mark.parametrize(
    ("places", "most"),
    [
        pytest.param((0, 2), 2, id="two-at-once"),
        pytest.param((4, 12), 2, id="twice-in-an-epoch"),
        pytest.param((0, 2, 4, 6, 8, 10), 6, id="again-and-again-but-each-time-further"),
    ],
)
def test_several_deaths_lose_nothing(places: tuple[int, ...], most: int, tmp_path: Path) -> None:
    """
    Two workers die at the same time, or one after the other, each of them over another batch.
    """
    seed_all()
    bombs = {}
    for place in places:
        (tmp_path / str(place)).mkdir()
        bombs[order()[place]] = Bomb(tmp_path / str(place))
    dataset = Minefield(20, bombs)
    with chosen(dataset, 2, batch_size=2, shuffle=True, on_worker_death="restart") as loader:
        assert epochs_of(loader, 2) == undisturbed()[0]
        assert 1 <= loader.stats().total.restarts <= most


class Minefield(datasets.Draws):
    """
    A dataset with a bomb of its own for some samples.
    """

    def __init__(self, length: int, bombs: dict[int, Bomb]) -> None:
        super().__init__(length)
        self.bombs = bombs

    def __getitem__(self, index: int) -> torch.Tensor:
        if index in self.bombs:
            self.bombs[index]()
        return super().__getitem__(index)


@pytest.mark.slow_spawn
@pytest.mark.parametrize("number", [1, 4])
def test_death_with_one_worker_or_four_loses_nothing(number: int, tmp_path: Path) -> None:
    """
    As many start as there were.
    """
    seed_all()
    dataset = Deadly(20, Bomb(tmp_path), at=(order()[10],))
    with chosen(dataset, number, batch_size=2, shuffle=True, on_worker_death="restart") as loader:
        assert epochs_of(loader) == undisturbed()[0][:1]
        assert (loader.stats().total.restarts, len(pids())) == (1, number)


@pytest.mark.slow_spawn
def test_death_of_a_worker_that_makes_no_batches_loses_nothing(tmp_path: Path) -> None:
    """
    With batch_size=None samples come one by one.
    """
    epochs, _ = undisturbed(batch_size=None)
    at = int(epochs[0][7][0])
    with deadly(Bomb(tmp_path), "nowhere", batch_size=None) as loader:
        loader.dataset.at = (at,)
        assert epochs_of(loader) == epochs[:1]
        assert loader.stats().total.restarts == 1


@pytest.mark.slow_spawn
@pytest.mark.parametrize("place", [0, 10, 19])
def test_death_where_batches_come_in_any_order_loses_nothing(place: int, tmp_path: Path) -> None:
    """
    in_order=False: each batch once, with the random numbers that belong to it.
    """
    with deadly(Bomb(tmp_path), "nowhere", in_order=False) as loader:
        loader.dataset.at = (order()[place],)
        assert sorted(epochs_of(loader)[0]) == sorted(undisturbed()[0][0])
        assert loader.stats().total.restarts == 1
        assert loader.stats().epochs[0].is_exhausted


@pytest.mark.slow_spawn
def test_death_with_workers_of_the_users_loses_nothing(tmp_path: Path) -> None:
    """
    With num_workers fixed the random numbers are torch's and cannot be continued, but the samples are right.
    """
    seed_all()
    arguments: dict[str, Any] = {"num_workers": 2, "persistent_workers": True, "on_worker_death": "restart"}
    with auto_loader(Deadly(20, Bomb(tmp_path), at=(8,)), 2, **arguments) as loader:
        for _ in range(2):
            assert [int(sample[0]) for batch in loader for sample in batch] == list(range(20))
        assert loader.stats().total.restarts == 1


class Bases(datasets.Numbers):
    """
    Sample *i* is the number that torch seeded all workers of an epoch from; fetching sample 8 sets off the bomb.
    """

    def __init__(self, bomb: Bomb) -> None:
        super().__init__(20)
        self.bomb = bomb

    def __getitem__(self, index: int) -> int:
        if index == 8:
            self.bomb()
        info = get_worker_info()
        assert info is not None
        return info.seed - info.id


@pytest.mark.slow_spawn
def test_workers_that_start_in_the_middle_of_an_epoch_get_its_base(tmp_path: Path) -> None:
    """
    Torch's own seed is that of the workers that died, and the user's generator is asked once an epoch.
    """
    generator, other = (torch.Generator().manual_seed(3) for _ in range(2))
    arguments: dict[str, Any] = {"num_workers": 2, "generator": generator, "on_worker_death": "restart"}
    with auto_loader(Bases(Bomb(tmp_path)), 2, **arguments) as loader:
        for restarts in (1, 1):
            expected = torch.empty((), dtype=torch.int64).random_(generator=other).item()
            assert torch.cat(list(loader)).unique().tolist() == [expected]
            assert loader.stats().total.restarts == restarts


@pytest.mark.slow_spawn
def test_death_in_a_later_epoch_of_kept_workers_is_mended_there(tmp_path: Path) -> None:
    """
    The statistics say in which epoch it was.
    """
    bomb = Bomb(tmp_path, fuses=0)
    with deadly(bomb, "middle") as loader:
        epochs = epochs_of(loader)
        before = pids()
        Bomb(tmp_path)
        epochs += epochs_of(loader)
        assert epochs == undisturbed()[0]
        assert set(before).isdisjoint(pids())
        assert [epoch.restarts for epoch in loader.stats().epochs] == [0, 1]


@pytest.mark.slow_spawn
def test_two_iterators_mend_their_own_deaths(tmp_path: Path) -> None:
    """
    The workers of the one that lost none go on.
    """
    seed_all()
    dataset = Deadly(20, Bomb(tmp_path, fuses=0), at=(10,))
    with chosen(dataset, 1, batch_size=2, on_worker_death="restart") as loader:
        one, two = iter(loader), iter(loader)
        first = [plain(next(each))[0][0] for each in (one, two)]
        kill(workers()[:1])
        rest = [[plain(batch)[0][0] for batch in each] for each in (one, two)]
        assert (first, rest) == ([0, 0], [list(range(2, 20, 2))] * 2)
        assert sorted(epoch.restarts for epoch in loader.stats().epochs) == [0, 1]


@pytest.mark.slow_spawn
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("in_thread", [False, True])
def test_death_with_a_batch_half_written_does_not_hang(in_thread: bool, victim: int) -> None:
    """
    The pipe has the begin of a message whose rest never comes.
    """
    found: list[list[int]] = []

    def train(iterator: Any) -> None:
        for number, batch in enumerate(iterator):
            found.append([sample[0] for sample in batch])
            if number == 2:
                kill(workers()[victim : victim + 1])

    arguments = {"collate_fn": as_they_are, "on_worker_death": "restart", "multiprocessing_context": "fork"}
    with chosen(Heavy(20), 2, batch_size=2, **arguments) as loader:
        iterator = iter(loader)
        if in_thread:
            thread = threading.Thread(target=train, args=(iterator,), daemon=True)
            thread.start()
            thread.join(PATIENCE_SECONDS / 3)
            is_hanging = thread.is_alive()
        else:
            train(iterator)
            is_hanging = False
        assert not is_hanging
        assert found == [[start, start + 1] for start in range(0, 20, 2)]


@pytest.mark.parametrize("is_kept", [False, True], ids=["for-an-epoch", "kept"])
@pytest.mark.parametrize("where", ["handler", "thread-before", "thread-meanwhile"])
def test_close_while_dead_workers_are_replaced_ends_the_loop(
    where: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The new ones end, too, and no batch is served by them: a signal's handler comes in between, another thread waits.
    """
    replace = Deaths.replace
    loader = chosen(datasets.Numbers(40), 2, batch_size=2, on_worker_death="restart", persistent_workers=is_kept)
    closing = threading.Thread(target=loader.close)

    def close_meanwhile(self: Deaths, *arguments: Any) -> Any:
        if where == "thread-meanwhile":
            closing.start()
            closing.join(0.2)
            assert closing.is_alive()
        replaced = replace(self, *arguments)
        if where == "handler":
            loader.close()
        return replaced

    monkeypatch.setattr(Deaths, "replace", close_meanwhile)
    batches = iter(loader)
    next(batches)
    for process in workers():
        process.kill()
    if where == "thread-before":
        note = InnerLoader.dead_workers

        def close_before(self: InnerLoader) -> Any:
            found = note(self)
            if found and closing.ident is None:
                closing.start()
                closing.join()
            return found

        monkeypatch.setattr(InnerLoader, "dead_workers", close_before)
    with pytest.raises(LoaderClosedError, match="its loader was closed"):
        list(batches)
    if closing.ident is not None:
        closing.join()
    assert workers() == []
