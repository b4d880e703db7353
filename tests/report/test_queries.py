import pytest

from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.errors import InputError
from raypipe.report.finished import open_finished
from raypipe.report.queries import queries, sorted_differences


def by_title(section):
    return {table.title: table for table in section.tables}


def values_of(finished, measure):
    """Query -> system -> value, as the recipe's invocation wrote them."""
    lines = (finished.workspace.folder / "measures" / "test.tsv").read_text().splitlines()[1:]
    values = {}
    for line in lines:
        query, system, name, value = line.split("\t")
        if name == measure:
            values.setdefault(query, {})[system] = float(value)
    return values


def test_queries_are_listed_with_every_systems_value(finished):
    tables = by_title(queries(finished, "test", num=2))
    hardest = tables["RR@10: hardest for every system"]
    assert hardest.columns == [
        "query", "text", "relevant", "dense", "given", "first", "second", "least",
    ]  # fmt: skip
    values = values_of(finished, "RR@10")
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


def test_the_plot_has_every_systems_differences_to_the_baseline_sorted(finished):
    (chart,) = queries(finished, "test").charts
    values = values_of(finished, "RR@10")
    assert [*chart.lines] == ["given", "first", "second", "least"]
    for system, points in chart.lines.items():
        found = sorted((of[system] - of["dense"] for of in values.values()), reverse=True)
        assert all(found[int(place) - 1] == difference for place, difference in points)
        assert [place for place, _ in points][:: len(points) - 1] == [1, 3]


def test_every_query_is_listed_on_demand(finished):
    assert "RR@10 of every query" not in by_title(queries(finished, "test"))
    table = by_title(queries(finished, "test", num=1, each=True))["RR@10 of every query"]
    values = values_of(finished, "RR@10")
    assert {row[0]: dict(zip(table.columns[3:], row[3:], strict=True)) for row in table.rows} == {
        query: values[query] for query in ("q1", "q2", "q3")
    }


def test_queries_left_out_are_told(given):
    section = queries(given, "test")
    assert section.notes[2:] == [
        "queries of the set without judgements, counted nowhere: 1",
        "judged queries that are not in the set: 1; they count 0 and are not listed",
        "judged queries without a line in one, which count 0: 1",
        "judged queries without a line in two, which count 0: 2",
    ]


def test_a_query_set_of_one_query(given):
    section = queries(given, "lone", each=True)
    tables = by_title(section)
    assert tables["RR@10: gained most, two over one"].rows == [["q1", "lone", 1, 0.0, 1.0]]
    assert tables["RR@10: lost most, two over one"].rows == []
    assert section.charts[0].lines == {"two": [(1, 1.0)]}
    with pytest.raises(InputError, match="free has no judgements of passages"):
        queries(given, "free")


def test_documents_have_the_same(given_documents):
    section = queries(given_documents, "test", unit="documents", each=True)
    tables = by_title(section)
    assert section.name == "queries of documents"
    assert tables["RR@10 by relevant documents"].rows == [
        ["1", 1, 1.0, 0.5], ["2 to 3", 1, 1.0, 1.0],
    ]  # fmt: skip
    with pytest.raises(InputError, match="test has no judgements of passages"):
        queries(given_documents, "test")


def test_judged_passages_without_a_run_of_passages_are_told(given_documents, tmp_path):
    (tmp_path / "qrels.txt").write_text("q1 0 D1#0 1\n")
    recipe = given_documents.recipe
    asked = recipe.queries["test"].model_copy(update={"qrels": str(tmp_path / "qrels.txt")})
    changed = {"queries": {"test": asked}, "stages": {"given": recipe.stages["given"]}}
    run_pipeline(recipe.model_copy(update=changed), tmp_path, Options(), watcher=Watcher())
    with pytest.raises(InputError) as told:
        queries(open_finished(tmp_path), "test")
    assert str(told.value) == (
        f"{tmp_path}: the query set test has no run of passages, only of documents; expected a "
        "stage that ranks passages"
    )
    assert queries(open_finished(tmp_path), "test", unit="documents").name == "queries of documents"


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
