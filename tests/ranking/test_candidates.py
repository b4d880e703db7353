import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.ranking.candidates import missing, pairs, positions, singles


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
