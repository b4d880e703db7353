"""TREC CAR's topics and automatic judgements as ordinary files of queries and qrels."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from raypipe.data.car.items import Kind, read_items
from raypipe.data.car.pages import Page, judgements, parse_page, query_text, topics
from raypipe.data.files.compression import open_binary
from raypipe.data.files.problems import Problems
from raypipe.errors import InputError
from raypipe.storage.files import replacing
from raypipe.vocabulary import TopicLevel

Line = TypeVar("Line")


def write_topics(outlines: Sequence[Path], level: TopicLevel, target: Path) -> int:
    """The number of topics, written as id TAB query text in the order of the files.

    A heading that a page has twice is one topic.

    Raises:
        InputError: damaged files, records that are no outlines, or no topics.
    """
    return _write(
        target,
        _of_pages(outlines, "outlines", lambda page: topics(page, level)),
        lambda topic: f"{topic}\t{query_text(topic)}\n",
        f"{_named(outlines)}: no {level} topics in the file",
    )


def write_judgements(pages: Sequence[Path], level: TopicLevel, target: Path) -> int:
    """The number of judgements, written as TREC's four columns, each with grade 1.

    A paragraph that a section has twice is judged once.

    Raises:
        InputError: damaged files, records that are no pages, or no paragraphs under topics.
    """
    return _write(
        target,
        _of_pages(pages, "pages", lambda page: judgements(page, level)),
        lambda judged: f"{judged[0]} 0 {judged[1]} 1\n",
        f"{_named(pages)}: no paragraphs under {level} topics; are these outlines?",
    )


def _write(target: Path, found: Iterator[Line], line: Callable[[Line], str], none: str) -> int:
    count = 0
    with replacing(target) as file:
        for each in found:
            file.write(line(each).encode())
            count += 1
        if not count:
            raise InputError(none)
    return count


def _of_pages(
    files: Sequence[Path], kind: Kind, of_page: Callable[[Page], Iterator[Line]]
) -> Iterator[Line]:
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
