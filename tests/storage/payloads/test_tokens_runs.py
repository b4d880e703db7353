import numpy as np

from raypipe.storage.payloads.tokens import (
    concatenate,
    map_tokens,
    read_tokens,
    taken,
    write_tokens,
)


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
