from raypipe.report.show import Candidate, PlaceInList, chosen, side_by_side


def ranked(*rows, by="x"):
    return {row: PlaceInList(rank, float(-rank), by) for rank, row in enumerate(rows, 1)}


def test_the_first_of_each_system_are_in_the_order_of_the_last():
    lists = {"one": ranked(1, 2, 3, 4), "two": ranked(5, 4, 1)}
    # the first two: 1, 2 and 5, 4; in two: 5 at 1, 4 at 2, 1 at 3; 2 is only in one
    assert chosen(lists, {}, 2) == [5, 4, 1, 2]
    assert chosen({"one": ranked(1, 2, 3)}, {}, 2) == [1, 2]


def test_relevant_ones_below_are_added_the_best_grades_first_and_no_more_than_asked():
    lists = {"one": ranked(1, 2, 3, 4)}
    assert chosen(lists, {4: 1, 3: 1}, 2) == [1, 2, 3, 4]
    assert chosen(lists, {4: 2, 3: 1, 9: 1}, 1) == [1, 4]
    # those of no list come last: higher grades first, then by row
    assert chosen(lists, {2: 1, 9: 1, 8: 1, 7: 3}, 3) == [1, 2, 3, 7, 8, 9]


def test_no_lists_and_no_judgements_are_no_candidates():
    assert chosen({"one": {}, "two": {}}, {}, 10) == []


def test_a_row_has_rank_and_true_score_in_each_system_and_who_scored_it():
    places = {"one": PlaceInList(3, 0.25, "one"), "two": PlaceInList(1, -2.5, "one")}
    candidates = [
        Candidate("p1", 2, "a lease", ["lease"], places),
        Candidate("p2", None, "", [], {"one": PlaceInList(4, 0.125, "one")}),
    ]
    table = side_by_side(candidates, ["one", "two"], "passages")
    assert table.columns == [
        "passage", "grade", "one", "one score", "two", "two score", "two scored by",
        "shared words", "text",
    ]  # fmt: skip
    assert table.rows == [
        ["p1", 2, 3, 0.25, 1, -2.5, "one", "lease", "a lease"],
        ["p2", "not judged", 4, 0.125, None, None, None, "none", ""],
    ]
