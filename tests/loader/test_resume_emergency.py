"""
Checkpoints that are written because something went wrong: in next(), by Ctrl-C, a time-out, or a batch that is lost.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import datasets
from autoloader import AutoLoader, auto_loader
from autoloader.loader.iterator import LoaderIterator
from loader.chosen import chosen, epochs_of, plain, seed_all
from loader.deadly import as_they_are, wait_until
from loader.resuming import LENGTH, indices, resumed, through_a_checkpoint

PATIENCE_SECONDS = 60


class Late(datasets.Draws):
    """
    Sample 4 waits until a file is there; another one tells that it waits.
    """

    def __init__(self, length: int, folder: Path) -> None:
        super().__init__(length)
        self.folder = folder

    def __getitem__(self, index: int) -> torch.Tensor:
        deadline = time.monotonic() + PATIENCE_SECONDS
        if index == 4:
            (self.folder / "waits").touch()
            while not (self.folder / "go-on").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return super().__getitem__(index)


def late_loader(folder: Path, num_workers: int, **arguments: Any) -> AutoLoader[Any]:
    """
    Return a loader whose third batch waits.
    """
    return chosen(Late(LENGTH, folder), num_workers, batch_size=2, **arguments)


def is_in_next() -> bool:
    """
    Return whether the main thread waits for a batch.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code is not LoaderIterator.__next__.__code__:
        frame = frame.f_back
    return frame is not None


# The interrupt may find another batch on its way: multiprocessing drops the socket that its tensors come through.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="sends itself a signal")
@pytest.mark.parametrize("num_workers", [0, 1, pytest.param(3, marks=pytest.mark.slow_spawn)])
def test_checkpoint_after_ctrl_c_in_next_loses_nothing(num_workers: int, tmp_path: Path) -> None:
    """
    The batch that was waited for was not served, and comes in the second run.
    """

    def press() -> None:
        assert wait_until(lambda: (tmp_path / "waits").exists() and is_in_next())
        os.kill(os.getpid(), signal.SIGINT)

    seed_all()
    with late_loader(tmp_path, num_workers) as loader:
        iterator = iter(loader)
        found = [plain(next(iterator)) for _ in range(2)]
        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
        thread.join()
        state = through_a_checkpoint(loader.state_dict())
        (tmp_path / "go-on").touch()
    assert state["served"] == 2
    with resumed(late_loader(tmp_path, 0), state) as loader:
        found += epochs_of(loader)[0]
    seed_all()
    with late_loader(tmp_path, 0) as loader:
        assert epochs_of(loader) == [found]


@pytest.mark.slow_spawn
def test_checkpoint_after_a_time_out_loses_nothing(tmp_path: Path) -> None:
    """
    The batch that did not come was not served: it comes in the second run, and in this one if the loop goes on.
    """
    with auto_loader(Late(LENGTH, tmp_path), 2, num_workers=1, timeout=1) as loader:
        iterator = iter(loader)
        assert indices([next(iterator), next(iterator)]) == [0, 1, 2, 3]
        with pytest.raises(RuntimeError, match="^DataLoader timed out after 1 seconds"):
            next(iterator)
        state = through_a_checkpoint(loader.state_dict())
        loader.timeout = 0
        (tmp_path / "go-on").touch()
        assert indices(iterator) == list(range(4, LENGTH))
        assert loader.stats().total.samples == LENGTH
    assert state["served"] == 2
    with resumed(auto_loader(Late(LENGTH, tmp_path), 2, num_workers=0), state) as loader:
        assert indices(loader) == list(range(4, LENGTH))


class CannotBeUnpickled(datasets.Numbers):
    """
    Sample 4 can be sent, but not received.
    """

    def __getitem__(self, index: int) -> Any:
        return FailsToLoad() if index == 4 else index


class FailsToLoad:
    """
    Raises an error where it is unpickled.
    """

    def __reduce__(self) -> Any:
        return int, ("not a number",)


def test_checkpoint_after_a_batch_that_could_not_be_received_loses_nothing() -> None:
    """
    Each further attempt is the same error, and takes nothing off what is to be served.
    """
    arguments: dict[str, Any] = {"batch_size": 2, "collate_fn": as_they_are}
    with chosen(CannotBeUnpickled(LENGTH), 1, **arguments) as loader:
        iterator = iter(loader)
        assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
        for _ in range(3):
            with pytest.raises(ValueError, match="invalid literal"):
                next(iterator)
        state = through_a_checkpoint(loader.state_dict())
    assert state["served"] == 2
    with resumed(chosen(CannotBeUnpickled(LENGTH), 0, **arguments), state) as loader:
        assert [batch[1] for batch in loader] == [5, 7, 9, 11]
