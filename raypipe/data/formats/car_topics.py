"""TREC CAR's topics and automatic judgements as ordinary files of queries and qrels.

They are those of an outline or page, at three levels; the paragraphs of a section are relevant for
it. Source: TREC CAR 2017's automatic judgements, which `qrels.*.txt` of the collection test200
repeat.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from raypipe.data.formats.car import Kind, paragraph_id, read_items, text_of
from raypipe.data.qrels import read_qrels
from raypipe.data.records import Problems
from raypipe.errors import InputError
from raypipe.storage.compression import open_binary
from raypipe.storage.files import replacing
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


Found = TypeVar("Found")


def write_topics(outlines: Sequence[Path], level: TopicLevel, target: Path) -> int:
    """The number of topics, written as id TAB query text in the order of the files.

    A heading that a page has twice is one topic.

    Raises:
        InputError: damaged files, records that are no outlines, or no topics.
    """
    ids = _of_pages(outlines, "outlines", lambda page: topics(page, level))
    return _write(target, map(_topic_line, ids), f"{_named(outlines)}: no {level} topics")


def write_judged_topics(qrels: Path, target: Path) -> int:
    """The number of topics with judgements, written as id TAB query text in the qrels' order.

    Raises:
        InputError: invalid lines.
    """
    query_ids = dict.fromkeys(read_qrels(qrels)["query_id"].to_pylist())
    return _write(target, map(_topic_line, query_ids), f"{qrels}: no topics")


def write_judgements(pages: Sequence[Path], level: TopicLevel, target: Path) -> int:
    """The number of automatic judgements, written as TREC's four columns, each with grade 1.

    A paragraph that a section has twice is judged once.

    Raises:
        InputError: damaged files, records that are no pages, or no paragraphs under topics.
    """
    pairs = _of_pages(pages, "pages", lambda page: judgements(page, level))
    lines = (f"{topic} 0 {paragraph} 1\n" for topic, paragraph in pairs)
    return _write(target, lines, f"{_named(pages)}: no paragraphs in the pages; are they outlines?")


def write_released(qrels: Sequence[Path], target: Path) -> int:
    """The number of released judgements, written as TREC's four columns, one file after another.

    Raises:
        InputError: invalid lines.
    """
    lines = (
        f"{row['query_id']} 0 {row['passage_id']} {row['relevance']}\n"
        for path in qrels
        for batch in read_qrels(path).to_batches()
        for row in batch.to_pylist()
    )
    return _write(target, lines, f"{_named(qrels)}: no judgements")


def _topic_line(topic: str) -> str:
    return f"{topic}\t{query_text(topic)}\n"


def _write(target: Path, lines: Iterable[str], none: str) -> int:
    count = 0
    with replacing(target) as file:
        for line in lines:
            file.write(line.encode())
            count += 1
        if not count:
            raise InputError(none)
    return count


def _of_pages(
    files: Sequence[Path], kind: Kind, of_page: Callable[[Page], Iterator[Found]]
) -> Iterator[Found]:
    """The results of each page without repetitions; a page that is there twice has them twice."""
    problems = Problems()
    for path in files:
        with open_binary(path) as stream:
            for number, item in enumerate(read_items(stream, name=str(path), kind=kind), 1):
                try:
                    page = parse_page(item.value)
                except ValueError as error:
                    problems.add(f"{path}: record {number:,}, at byte {item.offset:,}: {error}")
                    continue
                yield from dict.fromkeys(of_page(page))
    problems.raise_if_any()


def _named(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
