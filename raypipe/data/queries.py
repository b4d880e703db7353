"""Query files of every form, which are distinguished by their content.

TREC's topics have the topic's number as a query's id, and the topic's title as its text.

Source: the topics of TREC's Robust, Web, COVID and Clinical Trials tracks and of NTCIR's WWW tasks:
`<top> <num> Number: 301 <title> ...` in SGML, whose tags begin lines and need no end, or
`<topic number="1"><title>...</title>` (or `<query>`, or text alone) in XML. The readers of these
files are those of ir_datasets 0.5.11 (`TrecQueries`, `TrecXmlQueries`) and Anserini 1.7.1
(`TrecTopicReader`, `CovidTopicReader`, `NtcirTopicReader`).
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from raypipe import foreign
from raypipe.data.files import find_files, parsed_lines
from raypipe.data.formats import irds
from raypipe.data.formats.fields import (
    checked_id,
    id_and_text,
    json_id,
    json_object,
    json_text,
    parse_candidate,
)
from raypipe.data.formats.json_lines import names_of
from raypipe.data.formats.tables import QUOTES, is_parquet, read_columns
from raypipe.data.records import BOM, MAX_LINE_BYTES, Problems, first_quoted, lines
from raypipe.errors import InputError, shown
from raypipe.regular import check_no_array
from raypipe.storage.compression import open_binary
from raypipe.uris import dataset_id

_MARKUP = re.compile(rb"\s*<([?!]|(top|topics?|xml|query|queries)[\s>])", re.IGNORECASE)
_TOPICS = ("topic", "top")
_NUMBERS, _TITLES = ("number", "num", "qid", "id"), ("title", "query", "content")
_LABEL = re.compile(r"^\s*(?:number|topic)\s*:\s*", re.IGNORECASE)
_TAG = re.compile(r"[ \t]*<((?>/?[a-z](?:[\w.-]*\w)?))[^>]*+>", re.IGNORECASE)
_FIELDS = frozenset(
    "head num dom title query desc smry narr con fac def nat time querytime querytweettime".split()
)
"""The elements of TREC's topics in SGML."""
_OF_A_TOPIC = re.compile(r"^[ \t]*<(top|num|title|query)\b", re.IGNORECASE | re.MULTILINE)
_ELEMENT = re.compile(r"<[/!a-z][^>]*>", re.IGNORECASE)
_ENTITY = re.compile(r"&(#\w+|[a-z]\w*);", re.IGNORECASE)
_COLONS = re.compile(rb"\d+:")
Row = tuple[int, tuple[str, str]]
"""Number of the line or row, from 1, with a query's id and text."""


def parse_topics(content: bytes) -> list[Row]:
    """Line number (from 1) of each topic, its number and its title; white space is one blank.

    Well-formed XML is read by an XML parser: the title's text is that of all elements in it,
    without comments. SGML is read as by ir_datasets and Anserini, where these agree.

    Raises:
        ValueError: neither; no topics; a topic without a number, a title or its end, or one that
            has two readings, by the line of its beginning.
    """
    content = content.removeprefix(BOM)
    lead = content[: len(content) - len(content.lstrip())]
    begin = lead.count(b"\n")
    content = content[len(lead) :]
    try:
        return _of_xml(content, begin)
    except expat.ExpatError as error:
        line, reason = begin + error.lineno, expat.ErrorString(error.code)
    text = content.decode()
    if text.startswith("<?xml"):
        raise ValueError(f"line {line:,}: not well-formed XML ({reason}); is the file cut off?")
    _check_comments(text, begin)
    try:
        rows = _of_xml(b"<topics>" + content + b"</topics>", begin)
    except (expat.ExpatError, ValueError):  # no topics without their root either
        if re.search(r"^[ \t]*<top\b", text, re.IGNORECASE | re.MULTILINE):
            return _of_sgml(text, begin)
        raise ValueError(
            f"line {line:,}: neither well-formed XML ({reason}) nor SGML with <top>; is the file "
            "cut off?"
        ) from None
    try:
        literal = _of_sgml(text, begin, literal=True)
    except ValueError:  # tags within lines, which no other reader takes
        return rows
    for (line, (query_id, title)), (_, (_, other)) in zip(rows, literal, strict=False):
        if title != other:
            raise ValueError(
                f"line {line:,}: the title of topic {query_id} has two readings: an XML parser "
                f"reads {shown(title)}, ir_datasets and Anserini read {shown(other)}; write one "
                "element around all topics for the first reading, or the title without markup"
            )
    return rows


def _of_xml(content: bytes, begin: int) -> list[Row]:
    """The topics of an XML file, whose lines are counted from `begin`.

    Raises:
        expat.ExpatError: it is not well-formed.
        ValueError: no topics, or one without a number or a title.
    """
    parser, tree = expat.ParserCreate(namespace_separator=" "), ElementTree.TreeBuilder()
    places: dict[ElementTree.Element, int] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        local = {_local(name): value for name, value in attributes.items()}
        places[tree.start(_local(tag), local)] = begin + parser.CurrentLineNumber

    def refuse(name: str, *_: object) -> None:
        raise ValueError(
            f"line {begin + parser.CurrentLineNumber:,}: the entity {shown(name)}, which is not "
            "XML's own: write the text that it stands for"
        )

    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: tree.end(_local(tag))
    parser.CharacterDataHandler = tree.data
    parser.EntityDeclHandler = refuse  # they may be nested to be huge
    parser.SkippedEntityHandler = refuse
    parser.Parse(content, True)
    root = tree.close()
    topics = [element for element in places if element.tag in _TOPICS]
    if not topics:
        topics = [element for element in root if element.tag == "query"]
    if not topics:
        raise ValueError(f"found XML of <{root.tag}>, and no <topic>, <top> or <query> in it")
    return [(places[topic], _of_element(topic, places[topic])) for topic in topics]


def _local(name: str) -> str:
    """The name of an element or attribute without its namespace."""
    return name.rpartition(" ")[2].lower()


def _of_element(topic: ElementTree.Element, line: int) -> tuple[str, str]:
    parts = list(topic)
    given = [topic.attrib[name] for name in _NUMBERS if name in topic.attrib]
    given += ["".join(part.itertext()) for part in parts if part.tag in _NUMBERS]
    numbers = [*dict.fromkeys(_LABEL.sub("", number).strip() for number in given)]
    titles = [part for part in parts if part.tag in _TITLES]
    if not parts:  # as in the Clinical Trials track
        titles = [topic]
    for what, values in (("number", numbers), ("title", titles)):
        if len(values) != 1:
            names = " ".join(f"<{part.tag}>" for part in parts) or "nothing"
            expected = f"{len(values)} {what}s" if values else f"no {what}"
            raise ValueError(
                f"line {line:,}: expected a {what} of each topic, found {expected}: <{topic.tag}> "
                f"with {' '.join(topic.attrib) or 'no attribute'} has {names}; a title is in "
                "<title>, <query> or <content>"
            )
    title = " ".join("".join(titles[0].itertext()).split())
    return numbers[0], re.sub(r"^Topic:\s*", "", title) if topic.tag == "top" else title


@dataclass
class _Open:
    """A topic of SGML whose end is not yet read."""

    line: int
    numbers: list[str] = field(default_factory=list)
    titles: list[list[str]] = field(default_factory=list)
    """The lines of each."""
    names: set[str] = field(default_factory=set)

    def closed(self, *, literal: bool) -> Row:
        """The topic's row; with `literal`, whatever its title holds."""
        for what, values in (("number", self.numbers), ("title", self.titles)):
            if len(values) != 1:
                many = f"with {len(values)} {what}s" if values else f"without a {what}"
                news = "docid" in self.names and not values
                hint = "; a topic of the News track names a document, whose text is no query"
                raise ValueError(f"line {self.line:,}: a topic {many}{hint if news else ''}")
        number = re.sub(r"</num(ber)?>\s*$", "", self.numbers[0], flags=re.IGNORECASE)
        first, *rest = self.titles[0]
        label = re.match(r"\s*Topic:", first)
        title = " ".join(" ".join([first[label.end() :] if label else first, *rest]).split())
        title = re.sub(r"\s*</(title|query)>$", "", title, flags=re.IGNORECASE)
        # Looked for up to the last end of a tag, so that no beginning is followed in vain.
        markup = _ELEMENT.search(title, 0, title.rfind(">") + 1) or _ENTITY.search(title)
        if not literal and markup:
            raise ValueError(
                f"line {self.line:,}: the title {shown(title)} has {shown(markup[0])}, which is "
                "markup in SGML, and text for ir_datasets and Anserini; write the title without it"
            )
        if not literal and not label and ":" in title and "desc" in self.names:
            after = title.partition(":")[2].strip()
            raise ValueError(
                f"line {self.line:,}: the title has two readings: ir_datasets reads "
                f"{shown(title)}, Anserini what is behind the first colon, {shown(after)}; write "
                "<title> Topic: before the title that is meant"
            )
        return self.line, (_LABEL.sub("", number).strip(), title)


def _of_sgml(text: str, begin: int, *, literal: bool = False) -> list[Row]:
    """The topics of an SGML file, whose lines are counted from `begin`.

    Raises:
        ValueError: see `parse_topics`.
    """
    rows: list[Row] = []
    topic: _Open | None = None
    in_title = False
    for number, line in enumerate(text.split("\n"), begin + 1):
        tag = _TAG.match(line)
        name = tag[1].lower() if tag else ""
        rest = line[tag.end() :] if tag else line
        if name == "top":
            if topic is not None or rest.strip():
                raise _endless(number if topic is None else topic.line)
            topic, in_title = _Open(number), False
        elif topic is None:
            continue
        elif name == "/top":
            rows.append(topic.closed(literal=literal))
            topic = None
        elif name in ("num", "number"):
            topic.numbers.append(rest)
            in_title = False
        elif name in ("title", "query"):
            topic.titles.append([rest])
            in_title = True
        elif name in ("/title", "/query") and in_title:
            topic.titles[-1].append(line)  # what follows it is the title's for these readers
        elif name.removeprefix("/") in _FIELDS or not in_title:
            topic.names.add(name)
            in_title = False
        elif line.lstrip().startswith("<"):
            raise ValueError(
                f"line {number:,}: {shown(line.strip())} within a title, which ir_datasets leaves "
                "out and Anserini reads; write the title in one line, or end it with <desc>"
            )
        else:
            topic.titles[-1].append(rest)
    if topic is not None:
        raise _endless(topic.line)
    return rows


def _endless(line: int) -> ValueError:
    return ValueError(
        f"line {line:,}: a topic without its end, </top>; is the file cut off? Each tag begins a "
        "line"
    )


def _check_comments(text: str, begin: int) -> None:
    """Returns nothing if no comment holds parts of a topic, which SGML's other readers read."""
    at = text.find("<!--")
    while at >= 0:
        end = text.find("-->", at)
        end = len(text) if end < 0 else end
        if _OF_A_TOPIC.search(text, at, end):
            line = begin + text.count("\n", 0, at) + 1
            raise ValueError(
                f"line {line:,}: a comment holds parts of a topic, which ir_datasets and Anserini "
                "read as if it were none; delete the comment, or its marks"
            )
        at = text.find("<!--", end)


Placed = Iterator[Row]
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
            The first line that is neither blank nor a comment decides: `{` begins JSON lines, `<`
            TREC topics; a line with a query's columns, under any name of `raypipe.foreign`, is the
            header of a CSV file, or with tabs, and no quotes in it, of lines whose quotes are text;
            a file with `top1000` in its name has four columns, and anything else is id TAB text
            (MS MARCO's and Pyserini's topics). A line that begins with # is a comment if it has
            no tab.

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
    """Unit that a number counts, for messages."""


def _form(path: Path) -> _Form:
    if dataset_id(path) is not None:
        return _Form(_of_dataset, place="query")
    if is_parquet(path):
        return _Form(_of_parquet, place="row")
    with open_binary(path, wary=True) as stream:
        numbered = enumerate(lines(stream, name=str(path), of_many=True), 1)
        content = ((at, line) for at, line in numbered if line.strip() and not _is_comment(line))
        number, first = next(content, (0, b""))
    check_no_array(path, first.lstrip())
    if first.startswith(b"{"):
        return _Form(_of_json)
    if _is_markup(first):
        return _Form(_of_topics)
    header = foreign.header_of(first, foreign.QUERIES, *foreign.QUERIES)
    quoted = b'"' in first  # names in quotes are a CSV writer's, which then quotes all columns
    if header is not None and (header.separator in ",;" or (header.separator == "\t" and quoted)):
        return _Form(partial(_of_csv, header=header, skip=number), place="record")
    if header is not None and header.separator == "\t":
        return _Form(partial(_of_tabs, header=header, skip=number))
    if "top1000" in path.name:
        return _Form(partial(_of_lines, parse=_parse_candidate), repeats=True)
    if first and b"\t" not in first:
        hint = ""
        if _COLONS.match(first):
            hint = (
                "these are topics of TREC's Million Query track, number:text; write a tab there: "
            )
        raise InputError(
            f"{path}: line {number:,}: expected id TAB text, found no tab in "
            f"{shown(first[:80].decode(errors='replace'))}; {hint}query files may be {EXPECTED}"
        )
    return _Form(partial(_of_lines, parse=_parse_pair))


def _is_comment(line: bytes) -> bool:
    """Whether the line is a comment and nothing else: queries have a tab."""
    return line.startswith(b"#") and b"\t" not in line


def _is_markup(first: bytes) -> bool:
    """Whether a file is markup whose first line is this one: `<` may also begin an id."""
    begin, tab, _ = first.lstrip().partition(b"\t")
    is_id = bool(tab) and len(begin.split()) == 1
    return begin.startswith(b"<") and (not is_id or _MARKUP.match(first + b"\n") is not None)


def _of_dataset(path: Path, problems: Problems) -> Placed:
    name = dataset_id(path)
    assert name is not None
    yield from _checked(path, irds.queries(name), problems, "query")


def _of_parquet(path: Path, problems: Problems) -> Placed:
    columns = (read_columns(path, foreign.QUERIES)[own].to_pylist() for own in foreign.QUERIES)
    yield from _checked(path, zip(*columns, strict=True), problems, "row")


def _of_topics(path: Path, problems: Problems) -> Placed:
    with open_binary(path, wary=True) as stream:
        content = stream.read()
    try:
        topics = parse_topics(content)
    except UnicodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from None
    except ValueError as error:
        raise InputError(
            f"{path}: {error}; expected TREC topics, query files may be {EXPECTED}"
        ) from None
    for number, (query_id, text) in topics:
        try:
            yield number, (checked_id(query_id, field="query id"), text)
        except ValueError as error:
            problems.add(f"{path}: line {number:,}: {error}")


def _of_csv(path: Path, problems: Problems, *, header: foreign.Header, skip: int) -> Placed:
    """Records may have line breaks in quotes, so their numbers, from 1, count no lines."""
    with open_binary(path, wary=True) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        csv.field_size_limit(MAX_LINE_BYTES)  # otherwise 131,072 characters
        records = csv.reader(text, delimiter=header.separator, strict=True)
        try:
            for _ in islice(text, skip):  # the header, and what is before it
                pass
            pairs = (_pair(record, header) for record in records if record)
            yield from _checked(path, pairs, problems, "record")
        except UnicodeError as error:
            problems.add(f"{path}: not UTF-8 ({error})")
        except csv.Error as error:
            problems.add(f"{path}: line {skip + records.line_num:,}: {error}; {QUOTES}")
        except ValueError as error:
            problems.add(f"{path}: line {skip + records.line_num:,}: {error}")


def _of_tabs(path: Path, problems: Problems, *, header: foreign.Header, skip: int) -> Placed:
    def parse(line: bytes) -> tuple[str, str]:
        query_id, text = _pair(line.decode().split("\t"), header)
        return checked_id(query_id.strip()), text

    yield from _of_lines(path, problems, parse=parse, skip=skip)


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
    path: Path, problems: Problems, *, parse: Callable[[bytes], tuple[str, str]], skip: int = 0
) -> Placed:
    """Ids may begin with # if all do; otherwise such a line may be a query or a comment."""
    marked, others = 0, False

    def parsed(line: bytes) -> tuple[str, str] | None:
        return None if _is_comment(line) else parse(line)

    for number, row in parsed_lines(path, parsed, problems, skip=skip):
        if row is None or not row[0].startswith("#"):
            others = True
        else:
            marked = marked or number
        if row is not None:
            yield number, row
    if marked and others:
        problems.add(
            f"{path}: line {marked:,}: it begins with # and has a tab: a comment, or a query whose "
            "id begins with #; delete such lines, or write the queries as JSON lines"
        )


def _of_json(path: Path, problems: Problems) -> Placed:
    yield from parsed_lines(path, _parse_json, problems)


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
        first, text_before = seen.setdefault(query_id, (number, text))
        if first != number and not (form.repeats and text == text_before):
            how = "with another text" if text != text_before else "with the same text"
            problems.add(
                f"{path}: {form.place} {number:,}: query id {shown(query_id)} again {how},"
                f" first in {form.place} {first:,}; ids must be unique"
            )
    return [(query_id, text) for query_id, (_, text) in seen.items()]


def doubts_of(queries: Sequence[tuple[str, str]]) -> list[str]:
    """Warnings, a line each, about queries that can be read but may not be what is meant."""
    empty = [query_id for query_id, text in queries if not text.strip()]
    doubts = []
    if empty:
        doubts.append(
            f"{len(empty):,} of {len(queries):,} queries have no text: {', '.join(empty[:10])}"
        )
    return doubts + [
        f"the quotes around {what} seem to be those of a CSV file, and are read as text: "
        f"{shown(example)}; write them without quotes, or the file as CSV with a header"
        for what, column in (("ids", 0), ("texts", 1))
        if (example := first_quoted([query[column] for query in queries])) is not None
    ]
