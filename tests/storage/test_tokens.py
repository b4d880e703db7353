import numpy as np
import pytest

from raypipe.storage.payloads import (
    concatenate,
    map_tokens,
    read_tokens,
    taken,
    write_tokens,
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
