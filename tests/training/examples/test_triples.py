import numpy as np
import pytest

from raypipe.errors import InputError
from raypipe.training.guard import Dropped, Guard
from raypipe.training.judgements import triple_examples


def test_triples_keep_their_order_and_lose_what_the_guard_refuses(tmp_path):
    path = tmp_path / "triples.tsv"
    path.write_text("q1\ta\tb\nq0\tb\tc\nq1\tc\ta\nq2\ta\tb\nq1\tb\td\n")
    rows = {"a": 0, "b": 1, "c": 2, "d": 3}

    def rows_of(ids):
        return np.array([rows.get(each, -1) for each in ids], np.int64)

    def read(text=None, *, refused=(), guard=None):
        if text is not None:
            path.write_text(text)
        dropped, beats = Dropped(), []
        queries = {"q0": 0, "q1": 1, "q2": 2}
        guard = guard or Guard()
        scratch = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
        scratch.mkdir()
        found = triple_examples(
            path, queries, rows_of, set(refused), guard, dropped, scratch, lambda: beats.append(1)
        )
        pairs = zip(found.query_rows.tolist(), found.passage_rows.tolist(), strict=True)
        return [(query, *passages) for query, passages in pairs], dropped

    whole = [(1, 0, 1), (0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 1, 3)]
    assert read()[0] == whole
    found, dropped = read(refused=[1])
    assert found == [whole[1], whole[3]] and dropped.triples == 3
    found, dropped = read(guard=Guard(left_out=frozenset("c"), shared=frozenset("b")))
    assert found == [whole[0], whole[3], whole[4]]
    assert (dropped.left_out_positive, dropped.left_out_negative) == (1, 1)
    assert dropped.shared_passages == 1
    for bad in ("q1\ta\n", "q9\ta\tb\n", "q1\tx\tb\n", "q1\ta\tx\n", ""):
        with pytest.raises(InputError):
            read(bad)
    path.write_bytes(b"q1\ta\tb\nq1\ta\t\xff\n")
    with pytest.raises(InputError, match="after line 0: not UTF-8: invalid start byte"):
        read()
