"""A file's measures are those of its run, whether or not it can be read in parts."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation import measures as of_file
from raypipe.evaluation.measures import evaluate, evaluate_file
from raypipe.evaluation.run_files.runs import read_parts, read_run

MEASURES = ["nDCG@10", "AP", "R@5", "Judged@10", "NumRel", "NumRet"]
QRELS = pa.table(
    [["q0", "q1", "q1", "q2", "gone"], ["p2", "p1", "p3", "p9", "p1"], [1, 2, 0, 1, 1]],
    schema=schema.QRELS,
)
TOGETHER = [
    f"q{q} Q0 p{(rank * 3 + q) % 7} {rank} {-rank} x\n" for q in range(4) for rank in (1, 2, 3)
]
APART = [*TOGETHER[1:], TOGETHER[0]]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("raypipe.evaluation.run_files.lines.BLOCK_BYTES", 20)
    monkeypatch.setattr(
        of_file, "read_parts", lambda path, **how: read_parts(path, num_lines=1, **how)
    )


@pytest.mark.parametrize("lines", [TOGETHER, APART])
def test_they_are_those_of_the_run_read_whole(tmp_path, lines):
    path = tmp_path / "run.trec"
    path.write_text("".join(lines))
    found = evaluate_file(path, QRELS, MEASURES)
    assert found == evaluate(read_run(path), QRELS, MEASURES)
    assert found.missing_queries == ("gone",) and found.num_retrieved == 9
    assert set(found.unjudged_queries) == {"q3"}


def test_a_parquet_run_is_measured_too(tmp_path):
    (tmp_path / "run.trec").write_text("".join(TOGETHER))
    run = read_run(tmp_path / "run.trec")
    pq.write_table(run, tmp_path / "run.parquet")
    found = evaluate_file(tmp_path / "run.parquet", QRELS, MEASURES)
    assert found == evaluate(run, QRELS, MEASURES)


def test_a_bad_line_is_told_as_of_the_whole_file(tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("".join([*TOGETHER, "q9 Q0 p1 1 high x\n", "q9 Q0 p2 1 low x\n"]))
    with pytest.raises(InputError) as told:
        evaluate_file(path, QRELS, MEASURES)
    with pytest.raises(InputError) as expected:
        read_run(path)
    assert str(told.value) == str(expected.value) and "line 13" in str(told.value)


def test_a_run_of_other_queries_is_refused(tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("a Q0 p1 1 1 x\nb Q0 p1 1 1 x\n")
    told = r"run\.trec and test\.qrels share no query .run: a, b; qrels: q0"
    with pytest.raises(InputError, match=told):
        evaluate_file(path, QRELS, MEASURES, qrels_name="test.qrels")
