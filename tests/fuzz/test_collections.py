"""Mutants of collections and of facts about them are refused in words, or read record by record."""

import json

import pytest
from fuzzing import fuzz, many, read_or_refused
from mutants_of import mutants_of, structures_of, unpacked

from raypipe.data.facts import count_file, from_json, to_json
from raypipe.data.files.compression import open_binary
from raypipe.data.files.records import BOM, lines
from raypipe.data.formats.registry import FORMATS
from raypipe.data.reading import Tally, read_records

FILES = {
    "msmarco-v1": b'0\tfirst "text"\n1\tsecond\ttext\r\n2\t\n'
    b"\xc3\xa9\t \xe2\x80\xa8 third\xc2\x85\n",
    "msmarco-v2": b'{"pid": "msmarco_passage_00_0", "passage": "first \\u00e9"}\n'
    b'{"pid": "msmarco_passage_00_1", "passage": "", "spans": "(0,1)"}\n',
    "beir": b'{"_id": "a", "title": "T", "text": "first"}\n{"_id": "b", "text": "x\\ty"}\n'
    b'{"_id": 7, "title": null, "text": "y", "metadata": {"url": []}}\n',
    "pyserini": b'{"id": "a", "contents": "first"}\n{"docid": "c", "contents": "\\u2028"}\n',
}
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


def check(path, form, data):
    path.write_bytes(data)
    facts, refused = read_or_refused(lambda: count_file(path, format=form, checkpoint_records=2))
    if refused is not None:
        return False
    expected = simple_lines(unpacked(data))
    assert facts.num_records == len(expected)
    assert from_json(json.loads(json.dumps(to_json(facts)))) == facts
    stop = facts.num_records

    def read(start, stop, **more):
        return list(read_records(path, format=form, start=start, stop=stop, facts=facts, **more))

    found, refused = read_or_refused(lambda: read(0, stop))
    if refused is None:
        assert found == [simple_record(form, line) for line in expected]
        assert found == [each for row in range(stop) for each in read(row, row + 1)]
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
