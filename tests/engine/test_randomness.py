"""
One stream for each batch and generator, and the caller's own streams back afterwards.
"""

import random
import struct
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from autoloader.engine.randomness import (
    BaseSeed,
    DrawWatch,
    HeldGenerators,
    InlineStreams,
    Key,
    SeededInline,
    have_moved,
    random_states,
    restore_random_states,
    seed_global,
)

KEY = Key(5, 2, {})

DRAWS: dict[str, Callable[[], float]] = {
    "torch": lambda: torch.rand(1, dtype=torch.float64).item(),
    "python": random.random,
    "numpy": lambda: float(np.random.rand()),
}

GAUSS: dict[str, Callable[[], float]] = {
    "torch": lambda: torch.randn(1, dtype=torch.float64).item(),
    "python": lambda: random.gauss(0, 1),
    "numpy": lambda: float(np.random.randn()),
}
"""
Each of these makes two numbers, and keeps one of them for the next call.
"""


@pytest.fixture(autouse=True)
def _global_generators() -> Iterator[None]:
    """
    Begin in the middle of known streams, with a number kept in each, and leave those of other tests as they are.
    """
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    torch.manual_seed(11)
    random.seed(12)
    np.random.seed(13)
    all_of(GAUSS)
    yield
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


@pytest.fixture
def pcg64() -> Iterator[np.random.PCG64]:
    """
    Let numpy's global generator draw from another bit generator, as the user may.
    """
    if not hasattr(np.random, "set_bit_generator"):
        pytest.skip("this numpy has one global bit generator only")
    before = np.random.get_bit_generator()
    bits = np.random.PCG64(14)
    np.random.set_bit_generator(bits)
    yield bits
    np.random.set_bit_generator(before)


def inline(key: Key = KEY, *held: Any, watch: DrawWatch | None = None) -> InlineStreams:
    """
    Return the streams of an epoch that loads inline; *watch* is what earlier epochs have shown.
    """
    return InlineStreams(
        key,
        HeldGenerators({str(place): each for place, each in enumerate(held)}),
        DrawWatch() if watch is None else watch,
    )


def all_of(draws: dict[str, Callable[[], float]]) -> list[float]:
    """
    Return one draw from each generator.
    """
    return [draw() for draw in draws.values()]


def drawn(key: Key, position: int) -> list[float]:
    """
    Return what the first draws of a batch are.
    """
    seed_global(key, position)
    return [*all_of(GAUSS), *all_of(DRAWS)]


def ahead() -> list[float]:
    """
    Return the caller's next draws, without drawing them.
    """
    states = random_states()
    try:
        return [*all_of(GAUSS), *all_of(DRAWS)]
    finally:
        restore_random_states(states)


def who_is_seeded(streams: InlineStreams, position: int, draw: Callable[[], object] = list) -> list[str]:
    """
    Load one batch, and return the generators that have another stream meanwhile.
    """
    before = {name: one_ahead(name) for name in DRAWS}
    streams.begin(position)
    try:
        seeded = [name for name in DRAWS if one_ahead(name) != before[name]]
        draw()
    finally:
        streams.end()
    return seeded


def one_ahead(name: str) -> float:
    """
    Return the next draw of one generator, without drawing it.
    """
    states = random_states()
    try:
        return DRAWS[name]()
    finally:
        restore_random_states(states)


def test_streams_are_what_the_digest_of_base_epoch_and_position_says() -> None:
    """
    Computed by hand: 8 bytes for torch, 8 for Python, 16 for numpy. A checkpoint of today is continued tomorrow.
    """
    data = blake2b(b"(5, 2, 7)", digest_size=32).digest()
    for_torch = torch.Generator().manual_seed(int.from_bytes(data[:8], "little") >> 1)
    for_python = random.Random(int.from_bytes(data[8:16], "little"))
    for_numpy = np.random.RandomState(list(struct.unpack("<4I", data[16:])))
    seed_global(Key(5, 2, None), 7)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=for_torch))
    assert [random.random() for _ in range(3)] == [for_python.random() for _ in range(3)]
    assert np.random.rand(3).tolist() == for_numpy.rand(3).tolist()


def test_global_generators_get_three_different_streams() -> None:
    """
    Python's and numpy's are the same algorithm: with one seed they would give the same numbers.
    """
    seed_global(KEY, 0)
    many = [draw() for draw in DRAWS.values() for _ in range(50)]
    assert len(set(many)) == 150
    assert set(random.getstate()[1][:624]).isdisjoint(np.random.get_state()[1].tolist())


@pytest.mark.parametrize(
    ("key", "position"),
    [
        pytest.param(Key(6, 2, {}), 7, id="base"),
        pytest.param(Key(5, 3, {}), 7, id="epoch"),
        pytest.param(Key(5, 2, {}), 8, id="position"),
        pytest.param(Key(5, 7, {}), 2, id="epoch-and-position-swapped"),
    ],
)
def test_another_base_epoch_or_position_gives_other_streams(key: Key, position: int) -> None:
    """
    Each of the three counts, for each generator.
    """
    assert set(drawn(KEY, 7)).isdisjoint(drawn(key, position))


def test_streams_depend_on_nothing_else() -> None:
    """
    Neither what was drawn before nor the held generators' salts count, nor what numpy and Python keep for later.
    """
    expected = drawn(KEY, 7)
    all_of(GAUSS)
    assert drawn(KEY, 7) == expected
    seed_global(KEY, 8)
    assert drawn(Key(5, 2, {"a": 1, "b": 2}), 7) == expected


def test_seeds_of_torch_are_seeds_for_numpy_too() -> None:
    """
    numpy.random.default_rng(torch.initial_seed()) is what datasets do in workers; it refuses negative numbers.
    """
    for position in range(100):
        seed_global(KEY, position)
        assert 0 <= torch.initial_seed() < 2**63
        np.random.default_rng(torch.initial_seed())


@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("names", [(), ("torch",), ("python",), ("numpy",), ("torch", "python", "numpy")])
def test_inline_batches_give_the_callers_streams_back_exactly(names: tuple[str, ...], first: int) -> None:
    """
    Whatever a batch draws, the caller's next numbers are those that were due, kept ones included.
    """
    streams, expected = inline(), ahead()
    for position in range(first, first + 12):
        streams.begin(position)
        _ = [GAUSS[name]() for name in names for _ in range(3)]
        streams.end()
        assert ahead() == expected
    assert streams.has_seen_draws is bool(names)


def test_inline_batches_draw_what_workers_would() -> None:
    """
    Every batch of a dataset that draws has its own streams, also those that nobody looks at.
    """
    streams = inline()
    for position in range(12):
        streams.begin(position)
        got = [*all_of(GAUSS), *all_of(DRAWS)]
        streams.end()
        assert got == drawn(KEY, position)


@pytest.mark.parametrize("first", [pytest.param(0, id="begin"), pytest.param(5, id="continued")])
def test_inline_looks_at_the_first_two_batches_and_at_ever_fewer_others(first: int) -> None:
    """
    The 1st, 2nd, 3rd, 5th, 9th and 17th: the others of a dataset that does not draw cost nothing.
    """
    streams = inline()
    seeded = [who_is_seeded(streams, position) for position in range(first, first + 20)]
    assert [begun for begun, names in enumerate(seeded) if names] == [0, 1, 2, 4, 8, 16]
    assert all(names in ([], ["torch", "python", "numpy"]) for names in seeded)


def test_inline_looks_at_the_first_batch_of_each_epoch() -> None:
    """
    Later epochs go on counting, and know what earlier ones saw; the first batch of each is looked at anew.
    """
    watch = DrawWatch()
    epochs = [[bool(who_is_seeded(streams, at)) for at in range(7)] for streams in (inline(watch=watch) for _ in "123")]
    assert epochs[0] == [True, True, True, False, True, False, False]
    assert epochs[1] == [True, True, False, False, False, False, False]  # its 2nd is the 9th of all
    assert epochs[2] == [True, False, True, False, False, False, False]  # its 3rd is the 17th of all
    streams = inline(watch=watch)
    who_is_seeded(streams, 0, DRAWS["numpy"])
    assert who_is_seeded(inline(watch=watch), 0) == ["torch", "python", "numpy"]
    assert [who_is_seeded(streams, position) for position in range(1, 4)] == [["numpy"]] * 3


@pytest.mark.parametrize("name", ["torch", "python", "numpy"])
def test_inline_seeds_between_two_looks_only_who_was_drawn_from(name: str) -> None:
    """
    A generator is known from the first look in which something was drawn from it.
    """
    streams = inline()
    for position in range(8):
        who_is_seeded(streams, position)
    assert not streams.has_seen_draws
    who_is_seeded(streams, 8, DRAWS[name])
    assert streams.has_seen_draws
    assert [who_is_seeded(streams, position) for position in range(9, 16)] == [[name]] * 7
    assert who_is_seeded(streams, 16) == ["torch", "python", "numpy"]


def test_inline_that_leaves_the_global_generators_alone_seeds_held_ones() -> None:
    """
    In a thread the global generators are not ours to touch, but what the dataset holds is its own.
    """
    mine = random.Random(1)
    streams = inline(Key(5, 2, {"0": 9}), mine)
    streams.leaves_global_alone = True
    due, seen = mine.getstate(), list[Any]()
    assert who_is_seeded(streams, 0, lambda: seen.append(mine.getstate())) == []
    assert (seen[0] != due, mine.getstate() == due) == (True, True)


@pytest.mark.usefixtures("pcg64")
def test_another_bit_generator_of_the_users_is_given_back_exactly() -> None:
    """
    Numpy's global functions may draw from PCG64, which has no seed(); its streams are by batch, too.
    """
    streams, expected = inline(), ahead()
    batches = []
    for position in range(6):
        streams.begin(position)
        batches.append(float(np.random.rand()))
        streams.end()
        assert ahead() == expected
    assert len(set(batches)) == 6
    assert float(np.random.rand()) not in batches


@pytest.mark.usefixtures("pcg64")
def test_another_bit_generators_streams_depend_on_nothing_that_was_kept() -> None:
    """
    Numpy keeps every second normal number: that of the caller is not the first one of a batch.
    """
    np.random.randn()
    kept = drawn(KEY, 7)
    np.random.randn()
    np.random.randn()
    assert drawn(KEY, 7) == kept


def test_random_states_tell_any_draw_and_put_it_back() -> None:
    """
    A kept number that was taken counts as a draw, although no generator made a new one.
    """
    states = random_states()
    assert not have_moved(states)
    for name, draw in GAUSS.items():
        draw()
        assert have_moved(states), name
        restore_random_states(states)
        assert not have_moved(states), name


def test_error_while_a_batch_loads_gives_the_streams_back() -> None:
    """
    Torch's iterator begins a batch and raises; the caller's streams are back before anybody sees the error.
    """
    streams, expected = inline(), ahead()

    def fail() -> Iterator[None]:
        streams.begin(0)
        all_of(DRAWS)
        raise KeyError("no sample 0")
        yield

    with pytest.raises(KeyError):
        next(SeededInline(fail(), streams))
    assert ahead() == expected


@pytest.mark.parametrize("generator", [None, pytest.param(3, id="users")])
def test_base_is_drawn_where_and_as_torch_draws_it(generator: int | None) -> None:
    """
    Torch's own iterator tells its base: ours is the same number, and the generator stands where it stands for torch.
    """
    expected, after = [], []
    for kind in ("torch", "ours"):
        torch.manual_seed(11)
        users = None if generator is None else torch.Generator().manual_seed(generator)
        base = BaseSeed(users)
        for _ in range(2):
            if kind == "ours":
                base.draw()
            else:
                base.value = iter(DataLoader(range(3), generator=users))._base_seed  # type: ignore[arg-type,attr-defined]
            expected.append(base.value)
        after.append((torch.get_rng_state().tolist(), None if users is None else users.get_state().tolist()))
    assert expected[:2] == expected[2:]
    assert expected[0] != expected[1]
    assert after[0] == after[1]


def test_twin_gives_torch_the_same_base_as_often_as_asked() -> None:
    """
    Who continues an epoch draws its base again, and the user's generator does not notice.
    """
    base = BaseSeed(None)
    base.draw()
    before: Any = torch.get_rng_state()
    bases = [base.value]
    for _ in range(2):
        bases.append(iter(DataLoader(range(3), generator=base.twin))._base_seed)  # type: ignore[arg-type,attr-defined]
        base.repeat()
    assert bases == [base.value] * 3
    assert torch.equal(torch.get_rng_state(), before)
