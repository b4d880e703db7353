import numpy as np
import pytest

from raypipe.storage.payloads.tokens import (
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
