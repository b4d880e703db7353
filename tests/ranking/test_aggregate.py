"""Aggregation by its equations, draws, and the depth rule."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.aggregate import RULES, aggregate
from raypipe.ranking.candidates import missing, pairs, positions, singles
from raypipe.ranking.rerank import rerank

# One query, passages 4, 7, 9: p(4,7)=.75 p(4,9)=.5 p(7,4)=.125 p(7,9)=1 p(9,4)=.625 p(9,7)=0
KEYS = (
    np.zeros(6, np.int64),
    np.array([4, 4, 7, 7, 9, 9]),
    np.array([7, 9, 4, 9, 4, 7]),
)
P = np.array([0.75, 0.5, 0.125, 1.0, 0.625, 0.0], np.float32)
BY_HAND = {
    "sum": [1.25, 1.125, 0.625],
    "binary": [1, 1, 1],
    "min": [0.5, 0.125, 0.0],
    "max": [0.75, 1.0, 0.625],
    "sample": [1.25, 1.125, 0.625],
    # own sum + (1 - p(j, i)) of both others
    "symmetric-sum": [1.25 + 0.875 + 0.375, 1.125 + 0.25 + 1.0, 0.625 + 0.5 + 0.0],
}


@pytest.mark.parametrize("method", BY_HAND)
def test_each_method_equals_its_equation(method):
    queries, rows, scores = aggregate(KEYS, P, method=method)
    assert queries.tolist() == [0, 0, 0] and rows.tolist() == [4, 7, 9]
    assert scores.tolist() == BY_HAND[method]


def test_symmetric_log_sum_equals_its_equation():
    p = np.array([0.75, 0.5, 0.125, 0.25, 0.625, 0.5], np.float32)
    _, _, scores = aggregate(KEYS, p, method="symmetric-log-sum")
    log = math.log
    first = log(0.75) + log(0.5) + log(1 - 0.125) + log(1 - 0.625)
    second = log(0.125) + log(0.25) + log(1 - 0.75) + log(1 - 0.5)
    third = log(0.625) + log(0.5) + log(1 - 0.5) + log(1 - 0.25)
    np.testing.assert_allclose(scores, [first, second, third], rtol=1e-6)


@pytest.mark.parametrize("method", RULES)
def test_the_order_of_the_pairs_does_not_show(method):
    rng = np.random.default_rng(0)
    query_rows = np.repeat(np.arange(3, dtype=np.int32), 6)
    rows = rng.permutation(40)[:18].astype(np.int64)
    rank = np.tile(np.arange(1, 7, dtype=np.int32), 3)
    keys = pairs(query_rows, rows, rank, k1=6)
    p = rng.random(len(keys[0])).astype(np.float32)
    whole = aggregate(keys, p, method=method)
    for query in range(3):
        own = keys[0] == query
        alone = aggregate((keys[0][own], keys[1][own], keys[2][own]), p[own], method=method)
        at = whole[0] == query
        assert alone[2].tobytes() == whole[2][at].tobytes()


def run_of(*lengths):
    """Queries with candidates of scattered rows, best first."""
    rng = np.random.default_rng(sum(lengths))
    queries = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    rows = np.concatenate([rng.choice(1000, n, replace=False) for n in lengths]).astype(np.int64)
    rank = np.concatenate([np.arange(1, n + 1, dtype=np.int32) for n in lengths])
    return queries, rows, rank


def test_pairs_are_all_ordered_pairs_of_the_first_k1():
    queries, rows, rank = run_of(5, 1, 3)
    expected = []
    for query in range(3):
        top = sorted(rows[(queries == query) & (rank <= 4)].tolist())
        expected += [(query, i, j) for i, j in itertools.permutations(top, 2)]
    found = list(zip(*(part.tolist() for part in pairs(queries, rows, rank, k1=4)), strict=True))
    assert found == sorted(expected)
    assert len(found) == 4 * 3 + 0 + 3 * 2


def test_singles_are_the_first_k0():
    queries, rows, rank = run_of(5, 2)
    found = singles(queries, rows, rank, k0=3)
    assert found[0].tolist() == [0, 0, 0, 1, 1] and set(found[2].tolist()) == {-1}
    assert found[1].tolist() == sorted(rows[:3].tolist()) + sorted(rows[5:7].tolist())


@pytest.mark.parametrize("m", [1, 3, 5, 6, 20])
def test_a_sample_is_m_distinct_others_and_all_of_them_from_k1_minus_1(m):
    queries, rows, rank = run_of(7, 7, 2)
    whole = pairs(queries, rows, rank, k1=7)
    drawn = pairs(queries, rows, rank, k1=7, sample=m, seed=3)
    if m >= 6:
        assert all((a == b).all() for a, b in zip(whole, drawn, strict=True))
        return
    assert len(drawn[0]) == 2 * 7 * m + 2
    triples = list(zip(*(part.tolist() for part in drawn), strict=True))
    assert len(set(triples)) == len(triples) and all(i != j for _, i, j in triples)
    assert not missing(drawn, whole).any()
    again = pairs(queries, rows, rank, k1=7, sample=m, seed=3)
    other = pairs(queries, rows, rank, k1=7, sample=m, seed=4)
    assert (again[2] == drawn[2]).all() and not (other[2] == drawn[2]).all()


def test_draws_are_even():
    queries, rows, rank = run_of(*[10] * 400)
    drawn = pairs(queries, rows, rank, k1=10, sample=3, seed=1)
    place = {(int(q), int(r)): n for q, r, n in zip(queries, rows, rank, strict=True)}
    counts = np.zeros(11)
    for query, other in zip(drawn[0].tolist(), drawn[2].tolist(), strict=True):
        counts[place[query, other]] += 1
    # Each of the 10 is drawn 400 * 9 * 3 / 9 = 1,200 times on average, deviation about 28.
    assert (abs(counts[1:] - 1200) < 150).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_positions_are_those_of_a_dictionary(seed):
    rng = np.random.default_rng(seed)
    held = tuple(rng.integers(0, 4, 30) for _ in range(3))
    wanted = tuple(rng.integers(0, 4, 25) for _ in range(3))
    first = {}
    for place, key in enumerate(zip(*(part.tolist() for part in held), strict=True)):
        first.setdefault(key, place)
    keys = zip(*(part.tolist() for part in wanted), strict=True)
    assert positions(wanted, held).tolist() == [first.get(key, -1) for key in keys]


def table(queries, rows, rank, scores, scored_by="bm25"):
    names = pa.array([scored_by] * len(rank), pa.string())
    columns = [queries, rows, rank, np.asarray(scores, np.float32), names]
    return pa.table(columns, schema=schema.RUN)


def test_the_first_k_are_reordered_and_the_rest_stay_below():
    queries = np.array([0, 0, 0, 0, 1, 1], np.int32)
    rows = np.array([8, 3, 5, 1, 2, 9])
    rank = np.array([1, 2, 3, 4, 1, 2], np.int32)
    run = table(queries, rows, rank, [9, 8, 7, 6, 3, 2])
    scores = np.array([-3.0, -1.0, -1.0, 99, -5.0, -4.0], np.float32)
    found = rerank(run, scores, k=3, tail="keep", scored_by="mono").to_pydict()
    assert found["passage_row"] == [3, 5, 8, 1, 9, 2]  # 3 and 5 tie: the smaller row first
    assert found["rank"] == [1, 2, 3, 4, 1, 2]
    assert found["score"] == [-1, -1, -3, 6, -4, -5]
    assert found["scored_by"] == ["mono"] * 3 + ["bm25"] + ["mono"] * 2
    cut = rerank(run, scores, k=3, tail="drop", scored_by="mono").to_pydict()
    assert cut["passage_row"] == [3, 5, 8, 9, 2]


def test_a_failed_candidate_is_ranked_nowhere_and_nan_is_refused():
    queries, rows = np.zeros(3, np.int32), np.array([8, 3, 5])
    run = table(queries, rows, np.array([1, 2, 3], np.int32), [9, 8, 7])
    scores = np.array([1, np.nan, 2], np.float32)
    failed = np.array([False, True, False])
    found = rerank(run, scores, k=3, tail="keep", scored_by="mono", failed=failed).to_pydict()
    assert found["passage_row"] == [5, 8] and found["rank"] == [1, 2]
    with pytest.raises(InputError, match="not finite"):
        rerank(run, scores, k=3, tail="keep", scored_by="mono")
