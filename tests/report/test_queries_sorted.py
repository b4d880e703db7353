from raypipe.report.queries import sorted_differences


def test_differences_are_sorted_and_only_the_ends_of_equal_ones_are_kept():
    base = dict.fromkeys("abcdefg", 0.5)
    values = {"a": 0.5, "b": 1.0, "c": 0.5, "d": 0.0, "e": 0.5, "f": 0.5, "g": 0.75}
    # sorted: 0.5, 0.25, 0, 0, 0, 0, -0.5; of the four zeros the places 3 and 6
    assert sorted_differences(values, base) == [
        (1, 0.5), (2, 0.25), (3, 0.0), (6, 0.0), (7, -0.5),
    ]  # fmt: skip


def test_one_query_and_none():
    assert sorted_differences({"a": 1.0}, {"a": 0.25}) == [(1, 0.75)]
    assert sorted_differences({}, {}) == []
    assert sorted_differences({"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0}) == [(1, 1.0), (2, 1.0)]


def test_a_long_line_is_thinned_between_its_ends():
    values = {str(n): n * n / 1e6 for n in range(1000)}
    points = sorted_differences(values, dict.fromkeys(values, 0.0), most=11)
    assert len(points) == 11 and points[0] == (1, 0.998001) and points[-1] == (1000, 0.0)
    assert all(y == (1000 - x) ** 2 / 1e6 for x, y in points)
    assert [x for x, _ in points] == sorted({x for x, _ in points})
