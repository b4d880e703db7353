import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.evaluation.ties import tie_report


def trec(tmp_path, rows):
    path = tmp_path / "run.trec"
    path.write_text("".join(f"{q} Q0 {p} {r} {s} t\n" for q, p, r, s in rows))
    return path


def test_ties_are_counted_by_queries_lines_and_grades(tmp_path):
    rows = [
        ("1", "a", 1, 2),
        ("1", "b", 2, 2),
        ("1", "c", 3, 1),
        ("2", "a", 1, 5),
        ("2", "b", 2, 5),
    ]
    rows += [
        ("2", "c", 3, 5),
        ("2", "d", 4, 4),
        ("2", "e", 5, 4),
        ("3", "a", 1, 5),
        ("4", "a", 1, 5),
    ]
    judged = [
        ("1", "a", 0),
        ("1", "b", -1),
        ("2", "b", 1),
        ("2", "d", 2),
        ("2", "e", 2),
        ("9", "a", 1),
    ]
    qrels = pa.table([list(c) for c in zip(*judged, strict=True)], schema=schema.QRELS)
    found = tie_report(trec(tmp_path, rows), qrels, ["RR", "P@1", "Judged@1"])
    assert (found.scored, found.num_queries, found.num_rows, found.mixed) == (True, 2, 7, 1)
    # Query 2 of the three judged ones: its relevant b stands 1st to 3rd of a tie of three.
    assert {order: means["RR"] for order, means in found.means.items()} == {
        "written": pytest.approx(1 / 2 / 3),
        "trec_eval": pytest.approx(1 / 2 / 3),
        "msmarco": pytest.approx(1 / 2 / 3),
        "best": pytest.approx(1 / 3),
        "worst": pytest.approx(1 / 3 / 3),
    }
    assert set(found.means["best"]) == set(found.means["worst"]) == {"RR", "P@1"}
    assert set(found.means["written"]) == {"RR", "P@1", "Judged@1"}
    assert "half precision" in found.warning


def test_a_run_without_ties_reports_none(tmp_path):
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    rows = [("1", "a", 1, 2), ("1", "b", 2, 1), ("2", "c", 1, 1), ("2", "d", 2, 0)]
    found = tie_report(trec(tmp_path, rows), qrels, ["RR"])
    assert (found.scored, found.num_queries, found.num_rows, found.mixed) == (True, 0, 0, 0)
    assert found.means == {} and found.warning == ""


def test_ties_of_a_parquet_run_stand_in_the_order_of_its_ranks(tmp_path):
    table = pa.table({"query_id": ["1"] * 3, "passage_id": ["c", "a", "b"], "score": [0.1] * 3})
    pq.write_table(table.append_column("rank", [[1, 2, 3]]), tmp_path / "run.parquet")
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    found = tie_report(tmp_path / "run.parquet", qrels, ["RR"])
    assert {order: means["RR"] for order, means in found.means.items()} == {
        "written": 0.5, "trec_eval": pytest.approx(1 / 3), "msmarco": 1.0, "best": 1.0,
        "worst": pytest.approx(1 / 3),
    }  # fmt: skip


def test_a_file_of_ranks_alone_has_nothing_to_report(tmp_path):
    path = tmp_path / "run.tsv"
    path.write_text("1\ta\t1\n1\tb\t2\n")
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    found = tie_report(path, qrels, ["RR"])
    assert (found.scored, found.num_queries, found.num_rows, found.mixed) == (False, 0, 0, 0)
    assert (found.means, found.warning) == ({}, "")
