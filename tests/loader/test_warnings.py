"""
No warning and no output, ours or torch's, for anything that is fine.
"""

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, TensorDataset

import datasets
from autoloader import auto_loader


def consume(loader: Any, most: int = 50) -> int:
    """
    Go through two epochs and return the batches of the last.
    """
    count = 0
    with loader:
        for _ in range(2):
            count = sum(1 for _ in itertools.islice(loader, most))
    return count


slow = functools.partial(pytest.param, marks=pytest.mark.slow_spawn)


@pytest.mark.parametrize(
    ("make", "batches"),
    [
        slow(lambda: auto_loader(TensorDataset(torch.zeros(20, 2)), 4, True), 5, id="tensors"),
        slow(lambda: auto_loader(datasets.Stream(20), 4), 5, id="iterable-style"),
        pytest.param(lambda: auto_loader(datasets.SharedStream(20), 4), 6, id="iterable-style-worker-aware"),
        slow(lambda: auto_loader(datasets.Numbers(12), 4), 3, id="three-batches"),
        pytest.param(lambda: auto_loader(datasets.Numbers(0), 4), 0, id="empty"),
        pytest.param(lambda: auto_loader([], 4), 0, id="empty-list"),
        slow(lambda: auto_loader([1, 2, 3], 2), 2, id="list"),
        slow(lambda: auto_loader(datasets.Numbers(6), None), 6, id="no-batches"),
        slow(
            lambda: auto_loader(
                datasets.Numbers(9), batch_sampler=BatchSampler(RandomSampler(range(9)), 2, drop_last=False)
            ),
            5,
            id="batch-sampler",
        ),
        slow(lambda: auto_loader(datasets.Numbers(), 2, sampler=itertools.cycle([1])), 50, id="infinite"),
        slow(lambda: auto_loader(datasets.Unsized(), 2, sampler=[1, 2, 3]), 2, id="no-length"),
    ],
)
def test_ordinary_use_is_silent(make: Any, batches: int, capfd: pytest.CaptureFixture[str]) -> None:
    """
    Every warning is an error in these tests, and workers write nothing either.
    """
    assert consume(make()) == batches
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow_spawn
def test_folder_of_jpegs_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """
    Real image files load in workers without a word.
    """
    from PIL import Image

    for number in range(12):
        Image.fromarray(np.full((16, 16, 3), number, dtype=np.uint8)).save(tmp_path / f"{number}.jpg")
    assert consume(auto_loader(datasets.Jpegs(tmp_path), 4)) == 3
    assert capfd.readouterr() == ("", "")


def test_torchs_warning_about_many_workers_is_for_the_users_number_only() -> None:
    """
    A number that the user set is torch's to warn about, once.
    """
    with pytest.warns(UserWarning, match="This DataLoader will create 500 worker processes") as caught:
        auto_loader(datasets.Numbers(), 4, num_workers=500)
    assert len(caught) == 1


def test_torchs_warning_about_many_workers_is_never_for_ours(host: Any) -> None:
    """
    A number that we chose gives no warning, whatever torch thinks of this machine.
    """
    host.change("cpu", usable_cpus=4096.0)
    assert auto_loader(datasets.Numbers(4000), 4).num_workers == 16
