import io

import pytest
from car_files import (
    fixed,
    name,
    number,
    page,
    page_2,
    paragraph,
    section,
    text,
    under,
    unknown,
    words,
)

from raypipe.data.formats.car import read_items
from raypipe.data.formats.car_topics import judgements, parse_page, query_text, topics


def parsed(data):
    (item,) = read_items(io.BytesIO(data), name="file", kind="pages")
    return parse_page(item.value)


PAGE = page(
    "enwiki:A%20B",
    section("One", under("p1"), section("In%20one", under("p2"), section("Deep", under("p3")))),
    section("Two", section("In%20two", under("p4"), under("p1"))),
    section("Three"),
)


def test_topics_are_pages_their_sections_or_all_sections():
    found = parsed(PAGE)
    assert [*topics(found, "article")] == ["enwiki:A%20B"]
    assert [*topics(found, "top-level")] == [
        "enwiki:A%20B/One", "enwiki:A%20B/Two", "enwiki:A%20B/Three",
    ]  # fmt: skip
    assert [*topics(found, "hierarchical")] == [
        "enwiki:A%20B/One",
        "enwiki:A%20B/One/In%20one",
        "enwiki:A%20B/One/In%20one/Deep",
        "enwiki:A%20B/Two",
        "enwiki:A%20B/Two/In%20two",
        "enwiki:A%20B/Three",
    ]


def test_paragraphs_are_relevant_for_the_page_the_outermost_section_or_their_own():
    found = parsed(PAGE)
    name = "enwiki:A%20B"
    assert [*judgements(found, "article")] == [(name, p) for p in ("p1", "p2", "p3", "p4", "p1")]
    assert [*judgements(found, "top-level")] == [
        (f"{name}/One", "p1"), (f"{name}/One", "p2"), (f"{name}/One", "p3"),
        (f"{name}/Two", "p4"), (f"{name}/Two", "p1"),
    ]  # fmt: skip
    assert [*judgements(found, "hierarchical")] == [
        (f"{name}/One", "p1"),
        (f"{name}/One/In%20one", "p2"),
        (f"{name}/One/In%20one/Deep", "p3"),
        (f"{name}/Two/In%20two", "p4"),
        (f"{name}/Two/In%20two", "p1"),
    ]


def test_a_page_of_version_2_has_lists_images_and_infoboxes_and_paragraphs_above_its_headings():
    body = paragraph("in-list", words("x"))
    image = fixed(number(2), text("x.jpg"), unknown([under("caption")]))
    infobox = fixed(number(4), text("Box"), unknown([]))
    found = parsed(
        page_2("enwiki:A", under("lead"), infobox, section("S", fixed(number(3), number(1), body)),
               section("T", image))
    )  # fmt: skip
    assert [*topics(found, "hierarchical")] == ["enwiki:A/S", "enwiki:A/T"]
    for level in ("top-level", "hierarchical"):
        assert [*judgements(found, level)] == [
            ("enwiki:A", "lead"), ("enwiki:A/S", "in-list"), ("enwiki:A/T", "caption"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "query"),
    [
        ("enwiki:A%20B/In%20one", "A B In one"),
        ("Ch%C3%A2teau/And%2For", "Ch%C3%A2teau And%2For"),
        ("England/Wales%25", "England Wales%25"),
    ],
)
def test_a_query_has_blanks_for_blanks_and_slashes_and_keeps_other_escapes(topic, query):
    assert query_text(topic) == query


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (paragraph("p"), "a paragraph, not a page; name the file of outlines or pages"),
        (number(0), "not a page: expected 0, a name, an id and a list"),
        (fixed(number(2), text("A"), name("A"), unknown([])), "not a page"),
        (fixed(number(0), text("A"), name("A"), text("x")), "not a page"),
        (page("A", number(1)), "a part of the page is no section"),
        (page("A", section("S", fixed(number(0)))), "a part of the page is no section"),
        (page("A", fixed(number(9), text("x"))), "a part of the page is no section"),
        (page("A", fixed(number(1), number(2))), "a part of the page is no section"),
        (page("A", section("S", fixed(number(1), fixed(number(3))))), "not a paragraph"),
        (page("A", section("S T")), "white space or a control character in the heading id"),
        (page("", section("S")), "empty page id"),
    ],
)
def test_what_is_no_page_is_refused(data, problem):
    with pytest.raises(ValueError, match=problem):
        parsed(data)
