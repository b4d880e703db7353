from raypipe.leaderboard.fill import fill


def test_rows_are_filled_from_the_earlier_run_alone():
    own = {"1": ["a", "b"], "2": ["a", "b", "c", "d"]}
    earlier = {"1": ["b", "x", "y", "z"], "3": ["q"]}
    found = fill(own, earlier, queries=["3", "1", "2", "4"], depth=3)
    assert found.rankings == {"3": ["q"], "1": ["a", "b", "x"], "2": ["a", "b", "c"]}
    assert (found.num_queries, found.num_rows, found.num_cut) == (2, 2, 1)
