"""
Paddle's search with costs that are looked up, and on a dataset that counts.
"""

from typing import Any

import pytest
from benchmarks.paddle_rule import choose_workers, mean_seconds, settings
from benchmarks.peers import Facts

LINUX = Facts(cpus=2, usable_cpus=2, platform="linux")


@pytest.mark.parametrize(
    ("cpus", "costs", "chosen", "asked"),
    [
        pytest.param(1, [1.0], 0, [0], id="one-cpu"),
        pytest.param(4, [1.0], 0, [0], id="half-of-four-is-excluded"),
        pytest.param(5, [1.0, 0.5], 2, [0, 2], id="half-of-five-is-above-two"),
        pytest.param(16, [1.0, 0.7, 0.5, 0.3], 6, [0, 2, 4, 6], id="always-better"),
        pytest.param(16, [1.0, 0.5, *[0.4] * 6], 2, [0, 2, *[4] * 6], id="stops-after-five-times-the-same"),
        pytest.param(6, [1.0, 0.8, 0.8, 0.8], 0, [0, 2, 2, 2], id="only-below-half-of-the-cpus"),
        pytest.param(8, [1.0, 0.8, 0.75, 0.55], 2, [0, 2, 2, 2], id="second-time-below-0.56"),
        pytest.param(12, [1.0, 0.8, 0.6, 0.74], 4, [0, 2, 2, 4], id="goes-on-from-one-with-the-old-cost"),
    ],
)
def test_choose_workers_tries_every_second_number(cpus: int, costs: list[float], chosen: int, asked: list[int]) -> None:
    """Costs are in the order in which they are asked for."""
    tried = []

    def cost(workers: int) -> float:
        tried.append(workers)
        return costs[len(tried) - 1]

    assert choose_workers(cost, cpus) == chosen
    assert tried == asked


@pytest.mark.parametrize(
    ("batches", "expected"), [pytest.param(2, 1.5, id="two"), pytest.param(4, 3.5, id="two-of-four")]
)
def test_mean_seconds_leaves_out_the_first_two_where_there_are_more(batches: int, expected: float) -> None:
    """The batches take one, two, three and four seconds."""
    assert mean_seconds(range(batches), iter([0.0, 1.0, 3.0, 6.0, 10.0]).__next__) == expected


@pytest.mark.torch
def test_settings_loads_the_first_samples_of_five_hundred_batches() -> None:
    """On two CPUs none is all that is tried, once."""
    pytest.importorskip("torch", reason="needs torch")
    loaded = []

    class Counts:
        def __len__(self) -> int:
            return 1_200

        def __getitem__(self, index: int) -> int:
            loaded.append(index)
            return index

    assert settings(Counts(), 2, LINUX) == {"num_workers": 0}
    assert loaded == list(range(1_000))


@pytest.mark.torch
def test_settings_of_streams_and_other_systems_are_the_users() -> None:
    """Nothing is loaded to find them."""
    data: Any = pytest.importorskip("torch.utils.data", reason="needs torch")

    class Stream(data.IterableDataset):
        def __iter__(self) -> Any:
            raise AssertionError("this stream was read")

    assert settings(Stream(), 2, LINUX) == {}
    for platform in ("darwin", "win32"):
        assert settings(None, 2, Facts(cpus=8, usable_cpus=8, platform=platform)) == {}
