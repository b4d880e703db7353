import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_with_tails import RUN

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


NONE = np.empty(0, np.int64)


def ints(*values):
    return np.array(values, np.int64)


def test_no_candidates_have_no_singles_and_no_pairs():
    for found in (singles(NONE, NONE, NONE, k0=3), pairs(NONE, NONE, NONE, k1=3)):
        assert [(len(part), part.dtype) for part in found] == [(0, np.int64)] * 3


def test_a_lone_candidate_has_no_pair_even_where_a_draw_is_asked():
    one = ints(7), ints(4), ints(1)
    for sample in (None, 0, 1):
        assert [len(part) for part in pairs(*one, k1=3, sample=sample)] == [0, 0, 0]


def test_pairs_of_queries_in_any_order_of_lines_are_sorted():
    queries, rows, rank = ints(5, 2, 5, 2, 5), ints(9, 4, 1, 3, 6), ints(2, 1, 1, 2, 3)
    found = pairs(queries, rows, rank, k1=2)
    assert [part.tolist() for part in found] == [[2, 2, 5, 5], [3, 4, 1, 9], [4, 3, 9, 1]]
    alone = singles(queries, rows, rank, k0=1)
    assert [part.tolist() for part in alone] == [[2, 5], [4, 1], [-1, -1]]


def test_a_draw_depends_on_seed_query_and_both_passages_alone():
    rows, rank = ints(10, 20, 30, 40, 50), ints(1, 2, 3, 4, 5)
    query = np.zeros(5, np.int64)

    def drawn(queries, rows, rank, **settings):
        found = pairs(queries, rows, rank, **{"k1": 5, "sample": 2, "seed": 0} | settings)
        return list(zip(*(part.tolist() for part in found), strict=True))

    # Worked out once from the hashes: a change of the draw changes what stores hold.
    assert [(i, j) for _, i, j in drawn(query, rows, rank)] == EXPECTED_DRAW
    turned = rank[::-1].copy()
    assert drawn(query, rows[::-1].copy(), turned) == drawn(query, rows, rank)
    assert drawn(query, rows, rank) == drawn(query, rows, rank, seed=0)
    assert drawn(query, rows, rank) != drawn(query, rows, rank, seed=1)
    assert [t[1:] for t in drawn(query + 1, rows, rank)] != [
        t[1:] for t in drawn(query, rows, rank)
    ]


def splitmix(x):
    """The finaliser of Steele et al. 2014 in plain integers."""
    mask = (1 << 64) - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 31)


def hashed(*numbers):
    mixed = 0
    for number in numbers:
        mixed = splitmix((mixed ^ number) + 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    return mixed


def smallest_two(i, rows):
    others = sorted((hashed(0, 0, i, j), j) for j in rows if j != i)
    return sorted(j for _, j in others[:2])


EXPECTED_DRAW = [
    (i, j) for i in (10, 20, 30, 40, 50) for j in smallest_two(i, (10, 20, 30, 40, 50))
]


def test_positions_of_nothing_are_nothing_and_in_nothing_all_are_missing():
    keys = ints(1, 2), ints(3, 4), ints(-1, -1)
    assert positions((NONE, NONE, NONE), keys).tolist() == []
    assert positions((NONE, NONE, NONE), (NONE, NONE, NONE)).tolist() == []
    assert missing(keys, (NONE, NONE, NONE)).tolist() == [True, True]
    assert missing(keys, tuple(part[:1] for part in keys)).tolist() == [False, True]
