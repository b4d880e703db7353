"""Runs as ranx and PyTerrier write them; the files are theirs (tests/helpers/foreign_files)."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_tools import AS_WRITTEN, BY_ID, FOREIGN, SCORES

from raypipe.cli.main import run as command
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_parts, read_run

WITHOUT_RANKS = ["ranx.run.trec", "ranx.run.parquet", "pyterrier.res.gz"]
WITH_RANKS = ["pyterrier.parquet"]


def pairs(run):
    return [(row["query_id"], row["passage_id"]) for row in run.to_pylist()]


@pytest.mark.parametrize("name", WITHOUT_RANKS)
def test_ties_are_in_the_order_of_ids_or_if_asked_in_that_of_the_file(name):
    run = read_run(FOREIGN / name)
    assert pairs(run) == BY_ID and run["score"].to_pylist() == SCORES
    kept = read_run(FOREIGN / name, break_ties="rank")
    assert pairs(kept) == AS_WRITTEN and kept["score"].to_pylist() == SCORES
    assert kept["rank"].to_pylist() == [1, 2, 3, 1, 2]


@pytest.mark.parametrize("ties", ["id", "rank"])
@pytest.mark.parametrize("name", WITH_RANKS)
def test_ranks_of_a_table_decide_and_may_begin_at_0(name, ties):
    run = read_run(FOREIGN / name, break_ties=ties)
    assert pairs(run) == AS_WRITTEN and run["score"].to_pylist() == SCORES
    assert run["rank"].to_pylist() == [1, 2, 3, 1, 2]


def test_a_file_of_ids_and_ranks_alone_may_begin_at_0():
    run = read_run(FOREIGN / "pyterrier.minimal.tsv")
    assert pairs(run) == AS_WRITTEN and run["rank"].to_pylist() == [1, 2, 3, 1, 2]


@pytest.mark.parametrize("name", ["ranx.run.trec", "pyterrier.res.gz"])
@pytest.mark.parametrize("ties", ["id", "rank"])
def test_in_parts_they_are_the_same_runs(name, ties):
    parts = list(read_parts(FOREIGN / name, num_lines=1, break_ties=ties))
    assert (
        pa.concat_tables(parts).to_pylist() == read_run(FOREIGN / name, break_ties=ties).to_pylist()
    )


def test_ranks_from_0_in_some_queries_only_are_refused(tmp_path):
    (tmp_path / "run").write_text("1\ta\t0\n1\tb\t1\n2\ta\t1\n")
    with pytest.raises(InputError, match="line 1: expected a rank from 1; found 0"):
        read_run(tmp_path / "run")


def test_a_column_has_its_own_name_before_that_of_other_tools(tmp_path):
    """PyTerrier's docid is a number inside Terrier, docno the id; passage_id is ours."""
    columns = {"qid": ["1"], "docid": [5], "docno": ["d"], "score": [1.0]}
    pq.write_table(pa.table(columns), tmp_path / "theirs")
    assert pairs(read_run(tmp_path / "theirs")) == [("1", "d")]
    pq.write_table(pa.table({**columns, "passage_id": ["p"]}), tmp_path / "ours")
    assert pairs(read_run(tmp_path / "ours")) == [("1", "p")]


def test_a_trec_file_without_sound_ranks_keeps_the_order_of_its_lines(tmp_path):
    (tmp_path / "run").write_text("1 Q0 a - 2 x\n1 Q0 b - 2 x\n1 Q0 c - 3 x\n")
    assert [p for _, p in pairs(read_run(tmp_path / "run", break_ties="rank"))] == ["c", "a", "b"]
    assert [p for _, p in pairs(read_run(tmp_path / "run"))] == ["c", "b", "a"]
    (tmp_path / "run").write_text("1 Q0 a 2 2 x\n1 Q0 b 1 2 x\n1 Q0 c 9 3 x\n")
    assert [p for _, p in pairs(read_run(tmp_path / "run", break_ties="rank"))] == ["c", "b", "a"]


def test_the_warning_of_a_rank_column_names_the_flag_that_keeps_it(caplog):
    read_run(FOREIGN / "ranx.run.trec")
    assert "--break-ties rank keeps the file's order of equal scores" in caplog.text
    caplog.clear()
    read_run(FOREIGN / "ranx.run.trec", break_ties="rank")
    assert not caplog.text


def test_a_rank_that_contradicts_the_scores_is_told_whatever_the_order_of_ties(tmp_path, caplog):
    (tmp_path / "run").write_text("1 Q0 a 1 1 x\n1 Q0 b 2 2 x\n")
    assert [p for _, p in pairs(read_run(tmp_path / "run", break_ties="rank"))] == ["b", "a"]
    assert "contradicts the order by score, which is used" in caplog.text


def test_a_top1000_file_with_a_blank_in_an_id_is_refused(tmp_path):
    (tmp_path / "run").write_text("1\ta\tq\tx\n1\tb c\tq\ty\n")
    with pytest.raises(InputError, match="line 2: white space or a control character in the pass"):
        read_run(tmp_path / "run")


def test_one_rank_that_is_no_number_leaves_ties_in_the_order_of_the_lines(tmp_path):
    (tmp_path / "run").write_text("1 Q0 a - 2 t\n1 Q0 b 1 2 t\n")
    assert pairs(read_run(tmp_path / "run", break_ties="rank")) == [("1", "a"), ("1", "b")]


def test_json_is_refused_with_what_makes_a_run_of_it(capsys):
    path, qrels = str(FOREIGN / "ranx.run.json"), str(FOREIGN / "ranx.qrels.trec")
    assert command(["evaluate", path, "--qrels", qrels])[0] == 2
    told = capsys.readouterr().err
    assert f"{path}: expected 6 columns (TREC), 3 (MS MARCO or Tevatron), 4 (ColBERT or" in told
    assert "found JSON" in told and "save(OTHER, kind='trec')" in told


def test_a_csv_of_pyterrier_is_the_run_that_pandas_makes_of_it(tmp_path):
    frame = pd.read_csv(FOREIGN / "pyterrier.csv", dtype={"qid": str, "docno": str})
    frame.to_parquet(tmp_path / "run")
    frame.to_csv(tmp_path / "tabs", sep="\t", index=False)
    assert pairs(read_run(FOREIGN / "pyterrier.csv")) == AS_WRITTEN
    assert read_run(FOREIGN / "pyterrier.csv") == read_run(tmp_path / "run")
    assert read_run(tmp_path / "tabs") == read_run(tmp_path / "run")


def test_a_header_of_judgements_is_told_as_such(tmp_path):
    (tmp_path / "run").write_text("\n \t\r\nquery-id\tcorpus-id\tscore\n1\ta\t1\n")
    told = "these are qrels .BEIR's header.; expected a run: name the passages' column passage_id"
    with pytest.raises(InputError, match=told):
        read_run(tmp_path / "run")
    names = ["score", "corpus-id", "query-id"]
    pq.write_table(pa.table([[1, 2], ["a", "b"], ["1", "1"]], names=names), tmp_path / "run")
    with pytest.raises(InputError, match=told):
        read_run(tmp_path / "run")
