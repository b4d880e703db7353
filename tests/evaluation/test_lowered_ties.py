"""Ties that raypipe lowered are told again, and change no measure."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.evaluation.exports import write_trec
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.run_files.runs import read_run
from raypipe.evaluation.ties import steps, tie_report, written_from

QRELS = pa.table([["1", "2"], ["c", "a"], pa.array([1, 1], pa.int32())], schema=schema.QRELS)


def run_of(scores):
    """A run of {query: scores, best first}; passages a, b, c, ..."""
    rows = [(q, chr(97 + n), n + 1, s) for q, of in scores.items() for n, s in enumerate(of)]
    queries, passages, ranks, values = zip(*rows, strict=True)
    columns = [queries, passages, np.array(ranks, np.int32), np.array(values, np.float32)]
    return pa.table(columns, schema=schema.RUN_FILE)


def report(tmp_path, scores, measures=("RR",)):
    path = tmp_path / "run.trec"
    write_trec(run_of(scores), path, tag="t")
    return path, tie_report(path, QRELS, list(measures))


def test_ties_that_were_lowered_are_told_with_what_they_leave_open(tmp_path):
    # Query 1: b, c and d score 2.0; c is relevant: rank 2, 3 or 4. Query 2 has no tie.
    scores = {"1": [3.0, 2.0, 2.0, 2.0, 0.5], "2": [1.0, 0.5]}
    path, found = report(tmp_path, scores)
    assert (found.num_rows, found.num_queries, found.mixed, found.num_lowered) == (3, 1, 1, 2)
    assert found.tail_from is None
    expected = {"written": 1 / 3, "trec_eval": 1 / 3, "msmarco": 1 / 3, "best": 1 / 2}
    expected["worst"] = 1 / 4
    for order, reciprocal in expected.items():
        assert found.means[order]["RR"] == pytest.approx((reciprocal + 1) / 2), order
    measured = evaluate(read_run(path), QRELS, ["RR"])
    assert found.means["written"]["RR"] == measured.mean["RR"]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_ties_at_zero_and_below_are_told(tmp_path, zero):
    _, found = report(tmp_path, {"1": [zero, zero, -2.5, -2.5]})
    assert (found.num_rows, found.num_queries, found.num_lowered) == (4, 1, 2)


def test_the_same_ties_are_told_of_a_parquet_file_and_of_the_lowered_one(tmp_path):
    rng = np.random.default_rng(1)
    scores = {str(q): np.sort(rng.integers(0, 6, 12))[::-1] for q in range(1, 30)}
    _, lowered = report(tmp_path, scores)
    import pyarrow.parquet as pq

    pq.write_table(run_of(scores), tmp_path / "run.parquet")
    true = tie_report(tmp_path / "run.parquet", QRELS, ["RR"])
    assert (lowered.num_rows, lowered.num_queries, lowered.mixed) == (
        true.num_rows,
        true.num_queries,
        true.mixed,
    )
    assert lowered.means == true.means and true.num_lowered == 0


def test_neighbours_two_steps_apart_and_of_two_queries_are_no_ties(tmp_path):
    two_below = np.nextafter(np.nextafter(np.float32(2), np.float32(0)), np.float32(0))
    next_query = np.nextafter(np.float32(two_below), np.float32(0))
    _, found = report(tmp_path, {"1": [2.0, two_below], "2": [next_query]})
    assert found.num_rows == 0 and found.num_lowered == 0


def test_a_file_with_equal_scores_is_anothers_and_its_near_scores_are_no_ties(tmp_path):
    near = np.nextafter(np.float32(1), np.float32(0))
    path = tmp_path / "run"
    path.write_text(f"1 Q0 a 1 2 x\n1 Q0 b 2 2 x\n1 Q0 c 3 1 x\n1 Q0 d 4 {near:.9g} x\n")
    found = tie_report(path, QRELS, ["RR"])
    assert (found.num_rows, found.num_lowered) == (2, 0)


def test_what_a_reranker_left_in_place_is_no_tie(tmp_path):
    # Two rows reranked to scores below 0; the rows below keep their order and higher scores.
    scores = {"1": [-1.0, -2.0, 9.0, 8.0, 7.0], "2": [-0.5, -0.5, 9.5, 8.5, 7.5, 6.5]}
    _, found = report(tmp_path, scores)
    assert found.tail_from == 3
    assert (found.num_rows, found.num_queries, found.num_lowered) == (2, 1, 1)


def test_a_run_whose_scores_are_all_equal_is_all_tied(tmp_path):
    _, found = report(tmp_path, {"1": [1.0] * 4, "2": [1.0] * 3})
    assert found.tail_from is None and (found.num_rows, found.num_lowered) == (7, 5)


def test_compare_tells_lowered_ties_and_a_rerankers_tail_in_words(tmp_path, capsys):
    from raypipe.cli.main import run

    one, two = tmp_path / "one.trec", tmp_path / "two.trec"
    write_trec(run_of({"1": [3.0, 2.0, 2.0, 0.5], "2": [1.0, 0.5]}), one, tag="t")
    scores = {"1": [-1.0, -2.0, 9.0, 8.0], "2": [-0.5, -0.75, 9.5, 8.5]}
    write_trec(run_of(scores), two, tag="t")
    (tmp_path / "qrels").write_text("1 0 c 1\n2 0 a 1\n")
    arguments = [str(one), str(two), "--qrels", str(tmp_path / "qrels"), "--measures", "RR"]
    assert run(["compare", *arguments])[0] == 0
    told = capsys.readouterr().out
    assert f"{one}: 2 rows of 1 queries; 1 ties of different grades" in told
    assert "1 rows are one float32 step below the row above, as raypipe writes ties" in told
    assert f"{two}: from rank 3 on every row is one float32 step below" in told
    assert f"{two}: none" in told


def test_ties_are_neighbours_with_one_score_of_one_stage():
    queries, rank = np.array([0, 0, 0, 0, 0, 1], np.int32), np.array([1, 2, 3, 4, 5, 1.0])
    scores = np.array([2, 2, 1, 1, 2, 2], np.float32)
    stages = np.array([0, 0, 0, 1, 1, 1], np.int32)
    assert steps(queries, rank, scores, stages).tolist() == [-1, -1, -2, -3, -4, -1]
    turned = np.array([5, 4, 2, 3, 1, 0])
    found = steps(queries[turned], rank[turned], scores[turned], stages[turned])
    assert found.tolist() == [-1, -4, -2, -3, -1, -1]


def test_a_file_is_written_from_a_stored_run_only_if_every_line_is():
    stored = pa.table({"query_row": [0, 0, 3], "score": np.array([1, 1, 1], np.float32)})
    one_below = float(np.nextafter(np.float32(1), np.float32(0)))
    file = np.array([1, one_below, 1], np.float32)
    assert written_from(stored, np.array([0, 0, 1], np.int32), file)
    assert not written_from(stored, np.array([0, 1, 1], np.int32), file)
    assert not written_from(stored, np.array([0, 0, 1], np.int32), file[[0, 0, 2]])
    assert not written_from(stored.slice(1), np.array([0, 0, 1], np.int32), file)
