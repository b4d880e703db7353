import numpy as np
import pytest
from safetensors.numpy import save_file

from raypipe.errors import CorruptError
from raypipe.storage.payloads import (
    concatenate,
    map_tensors,
    map_tokens,
    read_tokens,
    read_vectors,
    taken,
    write_tokens,
    write_vectors,
)

ROWS = [[5, 6, 7], [], [8], [9, 10], []]


FLAT = np.array([piece for row in ROWS for piece in row], np.uint16)


OFFSETS = np.cumsum([0, *map(len, ROWS)]).astype(np.int64)


def as_rows(found):
    flat, offsets = found
    return [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]


def test_word_pieces_are_read_and_mapped_as_they_were_written(tmp_path):
    for name, dtype in (("a", np.uint16), ("b", np.uint32)):
        write_tokens(tmp_path / name, FLAT.astype(dtype), OFFSETS)
        for found in (read_tokens(tmp_path / name), map_tokens(tmp_path / name)):
            assert as_rows(found) == ROWS and found[0].dtype == dtype
    write_tokens(tmp_path / "none", FLAT[:0], OFFSETS[:1])
    assert as_rows(map_tokens(tmp_path / "none")) == []


@pytest.mark.parametrize("rows", [[], [0], [4, 0, 2, 2, 1, 3], [1, 4, 1]])
def test_the_pieces_of_some_rows_come_in_their_order(rows):
    found = taken(FLAT, OFFSETS, np.array(rows, np.int64))
    assert as_rows(found) == [ROWS[row] for row in rows]
    both = concatenate([found, (FLAT, OFFSETS)])
    assert as_rows(both) == [ROWS[row] for row in rows] + ROWS
    assert [len(part) for part in both] == [both[1][-1], len(rows) + len(ROWS) + 1]


def test_mapped_tensors_have_their_own_types_and_shapes(tmp_path):
    tensors = {
        "a": np.arange(6, dtype=np.int64).reshape(2, 3),
        "b": np.array([1, 2], np.uint16),
        "c": np.array([[1.5], [2.5]], np.float32),
        "d": np.empty((0, 4), np.int32),
        "e": np.array([255], np.uint8),
        "f": np.array([7], np.uint32),
    }
    save_file(tensors, tmp_path / "x", metadata={"note": "not a tensor"})
    found = map_tensors(tmp_path / "x")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].tolist() == tensor.tolist()
        assert found[name].shape == tensor.shape
    with pytest.raises(ValueError):
        found["a"][0, 0] = 1


def test_vectors_are_fp16_of_two_dimensions_or_refused(tmp_path):
    vectors = np.arange(12, dtype=np.float16).reshape(4, 3)
    for given in (vectors[::-1], vectors.T):  # as they lie in no memory
        write_vectors(tmp_path / "v", given)
        assert np.array_equal(read_vectors(tmp_path / "v"), given)
    for bad in (vectors.astype(np.float32), vectors[0]):
        with (tmp_path / "bad").open("wb") as file:
            np.save(file, bad)
        with pytest.raises(CorruptError, match=r"expected fp16 \[rows, dim\]"):
            read_vectors(tmp_path / "bad")
    (tmp_path / "bad").write_bytes(b"no array")
    with pytest.raises(CorruptError, match="not a readable array"):
        read_vectors(tmp_path / "bad")
