import numpy as np

from raypipe.ranking.candidates import missing, pairs, positions, singles

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
