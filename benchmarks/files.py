"""
Files that some workloads read, made once from a seed, before anything is timed.
"""

from pathlib import Path

import numpy as np

RECORD = (128, 128)
"""
Shape of one record of LMDB and HDF5: 64 KiB of 32-bit floats.
"""

VOLUME = (256, 256, 64)
"""
Shape of one volume: 16 MiB of 32-bit floats.
"""


def make_volumes(folder: Path, count: int, seed: int) -> Path:
    """
    Write *count* volumes into *folder*, unless they are there, and return it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"{number}.npy"
        if not path.exists():
            generator = np.random.default_rng(seed + number)
            np.save(path, generator.random(VOLUME, dtype=np.float32))
    return folder


def make_lmdb(path: Path, count: int, seed: int) -> Path:
    """
    Write an LMDB file of *count* records, unless it is there, and return its path.
    """
    if path.exists():
        return path
    import lmdb

    generator = np.random.default_rng(seed)
    with (
        lmdb.open(str(path), subdir=False, map_size=count * 200_000 + (1 << 20)) as opened,
        opened.begin(write=True) as t,
    ):
        for index in range(count):
            t.put(str(index).encode(), generator.random(RECORD, dtype=np.float32).tobytes())
    return path


def make_hdf5(path: Path, count: int, seed: int) -> Path:
    """
    Write an HDF5 file of *count* compressed rows, unless it is there, and return its path.
    """
    if path.exists():
        return path
    import h5py

    generator = np.random.default_rng(seed)
    with h5py.File(path, "w") as opened:
        rows = opened.create_dataset("rows", (count, *RECORD), "f4", chunks=(1, *RECORD), compression="gzip")
        for index in range(count):
            rows[index] = generator.random(RECORD, dtype=np.float32)
    return path
