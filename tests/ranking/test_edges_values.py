"""Where a ranking is empty, alone, or exactly at a bound."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.aggregate import SMALLEST, aggregate
from raypipe.ranking.candidates import missing, pairs, positions, singles
from raypipe.ranking.fuse import fuse_tables
from raypipe.ranking.order import check_finite, order, ranks
from raypipe.ranking.rules import Ranking, alternate, average, reciprocal_rank, weighted
from raypipe.ranking.runs import Run

NONE = np.empty(0, np.int64)


def ints(*values):
    return np.array(values, np.int64)


def run(*lines, scored_by="bm25"):
    columns = list(zip(*lines, strict=True)) if lines else [[], [], [], []]
    return pa.table([*map(list, columns), [scored_by] * len(lines)], schema=schema.RUN)


def ranking(rows, scores):
    return Ranking(np.array(rows, np.int64), np.array(scores, np.float32))


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


def test_binary_counts_what_is_above_one_half_and_not_one_half_itself():
    above = np.nextafter(np.float32(0.5), np.float32(1))
    keys = ints(0, 0, 0), ints(1, 1, 2), ints(2, 3, 1)
    _, rows, scores = aggregate(keys, np.array([0.5, above, 0.5], np.float32), method="binary")
    assert rows.tolist() == [1, 2] and scores.tolist() == [1.0, 0.0]


def test_a_probability_of_0_or_1_has_the_logarithm_of_the_smallest_number():
    keys = ints(0, 0), ints(1, 2), ints(2, 1)
    _, _, scores = aggregate(keys, np.array([0.0, 1.0], np.float32), method="symmetric-log-sum")
    # log p(1, 2) + log(1 - p(2, 1)), both of 0; the other has log 1 twice.
    assert SMALLEST == 2.0**-126
    assert scores.tolist() == [np.float32(2 * np.log(2.0**-126)), 0.0]


@pytest.mark.parametrize(("method", "expected"), [("min", [0.25, 0.5]), ("max", [0.75, 0.5])])
def test_least_and_greatest_are_over_each_passages_own_pairs(method, expected):
    keys = ints(3, 3, 3), ints(1, 1, 2), ints(2, 3, 1)
    found = aggregate(keys, np.array([0.75, 0.25, 0.5], np.float32), method=method)
    assert found[0].tolist() == [3, 3] and found[2].tolist() == expected


def test_a_symmetric_sum_passes_over_passages_that_no_pair_begins_with():
    keys = ints(0, 0), ints(1, 1), ints(2, 3)
    found = aggregate(keys, np.array([0.25, 0.5], np.float32), method="symmetric-sum")
    assert [part.tolist() for part in found] == [[0], [1], [0.75]]
    none = aggregate((NONE, NONE, NONE), np.empty(0, np.float32), method="symmetric-sum")
    assert [len(part) for part in none] == [0, 0, 0]


def test_a_symmetric_sum_keeps_queries_apart():
    keys = ints(0, 0, 1), ints(1, 2, 1), ints(2, 1, 2)
    _, _, scores = aggregate(keys, np.array([0.25, 0.5, 0.125], np.float32), method="symmetric-sum")
    assert scores.tolist() == [0.25 + 0.5, 0.5 + 0.75, 0.125]


def test_ranks_of_no_lines_of_one_and_of_changing_groups():
    assert ranks(NONE).tolist() == [] and ranks(NONE).dtype == np.int32
    assert ranks(ints(4)).tolist() == [1]
    assert ranks(ints(4, 4, 2, 4, 4, 4)).tolist() == [1, 2, 1, 1, 2, 3]
    assert order(np.empty(0, np.float32), NONE).tolist() == []


def test_scores_that_are_not_finite_are_named_up_to_ten():
    scores = np.zeros(14, np.float32)
    check_finite(scores)
    scores[2:] = np.nan
    with pytest.raises(InputError) as caught:
        check_finite(scores)
    assert "12 of 14" in str(caught.value)
    assert "11: nan" in str(caught.value) and "12: nan" not in str(caught.value)


def test_rules_of_no_runs_and_of_empty_ones():
    empty = ranking([], [])
    assert len(alternate([empty, empty]).rows) == 0
    assert len(reciprocal_rank([empty, empty]).rows) == 0
    assert len(weighted([empty, empty], weights=[1, 1]).rows) == 0
    assert len(average([empty, empty]).rows) == len(average([]).rows) == 0
    found = weighted([empty, ranking([5, 6], [3, 1])], weights=[2, 4])
    assert found.rows.tolist() == [5, 6] and found.scores.tolist() == [4.0, 0.0]


def test_rules_with_their_default_settings():
    one = ranking([5, 6, 7], [3, 2, 1])
    found = reciprocal_rank([one])
    assert found.scores.tolist() == [np.float32(1 / (60 + r)) for r in (1, 2, 3)]
    assert alternate([one]).scores.tolist() == [1.0, 0.5, np.float32(1 / 3)]
    assert [
        len(rule([one, one], depth=2).rows) for rule in (alternate, reciprocal_rank, average)
    ] == [2] * 3
    fused = fuse_tables([run((0, 1, 1, 2.0)), run((0, 1, 1, 2.0))], method="rrf", scored_by="f")
    assert fused["score"].to_pylist() == [np.float32(2 / 61)]


def test_settings_are_refused_only_where_they_are_wrong():
    a, b = run((0, 1, 1, 2.0)), run((0, 2, 1, 1.0))

    def problems(**settings):
        with pytest.raises(InputError) as caught:
            fuse_tables([a, b], scored_by="f", **settings)
        return caught.value.problems

    assert len(fuse_tables([a, b], method="rrf", k=0, depth=1, scored_by="f")) == 1
    assert len(fuse_tables([a, b], method="weighted", weights=[0, -1], scored_by="f")) == 2
    for k in (-0.5, float("inf"), float("nan")):
        assert problems(method="rrf", k=k) == [f"fuse: k: expected a number from 0; found {k}"]
    assert "depth: expected 1 or more; found 0" in problems(method="average", depth=0)[0]
    assert "weights are for method weighted" in problems(method="rrf", weights=[1, 1])[0]
    assert "finite numbers" in problems(method="weighted", weights=[1, float("inf")])[0]
    assert "expected one of alternate, rrf" in problems(method="mean")[0]
    with pytest.raises(InputError, match="two runs or more; found 1"):
        fuse_tables([a], method="rrf", scored_by="f")


def test_a_run_gives_each_querys_lines_and_none_for_others():
    table = run((4, 9, 2, 1.0), (2, 5, 1, 3.0), (4, 8, 1, 2.0), (6, 1, 1, 0.5))
    opened = Run(table, name="x")
    assert opened.ranking(4).rows.tolist() == [8, 9]
    assert opened.ranking(4).scores.tolist() == [2.0, 1.0]
    assert opened.ranking(2).rows.tolist() == [5] and opened.ranking(6).rows.tolist() == [1]
    for absent in (0, 3, 5, 7):
        assert len(opened.ranking(absent).rows) == len(opened.ranking(absent).scores) == 0
    assert list(opened.problems()) == list(opened.mixed_scales()) == []


def test_a_passage_of_two_queries_is_no_repeat_and_repeats_are_named_up_to_ten():
    assert list(Run(run((0, 7, 1, 2.0), (1, 7, 1, 2.0)), name="x").problems()) == []
    lines = [(0, n // 2, n + 1, float(-n)) for n in range(24)]
    (problem,) = Run(run(*lines), name="x").problems()
    assert "12 repeated" in problem and "(0, 9);" in problem and "(0, 10)" not in problem


def test_scales_are_mixed_only_within_a_query():
    mixed = pa.concat_tables(
        [
            run((0, 1, 1, 2.0), (1, 1, 1, 2.0), (2, 5, 1, 1.0)),
            run((1, 2, 2, 9.0), (2, 6, 2, 9.0), (3, 1, 1, 1.0), scored_by="mono"),
        ]
    )
    (problem,) = Run(mixed, name="x").mixed_scales()
    assert "x: 2 queries (first: query_row 1)" in problem and "(bm25, mono)" in problem
