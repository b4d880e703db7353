"""CSV collections: any range of records, read from a checkpoint, is that of the whole file."""

import csv
import gzip
import io

import pytest

from raypipe.data.facts import count_file
from raypipe.data.formats.tables import csv_files
from raypipe.data.reading import read_records
from raypipe.errors import CorruptError, InputError

TEXTS = [
    "plain",
    'a "quote"',
    "two\nlines",
    "comma, here",
    "",
    'end"\n\n"',
    "\u00e9\u2028x",
    "\r\n",
]
ROWS = [(f"d{n}", f"t{n % 3}" if n % 3 else "", TEXTS[n % len(TEXTS)]) for n in range(57)]
EXPECTED = [(name, f"{title} {text}" if title else text) for name, title, text in ROWS]


def written(separator=",", end="\n", names=("docno", "title", "text")):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=end)
    writer.writerow(names)
    writer.writerows(ROWS)
    return out.getvalue().encode()


def read(path, start=0, stop=None, every=7):
    facts = count_file(path, format="csv", checkpoint_records=every)
    stop = facts.num_records if stop is None else stop
    return list(read_records(path, format="csv", start=start, stop=stop, facts=facts))


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [5, 64, 1 << 20])
def test_every_range_is_that_of_the_whole_file(tmp_path, monkeypatch, separator, end, block):
    monkeypatch.setattr("raypipe.data.records.CHUNK_BYTES", block)
    path = tmp_path / "passages.csv"
    path.write_bytes(b"\xef\xbb\xbf" + written(separator, end))
    assert read(path) == EXPECTED
    for start, stop in [(0, 1), (6, 8), (7, 14), (20, 57), (56, 57), (9, 9)]:
        assert read(path, start, stop) == EXPECTED[start:stop]
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(written(separator, end)))
    assert read(tmp_path / "packed.csv.gz", 20, 30) == EXPECTED[20:30]


def test_between_tabs_a_record_is_a_line_and_quotes_are_text(tmp_path):
    path = tmp_path / "passages.tsv"
    path.write_text('text\tid\n"a\tp1\nb"\tp2\n' + "".join(f"x\tq{n}\n" for n in range(20)))
    assert read(path)[:2] == [("p1", '"a'), ("p2", 'b"')] and len(read(path)) == 22
    assert read(path, 21, 22) == [("q19", "x")]


def test_a_file_without_a_last_newline_or_with_a_header_alone(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("id,text\n1,a")
    assert read(path) == [("1", "a")]
    for content in ("id,text\n", "id,text"):
        path.write_text(content)
        assert read(path) == []


def test_columns_have_any_name_and_others_are_not_read(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("url,Contents,docid,docno\nhttp://x,a,5,D1\n")
    assert read(path) == [("D1", "a")]


def test_a_long_text_is_no_error(tmp_path):
    (tmp_path / "p.csv").write_text(f'id,text\n1,"{"x" * 200_000}"\n')
    assert len(read(tmp_path / "p.csv")[0][1]) == 200_000


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("1\n", "record 1: expected the columns id, text, found 1 columns"),
        ("1,a,b\n", "record 1: expected the columns id, text, found 3 columns"),
        ("1 2,a\n", "record 1: white space or a control character"),
        (",a\n", "record 1: empty id"),
        ('1,5" pipe\n2,6" pipe\n', "record 1: not CSV: "),
        ('1,"a\n2,b\n3,c\n', "record 1: not CSV: unexpected end of data; a text in quotes ends"),
        ('1,"a" b\n2,c\n', "record 1: not CSV: ',' expected after '\"'; a text in quotes ends"),
    ],
)
def test_a_bad_record_is_named_by_its_number(tmp_path, rows, told):
    (tmp_path / "p.csv").write_text("id,text\n" + rows)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "p.csv")
    assert f"p.csv: {told}" in str(caught.value)


def test_a_header_without_an_id_or_a_text_is_refused_before_the_file_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("1,some text\n")
    (tmp_path / "b.csv").write_text("docno,url\n1,x\n")
    with pytest.raises(InputError) as caught:
        csv_files([tmp_path])
    assert len(caught.value.problems) == 2
    assert "a.csv: line 1: expected a first line that names an id and a text" in str(caught.value)


def test_a_header_that_is_lost_before_the_file_is_counted_is_refused_too(tmp_path):
    (tmp_path / "a.csv").write_text("1,some text\n")
    with pytest.raises(InputError, match=r"a.csv: line 1: expected a first line that names an id"):
        count_file(tmp_path / "a.csv", format="csv")


def test_a_file_that_changes_after_it_was_counted_is_refused(tmp_path):
    path = tmp_path / "p.csv"
    path.write_bytes(written())
    facts = count_file(path, format="csv", checkpoint_records=7)
    path.write_bytes(written().replace(b"d30", b"e30"))
    assert len(list(read_records(path, format="csv", start=0, stop=7, facts=facts))) == 7
    with pytest.raises(CorruptError, match="other bytes from byte"):
        list(read_records(path, format="csv", start=28, stop=35, facts=facts))


def test_bytes_that_are_not_utf8_become_a_sign_in_a_text_and_are_refused_in_an_id(tmp_path):
    path = tmp_path / "p.csv"

    def replaced(row):
        path.write_bytes(b"id,text\n" + row)
        facts = count_file(path, format="csv")
        return [*read_records(path, format="csv", start=0, stop=1, facts=facts, errors="replace")]

    assert replaced(b"1,a\xffb\n") == [("1", "a\ufffdb")]
    with pytest.raises(InputError, match="record 1: the id .* is not UTF-8; ids are never"):
        replaced(b"1\xff,a\n")
