import numpy as np
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.payloads import read_vectors, write_vectors


def test_vectors_are_fp16_of_two_dimensions_or_refused(tmp_path):
    vectors = np.arange(12, dtype=np.float16).reshape(4, 3)
    write_vectors(tmp_path / "v", vectors[::-1])
    assert np.array_equal(read_vectors(tmp_path / "v"), vectors[::-1])
    for bad in (vectors.astype(np.float32), vectors[0]):
        with (tmp_path / "bad").open("wb") as file:
            np.save(file, bad)
        with pytest.raises(CorruptError, match=r"expected fp16 \[rows, dim\]"):
            read_vectors(tmp_path / "bad")


def test_vectors_are_fp16_rows_and_nothing_else(tmp_path):
    path = tmp_path / "x.npy"
    write_vectors(path, np.array([[1, 2], [3, 4]], np.float16).T)
    assert read_vectors(path).tolist() == [[1, 3], [2, 4]]
    for bad in (np.ones((2, 2), np.float32), np.ones(3, np.float16)):
        np.save(path, bad)
        with pytest.raises(CorruptError, match="expected fp16"):
            read_vectors(path)
    path.write_bytes(b"no array")
    with pytest.raises(CorruptError, match="not a readable array"):
        read_vectors(path)
