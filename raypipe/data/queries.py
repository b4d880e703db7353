"""Query files of every form, which are distinguished by their content.

TREC's topics have the topic's number as a query's id, and the topic's title as its text.

Source: the topics of TREC's Robust, Web and COVID tracks: `<top> <num> Number: 301 <title> ...` in
SGML, whose tags need no end, or `<topic number="1"><title>...</title>` (or `<query>`) in XML.
"""

import csv
import html
import io
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from raypipe import foreign
from raypipe.data.files import find_files, parsed_lines
from raypipe.data.formats import irds
from raypipe.data.formats.fields import checked_id, id_and_text, json_id, json_object, json_text
from raypipe.data.formats.json_lines import names_of
from raypipe.data.formats.msmarco import parse_candidate
from raypipe.data.formats.tables import QUOTES, is_parquet, read_columns
from raypipe.data.records import BOM, MAX_LINE_BYTES, Problems, lines
from raypipe.errors import InputError
from raypipe.storage.compression import open_binary
from raypipe.uris import dataset_id

_BEGINS = re.compile(r"\s*(<\?xml|<!|<top|<topics|<xml|<query)", re.IGNORECASE)
_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>((?:(?!<\1\b).)*?)</\1\s*>", re.IGNORECASE | re.DOTALL)
_BEGIN = re.compile(r"<(top|topic)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\b(?:number|qid|id)\s*=\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:number|topic)\s*:\s*", re.IGNORECASE)


def looks_like_topics(text: str) -> bool:
    """Whether a file that begins with this text holds topics."""
    return _BEGINS.match(text) is not None


def parse_topics(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Line number (from 1) of each topic, its number and its title; white space is one blank.

    Raises:
        ValueError: a topic without a number, a title or its end, by the line of its beginning.
    """
    for begin in _BEGIN.finditer(text):
        line = text.count("\n", 0, begin.start()) + 1
        topic = _TOPIC.match(text, begin.start())
        if topic is None:
            end = f"</{begin.group(1)}>"
            raise ValueError(f"line {line:,}: a topic without its end, {end}; is the file cut off?")
        _, attributes, body = topic.groups()
        given = _NUMBER.search(attributes)
        number = given.group(1) if given else _field(body, "num", "number")
        title = _field(body, "title", "query")
        if number is None or title is None:
            lacking = "a number" if number is None else "a title"
            raise ValueError(f"line {line:,}: a topic without {lacking}")
        yield line, (_LABEL.sub("", number).strip(), re.sub(r"^Topic:\s*", "", title))


def _field(body: str, *names: str) -> str | None:
    """The text of the first of these elements, which ends where the next tag begins."""
    for name in names:
        found = re.search(rf"<{name}\b[^>]*>([^<]*)", body, re.IGNORECASE)
        if found:
            return " ".join(html.unescape(found.group(1)).split())
    return None


Placed = Iterator[tuple[int, tuple[str, str]]]
"""Number of the line or row, from 1, with a query's id and text."""
EXPECTED = (
    "id TAB text, a header such as qid,query, JSON lines with an id and a text, TREC topics, "
    "Parquet or irds:ID"
)


def read_queries(path: Path) -> list[tuple[str, str]]:
    """(query_id, text) in file order; ids are strings, texts are unchanged.

    Two ids may share a text. A `top1000` file gives its distinct queries in order of first
    appearance.

    Args:
        path: the file, a BEIR folder with queries.jsonl, or `irds:ID`, a data set of ir_datasets.
            A file whose first byte is `{` is JSON lines; `<` begins TREC topics; a first line with
            a query's columns, under any name of `raypipe.foreign`, is the header of a CSV file, or
            with tabs of lines that have no quotes; a file with `top1000` in its name has four
            columns, and anything else is id TAB text (MS MARCO's and Pyserini's topics).

    Raises:
        InputError: invalid lines, repeated ids, or no queries.
    """
    if path.is_dir():
        (path,) = find_files([path], patterns=[r"queries\.jsonl"], expected="queries.jsonl")
    problems = Problems()
    form = _form(path)
    queries = _distinct(path, form.rows(path, problems), problems, form)
    problems.raise_if_any()
    if not queries:
        raise InputError(f"{path}: no queries in the file; expected {EXPECTED}")
    return queries


class _Form(NamedTuple):
    """A form of query files."""

    rows: Callable[[Path, Problems], Placed]
    repeats: bool = False
    """Whether an id may come again with the same text."""
    place: str = "line"
    """What a number counts."""


def _form(path: Path) -> _Form:
    if dataset_id(path) is not None:
        return _Form(_of_dataset, place="query")
    if is_parquet(path):
        return _Form(_of_parquet, place="row")
    with open_binary(path) as stream:
        first = next(lines(stream, name=str(path)), b"")
    if first.startswith(b"{"):
        return _Form(partial(_of_lines, parse=_parse_json))
    if looks_like_topics(first.decode(errors="replace")):
        return _Form(_of_topics)
    header = foreign.header_of(first, foreign.QUERIES, *foreign.QUERIES)
    if header is not None and header.separator in ",;":
        return _Form(partial(_of_csv, header=header), place="record")
    if header is not None and header.separator == "\t":
        return _Form(partial(_of_tabs, header=header))
    if "top1000" in path.name:
        return _Form(partial(_of_lines, parse=_parse_candidate), repeats=True)
    return _Form(partial(_of_lines, parse=_parse_pair))


def _of_dataset(path: Path, problems: Problems) -> Placed:
    name = dataset_id(path)
    assert name is not None
    yield from _checked(path, irds.queries(name), problems, "query")


def _of_parquet(path: Path, problems: Problems) -> Placed:
    columns = (read_columns(path, foreign.QUERIES)[own].to_pylist() for own in foreign.QUERIES)
    yield from _checked(path, zip(*columns, strict=True), problems, "row")


def _of_topics(path: Path, problems: Problems) -> Placed:
    with open_binary(path) as stream:
        content = stream.read().removeprefix(BOM)
    try:
        for number, (query_id, text) in parse_topics(content.decode()):
            yield number, (checked_id(query_id, field="query id"), text)
    except UnicodeError as error:
        problems.add(f"{path}: not UTF-8 ({error})")
    except ValueError as error:
        problems.add(f"{path}: {error}; expected TREC topics with <num> and <title>")


def _of_csv(path: Path, problems: Problems, *, header: foreign.Header) -> Placed:
    """Records may have line breaks in quotes, so their numbers, from 1, count no lines."""
    with open_binary(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        csv.field_size_limit(MAX_LINE_BYTES)  # otherwise 131,072 characters
        records = csv.reader(text, delimiter=header.separator, strict=True)
        try:
            next(records)
            pairs = (_pair(record, header) for record in records if record)
            yield from _checked(path, pairs, problems, "record")
        except UnicodeError as error:
            problems.add(f"{path}: not UTF-8 ({error})")
        except csv.Error as error:
            problems.add(f"{path}: line {records.line_num:,}: {error}; {QUOTES}")
        except ValueError as error:
            problems.add(f"{path}: line {records.line_num:,}: {error}")


def _of_tabs(path: Path, problems: Problems, *, header: foreign.Header) -> Placed:
    def parse(line: bytes) -> tuple[str, str]:
        query_id, text = _pair(line.decode().split("\t"), header)
        return checked_id(query_id.strip()), text

    for number, row in parsed_lines(path, parse, problems):
        if number > 1:  # the header
            yield number, row


def _pair(record: list[str], header: foreign.Header) -> tuple[str, str]:
    if len(record) != len(header.names):
        names = ", ".join(header.names)
        raise ValueError(f"expected the columns {names}, found {len(record)} columns")
    return record[header.places["query_id"]], record[header.places["text"]]


def _checked(path: Path, rows: Iterator[tuple[str, str]], problems: Problems, place: str) -> Placed:
    for number, (query_id, text) in enumerate(rows, 1):
        try:
            yield number, (checked_id(query_id), text)
        except ValueError as error:
            problems.add(f"{path}: {place} {number:,}: {error}")


def _of_lines(
    path: Path, problems: Problems, *, parse: Callable[[bytes], tuple[str, str]]
) -> Placed:
    yield from parsed_lines(path, parse, problems)


def _parse_pair(record: bytes) -> tuple[str, str]:
    try:
        return id_and_text(record)
    except UnicodeError:
        raise
    except ValueError as error:
        raise ValueError(f"{error}; query files may be {EXPECTED}") from None


def _parse_json(record: bytes) -> tuple[str, str]:
    fields = json_object(record)
    query_id = json_id(fields, *names_of(fields, foreign.QUERIES, "query_id"))
    text = json_text(fields, names_of(fields, foreign.QUERIES, "text")[0])
    (query_id + text).encode()  # refuses half a surrogate pair
    return query_id, text


def _parse_candidate(record: bytes) -> tuple[str, str]:
    query_id, _, text = parse_candidate(record)
    return query_id, text


def _distinct(path: Path, rows: Placed, problems: Problems, form: _Form) -> list[tuple[str, str]]:
    """Queries in order of first appearance; a repeated id needs `repeats` and an equal text."""
    seen: dict[str, tuple[int, str]] = {}
    for number, (query_id, text) in rows:
        first, known = seen.setdefault(query_id, (number, text))
        if first != number and not (form.repeats and text == known):
            how = "with another text" if text != known else "with the same text"
            problems.add(
                f"{path}: {form.place} {number:,}: query id {query_id!r} again {how}, first in"
                f" {form.place} {first:,}; ids must be unique"
            )
    return [(query_id, text) for query_id, (_, text) in seen.items()]
