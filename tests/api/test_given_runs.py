"""What counts as a run: every form gives one table, and what is none is refused."""

import json
import shutil

import pyarrow as pa
import pytest

import raypipe
from raypipe import schema
from raypipe.api.inputs import is_one_run, run_of
from raypipe.errors import InputError


def lines(run):
    return [tuple(row.values()) for row in run.to_pylist()]


def table(**columns):
    return pa.table({"query_id": ["q", "q"], "passage_id": ["a", "b"], **columns})


def test_a_dictionary_is_ordered_as_trec_eval_orders():
    run = run_of({"r": {}, "q": {"a": 1, "c": 2.0, "b": 1.0}, 7: {12: 0.5}})
    assert run.schema == schema.RUN_FILE
    assert lines(run) == [
        ("q", "c", 1, 2.0),
        ("q", "b", 2, 1.0),
        ("q", "a", 3, 1.0),
        ("7", "12", 1, 0.5),
    ]


def test_scores_tie_as_float32():
    assert [line[1] for line in lines(run_of({"q": {"a": 1.0 + 1e-12, "b": 1.0}}))] == ["b", "a"]


def test_a_rank_decides_where_there_is_one():
    assert [line[1] for line in lines(run_of(table(score=[2.0, 1.0])))] == ["a", "b"]
    assert [line[1] for line in lines(run_of(table(score=[2.0, 1.0], rank=[2, 1])))] == ["b", "a"]
    assert lines(run_of(table(score=[2, 1], rank=[9, 3])))[0] == ("q", "b", 1, 1.0)


def test_other_columns_and_frames_are_taken():
    given = table(score=[2.0, 1.0], text=["x", "y"])
    assert run_of(given.to_pandas()).equals(run_of(given))
    assert run_of(given).schema == schema.RUN_FILE


def test_a_run_is_itself(made):
    run = made.runs["test"]["mono"]
    assert run_of(run).equals(run)


def test_no_line_is_a_run_of_no_query():
    for given in ({}, {"q": {}}, schema.RUN_FILE.empty_table(), table(score=[1.0, 2.0])[:0]):
        assert run_of(given).equals(schema.RUN_FILE.empty_table())


def test_a_dictionary_of_runs_is_told_from_a_run():
    scores = {"q": {"a": 1.0}}
    assert is_one_run(scores) and is_one_run({}) and is_one_run({"q": {}}) and is_one_run("a.trec")
    assert not is_one_run({"one": scores}) and not is_one_run({"one": "a.trec"})
    assert not is_one_run({"one": run_of(scores)})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (7, "run: found int; expected a table with query_id, passage_id and score"),
        ([("q", "a", 1.0)], "run: found list"),
        ({"q": [1]}, "q: found list; expected a table with query_id, passage_id and score"),
        ({"q": {"a": None}}, "run: query 'q', passage 'a'"),
        ({"q": {"a": float("nan")}}, "run: row 0: score nan is not a finite float32"),
        ({"q": {"a": 1e39}}, "run: row 0: score inf is not a finite float32"),
        ({"q": {"\ud800": 1.0}}, "passage '\\ud800': passage id: not Unicode text"),
        ({"q": {"a b": 1.0}}, "white space or a control character in the passage id"),
        ({"q": {"1": 1.0, 1: 2.0}}, "query q ranks passage 1 2 times; keep one"),
        (table(grade=[1, 2]), "run: expected a rank or a score for each passage, found neither"),
        (table(score=[1, 2]).drop(["query_id"]), "run: expected columns query_id, passage_id, and"),
        (table(score=["x", "y"]), "run: column score: expected numbers; found string"),
        (table(score=[1.0, None]), "column score: 1 rows are null, the first of them row 1; leave"),
        (table(score=[1, 2], rank=[1, 1]), "two passages at rank 1 of query q"),
        ("nothing.trec", "nothing.trec"),
    ],
)
def test_what_is_no_run_is_refused(given, told):
    with pytest.raises(InputError) as refused:
        raypipe.evaluate(given, {"q": {"a": 1}})
    assert told in str(refused.value)


def test_a_frame_with_ids_of_two_types_is_refused_by_what_it_was_given_as():
    frame = table(score=[1.0, 2.0]).to_pandas().assign(text="x", relevance=1)
    mixed = frame.assign(passage_id=["a", 7])
    for name, call in (
        ("run", lambda: raypipe.evaluate(mixed, frame)),
        ("qrels", lambda: raypipe.evaluate(frame, mixed)),
        ("passage texts", lambda: raypipe.search(["x"], mixed, "bm25")),
    ):
        with pytest.raises(InputError, match=rf"^{name}: cannot be read as an Arrow table \(.*int"):
            call()


def test_what_is_no_dictionary_of_scores_is_told_by_its_query():
    with pytest.raises(InputError, match="run: query 'r': expected a dictionary passage id"):
        run_of({"q": {"a": 1.0}, "r": [1]})


def test_ids_as_string_views_are_strings():
    ids = pa.array(["q"], pa.string_view())
    table = pa.table({"query_id": ids, "passage_id": ids, "score": [1.0]})
    assert run_of(table)["query_id"].to_pylist() == ["q"]


def test_candidates_without_an_order_are_enough_to_be_scored(tiny_mono, tiny_duo, tmp_path):
    blending = shutil.copytree(tiny_mono, tmp_path / "blending")
    settings = json.loads((blending / "raypipe.json").read_text())
    (blending / "raypipe.json").write_text(json.dumps({**settings, "blend": 50}))
    texts = ({"1": "run", "q": "of"}, {"a": "a zebra", "7": "a rank", "c": "run", "d": "a lease"})
    lists = {"q": ["c", "a"], 1: [7, "d", "a"]}
    rows = [(str(query), str(passage)) for query, ids in lists.items() for passage in ids]
    columns = dict(zip(("query_id", "passage_id"), map(list, zip(*rows, strict=True)), strict=True))
    given = pa.table({**columns, "note": ["x"] * 5})
    scored = {query: dict.fromkeys(map(str, ids), 1) for query, ids in lists.items()}
    expected = raypipe.score(scored, *texts, tiny_mono)
    assert len(expected) == 5
    ranked = {}
    for row in sorted(expected.to_pylist(), key=lambda row: -row["score"]):
        ranked.setdefault(row["query_id"], []).append(row["passage_id"])
    for candidates in (lists, given, given.to_pandas()):
        assert raypipe.score(candidates, *texts, tiny_mono) == expected
        assert raypipe.score(candidates, *texts, tiny_mono, k=3) == expected
        with pytest.raises(InputError, match=r"a query has 3, of which 2 .* give k=3 or more"):
            raypipe.score(candidates, *texts, tiny_mono, k=2)
        found = raypipe.rerank(candidates, *texts, blending)
        assert {
            query: [row["passage_id"] for row in found.to_pylist() if row["query_id"] == query]
            for query in ranked
        } == ranked
        with pytest.raises(InputError, match="give k=3 or more"):
            raypipe.rerank(candidates, scores=expected, k=2)
        assert raypipe.rerank(candidates, scores=expected).num_rows == 5
        with pytest.raises(InputError, match="no scores to blend with; give blend=0"):
            raypipe.rerank(candidates, *texts, tiny_mono, blend=1)
        with pytest.raises(InputError):
            raypipe.evaluate(candidates, {"q": {"a": 1}})
    assert raypipe.score(lists, *texts, tiny_duo).num_rows == 2 + 6
    with pytest.raises(InputError, match="query q ranks passage a 2 times"):
        raypipe.score({"q": ["a", "a"]}, *texts, tiny_mono)
    with pytest.raises(InputError, match="run: query 'q', passage 1.5: expected a string"):
        raypipe.score({"q": [1.5]}, *texts, tiny_mono)
