"""TREC CAR's topics and automatic judgements as ordinary files of queries and qrels."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from raypipe.data.files.compression import open_binary
from raypipe.data.files.problems import Problems
from raypipe.data.formats.car.items import Kind, read_items
from raypipe.data.formats.car.pages import Page, judgements, parse_page, query_text, topics
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.storage.files import replacing
from raypipe.vocabulary import TopicLevel

Found = TypeVar("Found")


def write_topics(outlines: Sequence[Path], level: TopicLevel, target: Path) -> int:
    """The number of topics, written as id TAB query text in the order of the files.

    A heading that a page has twice is one topic.

    Raises:
        InputError: damaged files, records that are no outlines, or no topics.
    """
    found = _of_pages(outlines, "outlines", lambda page: topics(page, level))
    return _write(target, map(_topic_line, found), f"{_named(outlines)}: no {level} topics")


def write_judged_topics(qrels: Path, target: Path) -> int:
    """The number of topics with judgements, written as id TAB query text in the qrels' order.

    Raises:
        InputError: invalid lines.
    """
    found = dict.fromkeys(read_qrels(qrels)["query_id"].to_pylist())
    return _write(target, map(_topic_line, found), f"{qrels}: no topics")


def write_judgements(pages: Sequence[Path], level: TopicLevel, target: Path) -> int:
    """The number of automatic judgements, written as TREC's four columns, each with grade 1.

    A paragraph that a section has twice is judged once.

    Raises:
        InputError: damaged files, records that are no pages, or no paragraphs under topics.
    """
    found = _of_pages(pages, "pages", lambda page: judgements(page, level))
    lines = (f"{topic} 0 {paragraph} 1\n" for topic, paragraph in found)
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
    """What each page has, without repetitions; a page that is there twice is so afterwards too."""
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
