import itertools

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ranked_tables import RNG, qrels_of, table, write_trec

from raypipe import schema
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.ties import tie_report

MEASURES = ["nDCG@3", "AP", "RR(rel=2)", "R@2", "P@2"]


def test_best_and_worst_are_those_of_every_order_of_the_ties(tmp_path):
    grades = {"a": 2, "b": 0, "c": 1, "d": 2, "e": -1}
    qrels = qrels_of([("1", p, g) for p, g in grades.items()] + [("2", "a", 2)])
    scores = {"b": 3.25, "e": 2.1, "c": 2.1, "a": 2.1, "f": 1.7, "d": 1.7}
    rows = [("1", p, r, s) for r, (p, s) in enumerate(scores.items(), 1)] + [("2", "a", 1, 1.0)]
    report = tie_report(write_trec(tmp_path / "run", rows), qrels, MEASURES)
    assert (report.num_queries, report.num_rows, report.mixed) == (1, 5, 2)
    values = []
    for three in itertools.permutations("eca"):
        for two in itertools.permutations("fd"):
            run = table({"1": ["b", *three, *two], "2": ["a"]})
            values.append(evaluate(run, qrels, MEASURES).mean)
    for measure in MEASURES:
        assert report.means["best"][measure] == pytest.approx(max(v[measure] for v in values))
        assert report.means["worst"][measure] == pytest.approx(min(v[measure] for v in values))


def test_each_evaluators_order_of_ties_is_its_own(tmp_path):
    queries = [str(q) for q in range(12)]
    passages = [str(p) for p in range(1, 30)]
    rows, judged = [], []
    for query in queries:
        chosen = RNG.permutation(passages)[:20]
        scores = np.sort(RNG.integers(0, 5, 20))[::-1]
        if query == "0":
            scores = np.arange(20, 0, -1)
        rows += [
            (query, p, r, float(s)) for r, (p, s) in enumerate(zip(chosen, scores, strict=True), 1)
        ]
        judged += [(query, str(p), int(RNG.integers(0, 3))) for p in RNG.permutation(passages)[:9]]
    path = write_trec(tmp_path / "run", rows)
    report = tie_report(path, qrels_of(judged), ["RR@10", "RR", "nDCG"])
    scored = [ir_measures.ScoredDoc(q, p, s) for q, p, _, s in rows]
    as_qrels = [ir_measures.Qrel(*row) for row in judged]
    trec = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.nDCG], as_qrels, scored)
    marco = ir_measures.calc_aggregate([ir_measures.RR @ 10], as_qrels, scored)
    assert report.means["trec_eval"]["RR"] == pytest.approx(trec[ir_measures.RR])
    assert report.means["trec_eval"]["nDCG"] == pytest.approx(trec[ir_measures.nDCG])
    assert report.means["msmarco"]["RR@10"] == pytest.approx(marco[ir_measures.RR @ 10])
    by_rank = {q: [p for q2, p, _, _ in rows if q2 == q] for q in queries}
    written = evaluate(table(by_rank), qrels_of(judged), ["RR@10"]).mean["RR@10"]
    assert report.means["written"]["RR@10"] == pytest.approx(written)
    for measure in ("RR@10", "RR", "nDCG"):
        low, high = report.means["worst"][measure], report.means["best"][measure]
        assert all(low <= report.means[o][measure] <= high for o in ("trec_eval", "msmarco"))


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ([1.5, 1.5, 0.25], "fp16"),
        ([70.0, 70.0, 9.0], "whole number"),
        ([1.0078125 * 2**-20, 1.0078125 * 2**-20, 2.0**-22], "bf16"),
        ([0.123, 0.123, 0.457], "3 decimals"),
        ([0.1234567, 0.1234567, 0.7654321], ""),
        ([123456.789, 123456.789, 1.1], ""),
    ],
)
def test_ties_that_low_precision_made_are_warned_of(tmp_path, scores, told):
    qrels = qrels_of([("1", "a", 1), ("1", "b", 0)])
    rows = [("1", p, r, s) for r, (p, s) in enumerate(zip("abc", scores, strict=True), 1)]
    warning = tie_report(write_trec(tmp_path / "run", rows), qrels, ["RR"]).warning
    assert (told in warning) if told else warning == ""
    equal = qrels_of([("1", "a", 1), ("1", "b", 1)])
    assert tie_report(tmp_path / "run", equal, ["RR"]).warning == ""


def test_a_file_of_ranks_has_no_ties(tmp_path):
    path = tmp_path / "run.tsv"
    path.write_text("1\ta\t1\n1\tb\t2\n")
    found = tie_report(path, qrels_of([("1", "a", 1)]), ["RR"])
    assert not found.scored and not found.by_id


def test_a_table_of_ranks_alone_has_no_ties(tmp_path):
    path = tmp_path / "run.parquet"
    columns = {"query_id": ["1", "1"], "passage_id": ["a", "b"], "rank": [1, 2]}
    pq.write_table(pa.table(columns), path)
    assert not tie_report(path, qrels_of([("1", "a", 1)]), ["RR"]).scored


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
    assert "whole number" in found.warning


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


def test_a_tie_of_grades_below_1_is_not_mixed(tmp_path):
    path = tmp_path / "run"
    path.write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 2.0 x\n1 Q0 c 3 2.0 x\n1 Q0 d 4 1.0 x\n")
    rows = [("1", "a", -1), ("1", "b", 0), ("1", "d", 1)]
    qrels = pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )
    report = tie_report(path, qrels, ["RR"])
    assert (report.num_rows, report.mixed, report.warning) == (3, 0, "")
