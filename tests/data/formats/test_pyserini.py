import json

import pytest

from raypipe.data.formats.json_lines import parse_pyserini


def as_line(**fields) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize("field", ["id", "_id", "docid"])
def test_pyserini_takes_any_of_its_three_id_fields(field):
    assert parse_pyserini(as_line(contents="a\nb", **{field: "x"})) == ("x", "a\nb")


def test_an_integer_id_becomes_a_string():
    assert parse_pyserini(b'{"id": 12, "contents": "x"}') == ("12", "x")


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (b"", "found an empty line; delete it"),
        (b"{'id': 1}", "not valid JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"contents": "x"}', 'expected a field "id" or "_id" or "docid", found \'contents\''),
        (b'{"id": "1"}', "expected a field \"contents\", found 'id'"),
        (b'{"id": "1", "contents": null}', 'expected a string in "contents", found None'),
        (b'{"id": 1.5, "contents": "x"}', 'whole number in "id", found 1.5; pandas makes'),
        (b'{"id": true, "contents": "x"}', 'expected a string in "id", found True'),
        (b'{"id": "", "contents": "x"}', "empty id"),
        (b'{"id": "a\\tb", "contents": "x"}', "white space"),
        (b'{"id":"1","contents":"x"}{"id":"2","contents":"y"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_json_records_say_what_was_expected_and_found(record, cause):
    with pytest.raises(ValueError) as caught:
        parse_pyserini(record)
    assert cause in str(caught.value) and len(str(caught.value)) < 250


def test_json_with_nul_bytes_is_not_taken_for_utf16():
    with pytest.raises(ValueError, match="not valid JSON"):
        parse_pyserini(b'{\0"\0i\0d\0"\0:\0')
