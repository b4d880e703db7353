import json
from html.parser import HTMLParser

import ir_measures
import pytest
from rich.cells import cell_len

from raypipe.cli.analyse import block_of
from raypipe.cli.terminal import folded
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.errors import InputError
from raypipe.kinds.read import GivenRun
from raypipe.report.finished import open_finished
from raypipe.report.page import page
from raypipe.report.queries import (
    Candidate,
    PlaceInList,
    chosen,
    show,
    side_by_side,
)


def rows_of(shown):
    """Id -> its row by column."""
    _, table = shown.section().tables
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_a_candidate_has_rank_and_true_score_of_every_run_with_grade_and_words(finished):
    (shown,) = show(finished, "q3", query_set="test", num=4)
    assert shown.names == ["dense", "given", "first", "second", "least"]
    (queries,) = [q for q in finished.queries("test").to_pylist() if q["query_id"] == "q3"]
    rows = rows_of(shown)
    expected = set()
    for name in shown.names:
        run = finished.run(name, "test")
        lines = zip(finished.named(run, "test").to_pylist(), run.to_pylist(), strict=True)
        own = [(named, line) for named, line in lines if named["query_id"] == "q3"]
        expected |= {named["passage_id"] for named, line in own if line["rank"] <= 4}
        for named, line in own:
            if (row := rows.get(named["passage_id"])) is not None:
                assert (row[name], row[f"{name} score"]) == (line["rank"], line["score"])
                assert row.get(f"{name} scored by", name) == line["scored_by"]
    assert set(rows) - {"p3"} == expected - {"p3"} and "p3" in rows
    assert rows["p3"]["grade"] == 1
    assert all(row["grade"] == "not judged" for name, row in rows.items() if name != "p3")
    words = queries["text"].split()
    for row in rows.values():
        both = [word for word in words if word in row["text"].split()]
        assert row["shared words"] == (", ".join(both) or "none")
    last = [row["least"] for row in rows.values() if row["least"] is not None]
    assert last == sorted(last) and last[:4] == [1, 2, 3, 4]


def test_a_query_has_its_own_measures_and_share_of_unjudged(finished):
    (shown,) = show(finished, "q1", query_set="test")
    qrels = [ir_measures.Qrel("q1", p, g) for p, g in (("p1", 1), ("p9", 1), ("p2", 0))]
    for row in shown.systems.rows:
        told = dict(zip(shown.systems.columns, row, strict=True))
        named = finished.named(finished.run(told["system"], "test"), "test").to_pylist()
        own = [line for line in named if line["query_id"] == "q1"]
        assert told["candidates"] == len(own)
        scored = [ir_measures.ScoredDoc("q1", x["passage_id"], -x["rank"]) for x in own]
        names = ["RR@10", "R@5", "Judged@5", "Judged@10"]
        parsed = {name: ir_measures.parse_measure(name) for name in names}
        values = ir_measures.calc_aggregate(parsed.values(), qrels, scored)
        assert told["RR@10"] == pytest.approx(values[parsed["RR@10"]])
        assert told["R@5"] == pytest.approx(values[parsed["R@5"]])
        for k in (5, 10):
            judged = values[parsed[f"Judged@{k}"]]
            assert told[f"unjudged@{k}"] == pytest.approx(1 - judged)


def test_some_systems_in_the_order_asked_for(finished):
    (shown,) = show(finished, "q1", query_set="test", systems=["first", "dense", "first"], num=1)
    assert shown.names == ["first", "dense"]
    with pytest.raises(InputError, match="--system pairs: no run of test; expected one of dense"):
        show(finished, "q1", systems=["pairs", "dense"])


def test_judged_and_not_retrieved_retrieved_and_not_judged_and_gone(given):
    shown = show(given, "q1")
    assert [(part.query.query_set, part.unit) for part in shown] == [
        (name, "passages") for name in ("test", "lone", "free")
    ]
    rows = rows_of(shown[0])
    # by two, then by one; p4 is relevant and in neither
    assert [(n, r["grade"], r["one"], r["two"]) for n, r in rows.items()] == [
        ("p2", 1, 1, 1), ("p3", "not judged", None, 2), ("p1", 0, 2, None), ("p4", 2, None, None),
    ]  # fmt: skip
    assert rows["p2"]["one score"] == rows["p1"]["one score"] == 9.5  # tied, as in its store
    assert shown[0].notes == [
        "judged passages: 4; relevant, of grade 1 or higher: 3",
        "relevant, but not in the collection: gone",
    ]
    assert shown[2].notes == ["no passages were judged for this query"]
    assert shown[2].systems.columns == ["system", "candidates"]


def test_a_query_that_no_system_or_no_judge_knows_is_shown(given):
    (absent,) = show(given, "q4")
    assert absent.systems.rows[0][:5] == ["one", 0, 0.0, 0.0, 0.0]
    assert absent.systems.rows[0][5:] == [None, None]
    assert [(n, r["one"], r["two"]) for n, r in rows_of(absent).items()] == [("p4", None, None)]
    (unjudged,) = show(given, "q/3")
    assert [row["grade"] for row in rows_of(unjudged).values()] == ["not judged"]


def test_documents_that_no_file_names_by_id_are_found_in_the_runs_alone(given_documents, tmp_path):
    passages = {"q1": ["D4#0", "D0#0"], "q2": ["D7#0"]}
    lines = [f"{q} Q0 {p} {n} {-n} x\n" for q, ps in passages.items() for n, p in enumerate(ps)]
    (tmp_path / "run.trec").write_text("".join(lines))
    (tmp_path / "qrels.txt").write_text("q1 0 D1 2\nq1 0 D4 1\nq1 0 D2 1\nq1 0 D0 0\nq1 0 D3 1\n")
    recipe, judged = given_documents.recipe, {"document_qrels": str(tmp_path / "qrels.txt")}
    changed = {
        "queries": {"test": recipe.queries["test"].model_copy(update=judged)},
        "stages": {
            "own": GivenRun(do="read", runs={"test": str(tmp_path / "run.trec")}),
            "firsts": recipe.stages["again"].model_copy(update={"run": "own"}),
        },
        "evaluate": recipe.evaluate.model_copy(update={"baseline": "firsts"}),
    }
    run_pipeline(recipe.model_copy(update=changed), tmp_path, Options(), watcher=Watcher())
    for num, named in ((1, "D1 and 2 more"), (2, "D1, D2 and 1 more"), (3, "D1, D2, D3")):
        _, documents = show(open_finished(tmp_path), "q1", num=num)
        assert documents.notes == [
            "judged documents: 5; relevant, of grade 1 or higher: 4",
            f"relevant, but in no run: {named}",
        ]
    rows = rows_of(documents)
    assert [(name, row["grade"], row["firsts"]) for name, row in rows.items()] == [
        ("D4", 1, 1), ("D0", 0, 2),
    ]  # fmt: skip


def test_documents_are_shown_with_title_and_text(given_documents):
    passages, documents = show(given_documents, "q1")
    assert (passages.unit, passages.names) == ("passages", ["windows"])
    assert (documents.unit, documents.names) == ("documents", ["given", "again"])
    rows = rows_of(documents)
    assert [*rows] == ["D4", "D0", "D1"]
    assert [row["grade"] for row in rows.values()] == [1, "not judged", 2]
    assert rows["D0"]["text"] == "alpha title\nalpha beta gamma"
    assert rows["D0"]["document"] == "D0" and rows["D1"]["given"] is None
    assert dict(zip(documents.systems.columns, documents.systems.rows[0], strict=True)) == {
        "system": "given", "candidates": 2, "RR@10": 1.0,
        "nDCG@10": pytest.approx(1 / (2 + 1 / 1.584962500721156)), "unjudged@10": 0.5,
    }  # fmt: skip


def test_an_unknown_query_is_an_error_with_the_nearest_ids_and_their_number(given):
    with pytest.raises(InputError) as error:
        show(given, "q11")
    assert str(error.value) == (
        "--query q11: no such query in test (4 queries) or lone (1 queries) or free (1 queries); "
        "did you mean q1?"
    )
    with pytest.raises(InputError, match=r"free \(1 queries\); did you mean q2\?$"):
        show(given, "q22")
    with pytest.raises(
        InputError, match=r"in test \(4 queries\); expected such as q1 or q2 or q/3"
    ):
        show(given, "0815", query_set="test")
    with pytest.raises(InputError, match="--queries dev: expected one of test, lone, free"):
        show(given, "q1", query_set="dev")


class Cells(HTMLParser):
    """The texts of a page's cells, and the tags of the page."""

    def __init__(self):
        super().__init__()
        self.cells, self.tags = [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_a_page_and_json_have_the_candidates_and_no_tag_of_a_text(given):
    sections = [shown.section() for shown in show(given, "q1")]
    parser = Cells()
    parser.feed(page("a query", sections))
    assert "the <b>zebra</b> & \ufffd[31mred\ufffd \ufffdevil" in parser.cells
    assert not {"b", "i", "script"} & parser.tags
    rows = json.loads(json.dumps(sections[0].to_json()))["tables"][1]["rows"]
    assert rows[2][-1].startswith("the <b>zebra</b> & \x1b[31m")


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


TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
CANDIDATES = [
    Candidate(
        "p1", 1, "a lease", ["lease"],
        {"bm25": PlaceInList(1, 12.3456789, "bm25"), "mono": PlaceInList(12, -0.5, "bm25")},
    ),
    Candidate("p2", None, f"{TEXT} {TEXT}", [], {"mono": PlaceInList(1000, 2.0, "mono")}),
]  # fmt: skip


def test_a_candidate_has_its_ranks_and_scores_above_a_text_cut_after_two_lines():
    told = [block_of(each, ["bm25", "mono"], 60) for each in CANDIDATES]
    assert "\n".join(told).splitlines() == [
        "grade 1  p1",
        "  bm25 1 12.35  mono 12 (-0.5)",
        "  a lease",
        "  shared: lease",
        "not judged  p2",
        "  bm25 -  mono 1,000 2",
        "  one two three four five six seven eight nine ten eleven",
        "  twelve thirteen fourteen fifteen one two three four ...",
        "  no shared word",
    ]


@pytest.mark.parametrize("width", [40, 70, 100])
@pytest.mark.parametrize("num", [1, 12])
def test_no_line_is_wider_than_asked_whatever_the_texts_and_the_number_of_systems(width, num):
    names = [f"system-{number}" for number in range(num)]
    places = {name: PlaceInList(17, -123.456, "other") for name in names}
    wide = "日本語" * 100
    candidates = [
        Candidate("an-id-" + "x" * 200, 3, "y" * 500, ["z" * 150], places),
        Candidate("\x1b[2J", None, f"{wide}\x1b]0;title\x07", [], {}),
    ]
    text = "\n".join(block_of(each, names, width) for each in candidates)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text and "\x07" not in text
    assert all(name in text for name in names)
    assert text.count("17") >= num and text.count("(-123.5)") == num


def test_a_word_longer_than_a_line_is_broken():
    assert folded("ab abcdefgh", 4) == ["ab", "abcd", "efgh"]
