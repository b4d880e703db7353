"""Mutants of collections and of facts about them are refused in words, or read record by record."""

import io
import json

import cbor2
import pytest
from car_files import (
    fixed,
    head,
    link,
    name,
    page,
    page_2,
    paragraph,
    section,
    text,
    under,
    with_head,
    words,
)
from fuzzing import fuzz, many, read_or_refused
from mutants_of import mutants_of, structures_of, unpacked

from raypipe.data.facts import count_file, from_json, to_json
from raypipe.data.formats.car_topics import write_judgements, write_topics
from raypipe.data.formats.json_lines import in_lines
from raypipe.data.formats.registry import FORMATS
from raypipe.data.reading import Tally, read_records
from raypipe.data.records import BOM, lines
from raypipe.storage.compression import open_binary

FILES = {
    "msmarco-v1": b'0\tfirst "text"\n1\tsecond\ttext\r\n2\t\n'
    b"\xc3\xa9\t \xe2\x80\xa8 third\xc2\x85\n",
    "msmarco-v2": b'{"pid": "msmarco_passage_00_0", "passage": "first \\u00e9"}\n'
    b'{"pid": "msmarco_passage_00_1", "passage": "", "spans": "(0,1)"}\n',
    "beir": b'{"_id": "a", "title": "T", "text": "first"}\n{"_id": "b", "text": "x\\ty"}\n'
    b'{"_id": 7, "title": null, "text": "y", "metadata": {"url": []}}\n',
    "pyserini": b'{"id": "a", "contents": "first"}\n{"docid": "c", "contents": "\\u2028"}\n',
}
CAR = (
    b"".join(
        paragraph(f"p{n}", words(f"text {n} é"), link("New York", "City"), words("x" * n))
        for n in (0, 30, 300)
    ),
    with_head(2, paragraph("a"), paragraph("b", link("Rome"), words("."))),
)
PAGES = (
    page("enwiki:A%20B", under("p1"), section("One", under("p2"), section("Two", under("p3"))))
    + page_2("C", section("Three", under("p4"))),
    with_head(1, page("D", section("Four"), section("Five"))),
    with_head(0, page_2("E", under("p5"), section("Six", under("p6")))),
)
HOSTILE = [
    head(3, 1 << 62) + b"x",
    head(4, 1 << 62) + b"\0",
    head(5, 1 << 32) + b"\x61a\0",
    b"\x9f" * 10_000,
    b"\x81" * 10_000,
    b"\x9f" + b"\x80" * (1 << 18) + b"\xff",
    b"\x7f" + b"\x61a" * (1 << 18) + b"\xff",
    b"\xd8\x1c\x81\xd8\x1d\x00",
    b"\xc5\x82" + head(0, 1 << 40) + b"\3",
    fixed(text("CAR"), fixed(head(0, 1 << 63)), text("")) + b"\x9f\xff",
    fixed(text("CAR"), b"\xc2" + name(b"\xff" * 4096)) + b"\x9f\xff",
]
"""Sizes that no file has, deep lists, many small things, and tags."""
ID_FIELDS = {"msmarco-v2": ["pid"], "beir": ["_id"], "pyserini": ["id", "_id", "docid"]}


def simple_record(form, line):
    """Id and text of one line, as Python's own reader of JSON gives them."""
    if form == "msmarco-v1":
        name, _, text = line.partition(b"\t")
        return name.decode(), text.decode()
    body = json.loads(line.decode())
    name = next(body[field] for field in ID_FIELDS[form] if field in body)
    if form == "beir":
        title = body.get("title") or ""
        return str(name), f"{title} {body['text']}" if title else body["text"]
    return str(name), body["passage" if form == "msmarco-v2" else "contents"]


def simple_lines(plain):
    """Lines by their ends alone."""
    parts = plain.split(b"\n")
    found = [line.removesuffix(b"\r") for line in (parts if parts[-1] else parts[:-1])]
    return [found[0].removeprefix(BOM).removesuffix(b"\r"), *found[1:]] if found else []


def simple_objects(plain):
    """The objects of a file, each as a line, as Python's own reader of JSON gives them."""
    text = plain.removeprefix(BOM).decode().strip()
    if text.startswith("["):
        return [json.dumps(body).encode() for body in json.loads(text)]
    found, at = [], 0
    while at < len(text):
        body, at = json.JSONDecoder().raw_decode(text, at)
        found.append(json.dumps(body).encode())
        at += len(text) - at - len(text[at:].lstrip())
    return found


def check(path, form, data):
    path.write_bytes(data)
    facts, refused = read_or_refused(lambda: count_file(path, format=form, checkpoint_records=2))
    if refused is not None:
        return False
    whole = form != "msmarco-v1" and not in_lines(path)
    try:
        expected = (simple_objects if whole else simple_lines)(unpacked(data))
    except (ValueError, RecursionError):
        expected = None
    assert whole or facts.num_records == len(expected)
    assert from_json(json.loads(json.dumps(to_json(facts)))) == facts
    stop = facts.num_records

    def read(start, stop, **more):
        return list(read_records(path, format=form, start=start, stop=stop, facts=facts, **more))

    found, refused = read_or_refused(lambda: read(0, stop))
    if refused is None:
        assert found == [simple_record(form, line) for line in expected]
        assert found == [each for row in range(stop) for each in read(row, row + 1)]
    elif whole:
        return False
    tally = Tally()
    replaced, refused = read_or_refused(lambda: read(0, stop, errors="replace", tally=tally))
    assert found is None or replaced == found
    assert refused is not None or len(replaced) == stop
    return found is not None


@many
@pytest.mark.parametrize("form", FILES)
def test_a_changed_collection_is_read_record_by_record_or_refused(form, num_mutants, tmp_path):
    path = tmp_path / "collection"
    others = [file for name, file in FILES.items() if name != form]
    mutants = mutants_of(FILES[form], FILES[form], FILES[form], *others, packed=True)
    fuzz(mutants, lambda data: check(path, form, data), num_mutants)


LAYOUTS = (
    b'[\n{"id": "a", "contents": "]{ a"},\n {"id": 2, "x": [{"y": "}"}], "contents": "\\\\"}]\n',
    b'{\n "id": "a",\n "contents": "first"\n}\n{\n "id": "b", "contents": "\\""\n}',
    b'\xef\xbb\xbf[{"id": "a", "contents": "\xc3\xa9"} , {"_id": "b", "contents": ""}]',
)


@many
def test_changed_objects_that_are_no_lines_are_read_one_by_one_or_refused(num_mutants, tmp_path):
    path = tmp_path / "collection"
    mutants = mutants_of(*LAYOUTS, *LAYOUTS, FILES["pyserini"], packed=True)
    fuzz(mutants, lambda data: check(path, "pyserini", data), num_mutants)


def simple_car(plain):
    """Ids and texts of records, each read with cbor2 where the one before ends."""
    stream, found = io.BytesIO(plain), []
    while plain[stream.tell() : stream.tell() + 1] not in (b"", b"\xff"):
        record = cbor2.load(stream, str_errors="surrogateescape")
        if record[0] == "CAR":
            assert stream.read(1) == b"\x9f"
            continue
        parts = (part if kind == 0 else part[4] for kind, part in record[2])
        found.append((record[1].decode(), " ".join(parts)))
    return found


def check_car(path, data):
    path.write_bytes(data)
    facts, refused = read_or_refused(
        lambda: count_file(path, format="trec-car", checkpoint_records=2)
    )
    if refused is not None:
        return False
    stop = facts.num_records

    def read(start, stop, **more):
        return list(
            read_records(path, format="trec-car", start=start, stop=stop, facts=facts, **more)
        )

    found, refused = read_or_refused(lambda: read(0, stop))
    if refused is None:
        assert found == [each for row in range(stop) for each in read(row, row + 1)]
        assert found == simple_car(unpacked(data))
    replaced, refused = read_or_refused(lambda: read(0, stop, errors="replace"))
    assert found is None or replaced == found
    return found is not None


@pytest.mark.slow
@many
def test_changed_paragraphs_in_cbor_are_read_record_by_record_or_refused(num_mutants, tmp_path):
    path = tmp_path / "collection"
    mutants = mutants_of(*CAR, *CAR, *PAGES, packed=True)
    fuzz(mutants, lambda data: check_car(path, data), num_mutants, known=HOSTILE)


@many
def test_changed_pages_in_cbor_are_topics_and_judgements_or_refused(num_mutants, tmp_path):
    path, target = tmp_path / "pages.cbor", tmp_path / "out"

    def check_pages(data):
        path.write_bytes(data)
        target.unlink(missing_ok=True)
        found, refused = read_or_refused(lambda: write_topics([path], "hierarchical", target))
        assert target.exists() == (refused is None)
        if refused is None:
            ids = [line.split("\t")[0] for line in target.read_text().split("\n")[:-1]]
            assert found == len(ids) and all(ids)
        judged, refused = read_or_refused(lambda: write_judgements([path], "top-level", target))
        if refused is None:
            lines = [line.split(" ") for line in target.read_text().split("\n")[:-1]]
            assert judged == len(lines) and all(len(line) == 4 for line in lines)
        return found is not None

    fuzz(mutants_of(*PAGES, PAGES[0], *CAR), check_pages, num_mutants, known=HOSTILE)


@many
@pytest.mark.parametrize("form", ID_FIELDS)
def test_a_json_line_of_another_structure_is_a_passage_or_a_told_problem(form, num_mutants):
    bodies = [json.loads(line) for line in FILES[form].splitlines()]

    def check_record(body):
        line = json.dumps(body).encode()
        try:
            passage = FORMATS[form].parse(line)
        except ValueError as error:
            assert 0 < len(str(error)) < 1000
            return False
        assert passage == simple_record(form, line)
        return True

    fuzz(structures_of(*bodies), check_record, num_mutants)


@many
def test_lines_are_what_stands_between_newlines_however_the_file_is_packed(num_mutants, tmp_path):
    path = tmp_path / "lines"

    def check_lines(data):
        path.write_bytes(data)

        def read():
            with open_binary(path) as stream:
                return list(lines(stream, name=str(path)))

        found, refused = read_or_refused(read)
        plain = unpacked(data)
        assert refused is not None or found == simple_lines(plain)
        return refused is None

    fuzz(mutants_of(*FILES.values(), packed=True), check_lines, num_mutants)
