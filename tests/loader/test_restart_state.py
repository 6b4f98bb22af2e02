"""
What new workers take over from those that died: news, checkpoints, generators; and how many of them there are.
"""

import gc
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import datasets
from loader.chosen import chosen, epochs_of, plain, seed_all
from loader.conftest import Host
from loader.deadly import Bomb, Deadly, kill, pids, wait_until, warnings_in, workers
from loader.resuming import LENGTH, Run, loader_of, resumed, through_a_checkpoint

pytestmark = [
    pytest.mark.slow_spawn,
    pytest.mark.skipif(sys.platform == "win32", reason="workers end by signals, which Windows has not"),
]

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _memory_is_known(host: Host) -> None:
    """
    Let the kernel count no out-of-memory kill: where it cannot be asked, every SIGKILL may be one.
    """
    host.change("memory", oom_kills=0)


class Told(datasets.Numbers):
    """
    Sample *i* is *i*, the scale, and the epoch that this copy was told; fetching sample 10 sets off the bomb.
    """

    def __init__(self, bomb: Bomb) -> None:
        super().__init__(20)
        self.bomb = bomb
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 10:
            self.bomb()
        return torch.tensor([index, self.scale, self.epoch])


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_news_reach_workers_that_start_in_the_middle_of_an_epoch(method: str, tmp_path: Path) -> None:
    """
    What was broadcast, and the epoch, as the dead ones had heard it.
    """
    dataset = Told(Bomb(tmp_path, fuses=0))
    with chosen(dataset, 2, batch_size=2, on_worker_death="restart", multiprocessing_context=method) as loader:
        list(loader)
        loader.broadcast(scale=7)
        loader.set_epoch(4)
        Bomb(tmp_path)
        assert torch.cat(list(loader)).tolist() == [[index, 7, 4] for index in range(20)]
        assert loader.stats().total.restarts == 1
        loader.broadcast(scale=8)
        assert torch.cat(list(loader))[:, 1].unique().tolist() == [8]
        assert loader.stats().total.restarts == 1


class Holds(Deadly):
    """
    Samples from generators that the dataset itself holds.
    """

    def __init__(self, length: int, bomb: Bomb | None, at: tuple[int, ...]) -> None:
        super().__init__(length, bomb, at)
        self.own = np.random.default_rng(3), torch.Generator().manual_seed(4), random.Random(5)

    def __getitem__(self, index: int) -> torch.Tensor:
        super().__getitem__(index)
        numpys, torchs, pythons = self.own
        drawn = [float(numpys.random()), torch.rand(1, generator=torchs).item(), pythons.random()]
        return torch.tensor([index, *drawn], dtype=torch.float64)


def test_generators_that_a_dataset_holds_go_on(tmp_path: Path) -> None:
    """
    Those of new workers give what those of the dead would have given.
    """
    found = []
    for bomb in (None, Bomb(tmp_path)):
        seed_all()
        with chosen(Holds(20, bomb, (10,)), 2, batch_size=2, on_worker_death="restart") as loader:
            found.append(epochs_of(loader, 2))
    assert found[0] == found[1]


def test_checkpoint_of_an_epoch_with_a_death_is_continued(tmp_path: Path) -> None:
    """
    After the death, and before it; the second run has deaths of its own.
    """
    whole = Run(loader_of("shuffle"), epochs=1).epochs[0]
    places = [int(whole[number][0][0]) for number in (1, 4)]

    def make(place: int) -> Any:
        (tmp_path / str(place)).mkdir()
        dataset = Deadly(LENGTH, Bomb(tmp_path / str(place)), at=(place,))
        return chosen(dataset, 2, batch_size=2, shuffle=True, on_worker_death="restart")

    seed_all(1)
    with make(places[0]) as loader:
        iterator = iter(loader)
        found = [plain(next(iterator)) for _ in range(3)]
        state = through_a_checkpoint(loader.state_dict())
        assert loader.stats().total.restarts == 1
    with resumed(make(places[1]), state) as loader:
        found += epochs_of(loader)[0]
        assert loader.stats().total.restarts == 1
    assert found == whole


def test_open_files_do_not_grow_with_restarts() -> None:
    """
    Workers that died hold none of this process; a thread that feeds a queue takes its time to end.
    """

    def held() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    with chosen(datasets.Numbers(80), 2, batch_size=2, on_worker_death="restart") as loader:
        early = 0
        for number, _ in enumerate(loader):
            if number % 3 == 1:
                early = early or held()
                kill(workers()[:1])
        assert loader.stats().total.restarts >= 5  # one may be seen together with the next
        assert wait_until(lambda: held() <= early)


def test_workers_after_several_deaths_prepare_as_many_batches_as_planned(tmp_path: Path) -> None:
    """
    Over the same batch they may have got one at a time; that ends with the epoch.
    """
    dataset = Deadly(20, Bomb(tmp_path, fuses=3), at=(6,))
    with chosen(dataset, 2, batch_size=2, prefetch_factor=3, on_worker_death="restart") as loader:
        assert len(list(loader)) == 10
        assert loader.stats().total.restarts == 3
        iterator = iter(loader)
        assert loader.stats().in_flight == 6
        list(iterator)


@pytest.mark.parametrize(
    ("before", "after", "left", "text"),
    [
        pytest.param(
            {"oom_kills": 0},
            {"oom_kills": 1},
            2,
            "the kernel's out-of-memory killer did it, the kernel counts 1 out-of-memory kill since the workers "
            "started. Pass num_workers=2 instead of 4, ",
            id="kernel-counted",
        ),
        pytest.param(
            {"oom_kills": 0},
            {"oom_kills": 0, "total_bytes": 16 * GIB, "headroom_bytes": 1.0 * GIB, "bound_by": "available_bytes"},
            2,
            ", and memory is short (the host has 16 GiB): most likely an out-of-memory killer did it",
            id="memory-short",
        ),
        pytest.param(
            {"oom_kills": None},
            {"oom_kills": None},
            2,
            "whether it was an out-of-memory kill is not to be seen from here",
            id="not-known",
        ),
        pytest.param(
            {"oom_kills": 3},
            {"oom_kills": 3},
            4,
            "it was not the kernel's out-of-memory killer, as the kernel counts no kill of it since workers started",
            id="not-memory",
        ),
    ],
)
def test_death_by_lack_of_memory_is_followed_by_half_the_workers(
    before: dict[str, Any],
    after: dict[str, Any],
    left: int,
    text: str,
    host: Host,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """
    They go on, and stay for the next epoch; a death that has nothing to do with memory costs no worker.
    """
    seed_all()
    with chosen(datasets.Draws(20), 0, batch_size=2, shuffle=True) as loader:
        epochs = epochs_of(loader, 2)
    seed_all()
    host.change("memory", **before)
    with chosen(datasets.Draws(20), 4, batch_size=2, shuffle=True, on_worker_death="restart") as loader:
        iterator = iter(loader)
        found = [plain(next(iterator))]
        host.change("memory", **after)
        kill(workers()[:1])
        found += [plain(batch) for batch in iterator]
        kept = pids()
        assert (found, len(kept)) == (epochs[0], left)
        assert epochs_of(loader) == epochs[1:]
        assert pids() == kept
        rule = loader.plan.choices["num_workers"].rule
        assert (loader.plan.value("num_workers"), rule == "num_workers.fewer-after-deaths") == (left, left < 4)
        loader.close()
        next(iter(loader))
        assert len(pids()) == left
    (told,) = warnings_in(caplog)
    assert text in told


def test_only_worker_that_lacks_memory_is_followed_by_one(host: Host) -> None:
    """
    Half of one is one.
    """
    with chosen(datasets.Numbers(12), 1, batch_size=2, on_worker_death="restart") as loader:
        iterator = iter(loader)
        next(iterator)
        host.change("memory", oom_kills=1)
        kill(workers())
        assert [batch[0, 0].item() for batch in iterator] == [2, 4, 6, 8, 10]
        assert len(pids()) == 1
