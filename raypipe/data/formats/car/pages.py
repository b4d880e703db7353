"""Topics of an outline or page, and the automatic judgements of a page, at three levels.

The paragraphs of a section are relevant for it. Source: TREC CAR 2017's automatic judgements, which
`qrels.*.txt` of the collection test200 repeat.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from raypipe.data.formats.car.paragraphs import paragraph_id, text_of
from raypipe.vocabulary import TopicLevel

SECTION, PARAGRAPH, IMAGE, LIST, INFOBOX = range(5)
"""The numbers that the parts of a page begin with."""


class Page(NamedTuple):
    """A page's sections and paragraphs, each under its headings."""

    page_id: str
    sections: list[tuple[str, ...]]
    """The page's id, then the ids of the headings down to each section, in the page's order."""
    paragraphs: list[tuple[tuple[str, ...], str]]
    """The section of each paragraph, and the paragraph's id."""


def parse_page(record: Any) -> Page:
    """The page or outline of a record.

    Raises:
        ValueError: neither page nor outline.
    """
    kinds = [type(each) for each in record] if type(record) is list else []
    if kinds[:2] == [int, bytes]:
        raise ValueError("a paragraph, not a page; name the file of outlines or pages")
    if kinds[:4] != [int, str, bytes, list] or record[0] not in (0, 1):
        raise ValueError("not a page: expected 0, a name, an id and a list")
    page = Page(text_of(record[2], "page id"), [], [])
    _add(page, (page.page_id,), record[3])
    return page


def topics(page: Page, level: TopicLevel) -> Iterator[str]:
    """The ids of a page's topics; one may be repeated, as headings are.

    article: the page. top-level: its sections, without those inside them. hierarchical: all
    sections.
    """
    if level == "article":
        yield page.page_id
    for section in page.sections:
        if level == "hierarchical" or (level == "top-level" and len(section) == 2):
            yield "/".join(section)


def judgements(page: Page, level: TopicLevel) -> Iterator[tuple[str, str]]:
    """Topic and paragraph of each automatic judgement.

    article: all paragraphs of the page. top-level: those of the section, and of the sections inside
    it. hierarchical: those of the section alone. A paragraph above all headings is one of the page
    at every level; version 2.0 has such topics, and 1.5 no such paragraphs.
    """
    depths = {"article": 1, "top-level": 2}
    for section, paragraph in page.paragraphs:
        yield "/".join(section[: depths.get(level)]), paragraph


def query_text(topic: str) -> str:
    """The topic's text as a query: without `enwiki:`, and blanks for `%20` and `/`.

    Other escapes stay as they are. Source: the code of Nogueira & Cho 2019.
    """
    return topic.replace("enwiki:", "").replace("%20", " ").replace("/", " ")


def _add(page: Page, section: tuple[str, ...], parts: list[Any]) -> None:
    for part in parts:
        kinds = [type(each) for each in part] if type(part) is list else []
        if kinds == [int, str, bytes, list] and part[0] == SECTION:
            inner = (*section, text_of(part[2], "heading id"))
            page.sections.append(inner)
            _add(page, inner, part[3])
        elif kinds == [int, list] and part[0] == PARAGRAPH:
            page.paragraphs.append((section, paragraph_id(part[1])))
        elif kinds == [int, int, list] and part[0] == LIST:
            page.paragraphs.append((section, paragraph_id(part[2])))
        elif kinds == [int, str, list] and part[0] == IMAGE:
            _add(page, section, part[2])
        elif kinds[:1] != [int] or part[0] != INFOBOX:
            raise ValueError("a part of the page is no section, paragraph, list, image or infobox")
