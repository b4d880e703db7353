"""Runs as ranx and PyTerrier write them; the files are theirs (tests/helpers/foreign_files)."""

import gzip
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_tools import AS_WRITTEN, BY_ID, FOREIGN, SCORES

from raypipe.errors import InputError
from raypipe.evaluation.run_files import separated
from raypipe.evaluation.run_files.parts import read_parts
from raypipe.evaluation.run_files.runs import read_run

WITHOUT_RANKS = ["ranx.run.json", "ranx.run.trec", "ranx.run.parquet", "pyterrier.res.gz"]
WITH_RANKS = ["pyterrier.csv", "pyterrier.parquet"]


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


@pytest.mark.parametrize("name", ["ranx.run.json", "pyterrier.res.gz", "pyterrier.csv"])
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


def test_json_on_one_line_of_any_length_is_read_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("raypipe.evaluation.run_files.dictionaries.BLOCK_BYTES", 7)
    queries = [
        f'"q{q}": {{' + ", ".join(f'"p{p}": {q + 1 / (p + 1)}' for p in range(9)) + "}"
        for q in range(5)
    ]
    path = tmp_path / "run.json.gz"
    path.write_bytes(gzip.compress(("\ufeff{" + ",".join(queries) + "}").encode()))
    run = read_run(path)
    assert pairs(run) == [(f"q{q}", f"p{p}") for q in range(5) for p in range(9)]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"q": {"a": 1, "a": 2}}', "entries 1, 2: query q ranks passage a 2 times"),
        ('{"q": {"a": "1"}}', "entry 1: score: expected a number; found '1'"),
        ('{"q": {"a": true}}', "entry 1: score: expected a number; found True"),
        ('{"q": {"a": NaN}}', "entry 1: score nan is not a finite"),
        ('{"q": {"a": [1]}}', "entry 1: score: expected a number"),
        ('{"q": {"a": 1}', "query 'q': expected }, found the end of the file"),
        ('{"q": {"a": 1', "query 'q': not valid JSON"),
        ('{"q": 1}', "query 'q': expected {passage id: value}, found another value"),
        ('{"q": {"a": 1}} x', "expected the end of the file after its last }, found 'x'"),
        ('{"q" {"a": 1}}', "query 'q': expected :, found '{'"),
        ("{1: 2}", "entry 1: expected a query id in quotes, found 1"),
        ("{}", "no lines; expected a run (json)"),
        ('{"q": {"a": 1, "a b": 1}}', "entry 2: white space or a control character in the passage"),
        ('{"q": {"a": 1}, "": {"b": 1}}', "entry 2: empty query id"),
        (r'{"q": {"a": 1, "p\ud800": 1}}', r"query 'q': half a surrogate pair in 'p\ud800'"),
        (r'{"q\udfff": {"a": 1}}', r"query 'q\udfff': half a surrogate pair in 'q\udfff'"),
    ],
)
def test_json_that_is_no_run_is_refused_by_its_place(tmp_path, content, told):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_run(tmp_path / "run.json")
    assert f"run.json: {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("qid,docno\n1,a\n", "expected a column score or rank, found qid, docno"),
        ("qid,docno,score\n1,a\n", "not the CSV that its header promises"),
        ("qid,docno,score\n1,a,high\n", "not the CSV that its header promises"),
        ("qid,docno,score\n1,a,\n", "line 2: score: expected a number; found none"),
        ("qid,docno,score\n1,a,nan\n", "line 2: score nan is not a finite"),
        ("qid,docno,score\n1,a,1\n1,a,2\n", "lines 2, 3: query 1 ranks passage a 2 times"),
        ("qid,docno,score,score\n1,a,1,2\n", "expected each column once, found score"),
        ("query-id\tcorpus-id\tscore\n1\ta\t1\n", "these are qrels (BEIR's header)"),
        ("qid,docno,score\n", "no lines; expected a run (csv)"),
        ("qid,docno,score\n1,a,1\n1,,2\n", "line 3: empty passage id"),
        ("qid, docno, score\n1, a, 1\n", "line 2: white space or a control character in the pass"),
        ("a b\n", "expected 6 columns (TREC), 3 (MS MARCO), 4 with tabs (top1000), a CSV header"),
    ],
)
def test_csv_that_is_no_run_is_refused_by_its_place(tmp_path, content, told):
    (tmp_path / "run.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        read_run(tmp_path / "run.csv")
    assert f"run.csv: {told}" in str(caught.value)


def test_csv_may_have_tabs_or_semicolons_any_order_and_line_breaks_in_quotes(tmp_path):
    for mark in ",\t;":
        rows = [["Score", "query", "docno", "qid"], ["1.5", '"a\nb"', "007", "1"]]
        content = "\n".join(mark.join(row) for row in rows)
        (tmp_path / "run").write_bytes(b"\xef\xbb\xbf" + content.encode())
        found = read_run(tmp_path / "run").to_pylist()
        assert found == [{"query_id": "1", "passage_id": "007", "rank": 1, "score": 1.5}]


@pytest.mark.parametrize("block_bytes", [2, 100])
def test_lines_of_blanks_above_a_header_do_not_count(tmp_path, monkeypatch, block_bytes):
    small = partial(separated.line_blocks, block_bytes=block_bytes)
    monkeypatch.setattr(separated, "line_blocks", small)
    (tmp_path / "run").write_text("\n \t\r\n\tqid\tdocno\tscore\n0\t1\ta\t1.5\n")
    found = read_run(tmp_path / "run").to_pylist()
    assert found == [{"query_id": "1", "passage_id": "a", "rank": 1, "score": 1.5}]


def test_a_top1000_file_with_a_blank_in_an_id_is_refused(tmp_path):
    (tmp_path / "run").write_text("1\ta\tq\tx\n1\tb c\tq\ty\n")
    with pytest.raises(InputError, match="line 2: white space or a control character in the pass"):
        read_run(tmp_path / "run")


def test_one_rank_that_is_no_number_leaves_ties_in_the_order_of_the_lines(tmp_path):
    (tmp_path / "run").write_text("1 Q0 a - 2 t\n1 Q0 b 1 2 t\n")
    assert pairs(read_run(tmp_path / "run", break_ties="rank")) == [("1", "a"), ("1", "b")]


def test_a_damaged_compressed_csv_is_told_as_damaged(tmp_path):
    packed = gzip.compress(b"qid,docno,score\n" + b"".join(b"1,p%d,1\n" % n for n in range(9999)))
    (tmp_path / "run.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="run.csv.gz: cannot be read .*expected a whole file"):
        read_run(tmp_path / "run.csv.gz")
