from pathlib import Path
from typing import NamedTuple

import pytest

from raypipe.data.formats.irds import dataset_passages, files, stream
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.storage.compression import is_compressed, open_binary


class Library:
    def __init__(self, without=()):
        self.without = without

    def load(self, name):
        if name != "mini":
            raise KeyError(name)
        return self

    def has_docs(self):
        return "docs" not in self.without

    def docs_iter(self):
        return iter([Doc("a"), Doc("b"), Doc("c")])

    def has_queries(self):
        return "queries" not in self.without

    def queries_iter(self):
        return iter([Query("1"), Query("2")])

    def has_qrels(self):
        return "qrels" not in self.without

    def qrels_iter(self):
        return iter([Judged("1", "a", 2), Judged("2", "b", 0)])


class Judged(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int


class Query:
    def __init__(self, query_id):
        self.query_id = query_id

    def default_text(self):
        return f"query {self.query_id}"


class Doc:
    def __init__(self, doc_id):
        self.doc_id = doc_id

    def default_text(self):
        return f"text {self.doc_id}"


def test_ir_datasets_ids_are_asked_for_and_given_back(monkeypatch):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "ir_datasets", Library())
    assert files([Path("mini"), Path("mini")]) == [Path("mini")] * 2
    assert list(stream(Path("mini"), 1, None)) == [("b", "text b"), ("c", "text c")]
    with pytest.raises(InputError, match="other: ir_datasets has no dataset of this id"):
        files([Path("mini"), Path("other")])
    with pytest.raises(InputError, match="no input named: expected an ir_datasets id"):
        files([])
    monkeypatch.setitem(modules, "ir_datasets", Library(without=["queries", "qrels"]))
    assert files([Path("mini")]) == [Path("mini")]
    monkeypatch.setitem(modules, "ir_datasets", Library(without=["docs"]))
    with pytest.raises(InputError, match="mini: this ir_datasets id has no passages"):
        files([Path("mini")])


def test_a_bad_id_is_named_by_its_record_counted_from_the_first_and_others_come():
    class Bad(Library):
        def docs_iter(self):
            return [Doc("a"), Doc("b b"), Doc("c")]

    found = dataset_passages(Bad(), 1, 3, name="mini")
    assert next(found) == ("c", "text c")
    with pytest.raises(InputError, match="mini: record 2: white space"):
        next(found)


def test_a_data_set_stands_in_the_place_of_queries_and_judgements(monkeypatch):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "ir_datasets", Library())
    assert files([Path("irds:mini")]) == [Path("mini")]
    assert read_queries(Path("irds:mini")) == [("1", "query 1"), ("2", "query 2")]
    judged = [tuple(row.values()) for row in read_qrels(Path("irds:mini")).to_pylist()]
    assert judged == [("1", "a", 2), ("2", "b", 0)]
    for read in (read_queries, read_qrels):
        with pytest.raises(InputError, match="other: ir_datasets has no dataset of this id"):
            read(Path("irds:other"))
    monkeypatch.setitem(modules, "ir_datasets", Library(without=["docs", "qrels"]))
    assert len(read_queries(Path("irds:mini"))) == 2
    with pytest.raises(InputError, match="irds:mini: this ir_datasets id has no judgements"):
        read_qrels(Path("irds:mini"))
    monkeypatch.setitem(modules, "ir_datasets", Library(without=["docs", "queries"]))
    assert len(read_qrels(Path("irds:mini"))) == 2
    with pytest.raises(InputError, match="irds:mini: this ir_datasets id has no queries; name a"):
        read_queries(Path("irds:mini"))


@pytest.mark.parametrize("low", [0x50, 0x5F])
def test_every_skippable_zstd_frame_is_compressed_content(tmp_path, low):
    path = tmp_path / "x"
    path.write_bytes(bytes([low]) + b"\x2a\x4d\x18" + (2).to_bytes(4, "little") + b"no")
    with open_binary(path) as stream:
        assert stream.read() == b""
    for head, packed in ((b"\x4f\x2a\x4d\x18", False), (b"\x60\x2a\x4d\x18", False),
                         (b"BZh91AY&SY", True), (b"BZh9\x17rE8P\x90", True),
                         (b"BZh91AY&SX", False), (b"\x1f\x8b\x08", True),
                         (b"\x1f\x8b\x07", False)):  # fmt: skip
        path.write_bytes(head)
        assert is_compressed(path) == packed


def test_a_stream_that_was_unpacked_closes_its_file(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"text"))
    stream = open_binary(path)
    source = stream.raw._source
    assert stream.readable() and stream.read(2) == b"te"
    stream.close()
    assert source.closed and stream.closed
    seen = []
    plain = open_binary(path, observe=lambda block: seen.append(len(block)))
    raw = plain.raw._source if hasattr(plain.raw, "_source") else plain
    plain.close()
    assert raw.closed
