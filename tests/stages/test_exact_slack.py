"""The second pass's margin: rows whose float32 product lies below the floor and whose exact one
does not, in tiles that also hold zero vectors."""

import numpy as np
import pytest

from raypipe.stages import exact_search
from raypipe.stages.exact_search import topk_block_stream


def near_ties(zeros_every):
    """4,000 passages whose large terms cancel and leave multiples of 2^-20 that float32 loses."""
    rng = np.random.default_rng(2)
    vectors = np.zeros((4000, 64), np.float16)
    vectors[:, :62] = np.repeat(rng.integers(1, 500, (4000, 31)), 2, axis=1)
    vectors[:, 1:62:2] *= -1
    vectors[:, 62] = rng.integers(0, 500, 4000) * 2.0**-20
    vectors[::zeros_every] = 0
    queries = np.abs(rng.standard_normal((3, 64)))
    queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float16)
    queries[:, 1:62:2] = queries[:, :62:2]
    shuffled = rng.permutation(64)
    return queries[:, shuffled], vectors[:, shuffled]


@pytest.mark.parametrize("zeros_every", [2, 7])
def test_near_ties_beside_zero_vectors_are_ordered_exactly(monkeypatch, zeros_every):
    second = []
    search_above = exact_search.search_above
    monkeypatch.setattr(
        exact_search,
        "search_above",
        lambda *given, **named: second.append(len(given[0])) or search_above(*given, **named),
    )
    queries, vectors = near_ties(zeros_every)
    shards = [(0, vectors[:1500]), (1500, vectors[1500:])]
    rows, scores = topk_block_stream(queries, shards, depth=30, block_rows=512)
    exact = (queries.astype("f8") @ vectors.astype("f8").T).astype("f4")
    places = np.broadcast_to(np.arange(4000), exact.shape)
    order = np.lexsort((places, -exact), axis=-1)[:, :30]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(exact, order, 1))
    assert second == [3], "the first pass alone cannot prove this"
