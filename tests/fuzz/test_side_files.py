"""Mutants of queries, qrels, candidates and triples are refused in words, or read exactly."""

import json

import numpy as np
from fuzzing import fuzz, many, read_or_refused
from mutants_of import mutants_of, unpacked

from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.data.triple_texts import FILES, split_triples
from raypipe.training.guard import Dropped, Guard
from raypipe.training.judgements import triple_examples

QUERIES = (
    b'1\twhat is a "lease"\n2\t\n\xc3\xa9\ttwo\ttabs\r\n',
    b'{"_id": "a", "text": "one"}\n{"qid": 7, "text": "two\\u2028"}\n',
)
QRELS = (
    b"1 0 p1 1\n1 0 p2 0\n2\t0\tp1\t-2\n\n2 Q0 p3 3\r\n",
    b"query-id\tcorpus-id\tscore\nq1\tp1\t1\nq1\tp2\t0\n",
)
CANDIDATES = b"1\tp1\tone query\ta text\n2\tp1\ttwo\ta text\n1\tp2\tone query\tb\tc\n"
TEXT_TRIPLES = b"one\ta text\tb text\ntwo\tb text\tc\nsame\ta text\tc\r\n"
ID_TRIPLES = b"1\t0\t1\n2\t1\t2\n1 2 0\n"


def stripped(plain):
    """Lines by their ends alone, without a byte order mark and a carriage return."""
    found = plain.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r") for line in (found if found[-1] else found[:-1])]


def simple_query(line, columns, as_json):
    if columns:
        first, _, text, _ = line.split(b"\t", 3)
        return first.decode(), text.decode()
    if as_json:
        body = json.loads(line.decode())
        name = next(body[f] for f in ("_id", "id", "query_id", "qid") if f in body)
        return str(name), body["text"]
    name, _, text = line.partition(b"\t")
    return name.decode(), text.decode()


@many
def test_changed_queries_are_read_line_by_line_or_refused(num_mutants, tmp_path):
    path = tmp_path / "queries"

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read_queries(path))
        if refused is None:
            lines = stripped(unpacked(data))  # of which the first says the form of all
            as_json = lines[0].startswith(b"{")
            assert found == [simple_query(line, False, as_json) for line in lines]
        return refused is None

    fuzz(mutants_of(*QUERIES, packed=True), check, num_mutants)


@many
def test_changed_candidates_give_each_query_once_or_are_refused(num_mutants, tmp_path):
    path = tmp_path / "top1000.dev"

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read_queries(path))
        if refused is None:
            lines = stripped(unpacked(data))
            as_json = lines[0].startswith(b"{")
            expected = [simple_query(line, not as_json, as_json) for line in lines]
            assert found == list(dict.fromkeys(expected))
        return refused is None

    fuzz(mutants_of(CANDIDATES, CANDIDATES, QUERIES[0], packed=True), check, num_mutants)


@many
def test_changed_qrels_are_read_line_by_line_or_refused(num_mutants, tmp_path):
    path = tmp_path / "qrels"

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read_qrels(path))
        if refused is not None:
            return False
        rows = [line.split() for line in stripped(unpacked(data)) if line.split()]
        rows = rows[1:] if len(rows[0]) == 3 else rows
        assert not any(b"_" in row[-1] for row in rows), "no digits with _ between them"
        expected = {(row[0].decode(), row[-2].decode()): int(row[-1]) for row in rows}
        columns = (found[name].to_pylist() for name in found.column_names)
        assert [((q, p), g) for q, p, g in zip(*columns, strict=True)] == list(expected.items())
        return True

    known = [b"1 0 p1 1_0\n", b"1 0 p1 _\n"]
    fuzz(mutants_of(*QRELS, packed=True), check, num_mutants, known=known)


@many
def test_changed_triples_of_texts_are_split_line_by_line_or_refused(num_mutants, tmp_path):
    path, out = tmp_path / "triples", tmp_path / "out"

    def texts(name):
        rows = (out / name).read_bytes().split(b"\n")[:-1]
        return dict(row.split(b"\t", 1) for row in rows)

    def check(data):
        path.write_bytes(data)
        number, refused = read_or_refused(lambda: split_triples(path, out))
        if refused is not None:
            return False
        expected = [tuple(line.split(b"\t")) for line in stripped(unpacked(data))]
        assert number == len(expected)
        passages, queries, triples = (texts(name) if name != FILES[2] else None for name in FILES)
        rows = [row.split(b"\t") for row in (out / FILES[2]).read_bytes().split(b"\n")[:-1]]
        assert triples is None
        assert [(queries[q], passages[a], passages[b]) for q, a, b in rows] == expected
        return True

    fuzz(mutants_of(TEXT_TRIPLES, packed=True), check, num_mutants)


@many
def test_changed_triples_of_ids_are_read_line_by_line_or_refused(num_mutants, tmp_path):
    path = tmp_path / "triples"
    queries, passages = {"1": 0, "2": 1}, {"0": 0, "1": 1, "2": 2}
    nobody = Guard()

    def rows_of(ids):
        return np.array([passages.get(each, -1) for each in ids], np.int64)

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(
            lambda: triple_examples(
                path, queries, rows_of, set(), nobody, Dropped(), tmp_path, lambda: None
            )
        )
        if refused is None:
            rows = [[part.decode() for part in line.split()] for line in stripped(unpacked(data))]
            assert found.query_rows.tolist() == [queries[q] for q, _, _ in rows]
            assert found.passage_rows.tolist() == [[passages[a], passages[b]] for _, a, b in rows]
        return refused is None

    known = [b"[" * 40_000 + b"\t0\t1\n", b"\xef\xbb\xbf" + ID_TRIPLES]
    fuzz(mutants_of(ID_TRIPLES, packed=True), check, num_mutants, known=known)


def test_triples_without_a_line_end_are_refused_before_they_fill_the_memory(tmp_path):
    path = tmp_path / "triples"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    nobody = Guard()

    def no_rows(ids):
        return np.empty(0, np.int64)

    for read in (
        lambda: split_triples(path, tmp_path / "out"),
        lambda: triple_examples(
            path, {}, no_rows, set(), nobody, Dropped(), tmp_path, lambda: None
        ),
    ):
        _, refused = read_or_refused(read, most_bytes=256 << 20)
        assert "line 1: longer than" in refused
