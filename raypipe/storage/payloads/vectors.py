"""Embedding payloads: a `.npy` file of fp16 [rows, dim], mapped for reading."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import CorruptError
from raypipe.storage.payloads.writing import writing


def write_vectors(path: Path, vectors: NDArray[np.float16]) -> None:
    """Write the payload of one shard of embeddings."""
    assert vectors.dtype == np.float16 and vectors.ndim == 2
    with writing(path), path.open("wb") as stream:
        np.save(stream, np.ascontiguousarray(vectors), allow_pickle=False)


def read_vectors(path: Path) -> NDArray[np.float16]:
    """A read-only map of fp16 [rows, dim].

    Raises:
        CorruptError: the file does not hold such an array.
    """
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise CorruptError(f"{path.name}: not a readable array: {error}") from error
    if vectors.dtype != np.float16 or vectors.ndim != 2:
        raise CorruptError(f"{path.name}: expected fp16 [rows, dim], found {vectors.dtype}")
    array: NDArray[np.float16] = vectors
    return array
