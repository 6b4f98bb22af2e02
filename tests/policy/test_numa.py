"""
Workers run on the node of the accelerator where that is known and has room.
"""

from typing import Any

import pytest

from autoloader.facts import AcceleratorFacts, CpuFacts, HostFacts, JobFacts, NumaFacts, ProcessFacts
from autoloader.policy.numa import near_cpus

NODES = {"0": tuple(range(8)), "1": tuple(range(8, 16)), "2": ()}


def server(numa_nodes: tuple[int, ...], job: JobFacts | None = None, **cpu: Any) -> HostFacts:
    """
    Return a server of two nodes with 8 CPUs each, and one of memory only, with an accelerator on each of *numa_nodes*.
    """
    return HostFacts(
        cpu=CpuFacts(**{"affinity": tuple(range(16)), **cpu}),
        numa=NumaFacts(nodes=3, cpu_nodes=2, node_cpus=NODES),
        accelerator=AcceleratorFacts(kind="cuda", devices=len(numa_nodes), numa_nodes=numa_nodes),
        job=job or JobFacts(local_world_size=1),
    )


def rank(local_rank: int | None, local_world_size: int) -> JobFacts:
    """
    Return the place of a rank on this node.
    """
    return JobFacts(launcher="torchrun", local_rank=local_rank, local_world_size=local_world_size)


@pytest.mark.parametrize(
    ("facts", "workers", "node"),
    [
        pytest.param(server((1,)), 8, 1, id="one-accelerator"),
        pytest.param(server((1, 1)), 8, 1, id="both-on-one-node"),
        pytest.param(server((1,)), 9, None, id="more-workers-than-cpus-there"),
        pytest.param(server((1,)), 0, None, id="no-workers"),
        pytest.param(server((0, 1)), 2, None, id="which-of-two-is-not-known"),
        pytest.param(server((0, 1), rank(1, 2)), 8, 1, id="that-of-the-rank"),
        pytest.param(server((0, 0, 1, 1), rank(2, 4)), 4, 1, id="two-ranks-share-a-node"),
        pytest.param(server((0, 0, 1, 1), rank(2, 4)), 5, None, id="two-ranks-do-not-fit"),
        pytest.param(server((0, 0, 1, 1), rank(1, 2)), 4, 0, id="two-ranks-of-four-accelerators"),
        pytest.param(server((1,), rank(3, 4)), 2, 1, id="each-rank-sees-its-own"),
        pytest.param(server((1,), rank(3, 4)), 3, None, id="who-else-is-there-is-not-known"),
        pytest.param(server((0, 1), rank(2, 4)), 1, None, id="more-ranks-than-accelerators"),
        pytest.param(server((0, 1), rank(None, 2)), 1, None, id="rank-unknown"),
        pytest.param(server(()), 2, None, id="nodes-unknown"),
        pytest.param(server((2,)), 2, None, id="node-of-memory-only"),
        pytest.param(server((5,)), 2, None, id="node-that-is-not-there"),
        pytest.param(server((1,), affinity=None), 2, None, id="affinity-unknown"),
        pytest.param(server((1,), affinity=tuple(range(8, 16))), 2, None, id="bound-there-already"),
        pytest.param(server((1,), affinity=tuple(range(8))), 2, None, id="bound-elsewhere"),
    ],
)
def test_workers_go_where_the_accelerator_of_the_process_is(facts: HostFacts, workers: int, node: int | None) -> None:
    """
    And stay where they are wherever that is in doubt.
    """
    near = near_cpus(facts, workers)
    assert (None if near is None else near.node) == node
    if near is not None:
        assert near.cpus == NODES[str(node)]


def test_cpus_are_those_that_the_process_may_use() -> None:
    """
    Affinity and control groups may leave few of a node.
    """
    facts = server((1,), affinity=(0, 1, 9, 10, 11), cpuset=(0, 1, 2, 3, 9, 10))
    near = near_cpus(facts, 2)
    assert near is not None
    assert near.cpus == (9, 10)
    assert near_cpus(facts, 3) is None


def test_torch_that_knows_no_accelerator_has_none_nearby() -> None:
    """
    Whatever is built into the host: it is not trained on.
    """
    facts = server((1,))
    assert near_cpus(facts, 2) is not None
    assert near_cpus(facts._replace(process=ProcessFacts(is_torch_built_for_accelerator=False)), 2) is None


def test_host_of_one_node_has_nothing_to_choose() -> None:
    """
    All CPUs are near.
    """
    facts = server((0,))._replace(numa=NumaFacts(nodes=1, cpu_nodes=1, node_cpus={"0": tuple(range(16))}))
    assert near_cpus(facts, 2) is None
