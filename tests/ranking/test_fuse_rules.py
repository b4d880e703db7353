"""Fusion of one query's rankings, every value worked out by hand."""

import numpy as np
import pytest

from raypipe.ranking.fuse import Ranking, alternate, average, reciprocal_rank, weighted


def ranking(*pairs):
    rows, scores = zip(*pairs, strict=True) if pairs else ((), ())
    return Ranking(np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32))


NONE = ranking()


def test_alternate_takes_turns_first_run_first_and_skips_what_is_taken():
    first = ranking((1, 9.0), (2, 8.0), (3, 7.0))
    second = ranking((1, 0.5), (4, 0.4), (5, 0.3))
    rows, scores = alternate([first, second])
    assert rows.tolist() == [1, 2, 4, 3, 5]
    assert scores.tolist() == np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], np.float32).tolist()
    assert scores.dtype == np.float32


def test_alternate_goes_on_with_the_longer_run():
    assert alternate([ranking((7, 1.0)), ranking((1, 3.0), (2, 2.0), (7, 1.0))]).rows.tolist() == [
        7,
        1,
        2,
    ]


def test_alternate_depends_on_which_run_is_first_and_cuts_at_depth():
    a, b = ranking((1, 2.0), (2, 1.0)), ranking((3, 2.0), (4, 1.0))
    assert alternate([a, b], depth=3).rows.tolist() == [1, 3, 2]
    assert alternate([b, a], depth=3).rows.tolist() == [3, 1, 4]
    assert alternate([NONE, b]).rows.tolist() == [3, 4]


def test_alternate_of_three_runs_goes_round():
    runs = [ranking((row, 1.0), (row + 1, 0.5)) for row in (10, 20, 30)]
    assert alternate(runs).rows.tolist() == [10, 20, 30, 11, 21, 31]


def test_reciprocal_rank_sums_over_the_runs_that_hold_a_passage():
    first, second = ranking((1, 9.0), (2, 8.0)), ranking((2, 0.9), (3, 0.8), (4, 0.1))
    rows, scores = reciprocal_rank([first, second])
    # 2: 1/62 + 1/61; 1: 1/61; 3: 1/62; 4: 1/63
    assert rows.tolist() == [2, 1, 3, 4]
    expected = np.array([1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63]).astype(np.float32)
    assert scores.tolist() == expected.tolist()


def test_reciprocal_rank_breaks_ties_by_row_and_takes_k():
    first, second = ranking((9, 1.0)), ranking((3, 1.0))
    rows, scores = reciprocal_rank([first, second], k=0)
    assert rows.tolist() == [3, 9]
    assert scores.tolist() == [1.0, 1.0]


def test_weighted_normalises_within_the_query_and_counts_an_absent_passage_as_minimum():
    first = ranking((1, 30.0), (2, 20.0), (3, 10.0))  # 1, 0.5, 0
    second = ranking((3, -1.0), (4, -2.0), (2, -5.0))  # 1, 0.75, 0
    rows, scores = weighted([first, second], weights=[0.6, 0.4])
    # 1: .6; 2: .3; 3: .4; 4: .3 -> 2 before 4 by row
    assert rows.tolist() == [1, 3, 2, 4]
    assert scores.tolist() == np.array([0.6, 0.4, 0.3, 0.4 * 0.75]).astype(np.float32).tolist()


def test_weighted_gives_one_to_every_passage_of_a_run_whose_scores_are_equal():
    rows, scores = weighted([ranking((5, 3.0)), ranking((6, 2.0), (7, 2.0))], weights=[0.25, 0.5])
    assert rows.tolist() == [6, 7, 5]
    assert scores.tolist() == [0.5, 0.5, 0.25]


def test_weighted_of_a_query_in_one_run_only_is_that_run_scaled():
    rows, scores = weighted([NONE, ranking((2, 4.0), (1, 2.0))], weights=[0.5, 0.5])
    assert rows.tolist() == [2, 1]
    assert scores.tolist() == [0.5, 0.0]


def test_average_counts_an_absent_passage_as_that_runs_smallest_score():
    first = ranking((1, 4.0), (2, 2.0))
    second = ranking((2, 5.0), (3, 1.0))
    rows, scores = average([first, second])
    # 1: (4+1)/2; 2: (2+5)/2; 3: (2+1)/2
    assert rows.tolist() == [2, 1, 3]
    assert scores.tolist() == [3.5, 2.5, 1.5]


def test_average_leaves_out_a_run_without_the_query():
    rows, scores = average([ranking((1, 4.0)), NONE])
    assert (rows.tolist(), scores.tolist()) == ([1], [4.0])


def test_sums_are_taken_in_float64_before_the_one_rounding():
    big, small = ranking((1, 2.0**24), (2, 0.0)), ranking((1, 1.0), (2, 0.0))
    # In float32 16777216 + 1 + 1 would stay 16777216.
    assert average([big, small, small]).scores[0] == np.float32((2.0**24 + 2) / 3)


@pytest.mark.parametrize("rule", [alternate, reciprocal_rank, average])
def test_every_rule_cuts_at_depth_after_ranking(rule):
    first, second = ranking((1, 9.0), (2, 8.0)), ranking((3, 9.0), (4, 8.0))
    whole = rule([first, second])
    cut = rule([first, second], depth=2)
    assert cut.rows.tolist() == whole.rows[:2].tolist()
    assert cut.scores.tolist() == whole.scores[:2].tolist()


def test_rules_of_no_runs_and_of_empty_ones():
    assert len(alternate([NONE, NONE]).rows) == 0
    assert len(reciprocal_rank([NONE, NONE]).rows) == 0
    assert len(weighted([NONE, NONE], weights=[1, 1]).rows) == 0
    assert len(average([NONE, NONE]).rows) == len(average([]).rows) == 0
    found = weighted([NONE, ranking((5, 3), (6, 1))], weights=[2, 4])
    assert found.rows.tolist() == [5, 6] and found.scores.tolist() == [4.0, 0.0]
