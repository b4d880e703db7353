"""Documents from lines: which column or field is what, and nothing is stripped."""

import json

import pytest

from raypipe.data.facts import count_file
from raypipe.data.formats.fields import document_v1
from raypipe.data.formats.registry import FORMATS, get_format
from raypipe.data.reading import Tally, read_parsed


def test_a_line_of_v1_is_docid_url_title_and_a_body_that_keeps_its_tabs_and_blanks():
    line = b"D59219\thttp://x\t title \t body\twith a tab "
    assert document_v1(line) == ("D59219", " title ", "", " body\twith a tab ")


def test_an_empty_title_or_body_of_v1_keeps_the_other_columns_in_place():
    assert document_v1(b"D1\thttp://x\t\t") == ("D1", "", "", "")
    with pytest.raises(ValueError, match="four tab-separated columns.*found 3"):
        document_v1(b"D1\thttp://x\ttitle")
    with pytest.raises(ValueError, match="white space or a control character in the docid"):
        document_v1(b"D 1\tu\tt\tb")


def test_a_line_of_v2_has_five_fields_of_which_the_url_is_not_read():
    parse = get_format("msmarco-doc-v2").document
    fields = {"url": "u", "title": " T", "headings": "H1\nH2\n", "body": "b\n", "docid": "d_1"}
    assert parse(json.dumps(fields).encode()) == ("d_1", " T", "H1\nH2\n", "b\n")
    with pytest.raises(ValueError, match='expected a field "headings"'):
        parse(json.dumps({k: v for k, v in fields.items() if k != "headings"}).encode())
    assert parse(json.dumps({**fields, "title": None}).encode())[1] == ""


def test_json_lines_are_read_by_the_names_given():
    kind = get_format("jsonl", {"id": "key", "body": "text", "document": "page"})
    line = json.dumps({"key": 7, "text": " x ", "title": "never read", "page": "p1"}).encode()
    assert kind.document(line) == ("7", "", "", " x ")
    assert kind.parse(line) == ("7", " x ")
    assert kind.home(line) == ("p1", "")
    with pytest.raises(ValueError, match='expected a string in "text"'):
        kind.document(json.dumps({"key": "a", "text": None}).encode())
    assert get_format("jsonl", {"id": "key", "body": "text"}).home is None
    home = get_format("jsonl", {"id": "i", "body": "b", "document": "d", "spans": "at"}).home
    assert home(b'{"i": "p", "b": "x", "d": "D", "at": "(7,9)"}') == ("D", "(7,9)")


def test_a_passage_of_v2_says_its_document_and_its_spans():
    home = get_format("msmarco-v2").home
    line = {"pid": "p", "passage": "x", "spans": "(0,75),(80,9)", "docid": "msmarco_doc_00_0"}
    assert home(json.dumps(line).encode()) == ("msmarco_doc_00_0", "(0,75),(80,9)")
    assert home(b'{"pid": "p", "passage": "x", "docid": "d"}') == ("d", "")
    for spans in ("[0,75]", "(0,75", "(1,)", f"({'9' * 30},1)", "(0,75) (80,99)"):
        with pytest.raises(ValueError, match=r"expected spans such as \(0,75\),\(80,99\)"):
            home(json.dumps({**line, "spans": spans}).encode())
    with pytest.raises(ValueError, match='expected a field "docid"'):
        home(b'{"pid": "p", "passage": "x"}')


def test_a_folder_gives_the_documents_files_in_natural_order(tmp_path):
    for name in ("msmarco_doc_10.gz", "msmarco_doc_2.gz", "queries.tsv", "msmarco-docs.tsv"):
        (tmp_path / name).touch()
    assert [p.name for p in FORMATS["msmarco-doc-v2"].files([tmp_path])] == [
        "msmarco_doc_2.gz",
        "msmarco_doc_10.gz",
    ]
    assert [p.name for p in FORMATS["msmarco-doc-v1"].files([tmp_path])] == ["msmarco-docs.tsv"]
    (tmp_path / "d.jsonl").touch()
    assert [p.name for p in FORMATS["jsonl"].files([tmp_path])] == ["d.jsonl"]


def test_a_document_is_blank_without_any_text_and_bad_bytes_are_replaced_in_every_field(tmp_path):
    path = tmp_path / "docs.tsv"
    path.write_bytes(b"D1\tu\t \t\t\nD2\tu\tt\xff\tb\xff\n")
    facts, tally = count_file(path, format="msmarco-doc-v1"), Tally()
    options = {"start": 0, "stop": 2, "facts": facts, "errors": "replace", "tally": tally}
    found = list(read_parsed(path, document_v1, **options))
    assert found == [("D1", " ", "", "\t"), ("D2", "t\ufffd", "", "b\ufffd")]
    assert (tally.num_blank, tally.num_replaced) == (1, 1)


@pytest.mark.parametrize(
    ("format", "path", "first", "num"),
    [
        ("msmarco-doc-v2", "medquad-liveqa/docs.jsonl.gz", "ADAM_0000011", 6154),
        ("msmarco-doc-v2", "format-samples/msmarco_v2_doc__docs.json", "msmarco_doc_00_0", None),
    ],
)
def test_real_documents_are_read(raypipe_data, format, path, first, num):
    file = raypipe_data / path
    facts = count_file(file, format=format)
    stop = facts.num_records if num is None else 2
    parse = get_format(format).document
    found = list(read_parsed(file, parse, start=0, stop=stop, facts=facts))
    assert found[0][0] == first and all(found[0])
    assert num in (None, facts.num_records)
