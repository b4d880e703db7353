"""Objects of files are checked field by field; the first wrong one is told with its place."""

import pytest

from raypipe.errors import CorruptError
from raypipe.storage.records import Count, Place, Shape, check_shape, fits


class Inner(Shape):
    rows: Count


class Outer(Shape):
    name: Place
    parts: list[Inner]


GOOD = {"name": "bm25.dev", "parts": [{"rows": 0}, {"rows": 2**63 - 1}], "more": None}


def test_an_object_with_every_field_and_more_has_the_shape():
    check_shape("a.json", GOOD, Outer)
    assert fits(GOOD, Outer)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"name": "../etc"}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": 1}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"parts": {}}, "parts"),
        ({"parts": [{"rows": 1}, {"rows": -1}]}, "parts.1.rows"),
        ({"parts": [{"rows": 2**63}]}, "parts.0.rows"),
        ({"parts": [{"rows": True}]}, "parts.0.rows"),
        ({"parts": [{"rows": 1.0}]}, "parts.0.rows"),
        ({"parts": [{}]}, "parts.0.rows"),
    ],
)
def test_the_place_of_the_first_wrong_field_is_told(changed, place):
    body = {**GOOD, **changed}
    assert not fits(body, Outer)
    with pytest.raises(CorruptError, match=f"^a.json: {place}: .*; delete it$"):
        check_shape("a.json", body, Outer, remedy="delete it")


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_what_is_no_object_is_told(body):
    with pytest.raises(CorruptError, match="^a.json: the whole: "):
        check_shape("a.json", body, Outer)
