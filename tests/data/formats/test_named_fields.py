"""`fields` of a recipe: which of a record's fields are the parts of a passage, in every format."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.data.facts import count_file
from raypipe.data.formats import irds
from raypipe.data.formats.registry import get_format
from raypipe.data.reading import read_parsed
from raypipe.errors import InputError

FIELDS = {"id": "coreId", "title": "name", "body": "abstract"}
NAMES = ("text", "coreId", "abstract", "Name")
ROWS = [
    ("not read", "11", "about snow", "Winter"),
    ("not read", "12", "", "Title alone"),
    ("not read", "13", "text alone", ""),
]
PASSAGES = [("11", "Winter about snow"), ("12", "Title alone"), ("13", "text alone")]


def write_csv(path, separator):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([NAMES, *ROWS])


def write_jsonl(path):
    names = ("text", "coreId", "abstract", "name")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS]
    path.write_text("".join(lines))


def write_parquet(path, rows=ROWS):
    pq.write_table(pa.table(list(map(pa.array, zip(*rows, strict=True))), names=NAMES), path)


def passages(path, form, fields=FIELDS, start=0, every=2):
    kind = get_format(form, fields)
    (file,) = kind.files([path])
    facts = count_file(file, format=form, fields=fields, checkpoint_records=every)
    span = {"start": start, "stop": facts.num_records, "facts": facts}
    return list(read_parsed(file, kind.parse, split=kind.split, **span))


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "parquet"])
def test_a_passage_is_title_and_body_of_the_fields_that_are_named(tmp_path, form):
    path = tmp_path / f"papers.{form}"
    if form == "jsonl":
        write_jsonl(path)
    elif form == "parquet":
        write_parquet(path)
    else:
        write_csv(path, "," if form == "csv" else "\t")
    read_as = "csv" if form == "tsv" else form
    assert passages(path, read_as) == PASSAGES
    assert passages(path, read_as, start=2) == PASSAGES[2:]
    body = {"id": "coreId", "body": "abstract"}
    assert passages(path, read_as, body)[0] == ("11", "about snow")


@pytest.mark.parametrize("names", [["Docno", "docno", "abs"], ["docno", "Docno", "abs"]])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_of_columns_that_differ_in_capitals_the_one_that_is_named_is_read(tmp_path, form, names):
    path = tmp_path / f"two.{form}"
    if form == "csv":
        path.write_text(",".join(names) + "\n" + ",".join(names) + "\n")
    else:
        pq.write_table(pa.table({name: [name] for name in names}), path)
    for name in ("docno", "Docno"):
        assert passages(path, form, {"id": name, "body": "ABS"}) == [(name, "abs")]


def test_a_column_that_is_named_and_missing_is_refused_with_the_file(tmp_path):
    write_parquet(tmp_path / "p.parquet")
    write_csv(tmp_path / "p.csv", ",")
    write_jsonl(tmp_path / "p.jsonl")
    fields = {**FIELDS, "title": "heading"}
    with pytest.raises(InputError, match=r"p\.parquet: .*; missing heading; found"):
        passages(tmp_path / "p.parquet", "parquet", fields)
    with pytest.raises(InputError, match=r"p\.csv: line 1: .* with coreId, heading, abstract"):
        passages(tmp_path / "p.csv", "csv", fields)
    with pytest.raises(InputError, match=r'p\.jsonl: line 1: expected a field "heading"'):
        passages(tmp_path / "p.jsonl", "jsonl", fields)


def test_null_is_an_empty_part_only_beside_a_title(tmp_path):
    rows = [("", "11", None, "Winter"), ("", "12", "snow", None)]
    write_parquet(tmp_path / "p.parquet", rows)
    line = [{"coreId": name, "name": title, "abstract": body} for _, name, body, title in rows]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(each) + "\n" for each in line))
    for form in ("parquet", "jsonl"):
        path = tmp_path / f"p.{form}"
        assert passages(path, form) == [("11", "Winter"), ("12", "snow")]
        with pytest.raises(InputError, match="null|expected a string"):
            passages(path, form, {"id": "coreId", "body": "abstract"})


class Paper:
    _fields = ("doc_id", "title", "abstract")

    def __init__(self, doc_id, title, abstract):
        self.doc_id, self.title, self.abstract = doc_id, title, abstract

    def default_text(self):
        return "never read"


def test_records_of_ir_datasets_are_read_by_the_fields_that_are_named():
    papers = [Paper("11", "Winter", None), Paper("12", None, "snow")]
    dataset = type("Dataset", (), {"docs_iter": lambda self: papers})()

    def read(**fields):
        return list(irds.dataset_passages(dataset, 0, None, name="mini", fields=fields))

    assert read(id="doc_id", title="title", body="abstract") == [("11", "Winter"), ("12", "snow")]
    with pytest.raises(InputError, match="record 1: expected a field text, found doc_id, title"):
        read(id="doc_id", body="text")
    papers[0].abstract = ["a", "list"]
    with pytest.raises(InputError, match=r"record 1: expected a text in abstract, found \['a'"):
        read(id="doc_id", body="abstract")
