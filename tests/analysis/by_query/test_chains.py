from run_with_tails import run_of

from raypipe.analysis.by_query.chains import (
    as_in_last,
    most_changed,
    moved_in,
    ranks_in,
    with_other_ranks,
)


def ranking(stage, *rows, query=0, scored=None):
    last = len(rows) if scored is None else scored
    lines = enumerate(rows, 1)
    return [(query, row, n, -float(n), stage if n <= last else "bm25") for n, row in lines]


RUNS = {
    "bm25": run_of(*ranking("bm25", 1, 2, 3, 4, 5), *ranking("bm25", 9, 8, query=1)),
    "mono": run_of(*ranking("mono", 4, 1, 3, 2, 5, scored=4), *ranking("mono", 8, 9, query=1)),
    "duo": run_of(*ranking("duo", 1, 4), *ranking("duo", 8, 9, query=1)),
}
BEFORE = {"mono": "bm25", "duo": "mono"}


def test_ranks_of_one_query_in_every_system():
    assert ranks_in(RUNS, 0) == {
        "bm25": {1: 1, 2: 2, 3: 3, 4: 4, 5: 5},
        "mono": {4: 1, 1: 2, 3: 3, 2: 4, 5: 5},
        "duo": {1: 1, 4: 2},
    }
    assert ranks_in(RUNS, 7) == {"bm25": {}, "mono": {}, "duo": {}}


def test_each_reranker_adds_those_of_the_query_that_it_moved_furthest():
    # mono: 4 rose by 3 (1 fell by 1, 2 by 2); duo: 1 rose by 1, 4 fell by 1
    assert moved_in(RUNS, BEFORE, 0, num=1) == {4, 2, 1}
    assert moved_in(RUNS, {"mono": "bm25"}, 0, num=1) == {4, 2}
    assert moved_in(RUNS, BEFORE, 1, num=5) == {8, 9}


def test_those_with_another_rank_somewhere_or_dropped():
    ranks = ranks_in(RUNS, 0)
    assert with_other_ranks(ranks) == [1, 2, 3, 4, 5]
    del ranks["duo"]
    assert with_other_ranks(ranks) == [1, 2, 4]


def test_the_order_is_that_of_the_last_system_then_of_the_one_before():
    assert as_in_last([2, 4, 1, 5, 2], ranks_in(RUNS, 0)) == [1, 4, 2, 5]


def test_most_changed_are_the_largest_in_either_direction_and_none_of_0():
    assert most_changed({1: 0.5, 2: -0.75, 3: 0.0, 4: -0.5}, 3) == [2, 1, 4]
    assert most_changed({1: 0.5, 2: -0.75}, 1) == [2]
    assert most_changed({1: 0.0}, 3) == []
