import numpy as np
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.payloads.vectors import read_vectors, write_vectors


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
