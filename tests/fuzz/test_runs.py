"""Mutants of run files are refused in words, or read line by line exactly."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzzing import fuzz, many, read_or_refused
from mutants_of import mutants_of, unpacked

from raypipe.evaluation.run_files.forms import form_of
from raypipe.evaluation.run_files.runs import NotInPartsError, read_parts, read_run
from raypipe.leaderboard.rules import read_run_lines

TREC = b"""q1 Q0 p1 1 9.5 tag
q1 Q0 p2 2 8 tag
q1 Q0 p\xc3\xa9 3 8 tag
2 Q0 p1 1 -1.25e-3 tag
2 Q0 7 2 -2 tag
q3\tQ0\tp9\t1\t0.5\ttag
"""
MSMARCO = b"q1\tp1\t1\nq1\tp2\t2\nq1\tp3\t3\n2\tp1\t1\n2\t7\t2\n3\tp9\t1\n"
TOP1000 = b"""1\tp1\tfirst query\ta text
2\tp1\tsecond "query"\ta text
1\tp2\tfirst query\tb\xe2\x80\xa8c
2\tp4\tsecond "query"\t\xc2\x85 d
"""
SCORED = b"q1\tp1\t9\nq1\tp2\t8.5\nq1\tp3\t7\n2\tp1\t1\n"
COLBERT = b"q1\tp1\t1\t9.5\nq1\tp2\t2\t8\n2\tp1\t1\t30\n2\t7\t2\t-3\n"
TEXTS = {
    "trec": TREC,
    "msmarco": MSMARCO,
    "scored": SCORED,
    "colbert": COLBERT,
    "top1000": TOP1000,
}


def simple_lines(plain, form):
    """(query, passage) of each line that is neither empty nor a comment, and any scores."""
    kept = [
        line
        for line in plain.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        if line.split() and not line.lstrip().startswith(b"#")
    ]
    if form == "top1000":
        return [tuple(part.decode() for part in line.split(b"\t")[:2]) for line in kept], {}
    passage, score, columns = {
        "trec": (2, 4, 6),
        "msmarco": (1, None, 3),
        "scored": (1, 2, 3),
        "unordered": (1, None, 3),
        "colbert": (1, 3, 4),
    }[form]
    words = [line.split() for line in kept]
    assert all(len(row) == columns or (form == "trec" and len(row) > columns) for row in words)
    rows = [(row[0].decode(), row[passage].decode()) for row in words]
    scores = [] if score is None else [np.float32(float(row[score])) for row in words]
    return rows, dict(zip(rows, scores, strict=False))


def check_table(table, rows, scores):
    pairs = list(zip(table["query_id"].to_pylist(), table["passage_id"].to_pylist(), strict=True))
    assert sorted(pairs) == sorted(rows)
    assert list(dict.fromkeys(query for query, _ in pairs)) == list(
        dict.fromkeys(q for q, _ in rows)
    )
    for pair, score in zip(pairs, table["score"].to_pylist() if scores else (), strict=False):
        assert score == scores[pair]


def in_parts(path):
    try:
        return pa.concat_tables(read_parts(path, num_lines=2))
    except NotInPartsError:
        return None


def check(path, data):
    path.write_bytes(data)
    table, refused = read_or_refused(lambda: read_run(path))
    parts, _ = read_or_refused(lambda: in_parts(path))
    lines, refused_lines = read_or_refused(lambda: read_run_lines(path))
    if refused_lines is None:
        assert len(lines.rank) == len(lines.queries.codes) == len(lines.passages.codes)
        read_or_refused(lines.rankings)
    if refused is not None:
        assert parts is None
        assert str(path) in refused
        return False
    check_table(table, *simple_lines(unpacked(data), form_of(path)))
    assert parts is None or parts.equals(table)
    assert len(lines.rank) == len(table)
    return True


@many
@pytest.mark.parametrize("form", TEXTS)
def test_a_changed_text_run_is_read_line_by_line_or_refused(form, num_mutants, tmp_path):
    path = tmp_path / "a.run"
    others = [text for name, text in TEXTS.items() if name != form]
    mutants = mutants_of(TEXTS[form], TEXTS[form], TEXTS[form], *others)
    known = [b"\xf1" + TEXTS[form], TEXTS[form].replace(b"p2", b"\xff")]
    fuzz(mutants, lambda data: check(path, data), num_mutants, known=known)


@many
def test_a_changed_compressed_run_is_read_line_by_line_or_refused(num_mutants, tmp_path):
    path = tmp_path / "a.run.gz"
    fuzz(mutants_of(TREC, MSMARCO, packed=True), lambda data: check(path, data), num_mutants)


def parquet_bytes(**columns):
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), stream, write_page_checksum=True)
    return stream.getvalue().to_pybytes()


QUERIES, PASSAGES, SCORES = ["q", "q", "r"], ["p1", "p2", "p1"], [2.0, 1.0, 3.0]


@many
def test_a_changed_parquet_run_is_read_row_by_row_or_refused(num_mutants, tmp_path):
    path = tmp_path / "a.parquet"
    rows = list(zip(QUERIES, PASSAGES, strict=True))
    files = [
        parquet_bytes(query_id=QUERIES, passage_id=PASSAGES, score=SCORES),
        parquet_bytes(query_id=QUERIES, passage_id=PASSAGES, score=SCORES, rank=[1, 2, 1]),
        parquet_bytes(query_id=[1, 2, 3], passage_id=[4, 5, 6], score=[1, 2, 3]),
    ]

    def check_parquet(data):
        path.write_bytes(data)
        table, refused = read_or_refused(lambda: read_run(path))
        read_or_refused(lambda: read_run_lines(path))
        assert refused is not None or len(table) == len(rows)
        return refused is None

    fuzz(mutants_of(*files), check_parquet, num_mutants)


WRONG = {
    "binary": pa.array([b"\xff", b"b", b"c"], pa.binary()),
    "nulls": pa.array([None, "b", "c"], pa.string()),
    "lists": pa.array([["a"], ["b"], ["c"]]),
    "structs": pa.array([{"a": 1}, {"a": 2}, {"a": 3}]),
    "texts": pa.array(["a", "b", "c"]),
    "large": pa.array([2**63, 1, 2], pa.uint64()),
    "booleans": pa.array([True, False, True]),
    "decimals": pa.array([1, 2, 3], pa.decimal128(5, 2)),
    "times": pa.array([1, 2, 3], pa.timestamp("ns")),
    "half": pa.array(np.array([1, 2, 3], np.float16)),
    "nan": pa.array([float("nan"), 1.0, 2.0]),
    "infinite": pa.array([float("inf"), 1e300, 2.0]),
    "dictionary": pa.array(["a", "b", "c"]).dictionary_encode(),
    "empty": pa.array(["", "b", "c"]),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("column", ["query_id", "passage_id", "score", "rank"])
@pytest.mark.parametrize("kind", WRONG)
def test_a_parquet_run_with_a_column_of_another_type_is_read_or_refused(kind, column, tmp_path):
    path = tmp_path / "a.parquet"
    columns = {"query_id": QUERIES, "passage_id": PASSAGES, "score": SCORES, "rank": [1, 2, 1]}
    path.write_bytes(parquet_bytes(**{**columns, column: WRONG[kind]}))
    table, refused = read_or_refused(lambda: read_run(path))
    assert (table is None) != (refused is None)
    assert table is None or len(table) == 3
