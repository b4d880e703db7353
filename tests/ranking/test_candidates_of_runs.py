import numpy as np
from run_with_tails import RUN

from raypipe.ranking.candidates import pairs, singles


def test_candidates_end_at_rank_k_whatever_the_rows():
    queries, rows, rank = (RUN[n].to_numpy() for n in ("query_row", "passage_row", "rank"))
    found = singles(queries, rows, rank, k0=3)
    assert [part.tolist() for part in found] == [[0, 0, 0, 2], [3, 8, 70, 4], [-1] * 4]
    first, second, third = (part.tolist() for part in pairs(queries, rows, rank, k1=3))
    assert first == [0] * 6  # a query with one candidate has no pair
    assert list(zip(second, third, strict=True)) == [
        (3, 8),
        (3, 70),
        (8, 3),
        (8, 70),
        (70, 3),
        (70, 8),
    ]


def test_a_draw_depends_on_seed_and_candidates_not_on_their_order():
    rng = np.random.default_rng(1)
    rows = rng.permutation(500)[:12].astype(np.int64)
    queries, rank = np.zeros(12, np.int32), np.arange(1, 13, dtype=np.int32)
    drawn = pairs(queries, rows, rank, k1=12, sample=4, seed=9)
    turned = pairs(queries, rows[::-1].copy(), rank, k1=12, sample=4, seed=9)
    assert all((a == b).all() for a, b in zip(drawn, turned, strict=True))
    other_query = pairs(queries + 1, rows, rank, k1=12, sample=4, seed=9)
    assert (other_query[2] != drawn[2]).any()
