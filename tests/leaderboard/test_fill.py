from raypipe.leaderboard.submission import Filled, fill


def test_rows_are_filled_from_the_earlier_run_alone():
    own = {"1": ["a", "b"], "2": ["a", "b", "c"]}
    earlier = {"1": ["b", "x", "y", "z"], "3": ["q"]}
    found = fill(own, earlier, queries=["3", "1", "2", "4"], depth=3)
    assert found.rankings == {"3": ["q"], "1": ["a", "b", "x"], "2": ["a", "b", "c"]}
    assert (found.num_queries, found.num_rows) == (2, 2)


def test_rows_below_are_those_of_the_earlier_run_that_the_query_lacks():
    own = {"1": ["a", "b"], "2": ["a"], "9": ["z"]}
    earlier = {"1": ["x"], "2": ["b", "a", "c"], "3": ["d", "e", "f"]}
    found = fill(own, earlier, queries=["2", "1", "3", "4"], depth=2)
    assert found == Filled({"2": ["a", "b"], "1": ["a", "b"], "3": ["d", "e"]}, 2, 3)
    assert fill(own, earlier, queries=["1", "2"], depth=None) == Filled(
        {"1": ["a", "b"], "2": ["a"]}, 0, 0
    )
    assert fill({}, {}, queries=["1"], depth=3) == Filled({}, 0, 0)
