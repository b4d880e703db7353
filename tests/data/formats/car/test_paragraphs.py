import io

import pytest
from car_files import fixed, link, name, number, page, paragraph, text, unknown, words

from raypipe.data.formats.car import paragraph_id, read_items, with_blanks, without_blanks


def record(data):
    (item,) = read_items(io.BytesIO(data), name="file", kind="paragraphs")
    return item


LINKED = paragraph("p1", words("see "), link("New York", "History"), words(", or"), link("Rome"))


def test_the_parts_of_a_text_are_joined_by_a_blank_or_by_nothing():
    assert with_blanks(record(LINKED)) == ("p1", "see  New York , or Rome")
    assert without_blanks(record(LINKED)) == ("p1", "see New York, orRome")
    assert with_blanks(record(paragraph("p"))) == ("p", "")
    assert with_blanks(record(paragraph("p", words("a\n\tb ")))) == ("p", "a\n\tb ")


@pytest.mark.parametrize(
    "data",
    [
        number(7),
        text("x"),
        fixed(),
        fixed(number(0), name("p")),
        fixed(number(1), name("p"), unknown([])),
        fixed(number(0), text("p"), unknown([])),
        fixed(number(0), name("p"), text("x")),
        fixed(number(0), name("p"), unknown([]), number(1)),
    ],
)
def test_what_is_no_paragraph_is_refused(data):
    with pytest.raises(ValueError, match="^not a paragraph: expected 0, an id and a list$"):
        with_blanks(record(data))


def test_a_page_is_told_from_a_paragraph():
    with pytest.raises(ValueError, match="a page, not a paragraph; name the file of paragraphs"):
        paragraph_id(record(page("p")).value)


@pytest.mark.parametrize(
    "part",
    [
        number(0),
        fixed(number(0)),
        fixed(number(2), text("x")),
        fixed(number(0), number(1)),
        fixed(number(0), fixed(text("x"))),
        fixed(number(1), text("x")),
        fixed(number(1), fixed(number(0), text("x"))),
        fixed(number(0), text("x"), text("y")),
    ],
)
def test_a_part_that_is_neither_text_nor_link_is_told_by_its_number(part):
    with pytest.raises(ValueError, match="^part 2 of the paragraph is neither text nor a link$"):
        with_blanks(record(paragraph("p", words("x"), part)))


def test_an_id_must_be_one():
    with pytest.raises(ValueError, match="white space or a control character in the paragraph id"):
        with_blanks(record(paragraph("a b")))
    with pytest.raises(ValueError, match="empty paragraph id"):
        with_blanks(record(paragraph("")))
    with pytest.raises(UnicodeDecodeError):
        with_blanks(record(paragraph(b"\xff")))
