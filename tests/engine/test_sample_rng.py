"""
A generator for each sample, that only its epoch's base, its batch and its index decide.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, default_collate
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from autoloader.engine.delivery import Collate
from autoloader.engine.issue import IN_WORKER, Arrival, IssuedIndices
from autoloader.engine.randomness import BaseSeed, Key
from autoloader.engine.sample_rng import sample_rng

KEY = Key(5, 2, None)


def draw(generator: torch.Generator | None = None) -> float:
    """
    Return one number from the sample's generator.
    """
    return torch.rand(1, generator=generator or sample_rng(), dtype=torch.float64).item()


class Draws(Dataset):
    """
    Sample *i* is what *fetch* returns, a draw without it; the samples in *greedy* draw five more.
    """

    def __init__(self, fetch: Callable[[], Any] = draw, greedy: tuple[int, ...] = ()) -> None:
        self.fetch = fetch
        self.greedy = greedy

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        sample = self.fetch()
        _ = [draw() for _ in range(5 if int(index) in self.greedy else 0)]
        return sample


def fetched(dataset: Any, indices: Any, position: int = 7, *, key: Key = KEY, arrival: Arrival | None = None) -> Any:
    """
    Return what torch's own fetcher makes of a batch.
    """
    arrival = Arrival() if arrival is None else arrival
    arrival.position, arrival.key = position, key
    is_batch = isinstance(indices, list)
    fetcher = _MapDatasetFetcher(dataset, is_batch, Collate(list if is_batch else float, arrival), False)
    return fetcher.fetch(indices).batch


def test_draws_are_what_the_digest_of_base_epoch_batch_and_index_says() -> None:
    """
    Computed by hand: a checkpoint of today gives the same samples tomorrow.
    """
    seeds = [
        int.from_bytes(blake2b(text, digest_size=32).digest()[:8], "little") >> 1
        for text in (b"('sample', 5, 2, 7, '3')", b"('sample', 5, 2, 7, '6')")
    ]
    expected = [draw(torch.Generator().manual_seed(seed)) for seed in seeds]
    assert fetched(Draws(), [3, 6]) == expected


@pytest.mark.parametrize(
    ("key", "position", "index"),
    [
        pytest.param(Key(6, 2, None), 7, 3, id="base"),
        pytest.param(Key(5, 3, None), 7, 3, id="epoch"),
        pytest.param(KEY, 8, 3, id="batch"),
        pytest.param(KEY, 7, 4, id="index"),
    ],
)
def test_another_epoch_batch_or_index_draws_otherwise(key: Key, position: int, index: int) -> None:
    """
    Each of them counts, the batch too: a sample that comes twice in an epoch is not the same twice.
    """
    assert fetched(Draws(), [index], position, key=key) != fetched(Draws(), [3])


def test_salts_of_held_generators_change_nothing() -> None:
    """
    Neither what the dataset holds nor whether batches are seeded decides a sample's generator.
    """
    assert fetched(Draws(), [3], key=Key(5, 2, (1, 2))) == fetched(Draws(), [3], key=KEY)


WRAPPERS = [
    pytest.param(lambda data: data, id="alone"),
    pytest.param(lambda data: Subset(data, range(8)), id="subset"),
    pytest.param(lambda data: Subset(Subset(data, range(8)), range(8)), id="subset-of-subset"),
    pytest.param(lambda data: ConcatDataset([data]), id="concat"),
    pytest.param(lambda data: Subset(ConcatDataset([data]), range(8)), id="subset-of-concat"),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_sample_depends_on_no_other_sample_of_its_batch(wrap: Callable[[Any], Any]) -> None:
    """
    Neither on what others draw nor on their order, in the datasets that random_split makes as well.
    """
    expected = dict(zip(range(8), fetched(wrap(Draws()), list(range(8))), strict=True))
    assert len(set(expected.values())) == 8
    greedy = fetched(wrap(Draws(greedy=(0, 3, 5))), [3, 0, 5, 7, 6])
    assert greedy == [expected[index] for index in (3, 0, 5, 7, 6)]


def test_asked_again_for_one_sample_it_goes_on() -> None:
    """
    Two transforms that ask for it get different numbers, those of one generator in a row.
    """

    def twice() -> tuple[float, float]:
        return draw(), draw()

    def at_once() -> tuple[float, ...]:
        return tuple(torch.rand(2, generator=sample_rng(), dtype=torch.float64).tolist())

    got = fetched(Draws(twice), [3, 4])
    assert got == fetched(Draws(at_once), [3, 4])
    assert len({number for sample in got for number in sample}) == 4


def test_an_index_that_comes_twice_in_a_batch_goes_on() -> None:
    """
    A sampler with replacement gives the same index twice; its augmentations are two.
    """
    first, second, other = fetched(Draws(), [3, 3, 4])
    assert first != second
    assert fetched(Draws(), [3, 4]) == [first, other]


def test_a_worker_whose_epochs_have_one_batch_begins_anew_in_each() -> None:
    """
    Workers that stay get the same position twice in a row: the epoch decides, not what was drawn in the last one.
    """
    epochs = []
    for number in (2, 2, 3, 2):
        key = Key(5, number, None)
        IN_WORKER.begin_in_worker(7, key, None)
        epochs.append(fetched(Draws(), [3, 4], key=key, arrival=IN_WORKER))
    IN_WORKER.start(0, None)
    assert epochs[0] == epochs[1] == epochs[3]
    assert set(epochs[0]).isdisjoint(epochs[2])


def test_a_batch_that_is_loaded_once_more_inline_draws_the_same() -> None:
    """
    What failed in a thread is handed out again: its samples begin anew.
    """
    arrival, issued = Arrival(), IssuedIndices([[3, 4]], BaseSeed(None))
    issued.load_inline(arrival)
    fetcher, drawn = _MapDatasetFetcher(Draws(), True, Collate(list, arrival), False), []
    for _ in range(2):
        drawn.append(fetcher.fetch(next(iter(issued))).batch)
        issued.put_back()
    assert drawn[0] == drawn[1]


def test_a_dataset_that_fetches_whole_batches_has_one_for_each() -> None:
    """
    In __getitems__ nobody knows at which sample the dataset is.
    """

    class AtOnce(Draws):
        def __getitems__(self, indices: list[int]) -> list[float]:
            return [draw() for _ in indices]

    first, again, other = (fetched(AtOnce(), [1, 2], position) for position in (7, 7, 8))
    assert first == again
    assert len({*first, *other}) == 4


def test_without_batches_each_sample_has_its_own() -> None:
    """
    With batch_size=None a position is a sample.
    """
    assert fetched(Draws(), 3, 7) == fetched(Draws(), 3, 7)
    assert fetched(Draws(), 3, 7) != fetched(Draws(), 3, 8)


def test_it_is_found_from_nested_calls() -> None:
    """
    A transform in a transform, a comprehension or a generator finds the sample that is fetched.
    """

    def nested() -> list[float]:
        return [next(draw() for _ in range(1)) for _ in map(str, range(2))]

    direct = fetched(Draws(lambda: [draw(), draw()]), [3, 4])
    assert fetched(Draws(nested), [3, 4]) == direct


def test_a_collate_function_may_ask_too() -> None:
    """
    What it gets belongs to the batch, not to the last sample.
    """
    arrival = Arrival()
    arrival.position, arrival.key = 7, KEY
    collate = Collate(lambda samples: (samples, draw()), arrival)
    batches = [_MapDatasetFetcher(Draws(), True, collate, False).fetch(indices).batch for indices in ([1], [1, 2])]
    assert batches[0][1] not in batches[1][0]
    assert batches[0][1] not in batches[0][0]


def test_outside_any_loader_and_under_a_plain_one_torchs_global_generator_seeds_it() -> None:
    """
    Code that asks for it works everywhere, and follows torch.manual_seed.
    """
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        plain = [batch.tolist() for batch in DataLoader(Draws(), 4, collate_fn=default_collate)]
        runs.append([draw(), draw(), plain])
    assert runs[0] == runs[1]
    assert len({runs[0][0], runs[0][1], *runs[0][2][0], *runs[0][2][1]}) == 10


def test_a_plain_loader_inside_a_sample_is_on_its_own() -> None:
    """
    Samples that another DataLoader fetches within this one are not this loader's.
    """
    inner = Draws()

    def from_inner() -> list[float]:
        return next(iter(DataLoader(inner, 4))).tolist()

    torch.manual_seed(3)
    first, second = fetched(Draws(from_inner), [3, 4])
    assert len({*first, *second}) == 8


def test_its_draws_leave_the_global_generator_alone() -> None:
    """
    The sample's generator is another object.
    """
    before = torch.get_rng_state()
    fetched(Draws(), [3, 4])
    assert torch.equal(torch.get_rng_state(), before)
