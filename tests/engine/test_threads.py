"""
The thread that loads batches ahead: order, errors, time-outs, ends.
"""

import contextvars
import gc
import itertools
import random
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from autoloader.engine import randomness, threads
from autoloader.engine.issue import Arrival, IssuedIndices
from autoloader.engine.randomness import BaseSeed
from autoloader.engine.threads import ThreadIterator

PATIENCE_SECONDS = 30


def inline(sampler: Any) -> IssuedIndices:
    """
    Return the indices of a sampler, for loading in this process.
    """
    issued = IssuedIndices(sampler, BaseSeed(None))
    issued.load_inline(Arrival())
    return issued


class Source:
    """
    Draws from a sampler through IssuedIndices, as torch's iterator without workers does, and notes who asked.
    """

    def __init__(self, count: int, fetch: Callable[[int], Any] = lambda index: index) -> None:
        self.issued = inline(range(count))
        self._indices = iter(self.issued)
        self._fetch = fetch
        self.threads: list[str] = []
        self.fetched = threading.Semaphore(0)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        index = next(self._indices)
        self.threads.append(threading.current_thread().name)
        self.fetched.release()
        return self._fetch(index)


class Served(ThreadIterator):
    """
    A thread iterator whose items are noted as served, which is the loader's part.
    """

    def __next__(self) -> Any:
        try:
            item = super().__next__()
        except KeyError:
            self._issued.failed()
            raise
        self._issued.failed()
        return item


def make(source: Source, *, ahead: int = 2, timeout: float = 0, said: list[str] | None = None) -> ThreadIterator:
    """
    Return a thread iterator over *source*, which notes in *said* why it goes on inline.
    """
    on_inline = [].append if said is None else said.append
    return Served(source, ahead=ahead, timeout=timeout, issued=source.issued, on_inline=on_inline)


def test_items_come_in_order_from_one_thread() -> None:
    """
    Nothing is lost, doubled or reordered; the thread drew all but the first.
    """
    source = Source(50)
    iterator = make(source)
    assert list(iterator) == list(range(50))
    assert source.threads == ["MainThread", *["autoloader"] * 49]
    iterator.close()


def test_thread_draws_as_far_ahead_as_it_may() -> None:
    """
    After the second item it draws two more, and not a third until one is asked for.
    """
    source = Source(50)
    iterator = make(source, ahead=2)
    next(iterator)
    next(iterator)
    for _ in range(4):
        assert source.fetched.acquire(timeout=PATIENCE_SECONDS)
    assert not source.fetched.acquire(timeout=0.05)
    next(iterator)
    assert source.fetched.acquire(timeout=PATIENCE_SECONDS)
    iterator.close()


def test_error_of_an_item_comes_where_the_item_is_asked_for() -> None:
    """
    With the traceback of where it was raised; the next items follow.
    """

    def fetch(index: int) -> int:
        if index == 3:
            raise KeyError(index)
        return index

    iterator = make(Source(6, fetch))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError) as raised:
        next(iterator)
    assert raised.traceback[-1].name == "fetch"
    assert list(iterator) == [4, 5]
    iterator.close()


def test_exhausted_iterator_stays_exhausted() -> None:
    """
    StopIteration comes again, without a thread to ask.
    """
    iterator = make(Source(1))
    assert list(iterator) == [0]
    assert list(iterator) == []
    iterator.close()


def test_empty_source_gives_nothing() -> None:
    """
    An epoch without batches ends at once.
    """
    iterator = make(Source(0))
    assert list(iterator) == []
    iterator.close()


def test_item_that_fails_in_the_thread_is_drawn_inline() -> None:
    """
    The same item again, by the thread that asks, and all others, too; the random numbers drawn are given back.
    """
    here, said = threading.current_thread(), []

    def fetch(index: int) -> float:
        if threading.current_thread() is not here:
            random.random()
            raise OSError("not in this thread")
        return index if index == 0 else random.random()

    random.seed(5)
    expected = [0, *(random.random() for _ in range(3))]
    random.seed(5)
    source = Source(4, fetch)
    assert list(make(source, said=said)) == expected
    assert source.threads == ["MainThread", "autoloader", *["MainThread"] * 3]
    assert said == ["a batch could not be loaded in a thread (OSError)"]


def test_what_is_opened_with_the_first_item_belongs_to_the_asking_thread() -> None:
    """
    A sqlite connection that the dataset opens when it is first asked answers in every later epoch, and outside.
    """
    opened: list[sqlite3.Connection] = []

    def fetch(index: int) -> int:
        if not opened:
            opened.append(sqlite3.connect(":memory:"))
        return int(opened[0].execute(f"select {index}").fetchone()[0])

    for _ in range(2):
        assert list(make(Source(4, fetch))) == [0, 1, 2, 3]
    assert fetch(7) == 7
    opened[0].close()


def test_item_that_fails_in_the_thread_later_is_drawn_inline_and_so_are_those_after_it() -> None:
    """
    Each comes once and in order, also those that the thread had drawn beyond it.
    """
    here, said = threading.current_thread(), []

    def fetch(index: int) -> int:
        if index == 3 and threading.current_thread() is not here:
            raise OSError("not in this thread")
        return index

    source = Source(8, fetch)
    assert list(make(source, said=said)) == list(range(8))
    assert set(source.threads[source.threads.index("autoloader") :][-5:]) == {"MainThread"}
    assert said == ["a batch could not be loaded in a thread (OSError)"]


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_item_that_fails_everywhere_is_the_items_own_error(failing: int) -> None:
    """
    Whichever it is: what the caller sees is the error itself, and the next item follows.
    """

    def fetch(index: int) -> int:
        if index == failing:
            raise KeyError(index)
        return index

    iterator = make(Source(4, fetch))
    found: list[object] = []
    for _ in range(4):
        try:
            found.append(next(iterator))
        except KeyError as error:
            found.append(error.args[0])
    assert found == [0, 1, 2, 3]
    assert list(iterator) == []
    iterator.close()


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(random.random, id="python"),
        pytest.param(lambda: torch.rand(1), id="torch"),
        pytest.param(np.random.rand, id="numpy"),
    ],
)
def test_source_that_draws_random_numbers_is_drawn_from_inline(draw: Callable[[], object]) -> None:
    """
    The first item shows it, and no thread is started.
    """
    said: list[str] = []
    source = Source(3, lambda index: (draw(), index)[1])
    assert list(make(source, said=said)) == [0, 1, 2]
    assert source.threads == ["MainThread"] * 3
    assert said == ["the dataset draws from the global random number generators, which threads share"]


def test_source_that_draws_random_numbers_later_is_drawn_from_inline() -> None:
    """
    The second item is drawn alone, and watched, too.
    """
    said: list[str] = []
    source = Source(4, lambda index: (index and random.random(), index)[1])
    assert list(make(source, said=said)) == [0, 1, 2, 3]
    assert source.threads == ["MainThread", "autoloader", "MainThread", "MainThread"]
    assert len(said) == 1


def test_sampler_that_draws_random_numbers_does_not_count() -> None:
    """
    Torch's random sampler draws its seed when it is first asked, and that happens before the thread is watched.
    """
    source = Source(8)
    source.issued = inline(torch.utils.data.RandomSampler(range(8)))
    source._indices = iter(source.issued)
    iterator = make(source)
    assert sorted(iterator) == list(range(8))
    assert set(source.threads[1:]) == {"autoloader"}
    iterator.close()


def test_wait_that_takes_longer_than_the_timeout_is_torchs_error() -> None:
    """
    The text is torch's; the item that was late comes with the next call.
    """
    allowed = threading.Event()
    iterator = make(Source(4, lambda index: (index != 2 or allowed.wait(PATIENCE_SECONDS), index)[1]), timeout=0.2)
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0.2 seconds$"):
        next(iterator)
    allowed.set()
    assert next(iterator) == 2
    iterator.close()


def test_dropped_iterator_ends_its_thread() -> None:
    """
    The thread holds nothing of the iterator, and stops after the item in progress.
    """
    iterator = make(Source(50))
    next(iterator)
    next(iterator)
    thread, held = iterator._thread, weakref.ref(iterator)
    del iterator
    gc.collect()
    assert held() is None
    assert thread is not None
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_close_waits_for_the_item_in_progress() -> None:
    """
    After close() nothing draws any more, and closing twice is fine.
    """
    started, allowed, finished = threading.Event(), threading.Event(), []

    def fetch(index: int) -> int:
        if index == 2:
            started.set()
            allowed.wait(PATIENCE_SECONDS)
            finished.append(index)
        return index

    source = Source(50, fetch)
    iterator = make(source)
    next(iterator)
    next(iterator)
    started.wait(PATIENCE_SECONDS)
    threading.Timer(0.05, allowed.set).start()
    iterator.close()
    iterator.close()
    assert finished == [2]
    assert len(source.threads) == 3


def test_thread_has_the_callers_autograd_modes_and_context() -> None:
    """
    Torch keeps no_grad and inference_mode for each thread; inline they would be the caller's.
    """
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    source = Source(2, lambda _: (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), variable.get()))
    with torch.inference_mode():
        iterator = make(source)
        assert list(iterator) == [(False, True, 7)] * 2
    assert source.threads == ["MainThread", "autoloader"]
    iterator.close()


def test_thread_that_cannot_be_started_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Where the system allows no more threads either, everything is drawn inline.
    """

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    said: list[str] = []
    source = Source(3)
    assert list(make(source, said=said)) == [0, 1, 2]
    assert source.threads == ["MainThread"] * 3
    assert said == ["no thread could be started (can't start new thread)"]


def test_threads_that_still_draw_are_waited_for_when_python_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    They are told to stop, and joined by one deadline.
    """
    iterator = make(Source(1_000_000), ahead=1_000_000)
    next(iterator)
    next(iterator)
    assert iterator._thread is not None
    threads._end_threads()
    assert not iterator._thread.is_alive()


def test_states_of_all_generators_are_compared_and_restored() -> None:
    """
    One draw of any of the three is seen, and taken back.
    """
    states = randomness.random_states()
    assert not randomness.have_moved(states)
    for draw in (random.random, lambda: torch.rand(1)):
        first = draw()
        assert randomness.have_moved(states)
        randomness.restore_random_states(states)
        assert not randomness.have_moved(states)
        assert draw() == first
        randomness.restore_random_states(states)


def test_many_iterators_at_a_time_do_not_mix() -> None:
    """
    Each has a thread of its own.
    """
    iterators = [make(Source(30, lambda index, number=number: (number, index))) for number in range(4)]
    rounds = list(zip(*iterators, strict=True))
    assert list(itertools.chain(*rounds)) == [(number, index) for index in range(30) for number in range(4)]
    for iterator in iterators:
        iterator.close()


def test_autocast_keeps_drawing_inline() -> None:
    """
    It is switched on for one thread, and the samples would come in another precision from the second item on.
    """
    said: list[str] = []
    source = Source(3, lambda _: torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype)
    with torch.autocast("cpu", torch.bfloat16):
        assert list(make(source, said=said)) == [torch.bfloat16] * 3
    assert source.threads == ["MainThread"] * 3
    assert said == ["torch.autocast is on, which holds for the thread that switched it on only"]


def test_error_of_the_sampler_is_not_taken_for_the_threads() -> None:
    """
    It comes to the caller where the sampler raised it, and nothing is drawn again.
    """

    class Raising:
        def __init__(self) -> None:
            self.given = iter([0, ValueError("sampler"), 2])

        def __iter__(self) -> "Raising":
            return self

        def __next__(self) -> int:
            value = next(self.given)
            if isinstance(value, ValueError):
                raise value
            return value

    source = Source(3)
    source.issued = inline(Raising())
    source._indices = iter(source.issued)
    iterator = make(source)
    assert next(iterator) == 0
    with pytest.raises(ValueError, match="^sampler$"):
        next(iterator)
    assert list(iterator) == [2]
    iterator.close()


def test_numpys_generator_may_be_another_than_its_first() -> None:
    """
    Its state is compared whatever generator numpy's global functions draw from.
    """
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        states = randomness.random_states()
        assert not randomness.have_moved(states)
        first = np.random.rand()
        assert randomness.have_moved(states)
        randomness.restore_random_states(states)
        assert np.random.rand() == first
    finally:
        np.random.set_bit_generator(before)


def test_wait_for_an_item_that_never_comes_ends_when_the_iterator_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    By another thread; the one that draws is left behind.
    """
    monkeypatch.setattr(threads, "CLOSE_SECONDS", 0.0)
    monkeypatch.setattr(threads, "POLL_SECONDS", 0.01)
    entered, leave = threading.Event(), threading.Event()

    def draw(item: int) -> int:
        if item == 3:
            entered.set()
            assert leave.wait(60)
        return item

    iterator = make(Source(8, draw))
    closing = threading.Thread(target=lambda: entered.wait(60) and iterator.close())
    closing.start()
    with pytest.raises(RuntimeError, match="^DataLoader was closed while a batch was waited for$"):
        list(iterator)
    leave.set()
    closing.join()
