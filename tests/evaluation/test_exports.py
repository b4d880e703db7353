"""Runs written for other tools."""

import bz2
import os

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_msmarco, write_trec


def run(*lines):
    return pa.table(list(map(list, zip(*lines, strict=True))), schema=schema.RUN_FILE)


RUN = run(("q1", "b", 1, 2.0), ("q1", "a", 2, 2.0), ("q1", "c", 3, 7.0), ("q0", "a", 1, -0.25))


def test_trec_lines_keep_the_rank_order_with_scores_that_fall_in_float32(tmp_path):
    write_trec(RUN, tmp_path / "run.trec", tag="mono")
    # 2 - 2^-23 and 2 - 2^-22: the next two float32 below 2, nine digits
    assert (tmp_path / "run.trec").read_text().splitlines() == [
        "q1 Q0 b 1 2 mono",
        "q1 Q0 a 2 1.99999988 mono",
        "q1 Q0 c 3 1.99999976 mono",
        "q0 Q0 a 1 -0.25 mono",
    ]


def test_nine_digits_give_every_float32_back(tmp_path):
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32)
    scores = np.unique(bits[np.isfinite(bits)])[::-1]
    table = run(*((f"{at}", "a", 1, score) for at, score in enumerate(scores.tolist())))
    write_trec(table, tmp_path / "run", tag="x")
    written = [np.float32(line.split()[4]) for line in (tmp_path / "run").open()]
    assert written == scores.tolist()


def test_msmarco_lines_are_cut_at_rank_1000(tmp_path):
    table = run(*(("7", str(at), at, 1.0) for at in range(1, 1003)))
    write_msmarco(table, tmp_path / "run.tsv")
    written = (tmp_path / "run.tsv").read_text().splitlines()
    assert written[0] == "7\t1\t1" and written[-1] == "7\t1000\t1000" and len(written) == 1000


@pytest.mark.fault(29, "one run written twice, plain and in 3 compressions: the same bytes")
@pytest.mark.parametrize("name", ["run", "run.gz", "run.bz2", "run.zst"])
def test_the_bytes_are_the_same_every_time(tmp_path, name):
    for folder in "ab":
        write_trec(RUN, tmp_path / folder / name, tag="x")
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert os.listdir(tmp_path / "a") == [name]


def test_compression_follows_the_name(tmp_path):
    write_msmarco(RUN, tmp_path / "eval.txt.bz2")
    assert bz2.open(tmp_path / "eval.txt.bz2").read() == b"q1\tb\t1\nq1\ta\t2\nq1\tc\t3\nq0\ta\t1\n"


@pytest.mark.fault(
    40, "10 of 10 ids and tags that are empty or hold blanks are refused, and no file is left"
)
@pytest.mark.parametrize(
    "bad",
    ["", "a b", "a\tb", "a\nb", "a\x00b", "a\x0bb", "a\x85b", "a\xa0b", "a\u2028b", "a\u3000b"],
)
def test_ids_that_would_break_a_line_are_refused(tmp_path, bad):
    with pytest.raises(InputError, match="query_ids are empty or hold white space"):
        write_trec(run((bad, "a", 1, 1.0)), tmp_path / "run", tag="x")
    with pytest.raises(InputError, match="1 passage_ids .* cannot be in a run file"):
        write_msmarco(run(("1", bad, 1, 1.0)), tmp_path / "run")
    with pytest.raises(InputError, match="tag: expected one word"):
        write_trec(RUN, tmp_path / "run", tag=bad)
    assert not os.listdir(tmp_path)


def test_ids_of_other_scripts_and_with_percent_signs_are_written(tmp_path):
    write_trec(run(("enwiki:A%20b/ü", "日本", 1, 1.0)), tmp_path / "run", tag="x")
    assert (tmp_path / "run").read_text() == "enwiki:A%20b/ü Q0 日本 1 1 x\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([("1", "a", 1, 1.0), ("1", "a", 2, 0.5)], "query 1 ranks passage a 2 times"),
        ([("1", "a", 0, 1.0)], "query 1: expected ranks 1, 2, 3, ...; found 0"),
        ([("1", "a", 1, 1.0), ("1", "b", 3, 0.5)], "found 3"),
        ([("1", "a", 1, 1.0), ("2", "a", 1, 1.0), ("1", "b", 2, 1.0)], "occurs in two places"),
        ([("1", "a", 1, float("nan"))], "NaN or infinite"),
    ],
)
def test_tables_that_are_no_ranking_are_refused_and_nothing_is_written(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        write_trec(run(*lines), tmp_path / "run", tag="x")
    assert not os.listdir(tmp_path)


def test_other_columns_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected columns query_id string, passage_id string"):
        write_trec(RUN.drop(["rank"]), tmp_path / "run", tag="x")
