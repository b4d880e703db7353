"""The commands `show`, `report` and `analyse queries`, on a small finished pipeline."""

import json

from rich.cells import cell_len

from raypipe.cli.main import run


def test_a_query_is_printed_in_a_hundred_columns(work, capsys):
    capsys.readouterr()
    assert run(["show", str(work), "--query", "q1"])[0] == 0
    text = capsys.readouterr().out
    assert text.splitlines()[:2] == [
        "query q1 of test, passages: a lease",
        "judged passages: 1; relevant, of grade 1 or higher: 1",
    ]
    assert "grade 1  p2\n  one 2 8.5  two 1 9\n  a lease of shards" in text
    assert "shared: a, lease" in text and "not judged  p1" in text and text.count(" ...") == 1
    assert max(map(cell_len, text.splitlines())) <= 100


def test_a_query_that_a_system_has_nothing_for_is_told(work, capsys):
    capsys.readouterr()
    assert run(["show", str(work), "--query", "q2", "--system", "one"])[0] == 0
    assert capsys.readouterr().out.splitlines() == [
        "query q2 of test, passages: zebra",
        "no passages were judged for this query",
        "",
        "| system | candidates |",
        "|--------|------------|",
        "| one    | 0          |",
        "",
        "no system has a candidate among its passages",
    ]


def test_one_object_has_every_number_and_the_whole_text(work, capsys):
    capsys.readouterr()
    arguments = ["show", str(work), "--query", "q1", "--system", "one", "--num", "1", "--json"]
    assert run(arguments)[0] == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert (section["name"], section["lead"]) == ("query q1, passages", "a lease")
    systems, candidates = section["tables"]
    assert systems["rows"] == [["one", 2, 0.5, 0.5]]
    assert candidates["rows"] == [
        ["p1", "not judged", 1, 9.0, "none", "the zebra"],
        ["p2", 1, 2, 8.5, "a, lease", f"a lease{' of shards' * 40}"],
    ]


def test_an_unknown_query_exits_with_2_and_the_nearest_ids(work, tmp_path, capsys):
    assert run(["show", str(work), "--query", "q3"])[0] == 2
    told = capsys.readouterr().err
    assert "no such query in test (2 queries); expected such as q1 or q2" in told
    assert run(["show", str(work), "--query", "q1", "--system", "three"])[0] == 2
    assert "--system three: no run of test; expected one of one, two" in capsys.readouterr().err
    assert run(["show", str(tmp_path / "nothing"), "--query", "q1"])[0] == 2


def test_every_query_can_be_asked_for(work, capsys):
    capsys.readouterr()
    assert run(["analyse", "queries", str(work), "--each"])[0] == 0
    assert "RR@10 of every query" in capsys.readouterr().out


def test_a_word_longer_than_the_line_fills_it_twice(work, capsys):
    capsys.readouterr()
    assert run(["show", str(work), "--query", "q2"])[0] == 0
    first, second = (li for li in capsys.readouterr().out.splitlines() if "xxx" in li)
    assert cell_len(first) == 100 and second.endswith("xxx ...") and 90 < cell_len(second) <= 100
