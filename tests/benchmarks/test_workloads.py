"""
Every workload yields all of its samples, and the same ones each time.
"""

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", reason="needs torch")
np = pytest.importorskip("numpy", reason="needs numpy")
pytest.importorskip("PIL", reason="needs pillow")

from benchmarks import child, peers, workloads  # noqa: E402

ALL = [*workloads.WORKLOADS, *workloads.unseen(7)]


def made(workload: workloads.Workload, folder: Path, samples: int = 4) -> Any:
    """
    Return a workload's dataset with few samples, or skip where its library is missing.
    """
    for name in ("lmdb", "h5py"):
        if workload.name in (name, name.replace("h5py", "hdf5")):
            pytest.importorskip(name, reason=f"needs {name}")
    return workload.make_dataset(samples, folder)


@pytest.mark.parametrize("workload", ALL, ids=lambda each: each.name)
def test_workload_is_the_same_twice_and_yields_every_sample(workload: workloads.Workload, tmp_path: Path) -> None:
    """A second dataset has the first one's values; the index is the second part of each sample."""
    arguments = {**workload.loader_arguments, "batch_size": 2, "shuffle": False}
    passes = [list(torch.utils.data.DataLoader(made(workload, tmp_path), **arguments)) for _ in range(2)]
    assert sorted(torch.cat([batch[1] for batch in passes[0]]).tolist()) == [0, 1, 2, 3]
    for one, other in zip(*passes, strict=True):
        assert torch.equal(one[0], other[0])
    consume = workload.consumer()
    consume(passes[0][0])


def test_names_are_unique_and_quick_batches_fewer() -> None:
    """A name finds one workload, and a quick run is no longer than a full one."""
    assert len({each.name for each in ALL}) == len(ALL)
    assert all(1 <= each.quick_batches <= each.batches for each in ALL)


def test_unseen_workloads_follow_from_the_seed() -> None:
    """The same seed draws the same workloads, another one others."""
    described = [[(each.loader_arguments, each.make_dataset.args) for each in workloads.unseen(n)] for n in (7, 7, 8)]
    assert described[0] == described[1] != described[2]


def test_find_of_an_unknown_name_tells_the_known_ones() -> None:
    """The unseen ones are among them where there is a seed."""
    with pytest.raises(ValueError, match=r"'nothing' is no workload: there are small-tensors, .*unseen-7-2"):
        workloads.find("nothing", 7)
    assert workloads.find("unseen-7-1", 7).name == "unseen-7-1"


@pytest.mark.slow_spawn
@pytest.mark.parametrize("maker", ["torch", peers.PADDLE, peers.POLICY, peers.OURS])
@pytest.mark.real_host
def test_child_counts_all_samples_of_all_epochs(maker: str, tmp_path: Path) -> None:
    """Twelve epochs of one batch of eight, whoever makes the loader."""
    job = child.Job(
        workload="many-short-epochs", seed=None, batches=1, epochs=12, maker=maker, settings={}, folder=str(tmp_path)
    )
    found = child.run(job, child.get_ready(job))
    assert (found["epochs"], found["samples"], found["sum"]) == (12, 96, 12 * 28)
    assert 0 <= found["choosing_seconds"] < found["first_seconds"] <= found["wall_seconds"]
