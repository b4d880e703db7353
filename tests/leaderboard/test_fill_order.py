from raypipe.leaderboard.fill import Filled, fill


def test_rows_below_are_those_of_the_earlier_run_that_the_query_lacks():
    own = {"1": ["a", "b", "c"], "2": ["a"], "9": ["z"]}
    earlier = {"1": ["x"], "2": ["b", "a", "c"], "3": ["d", "e", "f"]}
    found = fill(own, earlier, queries=["2", "1", "3", "4"], depth=2)
    assert found == Filled({"2": ["a", "b"], "1": ["a", "b"], "3": ["d", "e"]}, 2, 3, 1)
    assert fill(own, earlier, queries=["1", "2"], depth=None) == Filled(
        {"1": ["a", "b", "c"], "2": ["a"]}, 0, 0, 0
    )
    assert fill({}, {}, queries=["1"], depth=3) == Filled({}, 0, 0, 0)
