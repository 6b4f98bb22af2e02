"""
Indices are numbered on their way, and what is issued and not yet served is known.
"""

import pickle
from collections.abc import Iterator
from typing import Any

from autoloader.engine.issue import IN_WORKER, Arrival, IssuedIndices
from autoloader.engine.randomness import BaseSeed


class CountedSampler:
    """
    Counts how often it is asked for an iterator.
    """

    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.asked += 1
        return iter([[0, 1], [2, 3], [4]])

    def __len__(self) -> int:
        return 3


def make(sampler: Any, arrival: Arrival | None = None) -> IssuedIndices:
    """
    Return the indices of a sampler, for workers or for loading inline.
    """
    issued = IssuedIndices(sampler, BaseSeed(None))
    issued.load_inline(arrival)
    return issued


def test_issued_indices_arrive_as_the_samplers_own_with_their_position() -> None:
    """
    What a worker unpickles is the list itself; its position is known beside it.
    """
    issued = iter(make(CountedSampler()))
    for position, expected in enumerate([[0, 1], [2, 3], [4]]):
        indices = pickle.loads(pickle.dumps(next(issued)))
        assert (type(indices), indices, IN_WORKER.position) == (list, expected, position)


def test_issued_indices_inline_need_no_journey() -> None:
    """
    In the training process the indices are handed out as they are.
    """
    arrival = Arrival()
    issued = iter(make(CountedSampler(), arrival))
    assert (next(issued), arrival.position) == ([0, 1], 0)
    assert pickle.loads(pickle.dumps(IN_WORKER)) is IN_WORKER


def test_outstanding_are_those_issued_and_not_served() -> None:
    """
    Served batches and failed ones leave the list; a failure is that of the oldest batch.
    """
    sampler = make(CountedSampler(), Arrival())
    issued = iter(sampler)
    for _ in range(3):
        next(issued)
    sampler.outstanding.pop(1)
    sampler.failed()
    assert sampler.outstanding == {2: [4]}


def test_iter_before_the_first_batch_asks_the_sampler_again_as_torch_does() -> None:
    """
    Torch asks twice when it starts workers: the second iterator counts.
    """
    base = CountedSampler()
    sampler = make(base, Arrival())
    iter(sampler)
    assert [*iter(sampler)] == [[0, 1], [2, 3], [4]]
    assert base.asked == 2


def test_iter_after_the_first_batch_continues_the_epoch() -> None:
    """
    Another loader that draws from the same sampler goes on where the first one stopped.
    """
    base = CountedSampler()
    sampler = make(base, Arrival())
    next(iter(sampler))
    assert [*iter(sampler)] == [[2, 3], [4]]
    sampler.begin_epoch(1)
    assert [*iter(sampler)] == [[0, 1], [2, 3], [4]]
    assert base.asked == 2
