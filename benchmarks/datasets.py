"""
Seeded datasets of the kinds that people train on, each small, in a module that a spawned worker can import.

Each sample is ``(value, index)``, or ``(value, index, label)`` and the like: the second part is the sample's number, by
which a run counts what it got.
"""

import hashlib
import io
import math
import random
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

Sample = tuple[Any, int]


def small_tensors(samples: int, seed: int) -> TensorDataset:
    """
    Return rows of sixteen numbers in memory.
    """
    values = torch.randn(samples, 16, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(values, torch.arange(samples))


class Indexed(Dataset[Sample]):
    """
    Base of the datasets by index; *samples* of them, drawn from *seed*.
    """

    def __init__(self, samples: int, seed: int) -> None:
        self.samples = samples
        self.seed = seed

    def __len__(self) -> int:
        return self.samples

    def drawn(self, index: int) -> random.Random:
        """
        Return the generator of one sample: the same whichever process asks.
        """
        return random.Random(self.seed * 1_000_003 + index)


class MemoryImages(Indexed):
    """
    Images of 96 px in memory, flipped and turned to floats.
    """

    def __init__(self, samples: int, seed: int) -> None:
        super().__init__(samples, seed)
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randint(256, (samples, 3, 96, 96), dtype=torch.uint8, generator=generator)

    def __getitem__(self, index: int) -> Sample:
        image = self.images[index]
        image = image.flip(2) if self.drawn(index).random() < 0.5 else image
        return image.float().div(255).sub(0.5), index


class Latency(Indexed):
    """
    Waits, as for a remote store, and then has 1 KiB.
    """

    def __init__(self, samples: int, seed: int, seconds: float) -> None:
        super().__init__(samples, seed)
        self.seconds = seconds

    def __getitem__(self, index: int) -> Sample:
        time.sleep(self.seconds)
        return torch.full((256,), float(index)), index


class HeavyTail(Indexed):
    """
    Waits 1 ms at least, by a Pareto distribution of shape 1.5 (infinite variance), cut at 200 ms.
    """

    def seconds(self, index: int) -> float:
        """
        Return how long sample *index* waits.
        """
        return min(0.2, 0.001 * self.drawn(index).paretovariate(1.5))

    def __getitem__(self, index: int) -> Sample:
        time.sleep(self.seconds(index))
        return torch.full((256,), float(index)), index


class JpegImages(Indexed):
    """
    Decodes one of eight JPEGs, crops and flips it by the sample's own draws, and gives 3 x 224 x 224 floats.
    """

    def __init__(self, samples: int, seed: int, pixels: int) -> None:
        super().__init__(samples, seed)
        self.pictures = [_jpeg(pixels, seed + each) for each in range(8)]

    def __getitem__(self, index: int) -> Sample:
        from PIL import Image

        draws = self.drawn(index)
        with Image.open(io.BytesIO(self.pictures[index % 8])) as opened:
            image = opened.convert("RGB")
        side = int(image.width * draws.uniform(0.5, 1))
        left, top = (draws.randrange(image.width - side + 1) for _ in range(2))
        image = image.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if draws.random() < 0.5 else image
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255), index


def _jpeg(pixels: int, seed: int) -> bytes:
    """
    Return a JPEG of smooth noise, which compresses about as a photograph does.
    """
    from PIL import Image

    noise = np.random.default_rng(seed).integers(0, 256, (pixels // 16, pixels // 16, 3), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(noise).resize((pixels, pixels), Image.Resampling.BICUBIC).save(written, "JPEG", quality=90)
    return written.getvalue()


WORDS = ("loader", "batch", "worker", "tensor", "queue", "epoch", "shard", "sample", "ng", "ing", "er", "un")


class Text(Indexed):
    """
    Splits 1,500 words into pieces of a small vocabulary, longest piece first, in Python alone.
    """

    def __init__(self, samples: int, seed: int) -> None:
        super().__init__(samples, seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.vocabulary = {piece: number for number, piece in enumerate((*WORDS, *letters))}

    def __getitem__(self, index: int) -> Sample:
        draws = self.drawn(index)
        text = " ".join(draws.choice(WORDS) + draws.choice(WORDS) for _ in range(1_500))
        tokens = [token for word in text.split() for token in self.tokens(word)]
        return torch.tensor(tokens[:2_048]), index

    def tokens(self, word: str) -> list[int]:
        """
        Return the numbers of the pieces of *word*.
        """
        found = []
        while word:
            end = next(end for end in range(len(word), 0, -1) if word[:end] in self.vocabulary)
            found.append(self.vocabulary[word[:end]])
            word = word[end:]
        return found


class Native(Indexed):
    """
    Compresses 256 KiB and hashes them: native work that holds no lock of Python's.
    """

    def __init__(self, samples: int, seed: int) -> None:
        super().__init__(samples, seed)
        self.buffer = random.Random(seed).randbytes(1 << 17) * 2

    def __getitem__(self, index: int) -> Sample:
        packed = zlib.compress(self.buffer, 1)
        digest = hashlib.sha256(packed + index.to_bytes(8, "little")).digest()
        return torch.tensor(list(digest)), index


class Mixed(Indexed):
    """
    Waits 4 ms and then computes for about as long, in Python.
    """

    def __getitem__(self, index: int) -> Sample:
        time.sleep(0.004)
        draws = self.drawn(index)
        return torch.tensor([draws.random() for _ in range(30_000)]), index


class FirstAccess(Indexed):
    """
    The first sample of each process takes half a second, as a connection or an index file may; the others 1 ms.
    """

    def __init__(self, samples: int, seed: int) -> None:
        super().__init__(samples, seed)
        self.is_open = False

    def __getitem__(self, index: int) -> Sample:
        time.sleep(0.001 if self.is_open else 0.5)
        self.is_open = True
        return torch.full((256,), float(index)), index


class BatchedItems(Indexed):
    """
    Fetches a batch by ``__getitems__``: 20 ms for the request, whatever its size.
    """

    def __getitem__(self, index: int) -> Sample:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Sample]:
        time.sleep(0.02)
        return [(torch.full((256,), float(index)), index) for index in indices]


class Shards(IterableDataset[Sample]):
    """
    A stream in *num_shards* shards, each read by one worker; a sample takes 2 ms.
    """

    def __init__(self, samples: int, seed: int, num_shards: int = 6) -> None:
        self.samples = samples
        self.seed = seed
        self.num_shards = num_shards

    def __len__(self) -> int:
        return self.samples

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for shard in range(first, self.num_shards, step):
            for index in range(shard, self.samples, self.num_shards):
                time.sleep(0.002)
                yield torch.full((256,), float(index)), index


class Volumes(Indexed):
    """
    Reads 16 MiB volumes from files in *folder*, memory-mapped, and copies each whole.
    """

    def __init__(self, samples: int, seed: int, folder: Path) -> None:
        super().__init__(samples, seed)
        self.paths = sorted(folder.glob("*.npy"))

    def __getitem__(self, index: int) -> Sample:
        volume = np.load(self.paths[index % len(self.paths)], mmap_mode="r")
        return torch.from_numpy(np.array(volume, dtype=np.float32)), index


class OpenedLater(Indexed):
    """
    Has a file that each process opens when it is first asked.
    """

    def __init__(self, samples: int, seed: int, path: Path) -> None:
        super().__init__(samples, seed)
        self.path = path
        self.opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "opened": None}


class Lmdb(OpenedLater):
    """
    Reads records of 64 KiB from an LMDB file.
    """

    def __getitem__(self, index: int) -> Sample:
        if self.opened is None:
            import lmdb

            self.opened = lmdb.open(str(self.path), subdir=False, readonly=True, lock=False, readahead=False)
        with self.opened.begin(buffers=True) as transaction:
            value = np.frombuffer(bytes(transaction.get(str(index).encode())), dtype=np.float32).copy()
        return torch.from_numpy(value).sqrt(), index


class Hdf5(OpenedLater):
    """
    Reads rows of 64 KiB from a compressed HDF5 file.
    """

    def __getitem__(self, index: int) -> Sample:
        if self.opened is None:
            import h5py

            self.opened = h5py.File(self.path, "r")["rows"]
        return torch.from_numpy(self.opened[index]).sqrt(), index


class Drawn(Indexed):
    """
    A workload that nobody chose: waiting, computing, size, spread and first access are drawn from a seed.
    """

    def __init__(
        self, samples: int, seed: int, *, latency: float, draws: int, size: int, spread: float, first: float
    ) -> None:
        super().__init__(samples, seed)
        self.latency_seconds = latency
        self.draws = draws
        self.sample_bytes = size
        self.spread = spread
        self.first_access_seconds = first

    def __getitem__(self, index: int) -> Sample:
        own = self.drawn(index)
        factor = math.exp(own.gauss(-(self.spread**2) / 2, self.spread))
        time.sleep(self.latency_seconds * factor + self.first_access_seconds)
        self.first_access_seconds = 0.0
        for _ in range(int(self.draws * factor)):
            own.random()
        return torch.full((self.sample_bytes // 4,), float(index)), index
