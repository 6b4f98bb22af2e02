"""
The first batches: they load inline, are timed and served once, and then decide how the rest loads.
"""

import functools
import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from autoloader import AutoLoader, auto_loader, plan_loader
from autoloader.engine import inner
from autoloader.engine.processes import WorkerStartError
from autoloader.errors import LoaderClosedError
from autoloader.loader.first_batches import FirstBatches
from autoloader.policy.model import is_at_one_thread
from loader.chosen import NEEDS_FORK, chosen, epochs_of, seed_all
from loader.conftest import Host

pytestmark = pytest.mark.usefixtures("measuring")


class Waits(Dataset[tuple[int, int]]):
    """
    Samples that take a while, each with the process that fetched it.
    """

    def __init__(self, samples: int = 48, seconds: float = 0.02) -> None:
        self.samples = samples
        self.seconds = seconds

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, int]:
        if self.seconds:
            time.sleep(self.seconds)
        return index, os.getpid()


class Draws(Waits):
    """
    Samples that draw from the global generator.
    """

    def __getitem__(self, index: int) -> tuple[int, int]:
        super().__getitem__(index)
        return index, int(torch.randint(1 << 40, ()))


class Fails(Waits):
    """
    Has one sample that raises an error, if it is told which.
    """

    fails_at = -1

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == self.fails_at:
            raise KeyError(index)
        return super().__getitem__(index)


class OpensLate(Waits):
    """
    Opens its file when the first sample is fetched, and reads where it was told to.
    """

    def __init__(self, path: Path, samples: int = 48) -> None:
        super().__init__(samples, 0.01)
        path.write_bytes(bytes(range(samples)))
        self.path, self.file = path, None

    def __getitem__(self, index: int) -> tuple[int, int]:
        if self.file is None:
            self.file = self.path.open("rb", buffering=0)  # type: ignore[assignment]
        self.file.seek(index)  # type: ignore[attr-defined]
        time.sleep(self.seconds)
        return self.file.read(1)[0], os.getpid()  # type: ignore[attr-defined]


def fetched(loader: Any) -> tuple[list[int], list[int]]:
    """
    Return the samples of an epoch and, for each, the process that fetched it.
    """
    pairs = [(int(sample), int(pid)) for samples, pids in loader for sample, pid in zip(samples, pids, strict=True)]
    return [sample for sample, _ in pairs], [pid for _, pid in pairs]


@NEEDS_FORK
def test_data_that_waits_gets_workers_after_two_batches() -> None:
    """
    Two batches come from this process, all others from workers: each sample once, in order.
    """
    with auto_loader(Waits(), 4) as loader:
        samples, pids = fetched(loader)
        assert samples == list(range(48))
        assert set(pids[:8]) == {os.getpid()}
        assert os.getpid() not in pids[8:]
        assert len(set(pids[8:])) > 1
        workers = loader.plan.choices["num_workers"]
        assert (workers.rule, loader.num_workers) == ("num_workers.measured", workers.value)
        assert workers.because.startswith("a batch takes ")
        assert os.getpid() not in fetched(loader)[1]


@NEEDS_FORK
def test_a_long_batch_ends_the_measurement() -> None:
    """
    After 0.3 seconds of loading, the batch under way is the last one that is timed.
    """
    with auto_loader(Waits(40, 0.05), 8) as loader:
        samples, pids = fetched(loader)
    assert samples == list(range(40))
    assert [pid == os.getpid() for pid in pids].count(True) == 8


def test_data_that_is_quick_stays_inline() -> None:
    """
    What workers would not make faster loads in the training process, for all epochs.
    """
    with auto_loader(Waits(4000, 0), 4) as loader:
        for _ in range(2):
            samples, pids = fetched(loader)
            assert samples == list(range(4000))
            assert set(pids) == {os.getpid()}
        choice = loader.plan.choices["num_workers"]
        assert (choice.value, choice.rule, loader.num_workers) == (0, "num_workers.inline-is-faster", 0)
        assert loader.prefetch_factor is None
        assert loader.multiprocessing_context is None


@NEEDS_FORK
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_do_not_depend_on_what_was_measured(shuffle: bool) -> None:
    """
    The numbers that samples draw, and the caller's own afterwards, are those of loading inline from end to end.
    """
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": shuffle}
    seed_all()
    with chosen(Draws(seconds=0), 0, **arguments) as loader:
        expected = epochs_of(loader, 2), torch.rand(1).item()
    seed_all()
    with auto_loader(Draws(), **arguments) as loader:
        found = epochs_of(loader, 2), torch.rand(1).item()
        assert loader.num_workers > 0
    assert found == expected


@NEEDS_FORK
def test_file_that_was_opened_meanwhile_is_not_shared_with_workers(tmp_path: Path) -> None:
    """
    Each worker opens the file for itself, and the training process has it open no more.
    """
    dataset = OpensLate(tmp_path / "data")
    with auto_loader(dataset, 4) as loader:
        samples, pids = fetched(loader)
        assert samples == list(range(48))
        assert len(set(pids)) > 2
        assert loader.plan.value("multiprocessing_context") == "fork"
        assert dataset.file is None
        assert not [link for link in Path("/proc/self/fd").iterdir() if _target(link) == str(dataset.path)]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


@functools.lru_cache
def _opened(path: str) -> Any:
    return open(path, "rb", buffering=0)


class OpensElsewhere(OpensLate):
    """
    Keeps its open file where nobody looks for it.
    """

    def __getitem__(self, index: int) -> tuple[int, int]:
        file = _opened(str(self.path))
        file.seek(index)
        time.sleep(self.seconds)
        return file.read(1)[0], os.getpid()


@NEEDS_FORK
@pytest.mark.slow_spawn
def test_file_that_was_opened_while_no_worker_could_start_excludes_fork(host: Host, tmp_path: Path) -> None:
    """
    Nobody had looked at what these batches open, and forked workers would read each other's data.
    """
    loader = auto_loader(OpensElsewhere(tmp_path / "data"), 4, num_workers=2)
    try:
        host.change("process", is_daemonic=True)
        with pytest.warns(UserWarning, match=r"backend\.daemonic"):
            samples, pids = fetched(loader)
        assert (samples, set(pids)) == (list(range(48)), {os.getpid()})
        host.change("process", is_daemonic=False)
        with pytest.warns(UserWarning, match="handle-opened: workers start by forkserver, because fork is not safe"):
            samples, pids = fetched(loader)
        assert samples == list(range(48))
        assert os.getpid() not in pids
    finally:
        loader.close()
        _opened(str(tmp_path / "data")).close()
        _opened.cache_clear()


@NEEDS_FORK
@pytest.mark.slow_spawn
def test_file_that_stays_open_excludes_fork(tmp_path: Path) -> None:
    """
    Forked workers would read each other's data, so that they start another way, or none does.
    """
    loader = auto_loader(OpensElsewhere(tmp_path / "data"), 4)
    try:
        with pytest.warns(UserWarning, match="handle-opened: workers start by forkserver, because fork is not safe"):
            samples, _ = fetched(loader)
        assert samples == list(range(48))
        assert loader.plan.choices["multiprocessing_context"].rule == "multiprocessing_context.handle-opened"
        loader.close()
    finally:
        _opened(str(tmp_path / "data")).close()
        _opened.cache_clear()


class FailsOnce(Waits):
    """
    One sample cannot be fetched.
    """

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == 5:
            raise LookupError("sample 5 is broken")
        return super().__getitem__(index)


@NEEDS_FORK
def test_error_in_the_first_batches_is_the_datasets_own() -> None:
    """
    The batch that fails is an error, and the ones after it come.
    """
    with auto_loader(FailsOnce(), 4) as loader:
        batches = iter(loader)
        assert next(batches)[0].tolist() == [0, 1, 2, 3]
        with pytest.raises(LookupError, match="sample 5 is broken"):
            next(batches)
        assert [batch[0].tolist() for batch in batches] == [list(range(at, at + 4)) for at in range(8, 48, 4)]
        assert loader.num_workers > 0


@NEEDS_FORK
def test_measurement_goes_on_in_the_next_epoch_after_an_early_break() -> None:
    """
    Epochs that are left after the first batch are measured together.
    """
    with auto_loader(Waits(), 4) as loader:
        for _ in range(2):
            for _ in loader:
                break
        assert loader.plan.choices["num_workers"].rule == "num_workers.no-accelerator"
        samples, pids = fetched(loader)
        assert samples == list(range(48))
        assert set(pids[:4]) == {os.getpid()}  # the first that was followed by another one
        assert os.getpid() not in pids[4:]
        assert loader.plan.choices["num_workers"].rule == "num_workers.measured"


@NEEDS_FORK
def test_short_epochs_get_workers_once_there_were_enough_of_them() -> None:
    """
    A few batches do not pay for workers; many epochs of them do.
    """
    with auto_loader(Waits(8, 0.002), 2) as loader:
        assert set(fetched(loader)[1]) == {os.getpid()}
        for _ in range(200):
            samples, pids = fetched(loader)
            assert samples == list(range(8))
            if os.getpid() not in pids:
                break
        assert loader.plan.choices["num_workers"].rule == "num_workers.measured"


@NEEDS_FORK
@pytest.mark.parametrize("served", [1, 2, 3])
def test_state_continues_an_epoch_that_is_being_measured(served: int) -> None:
    """
    What was served before the state was taken does not come again; all else does.
    """
    first = auto_loader(Waits(), 4)
    batches = iter(first)
    for _ in range(served):
        next(batches)
    state = first.state_dict()
    first.close()
    with auto_loader(Waits(), 4) as second:
        second.load_state_dict(state)
        assert fetched(second)[0] == list(range(4 * served, 48))


class Unpicklable:
    """
    What no worker could send.
    """

    def __init__(self, values: Any) -> None:
        self.values, self.lock = values, threading.Lock()


def test_batch_that_cannot_be_pickled_stays_here() -> None:
    """
    Workers would fail where loading inline works.
    """
    with auto_loader(Waits(), 4, collate_fn=Unpicklable) as loader:
        samples = [sample for batch in loader for sample, _ in batch.values]
        assert samples == list(range(48))
        assert loader.plan.choices["num_workers"].rule == "num_workers.cannot-send"


@NEEDS_FORK
def test_worker_that_cannot_start_after_the_first_batches_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Batches load in the training process then, which is said once.
    """

    def refuse(self: Any) -> Any:
        if self.has_workers:
            raise WorkerStartError("BlockingIOError: [Errno 11] Resource temporarily unavailable")
        return start(self)

    start: Callable[[Any], Any] = inner.InnerLoader._start
    monkeypatch.setattr(inner.InnerLoader, "_start", refuse)
    with auto_loader(Waits(), 4) as loader:
        with pytest.warns(UserWarning, match="Resource temporarily unavailable") as said:
            samples, pids = fetched(loader)
        assert samples == list(range(48))
        assert set(pids) == {os.getpid()}
        assert [warning.filename for warning in said] == [__file__]


def test_loader_that_is_closed_while_workers_are_chosen_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Another thread may close it while next() waits for the lock.
    """

    def choose_and_close(first: FirstBatches, loader: Any, batches_left: int | None) -> None:
        choose(first, loader, batches_left)
        loader.close()

    choose = FirstBatches.choose
    monkeypatch.setattr(FirstBatches, "choose", choose_and_close)
    with auto_loader(Waits(), 4) as loader:
        iterator = iter(loader)
        with pytest.raises(LoaderClosedError):
            list(iterator)
        assert multiprocessing.active_children() == []
        with pytest.raises(LoaderClosedError):
            next(iterator)


def nothing(worker: int) -> None:
    """
    Initialise no worker.
    """


@NEEDS_FORK
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda data: auto_loader(data, 4, num_workers=2), id="users-number"),
        pytest.param(lambda data: auto_loader(data, 4, worker_init_fn=nothing), id="worker-init-fn"),
        pytest.param(lambda data: auto_loader(data, 4, plan=plan_loader(data, 4)), id="given-plan"),
    ],
)
def test_what_is_decided_is_not_measured(make: Callable[[Any], AutoLoader[Any]]) -> None:
    """
    All batches come from workers where their number is decided, and where workers are what the user prepares.
    """
    with make(Waits(24, 0.001)) as loader:
        assert os.getpid() not in fetched(loader)[1]


@pytest.mark.parametrize("seconds", [pytest.param(0.02, id="instead-of-workers"), pytest.param(0, id="as-it-was")])
def test_number_that_is_set_later_stands(seconds: float) -> None:
    """
    What the user sets between epochs is not chosen again, also where it is what was chosen.
    """
    with auto_loader(Waits(48, seconds), 4) as loader:
        fetched(loader)
        loader.num_workers = 0
        assert set(fetched(loader)[1]) == {os.getpid()}
        assert loader.plan.choices["num_workers"].rule == "num_workers.fixed"


def test_loader_is_as_long_as_torchs_and_shows_its_attributes() -> None:
    """
    After the choice a plain DataLoader can be made of what the loader shows.
    """
    with auto_loader(Waits(4000, 0), 4) as loader:
        fetched(loader)
        shown = {name: getattr(loader, name) for name in ("num_workers", "prefetch_factor", "multiprocessing_context")}
        assert len(DataLoader(Waits(), 4, **shown)) == 12


class Threads(Waits):
    """
    Tells at how many threads torch computes.
    """

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, torch.get_num_threads()


def test_first_batches_load_at_one_thread_and_at_all() -> None:
    """
    And the rest in the faster of the two ways; the training has its threads between batches, and the user's zero too.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with auto_loader(Threads(4000, 0), 4) as loader:
            threads = fetched(loader)[1]
            assert (set(threads[:4]), set(threads[4:8])) == ({1}, {2})
            assert torch.get_num_threads() == 2
            profile = loader._first.known.profile
            assert profile is not None
            expected = {1} if is_at_one_thread(profile) else {2}
            assert set(threads[8:]) == expected == set(fetched(loader)[1])
        with auto_loader(Threads(400, 0), 4, num_workers=0) as other:
            assert set(fetched(other)[1]) == {2}
    finally:
        torch.set_num_threads(before)


@NEEDS_FORK
def test_epoch_that_ends_with_the_measurement_starts_nothing() -> None:
    """
    There is nothing left to load for workers that would start after the last batch.
    """
    with auto_loader(Waits(8), 4) as loader:
        fetched(loader)
        assert loader._inners.kept is None
        assert loader.plan.choices["num_workers"].rule == "num_workers.batches-per-epoch"
        assert loader._first._clock is not None
        assert loader._first._clock.last_batch is None  # it is the training's


class Given(Waits):
    """
    Gives what it was asked for.
    """

    def __getitem__(self, indices: Any) -> Any:
        return {"indices": indices}


def test_list_of_indices_is_the_samplers_own_where_the_dataset_gets_it() -> None:
    """
    Frameworks make lists of the same class anew.
    """
    sampler = BatchSampler(SequentialSampler(range(12)), 4, False)
    with auto_loader(Given(12, 0), batch_size=None, sampler=sampler) as loader:
        assert {type(batch["indices"]) for batch in loader} == {list}


class ReadsDescriptor(Waits):
    """
    Reads through a descriptor that it has opened when it was made, which nothing shows to be one.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(48, 0.01)
        path.write_bytes(bytes(range(48)))
        self.descriptor = os.open(path, os.O_RDONLY)

    def __getitem__(self, index: int) -> tuple[int, int]:
        os.lseek(self.descriptor, index, os.SEEK_SET)
        time.sleep(self.seconds)
        return os.read(self.descriptor, 1)[0], os.getpid()


@NEEDS_FORK
def test_file_that_was_open_before_and_is_read_keeps_samples_here(tmp_path: Path) -> None:
    """
    Its position moves when samples are fetched, so that workers would move it under one another.
    """
    dataset = ReadsDescriptor(tmp_path / "data")
    try:
        with auto_loader(dataset, 4) as loader:
            for _ in range(2):
                samples, pids = fetched(loader)
                assert samples == list(range(48))
                assert set(pids) == {os.getpid()}
            assert loader.plan.choices["num_workers"].rule == "num_workers.reads-open-file"
    finally:
        os.close(dataset.descriptor)


class Shards(Waits):
    """
    Keeps a file open for each of its parts, from the first sample of that on.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(64, 0.001)
        self.folder, self.files = folder, dict[int, Any]()
        for shard in range(8):
            (folder / str(shard)).write_bytes(bytes(range(8 * shard, 8 * shard + 8)))

    def __getitem__(self, index: int) -> tuple[int, int]:
        shard, place = divmod(index, 8)
        if shard not in self.files:
            self.files[shard] = (self.folder / str(shard)).open("rb", buffering=0)
        self.files[shard].seek(place)
        time.sleep(self.seconds)
        return self.files[shard].read(1)[0], os.getpid()


@NEEDS_FORK
@pytest.mark.filterwarnings("ignore")
def test_files_that_are_opened_after_the_measurement_are_not_shared(tmp_path: Path) -> None:
    """
    Epochs that began inline may get workers later, when more is open than was looked at: samples are right in all.
    """
    dataset = Shards(tmp_path)
    with auto_loader(dataset, 2) as loader:
        for _ in range(8):
            assert fetched(loader)[0] == list(range(64))
    for file in dataset.files.values():
        file.close()


def some(loader: Any, batches: int) -> tuple[list[int], list[bool]]:
    """
    Return the samples of an epoch that is left after some batches, and whether each was fetched here.
    """
    pairs = [
        (int(sample), int(pid) == os.getpid())
        for samples, pids in itertools.islice(loader, batches)
        for sample, pid in zip(samples, pids, strict=True)
    ]
    return [sample for sample, _ in pairs], [is_here for _, is_here in pairs]


@NEEDS_FORK
def test_epochs_that_are_left_early_begin_here_after_two_of_them() -> None:
    """
    An epoch that goes on after all loads on in workers; the plan stays, and so it is from the next epoch on.
    """
    with auto_loader(Waits(400, 0.002), 4) as loader:
        for here in (8, 0):
            samples, is_here = some(loader, 5)
            assert samples == list(range(20))
            assert is_here == [True] * here + [False] * (20 - here)
        workers = loader.num_workers
        assert workers > 0
        for _ in range(2):
            assert some(loader, 5) == (list(range(20)), [True] * 20)
        assert some(loader, 3) == (list(range(12)), [True] * 12)
        assert loader.num_workers == workers
        samples, is_here = some(loader, 100)
        assert samples == list(range(400))
        assert is_here == [True] * 20 + [False] * 380
        assert some(loader, 100) == (list(range(400)), [False] * 400)
        assert some(loader, 5) == (list(range(20)), [False] * 20)


@NEEDS_FORK
def test_epochs_that_are_left_late_have_workers_from_the_begin() -> None:
    """
    So many batches pay for their start.
    """
    with auto_loader(Waits(400, 0.005), 4) as loader:
        for _ in range(2):
            some(loader, 80)
        assert some(loader, 80) == (list(range(320)), [False] * 320)


@NEEDS_FORK
def test_epochs_that_are_left_begin_in_workers_where_samples_open_files(tmp_path: Path) -> None:
    """
    Workers would inherit these; nothing of the kind is opened here a second time.
    """
    with auto_loader(OpensLate(tmp_path / "bytes", 200), 4) as loader:
        for here in (8, 0, 0, 0):
            samples, is_here = some(loader, 4)
            assert samples == list(range(16))
            assert is_here == [True] * here + [False] * (16 - here)


@NEEDS_FORK
def test_error_of_a_sample_in_an_epoch_that_begins_here_is_no_end() -> None:
    """
    It counts as no batch, the epoch goes on after it, and no sample is lost.
    """
    dataset = Fails(400, 0.002)
    with auto_loader(dataset, 4) as loader:
        for _ in range(2):
            some(loader, 5)
        dataset.fails_at = 9
        iterator = iter(loader)
        seen = [next(iterator)[0].tolist() for _ in range(2)]
        with pytest.raises(KeyError):
            next(iterator)
        seen += [samples.tolist() for samples, _ in iterator]
    assert [number for batch in seen for number in batch] == [*range(8), *range(12, 400)]
