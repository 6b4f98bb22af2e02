"""
What is known of a dataset before any of its samples is fetched.
"""

import functools
import io
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from autoloader.profiling import inspect_dataset
from autoloader.profiling.inspect import length_of
from autoloader.traits import DatasetTraits


@pytest.fixture
def torch() -> ModuleType:
    """
    Give torch, with its data utilities.
    """
    return pytest.importorskip("torch", reason="needs torch")


@pytest.fixture
def numpy() -> ModuleType:
    """
    Give numpy.
    """
    return pytest.importorskip("numpy", reason="needs numpy")


class Untouchable:
    """
    A map-style dataset that fails when any of its samples is fetched.
    """

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a sample was fetched")

    def __getitems__(self, indices: list[int]) -> Any:
        raise AssertionError("samples were fetched")

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("an iterator was made")

    def __len__(self) -> int:
        return 12


@pytest.mark.parametrize(
    ("dataset", "samples"),
    [
        pytest.param([1, 2, 3], 3, id="list"),
        pytest.param((1, 2), 2, id="tuple"),
        pytest.param(range(5), 5, id="range"),
        pytest.param(b"abc", 3, id="bytes"),
    ],
)
def test_inspect_of_a_plain_container_is_in_memory(dataset: Any, samples: int) -> None:
    """
    Python's own containers hand out what lies in memory already.
    """
    assert inspect_dataset(dataset) == DatasetTraits(style="map", samples=samples, is_in_memory=True)


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(Untouchable(), id="class"),
        pytest.param(type("Files", (list,), {})(["a"]), id="subclass-of-list"),
        pytest.param({0: "a"}, id="dict"),
        pytest.param("text", id="text"),
        pytest.param(None, id="none"),
    ],
)
def test_inspect_of_anything_else_is_not_in_memory(dataset: Any) -> None:
    """
    What a class of the user's does for a sample is not known.
    """
    assert not inspect_dataset(dataset).is_in_memory


def test_inspect_takes_the_batches_it_is_told() -> None:
    """
    Batches an epoch depend on the sampler, which only the loader knows.
    """
    assert inspect_dataset([1, 2, 3], batches_per_epoch=2).batches_per_epoch == 2


def test_inspect_with_a_collate_function_of_the_user_is_not_in_memory() -> None:
    """
    A collate function may do any amount of work for a sample that lies in memory.
    """
    assert not inspect_dataset([1, 2, 3], has_own_collate=True).is_in_memory


def test_inspect_fetches_no_sample_and_makes_no_iterator() -> None:
    """
    Nothing of the dataset runs but its length.
    """
    traits = inspect_dataset(Untouchable(root="/data/train"))
    assert traits == DatasetTraits(style="map", samples=12, path="/data/train")


@pytest.mark.torch
def test_inspect_of_an_iterable_dataset_makes_no_iterator(torch: ModuleType) -> None:
    """
    Nothing of an iterable-style dataset runs either.
    """

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("an iterator was made")

    assert inspect_dataset(Stream()) == DatasetTraits(style="iterable")


def test_inspect_of_arrays_knows_their_samples(numpy: ModuleType) -> None:
    """
    An array tells how many samples it has, and how large each is.
    """
    traits = inspect_dataset(numpy.zeros((10, 3, 4), dtype="float32"))
    assert traits == DatasetTraits(style="map", samples=10, is_in_memory=True, sample_bytes=48)


@pytest.mark.parametrize("shape", [pytest.param((), id="no-dimension"), pytest.param((0, 3), id="no-sample")])
def test_inspect_of_an_empty_array_knows_no_size(numpy: ModuleType, shape: tuple[int, ...]) -> None:
    """
    Without a sample there is no size of one.
    """
    assert inspect_dataset(numpy.zeros(shape)).sample_bytes is None


@pytest.mark.torch
def test_inspect_of_a_tensor_dataset_knows_its_samples(torch: ModuleType) -> None:
    """
    A TensorDataset is in memory, and its shapes tell the size of a sample.
    """
    dataset = torch.utils.data.TensorDataset(torch.zeros(10, 3, 4), torch.zeros(10, dtype=torch.int64))
    traits = inspect_dataset(dataset)
    assert traits == DatasetTraits(style="map", samples=10, is_in_memory=True, sample_bytes=56)


@pytest.mark.torch
def test_inspect_of_sparse_tensors_knows_no_size(torch: ModuleType) -> None:
    """
    A sparse tensor has no bytes a sample; asking for them is no error.
    """
    sparse = torch.eye(4).to_sparse()
    assert inspect_dataset(torch.utils.data.TensorDataset(sparse)).sample_bytes is None


def _in_memory_datasets(torch: ModuleType) -> dict[str, Any]:
    data = torch.utils.data
    tensors = data.TensorDataset(torch.zeros(8, 2))

    class Named(data.TensorDataset):  # type: ignore[misc, name-defined]
        name = "train"

    return {
        "tensor": torch.zeros(8),
        "tensors": tensors,
        "subset": data.Subset(tensors, [1, 2]),
        "subset-of-a-subset": data.Subset(data.Subset(tensors, range(4)), [1]),
        "subset-of-a-list": data.Subset([1, 2, 3], [0]),
        "concat": data.ConcatDataset([tensors, [1, 2], range(3)]),
        "concat-of-itself-twice": data.ConcatDataset([tensors, tensors]),
        "random-split": data.random_split(tensors, [4, 4])[0],
        "subclass-that-changes-nothing": Named(torch.zeros(3)),
    }


def _other_datasets(torch: ModuleType) -> dict[str, Any]:
    data = torch.utils.data
    tensors = data.TensorDataset(torch.zeros(8, 2))

    class Augmented(data.TensorDataset):  # type: ignore[misc, name-defined]
        def __getitem__(self, index: int) -> Any:
            raise AssertionError("a sample was fetched")

    class Batched(data.TensorDataset):  # type: ignore[misc, name-defined]
        def __getitems__(self, indices: list[int]) -> Any:
            raise AssertionError("samples were fetched")

    class View(data.Subset):  # type: ignore[misc, name-defined]
        def __getitems__(self, indices: list[int]) -> Any:
            raise AssertionError("samples were fetched")

    class Unfinished(data.Subset):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    looped = data.Subset(tensors, [0])
    looped.dataset = looped
    return {
        "overridden-getitem": Augmented(torch.zeros(3)),
        "overridden-getitems": Batched(torch.zeros(3)),
        "subset-with-overridden-getitems": View(tensors, [0]),
        "subset-of-files": data.Subset(Untouchable(), [0]),
        "concat-with-one-of-files": data.ConcatDataset([tensors, Untouchable()]),
        "concat-of-too-many-to-look-at": data.ConcatDataset([[number] for number in range(5000)]),
        "subset-that-was-not-initialised": Unfinished(),
        "subset-of-itself": looped,
    }


@pytest.mark.torch
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=name)
        for name in (
            "tensor",
            "tensors",
            "subset",
            "subset-of-a-subset",
            "subset-of-a-list",
            "concat",
            "concat-of-itself-twice",
            "random-split",
            "subclass-that-changes-nothing",
        )
    ],
)
def test_inspect_of_wrapped_tensors_is_in_memory(torch: ModuleType, name: str) -> None:
    """
    Torch's own wrappers around what is in memory fetch nothing but slices of it.
    """
    assert inspect_dataset(_in_memory_datasets(torch)[name]).is_in_memory


@pytest.mark.torch
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=name)
        for name in (
            "overridden-getitem",
            "overridden-getitems",
            "subset-with-overridden-getitems",
            "subset-of-files",
            "concat-with-one-of-files",
            "concat-of-too-many-to-look-at",
            "subset-that-was-not-initialised",
            "subset-of-itself",
        )
    ],
)
def test_inspect_of_code_of_the_user_is_not_in_memory(torch: ModuleType, name: str) -> None:
    """
    A dataset that fetches by code of its own may do anything for a sample.
    """
    assert not inspect_dataset(_other_datasets(torch)[name]).is_in_memory


def _plain_streams(torch: ModuleType) -> dict[str, Any]:
    """
    Return iterable-style datasets by a name that says how their own code refers to get_worker_info.
    """
    from torch.utils.data import IterableDataset, get_worker_info

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("an iterator was made")

    class Direct(Stream):
        def __iter__(self) -> Iterator[Any]:
            return iter(range(torch.utils.data.get_worker_info().id))

    class ByClosure(Stream):
        def __iter__(self) -> Iterator[Any]:
            info: Any = get_worker_info()
            return iter(range(info.id))

    class ByImport(Stream):
        def __iter__(self) -> Iterator[Any]:
            from torch.utils.data import get_worker_info as own_name

            info: Any = own_name()
            return iter(range(info.id))

    class ByInnerFunction(Stream):
        def __iter__(self) -> Iterator[Any]:
            def share() -> int:
                return int(torch.utils.data.get_worker_info().id)

            return iter(range(share()))

    class Inherited(Direct):
        pass

    return {
        "does-not-name-it": Stream(),
        "names-it": Direct(),
        "names-it-by-closure": ByClosure(),
        "imports-it-in-the-method": ByImport(),
        "names-it-in-an-inner-function": ByInnerFunction(),
        "inherits-it": Inherited(),
    }


def _streams_with_helpers(torch: ModuleType) -> dict[str, Any]:
    """
    Return iterable-style datasets by a name that says which member of their class refers to get_worker_info.
    """

    def share(self: Any) -> int:
        return int(torch.utils.data.get_worker_info().id)

    def share_out(self: Any) -> Iterator[Any]:
        return iter(range(torch.utils.data.get_worker_info().id))

    def refuse(self: Any) -> Iterator[Any]:
        raise AssertionError("an iterator was made")

    def logged(self: Any) -> Iterator[Any]:
        return share_out(self)

    def stream(*bases: type, **members: Any) -> Any:
        return type("Stream", (torch.utils.data.IterableDataset, *bases), {"__iter__": refuse, **members})()

    mixin = type("Mixin", (), {"share": share})
    return {
        "names-it-in-a-helper": stream(share=share),
        "names-it-in-a-static-method": stream(share=staticmethod(share)),
        "names-it-in-a-class-method": stream(share=classmethod(share)),
        "names-it-in-a-property": stream(share=property(share)),
        "names-it-in-a-cached-property": stream(share=functools.cached_property(share)),
        "names-it-in-a-partial-method": stream(share=functools.partialmethod(share)),
        "has-it-from-a-mixin": stream(mixin),
        "names-it-in-a-decorated-method": stream(__iter__=functools.wraps(share_out)(logged)),
        "names-it-in-the-decorator": stream(__iter__=functools.wraps(refuse)(share_out)),
    }


def _streams_of_streams(torch: ModuleType) -> dict[str, Any]:
    """
    Return iterable-style datasets by a name that says what those within them know.
    """
    plain = _plain_streams(torch)
    aware, unaware = plain["names-it"], plain["does-not-name-it"]
    chain = torch.utils.data.ChainDataset

    def wrapper(**attributes: Any) -> Any:
        stream = type(unaware)()
        stream.__dict__.update(attributes)
        return stream

    looped = wrapper()
    looped.source = looped
    return {
        "wraps-one-that-names-it": wrapper(source=wrapper(source=aware)),
        "wraps-one-twice": wrapper(source=wrapper(source=aware), first=aware),
        "chains-those-that-name-it": chain([aware, plain["inherits-it"]]),
        "chains-one-that-does-not": chain([aware, unaware]),
        "wraps-one-that-does-not": wrapper(source=unaware),
        "wraps-itself": looped,
        "holds-a-text-that-names-it": wrapper(note="get_worker_info"),
        "chains-too-many-to-look-at": chain([type(aware)() for _ in range(5000)]),
    }


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "aware"),
    [
        pytest.param("names-it", True, id="names-it"),
        pytest.param("names-it-by-closure", True, id="names-it-by-closure"),
        pytest.param("imports-it-in-the-method", True, id="imports-it-in-the-method"),
        pytest.param("names-it-in-a-helper", True, id="names-it-in-a-helper"),
        pytest.param("names-it-in-a-static-method", True, id="names-it-in-a-static-method"),
        pytest.param("names-it-in-a-class-method", True, id="names-it-in-a-class-method"),
        pytest.param("names-it-in-a-partial-method", True, id="names-it-in-a-partial-method"),
        pytest.param("names-it-in-a-property", True, id="names-it-in-a-property"),
        pytest.param("names-it-in-a-cached-property", True, id="names-it-in-a-cached-property"),
        pytest.param("names-it-in-an-inner-function", True, id="names-it-in-an-inner-function"),
        pytest.param("inherits-it", True, id="inherits-it"),
        pytest.param("has-it-from-a-mixin", True, id="has-it-from-a-mixin"),
        pytest.param("names-it-in-a-decorated-method", True, id="names-it-in-a-decorated-method"),
        pytest.param("names-it-in-the-decorator", True, id="names-it-in-the-decorator"),
        pytest.param("wraps-one-that-names-it", True, id="wraps-one-that-names-it"),
        pytest.param("wraps-one-twice", True, id="wraps-one-twice"),
        pytest.param("chains-those-that-name-it", True, id="chains-those-that-name-it"),
        pytest.param("does-not-name-it", False, id="does-not-name-it"),
        pytest.param("chains-one-that-does-not", False, id="chains-one-that-does-not"),
        pytest.param("wraps-one-that-does-not", False, id="wraps-one-that-does-not"),
        pytest.param("wraps-itself", False, id="wraps-itself"),
        pytest.param("holds-a-text-that-names-it", False, id="holds-a-text-that-names-it"),
        pytest.param("chains-too-many-to-look-at", False, id="chains-too-many-to-look-at"),
    ],
)
def test_inspect_of_a_stream_sees_whether_it_looks_at_its_worker(torch: ModuleType, name: str, aware: bool) -> None:
    """
    A stream whose own code, or that of all it is made of, refers to get_worker_info can share out its data.
    """
    streams = {**_plain_streams(torch), **_streams_with_helpers(torch), **_streams_of_streams(torch)}
    traits = inspect_dataset(streams[name])
    assert (traits.style, traits.is_worker_aware) == ("iterable", aware)


def test_inspect_of_map_style_data_asks_for_no_workers_and_shards() -> None:
    """
    Only iterable-style data must know its worker.
    """
    traits = inspect_dataset(Untouchable(num_shards=4))
    assert (traits.num_shards, traits.is_worker_aware) == (None, False)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("attributes", "shards"),
    [
        pytest.param({"num_shards": 4}, 4, id="num-shards"),
        pytest.param({"n_shards": 4}, 4, id="n-shards"),
        pytest.param({"num_shards": 2, "n_shards": 4}, 2, id="num-shards-first"),
        pytest.param({"num_shards": property(lambda self: 8)}, 8, id="property"),
        pytest.param({"num_shards": property(lambda self: 1 / 0), "n_shards": 4}, 4, id="property-that-raises"),
        pytest.param({"num_shards": lambda self: 4}, None, id="method"),
        pytest.param({"num_shards": 0}, None, id="none-at-all"),
        pytest.param({"num_shards": -1}, None, id="negative"),
        pytest.param({"num_shards": True}, None, id="truth-value"),
        pytest.param({"num_shards": "4"}, None, id="text"),
        pytest.param({}, None, id="not-declared"),
    ],
)
def test_inspect_of_a_stream_reads_declared_shards(
    torch: ModuleType, attributes: dict[str, Any], shards: int | None
) -> None:
    """
    A stream may declare its shards; whatever is no count is none.
    """
    members = {"__iter__": lambda self: iter(()), **attributes}
    stream_class = type("Stream", (torch.utils.data.IterableDataset,), members)
    assert inspect_dataset(stream_class()).num_shards == shards


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("length", "samples"),
    [
        pytest.param(lambda self: 7, 7, id="length"),
        pytest.param(lambda self: _raise(TypeError("no length")), None, id="raises-type-error"),
        pytest.param(lambda self: _raise(OSError("no index")), None, id="raises-os-error"),
        pytest.param(lambda self: -1, None, id="negative"),
        pytest.param(lambda self: "7", None, id="text"),
    ],
)
def test_length_of_a_dataset_that_has_none_is_unknown(length: Callable[[Any], Any], samples: int | None) -> None:
    """
    A length that raises is no length; torch asks again when it must know.
    """
    assert length_of(type("Sized", (), {"__len__": length})()) == samples


def test_length_of_what_has_no_length_is_unknown() -> None:
    """
    A generator has no length.
    """
    assert length_of(iter([])) is None


@pytest.mark.parametrize(
    ("attributes", "path", "is_remote", "kind"),
    [
        pytest.param({}, None, False, None, id="none"),
        pytest.param({"root": "/data/train"}, "/data/train", False, None, id="root"),
        pytest.param({"root": Path("/data/train")}, str(Path("/data/train")), False, None, id="path-object"),
        pytest.param({"data_dir": "data/train"}, "data/train", False, None, id="relative"),
        pytest.param({"data_dir": "C:\\data\\train"}, "C:\\data\\train", False, None, id="windows"),
        pytest.param({"data_dir": "C://data//train"}, "C://data//train", False, None, id="drive-is-no-scheme"),
        pytest.param({"files": ["a.png", "b.png"]}, "a.png", False, "image", id="list-of-paths"),
        pytest.param({"files": [Path("a.JPG")]}, "a.JPG", False, "image", id="list-of-path-objects"),
        pytest.param({"samples": [("/d/a.jpeg", 0), ("/d/b.jpeg", 1)]}, "/d/a.jpeg", False, "image", id="torchvision"),
        pytest.param({"imgs": (("/d/a.webp", 0),)}, "/d/a.webp", False, "image", id="tuple-of-pairs"),
        pytest.param({"data_file": "corpus.jsonl"}, "corpus.jsonl", False, "text", id="text-file"),
        pytest.param({"url": "s3://bucket/train"}, "s3://bucket/train", True, None, id="s3"),
        pytest.param({"urls": ["https://host/a.tar"]}, "https://host/a.tar", True, None, id="list-of-urls"),
        pytest.param({"url": "file:///data/a.png"}, "file:///data/a.png", False, "image", id="file-url"),
        pytest.param({"data": ["see https://host/page"]}, "see https://host/page", False, None, id="url-within-text"),
        pytest.param({"root": "train"}, None, False, None, id="a-word-is-no-path"),
        pytest.param({"data": "a/b\nc/d"}, None, False, None, id="lines-are-no-path"),
        pytest.param({"data": "a/" * 3000}, None, False, None, id="a-long-text-is-no-path"),
        pytest.param({"samples": []}, None, False, None, id="empty-list"),
        pytest.param({"samples": [()]}, None, False, None, id="list-of-nothing"),
        pytest.param({"samples": [1, 2]}, None, False, None, id="list-of-numbers"),
        pytest.param({"root": b"/data"}, None, False, None, id="bytes"),
        pytest.param({"label": "/data/train"}, None, False, None, id="a-name-that-means-no-path"),
        pytest.param({"mode": "r", "root": "/data"}, "/data", False, None, id="among-others"),
        pytest.param({"dataset": Untouchable(root="/data")}, "/data", False, None, id="wrapped"),
        pytest.param({"dataset": SimpleNamespace(dataset=Untouchable(root="/data"))}, "/data", False, None, id="twice"),
        pytest.param({"datasets": [Untouchable(root="/data")]}, "/data", False, None, id="first-of-several"),
        pytest.param({"dataset": ["/data/a.png"]}, "/data/a.png", False, "image", id="wrapped-list-of-paths"),
        pytest.param({**{f"x{n}": n for n in range(99)}, "root": "/data"}, None, False, None, id="beyond-the-64th"),
    ],
)
def test_inspect_sees_paths_in_attributes(
    attributes: dict[str, Any], path: str | None, is_remote: bool, kind: str | None
) -> None:
    """
    A path or URL in an attribute with a telling name says where the data lies, and of what kind it is.
    """
    traits = inspect_dataset(Untouchable(**attributes))
    assert (traits.path, traits.is_remote, traits.sample_kind) == (path, is_remote, kind)


@pytest.mark.torch
def test_inspect_of_a_subset_sees_the_path_of_the_whole(torch: ModuleType) -> None:
    """
    A Subset of a dataset of files reads the same files.
    """
    whole = Untouchable(samples=[("/data/a.png", 0)])
    traits = inspect_dataset(torch.utils.data.Subset(whole, [0]))
    assert (traits.path, traits.sample_kind) == ("/data/a.png", "image")


def test_inspect_does_not_open_a_path_in_a_cloud() -> None:
    """
    A path object is shown as text: for classes of paths in a cloud ``os.fspath`` fetches the file.
    """

    class CloudPath:
        def __fspath__(self) -> str:
            raise AssertionError("the file was fetched")

        def __str__(self) -> str:
            return "gs://bucket/a.png"

    traits = inspect_dataset(Untouchable(root=CloudPath()))
    assert (traits.path, traits.is_remote) == ("gs://bucket/a.png", True)


class Holder:
    """
    A map-style dataset that holds something.
    """

    def __init__(self, held: Any) -> None:
        self.held = held

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("make", "is_handle"),
    [
        pytest.param(lambda path: path.open("rb"), True, id="binary"),
        pytest.param(lambda path: path.open("rb", buffering=0), True, id="unbuffered"),
        pytest.param(lambda path: path.open("r"), True, id="text"),
        pytest.param(lambda path: sqlite3.connect(path.with_suffix(".db")), True, id="sqlite"),
        pytest.param(lambda path: zipfile.ZipFile(path.with_suffix(".zip"), "w"), True, id="zip"),
        pytest.param(lambda path: io.BytesIO(b"in memory"), False, id="bytes-in-memory"),
        pytest.param(lambda path: io.StringIO("in memory"), False, id="text-in-memory"),
        pytest.param(lambda path: path, False, id="path"),
        pytest.param(lambda path: None, False, id="nothing"),
    ],
)
def test_inspect_dataset_that_holds_an_open_file_names_it(
    make: Callable[[Path], Any], is_handle: bool, tmp_path: Path
) -> None:
    """
    What is open on a file is seen, what only looks like a file is not.
    """
    path = tmp_path / "data"
    path.write_text("data")
    held = make(path)
    try:
        assert inspect_dataset(Holder(held)).open_handle == ("held" if is_handle else None)
    finally:
        getattr(held, "close", lambda: None)()
