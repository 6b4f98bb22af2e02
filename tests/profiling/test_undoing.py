"""
What fetching samples leaves open, and that it can be undone.
"""

import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from autoloader.profiling import FetchTraces

NEEDS_LIST = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what is open")


class Data:
    """
    A dataset with something to set.
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __len__(self) -> int:
        return 1


def open_file(tmp_path: Path) -> Any:
    """
    Return an open file.
    """
    return (tmp_path / "data").open("wb")


def test_undo_gives_attributes_their_values_back() -> None:
    """
    What was set is as before, and what is new is gone; what was not touched stays.
    """
    data = Data(file=None, size=3)
    traces = FetchTraces(data)
    traces.begin()
    data.file, data.cache = object(), {}
    traces.end()
    traces.undo()
    assert vars(data) == {"file": None, "size": 3}


def test_undo_of_several_batches_goes_back_to_the_first() -> None:
    """
    What one batch set and another replaced is as before both.
    """
    data = Data(count=0)
    traces = FetchTraces(data)
    for count in (100_000, 200_000):
        traces.begin()
        data.count = count
        traces.end()
    traces.undo()
    assert data.count == 0


def test_undo_reaches_wrapped_datasets_and_their_dictionaries() -> None:
    """
    Files by name in a dictionary are closed, too.
    """
    inner = Data(files={"a": 1})
    outer = Data(dataset=inner)
    traces = FetchTraces(outer)
    traces.begin()
    inner.files["b"] = object()
    traces.end()
    traces.undo()
    assert inner.files == {"a": 1}


def test_nothing_is_undone_where_the_user_has_set_something_since() -> None:
    """
    It is not known what belongs together.
    """
    data = Data(difficulty=1, file=None)
    traces = FetchTraces(data)
    traces.begin()
    data.difficulty, data.file = 2, "open"
    traces.end()
    data.difficulty = 3
    traces.undo()
    assert vars(data) == {"difficulty": 3, "file": "open"}


def test_what_the_user_sets_between_batches_stays() -> None:
    """
    A number that fetching counts on is not set back over the user's own.
    """
    data = Data(count=0)
    traces = FetchTraces(data)
    for _ in range(2):
        traces.begin()
        data.count += 1
        traces.end()
        data.count = 1000
    traces.undo()
    assert data.count == 1000


@pytest.mark.parametrize("flag", [[], Data(is_open=False)])
def test_nothing_is_undone_where_more_has_changed_than_attributes(flag: Any) -> None:
    """
    A dataset that notes elsewhere that its file is open would never open it again.
    """
    data = Data(file=None, flag=flag)
    traces = FetchTraces(data)
    traces.begin()
    data.file = "open"
    if isinstance(flag, list):
        flag.append(1)
    else:
        flag.is_open = True
    traces.end()
    traces.undo()
    assert data.file == "open"


@NEEDS_LIST
@pytest.mark.parametrize("buffering", [0, -1])
def test_file_that_was_open_before_counts_once_it_is_read(buffering: int, tmp_path: Path) -> None:
    """
    Whoever holds it, forked workers would move its position under one another; one that is not read harms nobody.
    """
    (tmp_path / "data").write_bytes(bytes(100_000))
    with (tmp_path / "data").open("rb", buffering=buffering) as read, (tmp_path / "data").open("rb") as other:
        traces = FetchTraces(Data())
        for reads in (False, True):
            traces.begin()
            if reads:
                read.seek(70_000)
                read.read(10)
            traces.end()
            assert traces.has_open_files == reads
        assert not other.closed


@NEEDS_LIST
def test_every_new_file_counts_once_samples_were_fetched_unseen(tmp_path: Path) -> None:
    """
    A log, which is only written, is none of the dataset's.
    """
    (tmp_path / "data").write_bytes(b"data")
    traces = FetchTraces(Data())
    traces.begin()
    traces.end()
    with (tmp_path / "log").open("w"):
        traces.suspect_new_files()
        assert not traces.has_open_files
        with (tmp_path / "data").open("rb"):
            traces.suspect_new_files()
            assert traces.has_open_files


@NEEDS_LIST
def test_file_that_only_the_dataset_holds_is_closed(tmp_path: Path) -> None:
    """
    It is not open any more after that, nor does Python warn of it.
    """
    data = Data(file=None)
    traces = FetchTraces(data)
    traces.begin()
    data.file = open_file(tmp_path)
    traces.end()
    assert traces.has_open_files
    traces.undo()
    assert not traces.has_open_files


@NEEDS_LIST
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python's own, of such a file
def test_file_in_a_cycle_is_closed(tmp_path: Path) -> None:
    """
    What refers to itself lives until the collector comes.
    """
    data = Data(reader=None)
    traces = FetchTraces(data)
    traces.begin()
    data.reader = Data(file=open_file(tmp_path))
    data.reader.me = data.reader
    data.reader.close = data.reader.file.close
    traces.end()
    traces.undo()
    assert not traces.has_open_files


@NEEDS_LIST
def test_file_that_somebody_else_holds_stays_open(tmp_path: Path) -> None:
    """
    It is not ours to close.
    """
    data, others = Data(file=None), []
    traces = FetchTraces(data)
    traces.begin()
    data.file = open_file(tmp_path)
    others.append(data.file)
    traces.end()
    traces.undo()
    assert traces.has_open_files
    assert not others[0].closed
    others[0].close()
    assert not traces.has_open_files


@NEEDS_LIST
def test_file_that_was_open_before_does_not_count(tmp_path: Path) -> None:
    """
    Neither do files of the training, opened between batches.
    """
    data = Data(file=None)
    with open_file(tmp_path):
        traces = FetchTraces(data)
        traces.begin()
        traces.end()
        with (tmp_path / "log").open("w"):
            assert not traces.has_open_files
    gc.collect()


@pytest.mark.parametrize("dataset", [[1, 2], range(3), object(), {"a": 1}])
def test_dataset_without_attributes_leaves_no_traces(dataset: Any) -> None:
    """
    There is nothing to undo.
    """
    before, traces = repr(dataset), FetchTraces(dataset)
    traces.begin()
    traces.end()
    traces.undo()
    assert not traces.has_open_files
    assert repr(dataset) == before
