import pytest

from raypipe.data.formats.fields import (
    checked_id,
    id_and_text,
    json_id,
    json_object,
    json_text,
    without_surrogates,
)
from raypipe.errors import shown


def test_a_value_is_shown_up_to_60_characters():
    assert shown("x" * 58) == "'" + "x" * 58 + "'"
    assert shown("x" * 59) == "'" + "x" * 59 + "..."
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


@pytest.mark.parametrize(
    "line", ["id\ttext", "qid\tquestion", "PID\tpassage text", "docno\turl\tbody"]
)
def test_a_line_that_names_columns_is_no_passage_and_no_query(line):
    with pytest.raises(ValueError, match="found a header, .*; delete the line"):
        id_and_text(line.encode())


@pytest.mark.parametrize(
    "line", ["id\tReturn the identity of an object.", "id\t42", "ids\ttext", "id\t", "1\ttext"]
)
def test_an_id_that_is_the_name_of_a_column_may_have_a_text(line):
    assert id_and_text(line.encode()) == tuple(line.split("\t"))


def test_the_first_id_field_that_is_there_counts():
    assert json_id({"b": "2", "a": "1"}, "a", "b") == "1"
    assert json_id({"b": 0}, "a", "b") == "0"
    with pytest.raises(ValueError, match='expected a field "a", found no fields'):
        json_id({}, "a")
    with pytest.raises(ValueError, match="found 'k0', .*'k7'$"):
        json_id({f"k{n}": 1 for n in range(9)}, "a")


def test_lone_surrogates_are_replaced_and_pairs_are_not():
    assert without_surrogates("a\ud800b\udc00\U0001f600") == "a\ufffdb\ufffd\U0001f600"


def test_a_bad_id_is_told_with_its_field():
    with pytest.raises(ValueError, match="white space or a control character in the pid 'a b'"):
        json_id({"pid": "a b"}, "pid")


def test_an_id_that_no_index_takes_is_refused_and_shown_cut():
    assert checked_id("x" * 32_000) and checked_id("é" * 16_000)
    for long in ("x" * 32_001, "é" * 16_001):
        with pytest.raises(
            ValueError, match="at most 32,000 bytes in the id, found 32,00"
        ) as caught:
            checked_id(long)
        assert len(str(caught.value)) < 150


def test_a_number_that_is_no_json_is_told_with_the_remedy():
    body = json_object(b'{"title": NaN, "text": 5}')
    with pytest.raises(ValueError, match='in "title", found nan, which is no JSON.*write null'):
        json_text(body, "title")
    with pytest.raises(ValueError, match='in "text", found 5$'):
        json_text(body, "text")
