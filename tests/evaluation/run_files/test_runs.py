"""Run files in every form become one table: strings, best first, ranks from 1."""

import bz2
import gzip
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "run"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_run(path)

    return read


def lines(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def problems(read, content):
    with pytest.raises(InputError) as caught:
        read(content)
    return caught.value.problems


def test_trec_is_ordered_by_score_then_passage_id_descending(read):
    found = read("q2 Q0 d1 1 1.5 x\nq1 Q0 d9 1 2 x\nq1 Q0 d10 2 2 x\nq1 Q0 d3 3 3e0 x\n")
    assert found.schema == schema.RUN_FILE
    # "d9" > "d10" as strings; queries in order of first appearance
    assert lines(found) == [
        ("q2", "d1", 1, 1.5),
        ("q1", "d3", 1, 3.0),
        ("q1", "d9", 2, 2.0),
        ("q1", "d10", 3, 2.0),
    ]


def test_trec_scores_that_differ_only_beyond_float32_are_ties(read):
    found = read("1 Q0 a 1 1.00000001 x\n1 Q0 b 2 1.0 x\n")
    assert [line[1] for line in lines(found)] == ["b", "a"]


def test_trec_lines_may_have_tabs_runs_of_blanks_carriage_returns_and_no_last_newline(read):
    content = "\ufeff1\tQ0\ta\t1\t+2.5\tx\r\n\r\n  1   Q0  b 2 1 x  \n\n2 Q0 a 1 -1e-3 x"
    assert lines(read(content)) == [
        ("1", "a", 1, 2.5),
        ("1", "b", 2, 1.0),
        ("2", "a", 1, np.float32(-1e-3)),
    ]


def test_ids_stay_strings_with_their_zeros_and_slashes(read):
    found = read("enwiki:A%20b/c Q0 007 1 1 x\n0012 Q0 7 1 1 x\n")
    assert [line[:2] for line in lines(found)] == [("enwiki:A%20b/c", "007"), ("0012", "7")]


def test_a_rank_column_that_contradicts_the_scores_is_told_and_ignored(read, caplog):
    with caplog.at_level(logging.WARNING):
        found = read("7 Q0 a 1 1.0 x\n7 Q0 b 2 2.0 x\n8 Q0 a 1 2 x\n8 Q0 b 2 1 x\n")
    assert [line[1] for line in lines(found)[:2]] == ["b", "a"]
    assert "1 queries: the rank column contradicts" in caplog.text
    assert "first: query 7" in caplog.text


def test_msmarco_is_ordered_by_rank_and_scored_by_its_reciprocal(read):
    found = read("5\t30\t2\n5\t10\t1\n4\t10\t1\n5\t20\t3\n")
    assert [line[:3] for line in lines(found)] == [
        ("5", "10", 1),
        ("5", "30", 2),
        ("5", "20", 3),
        ("4", "10", 1),
    ]
    assert [line[3] for line in lines(found)] == [1.0, 0.5, np.float32(1 / 3), 1.0]


def test_missing_msmarco_ranks_are_closed_up_and_told(read, caplog):
    with caplog.at_level(logging.WARNING):
        found = read("5\t10\t1\n5\t30\t4\n")
    assert [line[1:3] for line in lines(found)] == [("10", 1), ("30", 2)]
    assert "ranks are missing" in caplog.text


def test_top1000_keeps_the_order_of_the_file_and_any_text(read):
    found = read('2\t9\twhat "is\tA "quote\n1\t8\tq\tp\n2\t7\twhat "is\ttail\twith tab\n')
    assert [line[:3] for line in lines(found)] == [("2", "9", 1), ("2", "7", 2), ("1", "8", 1)]
    assert lines(found)[1][3] == 0.5


def test_every_compression_is_told_by_content_not_by_name(read):
    content = b"".join(b"1 Q0 d%d 1 %d x\n" % (at, -at) for at in range(1000))
    plain = read(content)
    assert read(gzip.compress(content[:5000]) + gzip.compress(content[5000:])).equals(plain)
    assert read(bz2.compress(content)).equals(plain)
    one = zstandard.ZstdCompressor().compress
    assert read(one(content[:5000]) + one(content[5000:])).equals(plain)


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lambda data: zstandard.compress(data)]
)
def test_a_truncated_compressed_file_is_refused(read, compress):
    rng = np.random.default_rng(0)
    content = b"".join(b"1 Q0 d%d 1 %f x\n" % (at, rng.random()) for at in range(20_000))
    whole = compress(content)
    (problem,) = problems(read, whole[: len(whole) // 2])
    assert "cut off: the " in problem and problem.endswith("fetch the file again")


def test_parquet_with_a_rank_keeps_it_above_the_scores(tmp_path):
    """A reranked head stands above a tail whose scores come from another stage."""
    table = pa.table({"query_id": ["1", "1"], "passage_id": ["a", "b"], "score": [0.5, 9.0]})
    pq.write_table(table.append_column("rank", [[1, 2]]), tmp_path / "ranked")
    pq.write_table(table, tmp_path / "scored")
    assert [line[1] for line in lines(read_run(tmp_path / "ranked"))] == ["a", "b"]
    assert [line[1] for line in lines(read_run(tmp_path / "scored"))] == ["b", "a"]


def test_parquet_ids_of_other_types_become_strings_or_are_refused(tmp_path):
    numbers = pa.table({"query_id": [1], "passage_id": pa.array(["a"]).dictionary_encode()})
    pq.write_table(numbers.append_column("score", [[1]]), tmp_path / "ints")
    assert lines(read_run(tmp_path / "ints")) == [("1", "a", 1, 1.0)]
    pq.write_table(
        pa.table({"query_id": [1.0], "passage_id": ["a"], "score": [1.0]}), tmp_path / "floats"
    )
    with pytest.raises(InputError, match="query_id: expected texts or whole numbers; found double"):
        read_run(tmp_path / "floats")
    pq.write_table(pa.table({"topic": ["1"], "score": [1.0]}), tmp_path / "names")
    told = r"missing passage_id, query_id; found score, topic \(for query_id also qid, q_id"
    with pytest.raises(InputError, match=told):
        read_run(tmp_path / "names")


@pytest.mark.fault(26, "refused with both lines")
def test_a_passage_twice_for_one_query_is_refused_with_its_lines(read):
    content = "1 Q0 a 1 3 x\n\n2 Q0 a 1 2 x\n1 Q0 a 2 1 x\n"
    (found,) = problems(read, content)
    assert found.endswith("lines 1, 4: query 1 ranks passage a 2 times; keep one")
    (found,) = problems(read, "1 Q0 a 1 3 x\n1 Q0 -1 2 -9e37 x\n1 Q0 -1 3 -9e37 x\n")
    assert found.endswith("passage -1 2 times; leave such lines out: faiss fills up with -1")


@pytest.mark.fault(26, "of 13 repeated passages ten are named and 3 counted")
def test_more_than_ten_problems_are_counted(read):
    content = "".join(f"{at} Q0 a 1 1 x\n{at} Q0 a 2 1 x\n" for at in range(13))
    found = problems(read, content)
    assert len(found) == 11 and found[-1].endswith("3 more like these")


def test_line_numbers_go_on_across_blocks(read):
    good = "".join(f"1 Q0 passage-{at:07} 1 1 x\n" for at in range(200_000))
    (found,) = problems(read, good + "1 Q0 b 2\n")
    assert "line 200001: expected 6 columns; found 4" in found


def test_msmarco_ranks_that_give_no_order_are_refused(read):
    header = "query_id\tpassage_id\trank\n"
    found = problems(read, f"{header}1\ta\t0\n1\tb\t1.5\n1\tc\t3\n1\td\t3\n")
    assert "line 2: expected a rank from 1; found 0" in found[0]
    assert "line 3: expected a rank from 1; found 1.5" in found[1]
    assert "lines 4 and 5: two passages at rank 3 of query 1" in found[2]
    assert "line 1: rank: expected a number" in problems(read, "1\ta\tx\n")[0]
    assert "found nan" in problems(read, f"{header}1\ta\tnan\n")[0]
    assert "found inf" in problems(read, f"{header}1\ta\tinf\n")[0]


@pytest.mark.fault(35, "an empty run and one of empty lines are refused")
def test_files_that_are_no_runs_are_refused(read, tmp_path):
    assert "these are qrels" in problems(read, "1\t0\t77\t1\n")[0]
    assert "these are qrels" in problems(read, "1 0 77 -1\n")[0]
    assert "no lines" in problems(read, "")[0]
    assert "no lines" in problems(read, "\n \n")[0]
    assert "found 2" in problems(read, "a b\n")[0]
    with pytest.raises(InputError, match="cannot be read .*expected a run file"):
        read_run(tmp_path / "absent")
    with pytest.raises(InputError, match="expected a run file, found a folder"):
        read_run(tmp_path)
