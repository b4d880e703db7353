from functools import partial

import pytest

import raypipe
from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import NotInPartsError, read_parts
from raypipe.stages.ids import ids_stage
from raypipe.stages.read_run import read_stage
from raypipe.stages.tables import Sides


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def run_file(folder, text):
    file = folder / "given.trec"
    file.write_text(text)
    return file


def test_a_given_run_keeps_its_order_scores_and_ranks_by_query_row(stores, tmp_path):
    collection, queries = stores.passages(["a", "b"], ["c"]), stores.queries("x", "y", "z")
    file = run_file(
        tmp_path, "q2 Q0 p1 1 5 t\nq2 Q0 p0 2 4 t\nq0 Q0 p2 1 0.5 t\nq0 Q0 p1 2 0.25 t\n"
    )
    ids = stores.finished(ids_stage(collection))
    stored = stores.finished(read_stage("given", file, Sides(queries, collection), ids))
    assert rows_of(stored.whole_table(schema.RUN)) == [
        (0, 2, 1, 0.5, "given"), (0, 1, 2, 0.25, "given"),
        (2, 1, 1, 5.0, "given"), (2, 0, 2, 4.0, "given"),
    ]  # fmt: skip
    assert stored.num_rows == 3 and stored.manifest.records[0].facts["rows"] == 4


def test_lines_of_queries_that_the_set_leaves_out_are_left_out_and_no_stranger(stores, tmp_path):
    collection, queries = stores.passages(["a", "b"]), stores.queries("x")
    ids, sides = stores.finished(ids_stage(collection)), Sides(queries, collection)
    file = run_file(tmp_path, "q7 Q0 p1 1 5 t\nq0 Q0 p1 1 4 t\nq7 Q0 p0 2 3 t\n")
    read = read_stage("given", file, sides, ids, unjudged=frozenset({"q7", "q8"}))
    assert rows_of(stores.finished(read).whole_table(schema.RUN)) == [(0, 1, 1, 4.0, "given")]
    strange = read_stage("other", file, sides, ids, unjudged=frozenset({"q8"}))
    with pytest.raises(InputError, match="1 query ids are not in the query set, first q7;"):
        stores.finished(strange)


@pytest.mark.parametrize("apart", [False, True])
def test_a_run_of_many_parts_is_the_same_and_so_is_one_whose_queries_stand_apart(
    stores, tmp_path, monkeypatch, apart
):
    collection, queries = stores.passages(["a", "b", "c"]), stores.queries(*"vwxyz")
    lines = [f"q{q} Q0 p{p} {p + 1} {-p - q} t\n" for q in (3, 0, 4, 1) for p in range(3)]
    ids, sides = stores.finished(ids_stage(collection)), Sides(queries, collection)
    whole = stores.finished(read_stage("given", run_file(tmp_path, "".join(lines)), sides, ids))
    expected = rows_of(whole.whole_table(schema.RUN))
    assert len(expected) == 12
    monkeypatch.setattr("raypipe.evaluation.run_files.lines.BLOCK_BYTES", 30)
    parts = partial(read_parts, num_lines=1)
    monkeypatch.setattr("raypipe.stages.read_run.read_parts", parts)
    file = run_file(tmp_path, "".join(lines[1:] + lines[:1] if apart else lines))
    if apart:
        with pytest.raises(NotInPartsError):
            list(parts(file))
    else:
        assert len(list(parts(file))) == 4
    stored = stores.finished(read_stage("other", file, sides, ids))
    assert [line[:4] for line in rows_of(stored.whole_table(schema.RUN))] == [
        line[:4] for line in expected
    ]


def test_an_unknown_id_in_a_part_before_the_lines_that_stand_apart_is_told_once(
    stores, tmp_path, monkeypatch
):
    collection, queries = stores.passages(["a", "b"]), stores.queries("x", "y")
    ids, sides = stores.finished(ids_stage(collection)), Sides(queries, collection)
    monkeypatch.setattr("raypipe.evaluation.run_files.lines.BLOCK_BYTES", 20)
    monkeypatch.setattr("raypipe.stages.read_run.read_parts", partial(read_parts, num_lines=1))
    text = "q0 Q0 p9 1 5 t\nq1 Q0 p1 1 5 t\nq0 Q0 p1 2 4 t\n"
    with pytest.raises(InputError, match="given.trec: 1 passage ids are not in the collection"):
        stores.finished(read_stage("given", run_file(tmp_path, text), sides, ids))


@pytest.mark.fault(27, "unknown query ids and passage ids are counted, and the first are named")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q9 Q0 p1 1 5 t\n", "1 query ids are not in the query set, first q9"),
        ("q0 Q0 p7 1 5 t\nq1 Q0 p7 1 4 t\n", "1 passage ids are not in the collection, first p7"),
        ("q0 Q0 p9 1 5 t\nq0 Q0 p8 2 4 t\n", "2 passage ids are not .* first p8, p9"),
    ],
)
def test_ids_that_nobody_has_are_refused(stores, tmp_path, line, said):
    collection, queries = stores.passages(["a", "b"]), stores.queries("x", "y")
    ids, sides = stores.finished(ids_stage(collection)), Sides(queries, collection)
    with pytest.raises(InputError, match=said):
        stores.finished(read_stage("given", run_file(tmp_path, line), sides, ids))


def larger(stores, tmp_path, text, *, of_larger=True):
    collection, queries = stores.passages(["a", "b", "c"]), stores.queries("x", "y", "z")
    sides, ids = Sides(queries, collection), stores.finished(ids_stage(collection))
    file = run_file(tmp_path, text)
    return stores.finished(read_stage("given", file, sides, ids, of_larger=of_larger))


def test_a_ranking_of_a_larger_collection_keeps_its_own_passages_with_ranks_and_counts_the_others(
    stores, tmp_path
):
    text = (
        "q0 Q0 far 1 9 t\nq0 Q0 p2 2 8 t\nq0 Q0 away 3 7 t\nq0 Q0 p0 4 6 t\n"
        "q1 Q0 far 1 9 t\nq2 Q0 p1 1 5 t\nq2 Q0 gone 2 4 t\n"
    )
    stored = larger(stores, tmp_path, text)
    assert rows_of(stored.whole_table(schema.RUN)) == [
        (0, 2, 1, 8.0, "given"), (0, 0, 2, 6.0, "given"), (2, 1, 1, 5.0, "given"),
    ]  # fmt: skip
    facts = stored.manifest.records[0].facts
    assert (facts["rows"], facts["lines"], facts["left_out"]) == (3, 7, 4)


def test_without_lost_lines_it_is_the_file_and_says_so(stores, tmp_path):
    text = "q0 Q0 p2 1 8 t\nq0 Q0 p0 2 6 t\n"
    stored = larger(stores, tmp_path, text)
    plain = larger(stores, tmp_path, text, of_larger=False)
    assert rows_of(stored.whole_table(schema.RUN)) == rows_of(plain.whole_table(schema.RUN))
    assert stored.manifest.records[0].facts["left_out"] == 0
    assert "left_out" not in plain.manifest.records[0].facts
    assert stored.spec.fingerprint() != plain.spec.fingerprint()


def test_a_ranking_of_a_larger_collection_without_any_line_of_this_one_is_refused(stores, tmp_path):
    with pytest.raises(InputError, match="found no line of this one"):
        larger(stores, tmp_path, "q0 Q0 far 1 9 t\nq1 Q0 away 1 8 t\n")
    with pytest.raises(InputError, match="1 query ids are not in the query set, first q9"):
        larger(stores, tmp_path, "q9 Q0 p0 1 9 t\n")


def test_a_recipes_read_stage_may_keep_the_files_order_of_ties(tmp_path):
    (tmp_path / "p.tsv").write_text("a\tone\nb\ttwo\nc\tthree\n")
    (tmp_path / "q.tsv").write_text("1\tx\n")
    (tmp_path / "run").write_text("1 Q0 a 1 2 t\n1 Q0 c 2 1 t\n1 Q0 b 3 1 t\n")
    keys = {
        "format": 1,
        "name": "small",
        "collection": {"format": "msmarco-v1", "input": str(tmp_path / "p.tsv")},
        "queries": {"test": {"file": str(tmp_path / "q.tsv")}},
        "stages": {
            "kept": {
                "do": "read",
                "runs": {"test": str(tmp_path / "run")},
                "break_ties": "rank",
            },
        },
        "resources": {"backend": "inline"},
    }
    found = raypipe.run(keys, out=tmp_path / "work")
    assert found.runs["test"]["kept"]["passage_id"].to_pylist() == ["a", "c", "b"]
    by_id = {"stages.kept.break_ties": "id"}
    again = raypipe.run(keys, out=tmp_path / "work", overrides=by_id)
    assert again.runs["test"]["kept"]["passage_id"].to_pylist() == ["a", "c", "b"]
    (tmp_path / "run").write_text("1 Q0 a 1 2 t\n1 Q0 b 2 1 t\n1 Q0 c 3 1 t\n")
    for ties, order in (("id", ["a", "c", "b"]), ("rank", ["a", "b", "c"])):
        overrides = {"stages.kept.break_ties": ties}
        found = raypipe.run(keys, out=tmp_path / "work", overrides=overrides)
        assert found.runs["test"]["kept"]["passage_id"].to_pylist() == order
