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
    assert as_rows(concatenate([found, (FLAT, OFFSETS)])) == [ROWS[row] for row in rows] + ROWS


def test_tokens_of_some_rows_and_of_several_runs_of_rows(tmp_path):
    flat, offsets = np.array([1, 2, 3, 4, 5, 6], np.uint16), np.array([0, 2, 2, 5, 6])
    found = taken(flat, offsets, np.array([3, 0, 1, 2, 0]))
    assert found[0].tolist() == [6, 1, 2, 3, 4, 5, 1, 2]
    assert found[1].tolist() == [0, 1, 3, 3, 6, 8]
    none = taken(flat, offsets, np.empty(0, np.int64))
    assert none[0].tolist() == [] and none[1].tolist() == [0]
    both = concatenate([found, (flat, offsets)])
    assert both[0].tolist() == [*found[0], *flat]
    assert both[1].tolist() == [0, 1, 3, 3, 6, 8, 10, 10, 13, 14]
    write_tokens(tmp_path / "x", *both)
    for read in (read_tokens, map_tokens):
        again = read(tmp_path / "x")
        assert [part.tolist() for part in again] == [part.tolist() for part in both]


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
