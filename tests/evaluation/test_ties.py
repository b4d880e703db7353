"""The note on equal scores of one query."""

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_tools import FOREIGN

import raypipe
from raypipe.cli.main import run as command
from raypipe.evaluation.run_files.runs import read_run
from raypipe.evaluation.ties import Ties, ties_of

BY_ID = (
    "they are taken by passage id descending, as trec_eval does; other tools may order them "
    "otherwise"
)
AS_WRITTEN = "they are taken in the file's order; other tools may order them otherwise"
SCORES = {"1": {"a": 3, "b": 2, "c": 2, "d": 2, "e": 0.5}, "2": {"a": 1, "b": 0.5, "c": 0.5}}
"""Three lines of one query and two of another tie; each query's lines stand apart from the next."""
TOLD = "5 lines of 2 queries have the score of another line of the same query"


@pytest.fixture
def qrels(tmp_path):
    path = tmp_path / "qrels"
    path.write_text("1 0 a 1\n2 0 a 1\n")
    return path


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.trec"
    path.write_text("1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n2 Q0 a 1 2 x\n")
    return path


@pytest.fixture
def foreign(tmp_path):
    path = tmp_path / "foreign.trec"
    lines = [
        f"{query} Q0 {passage} {rank} {score} x\n"
        for query, of in SCORES.items()
        for rank, (passage, score) in enumerate(of.items(), 1)
    ]
    path.write_text("".join(lines))
    return path


def notes(caplog):
    found = [r.getMessage() for r in caplog.records if "another line" in r.getMessage()]
    caplog.clear()
    return found


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_lines_and_queries_with_ties_are_told_with_their_order(verb, foreign, other, qrels, caplog):
    arguments = [verb, str(other), str(foreign), "--qrels", str(qrels)]
    assert command(arguments)[0] == 0
    assert notes(caplog) == [f"{foreign}: {TOLD}; {BY_ID}"]
    assert command([*arguments, "--break-ties", "rank"])[0] == 0
    assert notes(caplog) == [f"{foreign}: {TOLD}; {AS_WRITTEN}"]


def test_a_file_whose_queries_stand_apart_is_told_the_same(foreign, qrels, caplog, monkeypatch):
    lines = foreign.read_text().splitlines(keepends=True)
    foreign.write_text("".join([*lines[1:], lines[0]]))
    monkeypatch.setattr("raypipe.evaluation.run_files.lines.BLOCK_BYTES", 20)
    assert command(["evaluate", str(foreign), "--qrels", str(qrels)])[0] == 0
    assert notes(caplog) == [f"{foreign}: {TOLD}; {BY_ID}"]


def test_python_notes_files_and_neither_tables_nor_dictionaries(foreign, other, qrels, caplog):
    runs = {"table": read_run(foreign), "file": foreign, "scores": SCORES, "other": other}
    raypipe.compare(runs, qrels)
    assert notes(caplog) == [f"{foreign}: {TOLD}; {BY_ID}"]
    raypipe.evaluate(runs, qrels)
    assert notes(caplog) == [f"{foreign}: {TOLD}; {BY_ID}"]
    raypipe.evaluate(str(foreign), qrels)
    assert notes(caplog) == [f"{foreign}: {TOLD}; {BY_ID}"]


def test_what_raypipe_writes_as_trec_has_no_ties_and_as_parquet_keeps_their_order(
    foreign, qrels, tmp_path, caplog
):
    run = read_run(foreign, break_ties="rank")
    raypipe.write_run(run, tmp_path / "own.trec")
    raypipe.evaluate(tmp_path / "own.trec", qrels)
    assert notes(caplog) == []
    pq.write_table(run, tmp_path / "own.parquet")
    raypipe.evaluate(tmp_path / "own.parquet", qrels)
    assert notes(caplog) == [f"{tmp_path / 'own.parquet'}: {TOLD}; {AS_WRITTEN}"]


@pytest.mark.parametrize("name", ["ranx.run.trec", "pyterrier.res.gz", "pyterrier.parquet"])
def test_a_tie_of_other_tools_files_is_one_of_one_query(name, tmp_path, caplog):
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    raypipe.evaluate(FOREIGN / name, tmp_path / "qrels")
    (note,) = notes(caplog)
    assert "2 lines of 1 query have the score of another line of the same query" in note
    assert note.endswith(AS_WRITTEN if name.endswith("parquet") else BY_ID)


def test_a_file_of_ranks_has_no_ties(tmp_path, qrels, caplog):
    path = tmp_path / "run.tsv"
    path.write_text("".join(f"1\tp{rank}\t{rank}\n" for rank in range(1, 1001)))
    with caplog.at_level(logging.WARNING):
        raypipe.evaluate(path, qrels)
    assert notes(caplog) == []


def test_equal_scores_that_are_no_neighbours_tie_and_those_of_two_queries_do_not():
    run = read_run(FOREIGN / "pyterrier.parquet")
    assert ties_of(run.slice(0, 2)) == ties_of(run.slice(0, 0)) == Ties(0, 0, True)
    scores = [1.0, 2.0, 1.0, 1.0, 3.0]  # of q1 and, the last two, of q2
    turned = run.set_column(3, run.schema.field("score"), pa.array(scores, pa.float32()))
    assert ties_of(turned)[:2] == (2, 1)
