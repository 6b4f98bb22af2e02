"""
Which CPUs are near the accelerator that a process trains on.
"""

from typing import NamedTuple

from ..facts import HostFacts


class NearCpus(NamedTuple):
    """
    A memory node, and the CPUs on it that this process may use.
    """

    node: int
    cpus: tuple[int, ...]


def near_cpus(facts: HostFacts, num_workers: int) -> NearCpus | None:
    """
    Return where workers have the memory of this process's accelerator at hand.

    Workers put batches into the memory of the node that they run on, and the accelerator fetches them from there.
    ``None`` where nothing is to be gained, where it is not known which accelerator this process trains on, and where
    the node has too few CPUs for all workers of the ranks that train on its accelerators.
    """
    node, ranks = _node_of(facts)
    cpu, node_cpus = facts.cpu, facts.numa.node_cpus
    if node is None or node_cpus is None or cpu.affinity is None or not num_workers:
        return None
    if facts.process.is_torch_built_for_accelerator is False:
        return None
    usable = set(cpu.affinity) if cpu.cpuset is None else set(cpu.affinity) & set(cpu.cpuset)
    cpus = usable & set(node_cpus.get(str(node), ()))
    if cpus == usable or len(cpus) < num_workers * ranks:
        return None
    return NearCpus(node, tuple(sorted(cpus)))


def _node_of(facts: HostFacts) -> tuple[int | None, int]:
    """
    Return the node of this rank's accelerator, and how many ranks may train on those of that node.

    Local rank *n* trains on the *n*-th accelerator that it sees, as launchers have it, unless it sees one only.
    """
    nodes, job = facts.accelerator.numa_nodes, facts.job
    ranks = job.local_world_size or 1
    if len(set(nodes)) == 1:
        return nodes[0], ranks
    if job.launcher is None or job.local_rank is None or ranks > len(nodes) or job.local_rank >= ranks:
        return None, ranks
    node = nodes[job.local_rank]
    return node, nodes[:ranks].count(node)
