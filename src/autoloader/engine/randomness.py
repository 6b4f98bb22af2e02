"""
Random numbers that do not depend on where a batch loads: one stream for each batch.
"""

import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import torch

numpys: Any
try:
    import numpy.random as numpys
except ImportError:  # torch works without it
    numpys = None

_SEED_BITS = 63
"""
Seeds are never negative, so that ``numpy.random.default_rng(torch.initial_seed())`` takes them.
"""


class Key(NamedTuple):
    """
    What the random numbers of an epoch come from.
    """

    base: int
    epoch: int
    salts: Mapping[str, int] | None
    """One for each generator that the dataset holds, by its path; ``None`` to leave torch's own streams as they are."""


def derive(*parts: int | str) -> bytes:
    """
    Return 32 bytes that look random and depend on all *parts*.
    """
    return blake2b(repr(parts).encode(), digest_size=32).digest()


def seed_from(data: bytes) -> int:
    """
    Return the seed that the first 8 of some bytes make.
    """
    return int.from_bytes(data[:8], "little") >> (64 - _SEED_BITS)


class _Handle(NamedTuple):
    """
    How the state of one generator is read, set back, and seeded from 16 bytes.
    """

    read: Callable[[], Any]
    put: Callable[[Any], object]
    seed: Callable[[bytes], object]
    has_moved: Callable[[Any], bool]


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[start : start + 4], "little") for start in range(0, len(data), 4)]


def _pythons(generator: Any) -> _Handle:
    return _Handle(
        generator.getstate,
        generator.setstate,
        lambda data: generator.seed(int.from_bytes(data, "little")),
        lambda state: generator.getstate() != state,
    )


def _torchs(generator: torch.Generator) -> _Handle:
    return _Handle(
        generator.get_state,
        generator.set_state,
        lambda data: generator.manual_seed(seed_from(data)),
        lambda state: not torch.equal(generator.get_state(), state),
    )


def _numpys_legacy(generator: Any) -> _Handle:
    def read() -> Any:
        return generator.get_state(legacy=False)

    def seed(data: bytes) -> None:
        try:
            generator.seed(_words(data))
        except TypeError:  # only numpy's first generator takes a seed; the user has put another in its place
            bits = type(generator._bit_generator)(_words(data)).state
            generator.set_state({**bits, "has_gauss": 0, "gauss": 0.0})  # an odd number of normals was kept

    return _Handle(read, generator.set_state, seed, lambda state: pickle.dumps(read()) != pickle.dumps(state))


def _numpys(generator: Any) -> _Handle:
    bits = generator.bit_generator

    def put(state: Any) -> None:
        bits.state = state

    return _Handle(
        lambda: bits.state,
        put,
        lambda data: put(type(bits)(_words(data)).state),
        lambda state: pickle.dumps(bits.state) != pickle.dumps(state),
    )


def _handle_of(generator: Any) -> _Handle:
    if isinstance(generator, torch.Generator):
        return _torchs(generator)
    if isinstance(generator, random.Random):
        return _pythons(generator)
    return _numpys(generator) if hasattr(generator, "bit_generator") else _numpys_legacy(generator)


def _global_handles() -> tuple[_Handle, ...]:
    """
    Return the handles of the global generators: torch's on the CPU, Python's, and numpy's where it is installed.
    """
    pythons = getattr(random.random, "__self__")  # noqa: B009 (mypy does not know it)
    mine = (_torchs(torch.default_generator), _pythons(pythons))
    return mine if numpys is None else (*mine, _numpys_legacy(numpys.mtrand._rand))


_GLOBAL = _global_handles()
_SLICES = (slice(0, 8), slice(8, 16), slice(16, 32))
"""
Which bytes of a batch's 32 seed which global generator: two Mersenne Twisters with one seed would be one stream.
"""


def seed_global(key: Key, position: int) -> None:
    """
    Seed the global generators for one batch.
    """
    data = derive(key.base, key.epoch, position)
    for handle, part in zip(_GLOBAL, _SLICES, strict=False):
        handle.seed(data[part])


class HeldGenerators:
    """
    The generators that a dataset or a collate function holds: each gets a stream of its own for each batch.

    Args:
        generators: What :func:`autoloader.profiling.generators_in` found.
    """

    def __init__(self, generators: Mapping[str, Any]) -> None:
        self._handles = {path: _handle_of(each) for path, each in generators.items()}
        self._states: list[tuple[_Handle, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._handles)

    def salts(self) -> dict[str, int]:
        """
        Return a number for each generator that depends on its state: a generator that the user seeded decides itself.
        """
        return {path: seed_from(blake2b(_as_bytes(each.read())).digest()) for path, each in self._handles.items()}

    def seed(self, key: Key, position: int) -> None:
        """
        Seed all of them for one batch; one that the training process does not have, by the base of the epoch.
        """
        for path, handle in self._handles.items():
            salt = (key.salts or {}).get(path)
            where = ("held", salt) if salt is not None else ("made", key.base, path)
            handle.seed(derive(*where, key.epoch, position)[:16])

    def keep(self) -> None:
        """
        Remember their states.
        """
        self._states = [(handle, handle.read()) for handle in self._handles.values()]

    def give_back(self) -> None:
        """
        Set them back to the states that were kept, once.
        """
        for handle, state in self._states:
            handle.put(state)
        self._states.clear()


def _as_bytes(state: Any) -> bytes:
    return bytes(state.tolist()) if isinstance(state, torch.Tensor) else pickle.dumps(state)


class DrawWatch:
    """
    What is known of a loader's draws from the global generators where it loads inline.
    """

    def __init__(self) -> None:
        self.drawn_from: set[int] = set()
        self.begun = 0


class InlineStreams:
    """
    Gives each batch that loads in this process its streams, and the caller's streams back after it.

    Reading and setting states takes a tenth of a millisecond. So only some batches are looked at; global generators
    from which none of these drew are left alone in the others.

    Args:
        key: What the random numbers of this epoch come from.
        held: The generators that the dataset holds.
        watch: What is known from earlier epochs.
    """

    def __init__(self, key: Key, held: HeldGenerators, watch: DrawWatch) -> None:
        self._key = key
        self._held = held
        self._watch = watch
        self._is_first, self._holds = True, bool(held)
        self.is_open = False
        self._open: list[tuple[int, Any, Any]] = []
        self.leaves_global_alone = False

    @property
    def has_seen_draws(self) -> bool:
        """
        Return whether a batch drew from a global generator.
        """
        return bool(self._watch.drawn_from)

    def begin(self, position: int) -> None:
        """
        Seed for one batch that is about to be fetched.
        """
        if self._holds:
            self.is_open = True
            self._held.keep()
            self._held.seed(self._key, position)
        if self.leaves_global_alone:
            return
        watch = self._watch
        begun, drawn_from = watch.begun, watch.drawn_from
        # The first two, the first of each epoch, and ever fewer others.
        is_looking, self._is_first = self._is_first or not begun & (begun - 1), False
        watch.begun = begun + 1
        if not is_looking and not drawn_from:
            return
        self.is_open = True
        data = derive(self._key.base, self._key.epoch, position)
        for place, (handle, part) in enumerate(zip(_GLOBAL, _SLICES, strict=False)):
            if is_looking or place in drawn_from:
                callers = handle.read()
                handle.seed(data[part])
                self._open.append((place, callers, None if place in drawn_from else handle.read()))

    def end(self) -> None:
        """
        Give the caller's streams back.
        """
        self.is_open = False
        if self._holds:
            self._held.give_back()
        for place, callers, seeded in self._open:
            handle = _GLOBAL[place]
            if seeded is not None and handle.has_moved(seeded):
                self._watch.drawn_from.add(place)
            handle.put(callers)
        self._open.clear()


class SeededInline:
    """
    An iterator that loads inline, each batch with its own streams.

    Args:
        source: Torch's iterator; it draws indices first, in the caller's streams, and then begins the batch.
        streams: What the indices begin.
    """

    def __init__(self, source: Iterator[Any], streams: InlineStreams) -> None:
        self._source = source
        self._streams = streams

    def __next__(self) -> Any:
        try:
            return next(self._source)
        finally:
            if self._streams.is_open:
                self._streams.end()


class BaseSeed:
    """
    The number that all streams of an epoch come from, drawn where torch draws it, and as often.

    Torch's loader gets a twin of the generator, set so that it draws the same number: another loader that continues
    the epoch can draw it once more, and the user's generator does not notice.

    Args:
        generator: The user's generator; ``None`` for torch's global one.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        self.twin = torch.Generator()
        self._generator = generator
        self._state = self.twin.get_state()
        self.value = 0

    def draw(self) -> None:
        """
        Draw the number of an epoch.
        """
        source = torch.default_generator if self._generator is None else self._generator
        state = source.get_state()
        self.value = int(torch.empty((), dtype=torch.int64).random_(generator=self._generator).item())
        self._state = state
        self.repeat()

    def repeat(self) -> None:
        """
        Let the twin draw the same number once more.
        """
        self.twin.set_state(self._state)


def random_states() -> tuple[Any, ...]:
    """
    Return the states of the global random number generators.
    """
    return tuple(handle.read() for handle in _GLOBAL)


def restore_random_states(states: tuple[Any, ...]) -> None:
    """
    Set the global random number generators back to *states*.
    """
    for handle, state in zip(_GLOBAL, states, strict=True):
        handle.put(state)


def have_moved(states: tuple[Any, ...]) -> bool:
    """
    Return whether anything was drawn from the global random number generators since *states*.
    """
    return any(handle.has_moved(state) for handle, state in zip(_GLOBAL, states, strict=True))
