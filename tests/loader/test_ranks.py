"""
Several ranks of a process group: samples are shared if the user says so, and only then.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils.data import DistributedSampler, SequentialSampler

import datasets
from autoloader import auto_loader
from autoloader.errors import ArgumentError
from live.running import SOURCE
from loader.conftest import Host


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Be rank 1 of 2, without a process group.
    """
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 1)


@pytest.mark.usefixtures("ranks")
def test_rank_loads_all_samples_and_the_plan_notes_it() -> None:
    """
    A process group changes no sample by itself.
    """
    loader = auto_loader(datasets.Numbers(8), 4, num_workers=0)
    assert torch.cat(list(loader))[:, 0].tolist() == list(range(8))
    text = (
        "Each of 2 ranks loads all samples: the sampler does not know of ranks. Pass distributed=True, or a "
        "DistributedSampler, if each rank is to train on a share of the dataset."
    )
    assert [note.text for note in loader.plan.notes] == [text]


@pytest.mark.usefixtures("ranks")
def test_rank_of_a_stream_is_told_that_the_stream_has_to_share() -> None:
    """
    There is no sampler that could, and nobody sees whether its code does.
    """
    loader = auto_loader(datasets.SharedStream(8), 4, num_workers=0)
    text = (
        "Each of 2 ranks yields the whole dataset, unless its code looks which rank it is in. Yield each rank its "
        "share (torch.distributed.get_rank()), and in that each worker its own."
    )
    assert [note.text for note in loader.plan.notes] == [text]
    loader._take_plan(loader.plan)  # as where a stream is resumed
    assert [note.text for note in loader.plan.notes] == [text]


@pytest.mark.usefixtures("ranks")
@pytest.mark.parametrize("shuffle", [None, False, True])
def test_rank_loads_its_share_where_that_is_wanted(shuffle: bool | None) -> None:
    """
    The share, and its order in three epochs, are those of torch's DistributedSampler whose epoch is set.
    """
    sampler = DistributedSampler(datasets.Numbers(8), num_replicas=2, rank=1, shuffle=bool(shuffle))
    expected = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        expected.append(list(sampler))
    loader = auto_loader(datasets.Numbers(8), 2, shuffle, num_workers=0, distributed=True)
    assert [torch.cat(list(loader))[:, 0].tolist() for _ in range(3)] == expected
    assert loader.plan.notes == ()


@pytest.mark.usefixtures("ranks")
def test_loader_that_is_off_gives_its_own_sampler_the_number_of_each_epoch(host: Host) -> None:
    """
    Nobody else could, and each epoch would have the order of the first one; a number of the user's stands.
    """
    sampler = DistributedSampler(datasets.Numbers(8), num_replicas=2, rank=1, shuffle=True)
    expected = []
    for epoch in (0, 1, 7, 7):
        sampler.set_epoch(epoch)
        expected.append(list(sampler))
    host.environment["AUTOLOADER_OFF"] = "1"
    loader = auto_loader(datasets.Numbers(8), 2, shuffle=True, distributed=True)
    found = [torch.cat(list(loader))[:, 0].tolist() for _ in range(2)]
    loader.set_epoch(7)
    found += [torch.cat(list(loader))[:, 0].tolist() for _ in range(2)]
    assert found == expected


@pytest.mark.usefixtures("ranks")
def test_loader_that_is_off_leaves_the_epoch_that_its_sampler_was_told(host: Host) -> None:
    """
    Who resumes a training calls the sampler's set_epoch.
    """
    sampler = DistributedSampler(datasets.Numbers(8), num_replicas=2, rank=1, shuffle=True)
    sampler.set_epoch(5)
    host.environment["AUTOLOADER_OFF"] = "1"
    loader = auto_loader(datasets.Numbers(8), 2, shuffle=True, distributed=True)
    loader.sampler.set_epoch(5)
    assert torch.cat(list(loader))[:, 0].tolist() == list(sampler)


def test_process_alone_loads_everything() -> None:
    """
    The script of many ranks runs without a launcher, too.
    """
    loader = auto_loader(datasets.Numbers(8), 4, num_workers=0, distributed=True)
    assert isinstance(loader.sampler, SequentialSampler)


@pytest.mark.parametrize(
    ("dataset", "arguments", "text"),
    [
        pytest.param(
            datasets.Numbers(8),
            {"sampler": [1, 2]},
            "distributed=True cannot share the samples of a list: it makes a sampler of its own. Leave your sampler "
            "out, or leave distributed out and let your sampler give each rank its share.",
            id="sampler",
        ),
        pytest.param(
            datasets.Stream(),
            {},
            "distributed=True cannot share what a Stream yields: an iterable-style dataset has no indices. Leave "
            "distributed out, and let __iter__ yield each rank its share (torch.distributed.get_rank()).",
            id="stream",
        ),
    ],
)
def test_samples_that_cannot_be_shared_are_an_error(dataset: Any, arguments: dict[str, Any], text: str) -> None:
    """
    The error says what to do instead.
    """
    with pytest.raises(ArgumentError) as error:
        auto_loader(dataset, 2, distributed=True, **arguments)
    assert str(error.value) == text


def test_launcher_without_a_process_group_is_an_error(host: Any) -> None:
    """
    Made too early, the loader of each rank would load everything.
    """
    host.environment["WORLD_SIZE"] = "4"
    with pytest.raises(ArgumentError) as error:
        auto_loader(datasets.Numbers(8), 2, distributed=True)
    assert str(error.value) == (
        "distributed=True cannot share samples among 4 ranks yet: there is no process group. Call "
        "torch.distributed.init_process_group() before you make the loader."
    )


JOB = """
import json
import torch
import datasets
from autoloader import auto_loader

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    with auto_loader(datasets.Numbers(10), 2, shuffle=True, distributed=True, seed=3) as loader:
        epochs = [torch.cat(list(loader))[:, 0].tolist() for _ in range(2)]
    print(json.dumps(epochs))
    torch.distributed.destroy_process_group()
"""


@pytest.mark.slow_spawn
@pytest.mark.real_host
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no process groups")
def test_two_real_ranks_load_each_sample_once(tmp_path: Any) -> None:
    """
    Two processes with a process group share each epoch, and each has another order.
    """
    script = tmp_path / "job.py"
    script.write_text(JOB, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([str(SOURCE), *sys.path])
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, **job, "PYTHONPATH": path, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    shares = [json.loads(rank.communicate(timeout=120)[0].splitlines()[-1]) for rank in ranks]
    for first, second in zip(*shares, strict=True):
        assert sorted(first + second) == list(range(10))
    assert shares[0][0] != shares[0][1]
