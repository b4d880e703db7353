"""Formats, inputs and problems at their bounds."""

import warnings
from pathlib import Path

import pytest

from raypipe.data import facts
from raypipe.data.candidates import parse_candidate
from raypipe.data.facts import FileFacts, count_file
from raypipe.data.files import compression, records
from raypipe.data.files.compression import is_compressed, open_binary
from raypipe.data.files.problems import Problems
from raypipe.data.formats.fields import checked_id, id_and_text, json_id, shown, without_surrogates
from raypipe.data.formats.irds import dataset_passages, files, stream
from raypipe.data.formats.registry import FORMATS, Format
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.data.reading import Tally, read_records
from raypipe.errors import InputError


@pytest.mark.parametrize("num", [0, 1, 9, 10, 11, 1_012])
def test_ten_problems_are_shown_and_the_rest_counted(num):
    problems = Problems()
    for number in range(num):
        problems.add(f"p{number}")
    assert problems.num_problems == num
    if not num:
        problems.raise_if_any()
        return
    with pytest.raises(InputError) as caught:
        problems.raise_if_any()
    more = {11: ["and 1 more problems"], 1_012: ["and 1,002 more problems"]}.get(num, [])
    assert caught.value.problems == [f"p{number}" for number in range(min(num, 10))] + more


def test_a_value_is_shown_up_to_40_characters():
    assert shown("x" * 38) == "'" + "x" * 38 + "'"
    assert shown("x" * 39) == "'" + "x" * 39 + "..."
    assert shown("\u00e9") == "'\\xe9'" and shown(7) == "7"


@pytest.mark.parametrize(
    "bad", ["a\x00", "a\x1f", "\x7f", "\x9f", "\u0085", "\ufeff", "a b", "\u2003"]
)
def test_controls_and_blanks_are_in_no_id(bad):
    with pytest.raises(ValueError, match="white space or a control character in the query id"):
        checked_id(bad, field="query id")


@pytest.mark.parametrize("good", ["a", "\u00a1", "!", "~", "a/b%20c"])
def test_other_characters_may_be_in_an_id(good):
    assert checked_id(good) == good
    with pytest.raises(ValueError, match="empty id"):
        checked_id("")


def test_a_line_without_a_tab_is_shown_at_its_beginning_even_where_it_is_not_utf8():
    with pytest.raises(ValueError, match="found no tab in '\\\\ufffdab'"):
        id_and_text(b"\xffab")
    with pytest.raises(UnicodeDecodeError):
        id_and_text(b"1\t\xff")


def test_the_first_id_field_that_is_there_counts():
    assert json_id({"b": "2", "a": "1"}, "a", "b") == "1"
    assert json_id({"b": 0}, "a", "b") == "0"
    with pytest.raises(ValueError, match='expected a field "a", found no fields'):
        json_id({}, "a")
    with pytest.raises(ValueError, match="found 'k0', .*'k7'$"):
        json_id({f"k{n}": 1 for n in range(9)}, "a")


def test_lone_surrogates_are_replaced_and_pairs_are_not():
    assert without_surrogates("a\ud800b\udc00\U0001f600") == "a\ufffdb\ufffd\U0001f600"


def test_a_candidates_further_tabs_belong_to_the_passage():
    assert parse_candidate(b"q\tp\tthe query\ta\tb") == ("q", "p", "the query")
    assert parse_candidate(b"q\tp\t\t") == ("q", "p", "")
    with pytest.raises(ValueError, match="four tab-separated columns.*found 3 in 'q.tp.tx'"):
        parse_candidate(b"q\tp\tx")
    for bad, field in ((b"\tp\tq\tx", "query id"), (b"q\tp p\tq\tx", "passage id")):
        with pytest.raises(ValueError, match=field):
            parse_candidate(bad)


@pytest.mark.parametrize("grade", [2**31 - 1, 1 - 2**31])
def test_grades_of_32_bits_are_read_and_larger_ones_are_refused(tmp_path, grade):
    path = tmp_path / "q.txt"
    path.write_text(f"1 0 a {grade}\n")
    assert read_qrels(path)["relevance"].to_pylist() == [grade]
    path.write_text(f"1 0 a {grade + (1 if grade > 0 else -2)}\n")
    with pytest.raises(InputError, match="beyond 32 bits"):
        read_qrels(path)


def test_a_header_is_one_in_the_first_line_alone(tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("query-id corpus-id score\nquery-id corpus-id score\n")
    with pytest.raises(InputError, match="line 2: expected an integer grade, found 'score'"):
        read_qrels(path)


def test_queries_are_guessed_by_content_then_name(tmp_path):
    def read(name, text):
        (tmp_path / name).write_text(text)
        return read_queries(tmp_path / name)

    assert read("my.top1000.x", "1\t2\tq\tp\n") == [("1", "q")]
    assert read("top1000.jsonl", '{"qid": "1", "text": "q"}\n') == [("1", "q")]
    assert read("a.json", '{"query_id": "9", "id": "8", "text": ""}') == [("8", "")]
    same = '{"_id": "1", "text": "q"}\n' * 2
    with pytest.raises(
        InputError, match="line 2: query id '1' again with the same text, first in line 1"
    ):
        read("b.jsonl", same)


# ir_datasets, as its documentation describes it


class Library:
    def __init__(self, has_docs=True):
        self.has_docs_ = has_docs

    def load(self, name):
        if name != "mini":
            raise KeyError(name)
        return self

    def has_docs(self):
        return self.has_docs_

    def docs_iter(self):
        return iter([Doc("a"), Doc("b"), Doc("c")])


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
    monkeypatch.setitem(modules, "ir_datasets", Library(has_docs=False))
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


# Facts and reading


def test_a_file_is_counted_with_a_checkpoint_every_100_000_records(tmp_path):
    assert facts.CHECKPOINT_RECORDS == 100_000
    path = tmp_path / "x.tsv"
    path.write_bytes(b"\n" * 100_001)
    found = count_file(path, format="msmarco-v1")
    assert (found.checkpoint_records, found.checkpoints) == (100_000, (0, 100_000))


def test_a_stream_has_facts_over_its_records_with_their_lengths(monkeypatch):
    import hashlib

    def passages(source, start, stop):
        return iter([("a", "\u00e9"), ("bc", "")][start:stop])

    monkeypatch.setitem(FORMATS, "mini", Format(name="mini", files=list, stream=passages))
    content = b"".join(
        len(part).to_bytes(8, "little") + part for part in (b"a", b"\xc3\xa9", b"bc", b"")
    )
    assert count_file(Path("x/mini"), format="mini", checkpoint_records=7) == FileFacts(
        name="x/mini", num_bytes=37, sha256=hashlib.sha256(content).hexdigest(),
        md5=hashlib.md5(content).hexdigest(), num_records=2, compressed=False,
        checkpoint_records=7, checkpoints=(), stretches=(),
    )  # fmt: skip


def test_an_empty_range_reads_nothing_even_of_a_file_that_is_gone(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_bytes(b"1\ta\n2\t \n")
    counted = count_file(path, format="msmarco-v1")
    tally = Tally()
    given = {"format": "msmarco-v1", "facts": counted, "tally": tally}
    assert list(read_records(path, start=1, stop=2, **given)) == [("2", " ")]
    assert tally == Tally(num_replaced=0, num_blank=1)
    path.unlink()
    assert list(read_records(path, start=2, stop=2, **given)) == []


def test_the_bounds_of_what_is_read_at_once():
    assert records.MAX_LINE_BYTES == 64 * 1024 * 1024 and records.CHUNK_BYTES == 1024 * 1024
    assert compression.COMPRESSED_SUFFIXES == (".gz", ".bz2", ".zst")


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


def test_damage_is_told_with_the_byte_reached(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"0123456789") + b"rest")
    with pytest.raises(InputError, match="damaged gzip data after byte 10 of"):
        open_binary(path).read()
    path.write_bytes(gzip.compress(b"x" * 1234)[:-3])
    with pytest.raises(InputError, match="cut off: the gzip data stop after byte 1,234 of"):
        open_binary(path).read()


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


def test_a_bad_id_is_told_with_its_field():
    with pytest.raises(ValueError, match="white space or a control character in the pid 'a b'"):
        json_id({"pid": "a b"}, "pid")


def test_an_empty_file_with_a_compressed_name_is_closed_when_it_is_refused(tmp_path):
    (tmp_path / "x.gz").write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.raises(InputError, match="empty, 0 bytes, which is no .gz file"):
            open_binary(tmp_path / "x.gz")
    held = [path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert tmp_path / "x.gz" not in held


def test_the_file_whose_first_line_is_too_long_is_named(tmp_path, monkeypatch):
    path = tmp_path / "queries.txt"
    path.write_text("1\t" + "x" * 99)
    monkeypatch.setattr(
        records.lines, "__kwdefaults__", {**records.lines.__kwdefaults__, "max_line_bytes": 9}
    )
    with pytest.raises(InputError, match=r"queries\.txt: line 1"):
        read_queries(path)
