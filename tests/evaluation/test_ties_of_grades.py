import pyarrow as pa

from raypipe import schema
from raypipe.evaluation.ties import tie_report


def test_a_tie_of_grades_below_1_is_not_mixed(tmp_path):
    path = tmp_path / "run"
    path.write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 2.0 x\n1 Q0 c 3 2.0 x\n1 Q0 d 4 1.0 x\n")
    rows = [("1", "a", -1), ("1", "b", 0), ("1", "d", 1)]
    qrels = pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )
    report = tie_report(path, qrels, ["RR"])
    assert (report.num_rows, report.mixed, report.warning) == (3, 0, "")
