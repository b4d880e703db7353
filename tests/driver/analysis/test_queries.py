import pytest

from raypipe.driver.analysis.queries import queries


def by_title(section):
    return {table.title: table for table in section.tables}


def test_queries_are_listed_with_every_systems_value(finished):
    tables = by_title(queries(finished, "test", num=2))
    hardest = tables["RR@10: hardest for every system"]
    assert hardest.columns == [
        "query", "text", "relevant", "dense", "given", "first", "second", "least",
    ]  # fmt: skip
    lines = (finished.workspace.folder / "measures" / "test.tsv").read_text().splitlines()[1:]
    values = {}
    for line in lines:
        query, system, measure, value = line.split("\t")
        if measure == "RR@10":
            values.setdefault(query, {})[system] = float(value)
    for row in hardest.rows:
        assert dict(zip(hardest.columns[3:], row[3:], strict=True)) == values[row[0]]
    best = {query: max(of_query.values()) for query, of_query in values.items()}
    assert [row[0] for row in hardest.rows] == sorted(best, key=lambda q: (best[q], q))[:2]
    assert {row[0]: row[2] for row in hardest.rows}.items() <= {"q1": 2, "q2": 1, "q3": 1}.items()
    change = {query: of["least"] - of["dense"] for query, of in values.items()}
    gained = tables["RR@10: gained most, least over dense"]
    assert [row[0] for row in gained.rows] == [
        q for q in sorted(change, key=lambda q: (-change[q], q))[:2] if change[q] > 0
    ]
    lost = tables["RR@10: lost most, least over dense"]
    assert all(change[row[0]] < 0 for row in lost.rows)


def test_groups_hold_each_query_once_and_their_means(finished):
    tables = by_title(queries(finished, "test"))
    words = tables["RR@10 by words of the query"]
    assert [row[:2] for row in words.rows] == [["1 to 2", 2], ["3 to 4", 1]]
    relevant = tables["RR@10 by relevant passages"]
    assert [row[:2] for row in relevant.rows] == [["1", 2], ["2 to 3", 1]]
    means = finished.summary["measures"]["test"]
    for table in (words, relevant):
        for place, system in enumerate(table.columns[2:], 2):
            whole = sum(row[1] * row[place] for row in table.rows) / 3
            assert whole == pytest.approx(means[system]["RR@10"])
