"""
Generators that a dataset holds get a stream for each batch, and are put back where they load inline.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from autoloader.engine.randomness import DrawWatch, HeldGenerators, InlineStreams, Key, SeededInline

KINDS = [
    pytest.param(random.Random, id="python"),
    pytest.param(np.random.RandomState, id="numpy-legacy"),
    pytest.param(np.random.default_rng, id="numpy"),
    pytest.param(lambda seed: np.random.Generator(np.random.MT19937(seed)), id="numpy-mt19937"),
    pytest.param(lambda seed: np.random.Generator(np.random.Philox(seed)), id="numpy-philox"),
    pytest.param(lambda seed: np.random.Generator(np.random.SFC64(seed)), id="numpy-sfc64"),
    pytest.param(lambda seed: np.random.RandomState(np.random.PCG64(seed)), id="numpy-legacy-pcg64"),
    pytest.param(lambda seed: torch.Generator().manual_seed(seed), id="torch"),
]


def named(*generators: Any) -> dict[str, Any]:
    """
    Return generators by a path.
    """
    return {str(place): each for place, each in enumerate(generators)}


def gauss(generator: Any) -> float:
    """
    Return a normal number, of which most generators make two and keep one.
    """
    if isinstance(generator, torch.Generator):
        return torch.randn(1, generator=generator, dtype=torch.float64).item()
    return generator.gauss(0, 1) if isinstance(generator, random.Random) else float(generator.normal())


def several(generator: Any) -> list[float]:
    """
    Return three normal numbers.
    """
    return [gauss(generator) for _ in range(3)]


def by_batch(held: HeldGenerators, generator: Any, key: Key, positions: Iterator[int] | range) -> list[list[float]]:
    """
    Return what batches draw from one of the held generators.
    """
    drawn = []
    for position in positions:
        held.seed(key, position)
        drawn.append(several(generator))
    return drawn


@pytest.mark.parametrize("make", KINDS)
def test_held_generator_gives_each_batch_a_stream_of_its_own(make: Callable[[int], Any]) -> None:
    """
    A batch's numbers depend on its epoch and position, and not on what was drawn before, kept numbers included.
    """
    mine = make(1)
    held = HeldGenerators(named(mine))
    key = Key(5, 2, held.salts())
    drawn = by_batch(held, mine, key, range(8))
    assert len({number for numbers in drawn for number in numbers}) == 24
    assert by_batch(held, mine, key, reversed(range(8))) == drawn[::-1]
    gauss(mine)
    assert by_batch(held, mine, key, range(8)) == drawn
    assert by_batch(held, mine, key._replace(epoch=3), range(1)) != drawn[:1]


@pytest.mark.parametrize("make", KINDS)
def test_held_generator_in_a_copy_gives_the_same_streams(make: Callable[[int], Any]) -> None:
    """
    What a worker holds is a copy in some other state: salts come from the training process.
    """
    mine, copied = make(1), make(1)
    key = Key(5, 2, HeldGenerators(named(mine)).salts())
    several(copied)
    assert by_batch(HeldGenerators(named(copied)), copied, key, range(4)) == by_batch(
        HeldGenerators(named(mine)), mine, key, range(4)
    )


@pytest.mark.parametrize("make", KINDS)
def test_state_of_a_held_generator_decides_its_streams(make: Callable[[int], Any]) -> None:
    """
    Who seeds a generator otherwise, or has drawn from it, gets others.
    """
    first, second, third = make(1), make(2), make(1)
    several(third)
    drawn = []
    for each in (first, second, third):
        held = HeldGenerators(named(each))
        drawn.append(tuple(by_batch(held, each, Key(5, 2, held.salts()), range(1))[0]))
    assert len(set(drawn)) == 3


def test_generators_in_one_state_stay_in_step() -> None:
    """
    Two transforms that the user seeded alike, for an image and its mask, draw alike in every batch.
    """
    image, mask = random.Random(4), random.Random(4)
    held = HeldGenerators(named(image, mask))
    key = Key(5, 2, held.salts())
    for position in range(3):
        held.seed(key, position)
        assert several(image) == several(mask)


def test_several_held_generators_get_several_streams() -> None:
    """
    Of one kind or of several, no stream is that of another.
    """
    mine = [make.values[0](seed) for make in KINDS for seed in (1, 2)]
    held = HeldGenerators(named(*mine))
    held.seed(Key(5, 2, held.salts()), 0)
    assert len({number for each in mine for number in several(each)}) == 3 * len(mine)


@pytest.mark.parametrize("make", KINDS)
def test_inline_batch_gives_a_held_generator_back_exactly(make: Callable[[int], Any]) -> None:
    """
    The training loop's next number is the one that was due, and a kept one is still kept.
    """
    mine, untouched = make(1), make(1)
    assert gauss(mine) == gauss(untouched)
    streams = InlineStreams(Key(5, 2, {"0": 9}), HeldGenerators(named(mine)), DrawWatch())
    for position in range(4):
        streams.begin(position)
        several(mine)
        streams.end()
        assert gauss(mine) == gauss(untouched)


def test_end_of_an_inline_epoch_leaves_a_held_generator_alone() -> None:
    """
    Where no batch begins any more there is nothing to give back: what was drawn since the last one stays drawn.
    """
    mine, untouched = random.Random(1), random.Random(1)
    streams = InlineStreams(Key(5, 2, {"0": 9}), HeldGenerators(named(mine)), DrawWatch())

    def one_batch() -> Iterator[int]:
        streams.begin(0)
        yield 0

    source = SeededInline(one_batch(), streams)
    next(source)
    assert several(mine) == several(untouched)
    with pytest.raises(StopIteration):
        next(source)
    assert several(mine) == several(untouched)


@pytest.mark.parametrize("error", [StopIteration, KeyError])
def test_inline_epoch_without_a_batch_ends_as_its_sampler_does(error: type[Exception]) -> None:
    """
    An empty epoch ends, and a sampler's error at its first index is the sampler's.
    """

    class Fails:
        def __next__(self) -> Any:
            raise error

    streams = InlineStreams(Key(5, 2, {"0": 9}), HeldGenerators(named(random.Random(1))), DrawWatch())
    with pytest.raises(error):
        next(SeededInline(Fails(), streams))  # type: ignore[arg-type]


def test_no_generators_are_false_and_have_no_salts() -> None:
    """
    A dataset that holds none costs nothing.
    """
    assert not HeldGenerators({})
    assert HeldGenerators({}).salts() == {}
    assert HeldGenerators(named(random.Random(1)))
