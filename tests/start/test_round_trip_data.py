"""
Arrays and tensors on the way to a child: whatever torch or numpy can send is loadable, and large data stays here.
"""

import importlib.util
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from autoloader.start import round_trip
from autoloader.start.round_trip import Unloadable, find_unloadable
from start import parts
from start.parts import Holder

METHOD = "spawn" if sys.platform == "win32" else "forkserver"

pytestmark = pytest.mark.slow_spawn


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Begin without memory of earlier tests.
    """
    monkeypatch.setattr(round_trip, "_known_to_load", set())
    monkeypatch.setattr(round_trip, "_known_to_fail", {})
    monkeypatch.setattr(round_trip, "_known_to_end", {})


def find(value: Any) -> Unloadable | None:
    """
    Return what cannot be loaded of a dataset.
    """
    return find_unloadable(METHOD, {"dataset": value})


NEEDS_NUMPY = pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="needs numpy")


def numpy_arrays() -> dict[str, Any]:
    """
    Return arrays of many kinds and sizes, small ones to be sent and large ones to be stood in for.
    """
    import numpy as np

    fields = [("label", "i4"), ("weight", "f8")]
    return {
        "tiny": np.zeros(3),
        "quarter of a MiB": np.zeros((1 << 15,)),
        "large": np.zeros((1 << 10, 1 << 10), dtype="f4"),
        "transposed": np.zeros((1 << 5, 1 << 16)).T,
        "structured": np.zeros(300_000, dtype=fields),
        "record": np.zeros(10, dtype=fields).view(np.recarray),
        "objects": np.array([1, "a", None] * 1000, dtype=object),
        "times": np.zeros(300_000, dtype="datetime64[s]"),
        "texts": np.full(100_000, "abc"),
        "masked": np.ma.masked_array([1, 2], [True, False]),
    }


@NEEDS_NUMPY
def test_numpy_arrays_of_every_kind_are_loadable(tmp_path: Path) -> None:
    """
    Also those that pickle hands over in pieces of its own, and maps of files.
    """
    import numpy as np

    for name, array in numpy_arrays().items():
        assert find(Holder(array=array)) is None, name
        round_trip._known_to_load.clear()
    assert find(Holder(array=np.memmap(tmp_path / "map", mode="w+", shape=(3 << 20,)))) is None


@NEEDS_NUMPY
def test_large_map_of_a_file_is_not_read(tmp_path: Path) -> None:
    """
    A terabyte of holes takes no time: the child gets an array of that shape, which is never touched.
    """
    import numpy as np

    with open(tmp_path / "holes", "wb") as file:
        file.truncate(1 << 40)
    mapped = np.memmap(tmp_path / "holes", mode="r", dtype="u1")
    assert len(round_trip.Pickled(Holder(array=mapped)).to_send()) < 1000


@NEEDS_NUMPY
@pytest.mark.torch
def test_large_arrays_and_tensors_have_stand_ins_of_their_shape_and_kind() -> None:
    """
    The child sees shape and type, and a megabyte is not sent.
    """
    import numpy as np
    import torch

    tensor = torch.zeros(1000, 500, 2, dtype=torch.bfloat16)
    for array, shown in [
        (np.zeros((1000, 500), dtype=">i4"), "numpy.ndarray (1000, 500) >i4"),
        (tensor, "torch.Tensor (1000, 500, 2) torch.bfloat16"),
    ]:
        assert len(round_trip.Pickled(parts.SeesShape(array)).to_send()) < 1000
        found = find(parts.SeesShape(array))
        assert found is not None
        assert found[1] == f"it is of type start.parts.SeesShape (LookupError: {shown})"


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::UserWarning")  # sparse and nested tensors are new, says torch
def test_tensors_of_every_kind_are_loadable() -> None:
    """
    What torch sends to a worker the child gets, too.
    """
    import torch

    kinds = {
        "tiny": torch.zeros(3),
        "large": torch.zeros(1 << 20),
        "requires grad": torch.zeros(1 << 20, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.zeros(1 << 19)),
        "module": torch.nn.Linear(3, 3),
        "meta": torch.empty(1 << 20, device="meta"),
        "sparse": torch.eye(3).to_sparse(),
        "sparse rows": torch.eye(3).to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        "subclass": torch.zeros(1 << 19).as_subclass(torch.nn.Buffer)
        if hasattr(torch.nn, "Buffer")
        else torch.zeros(1),
        "complex": torch.zeros(1 << 18, dtype=torch.complex64),
        "storage": torch.zeros(3).untyped_storage(),
        "dtype": torch.float32,
        "generator": torch.Generator(),
    }
    for name, value in kinds.items():
        assert find(Holder(value=value)) is None, name
        round_trip._known_to_load.clear()


@pytest.mark.torch
def test_tensor_of_a_graph_is_not_loadable() -> None:
    """
    Torch refuses to send it, which the real start would say only then.
    """
    import torch

    made = torch.ones(2, requires_grad=True) * 2
    expected = (
        "it is of type torch.Tensor "
        "(PicklingError: it requires grad and is no leaf, and could go to another process after detach())"
    )
    assert find(Holder(size=1, weights=[made])) == (
        "dataset.weights[0]",
        expected,
        "Make it when it is first needed, in __getitem__ for instance",
    )


@pytest.mark.torch
def test_looking_leaves_no_trace_in_this_process() -> None:
    """
    Random numbers, shared memory, threads and the user's tensors are as they were.
    """
    import numpy as np
    import torch

    def state() -> Any:
        ours = [name for name in os.listdir("/dev/shm") if str(os.getpid()) in name]
        numbers = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()
        return numbers, ours, [thread.name for thread in threading.enumerate()], len(os.listdir("/proc/self/fd"))

    small, large = torch.zeros(3), torch.zeros(1 << 20)
    find(Holder())
    round_trip._known_to_load.clear()
    before = state()
    assert find(Holder(small=small, large=large, array=np.zeros(3))) is None
    assert state() == before
    assert [small.is_shared(), large.is_shared()] == [False, False]


@NEEDS_NUMPY
def test_dataset_that_looks_at_its_large_array_when_it_is_loaded_gets_the_contents() -> None:
    """
    What fails with a stand-in is tried once more as it is.
    """
    import numpy as np

    table = np.full(3 << 20, 7, dtype=np.uint8)
    assert find(parts.ChecksContents(table)) is None
