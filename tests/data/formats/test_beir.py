import json

import pytest

from raypipe.data.formats.json_lines import parse_beir


def as_line(**fields) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"title": "T", "text": "x"}, "T x"),
        ({"title": "", "text": "x"}, "x"),
        ({"title": None, "text": "x"}, "x"),
        ({"text": " x "}, " x "),
        ({"title": "T", "text": ""}, "T "),
    ],
)
def test_beir_puts_a_title_that_is_there_before_the_text(fields, text):
    assert parse_beir(as_line(_id="d1", **fields)) == ("d1", text)
