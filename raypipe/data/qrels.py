"""Judgements: TREC, MS MARCO, BEIR, ranx, PyTerrier, ir_datasets; told apart by their content."""

import csv
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from raypipe import foreign
from raypipe.data.files import parsed_lines
from raypipe.data.formats import irds
from raypipe.data.formats.fields import checked_id, json_id, json_object
from raypipe.data.formats.json_lines import names_of
from raypipe.data.formats.tables import QUOTES, is_parquet, read_columns
from raypipe.data.records import BOM, Problems, chunks
from raypipe.errors import InputError, shown, some
from raypipe.regular import check_no_array
from raypipe.schema import MAX_GRADE, QRELS, numbers, strings
from raypipe.storage.compression import open_binary
from raypipe.uris import dataset_id

logger = logging.getLogger(__name__)
_RANKS = [1, 2, 3, 4, 5]
_ITERATIONS = ("0", "Q0")
"""Usual entries in the second of four columns."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,1000}(\.0*)?")
_OF_RUN = "query Q0 passage rank score tag"
Judgement = tuple[str, str, int]
Placed = Iterator[tuple[str, Judgement]]
"""Where each judgement is in its file, for messages, and the judgement."""


def read_qrels(path: Path) -> pa.Table:
    """Judgements as `schema.QRELS`, in file order, each pair once.

    Text has columns between blanks, tabs or commas: `query iteration passage grade` (TREC and
    MS MARCO; the iteration may be anything), `query passage grade`, or those that a header names
    with any name of `raypipe.foreign`; whether a score is a grade, `foreign.check_grades` says.
    Below a header of tabs or commas, columns may be quoted, as BEIR writes and reads them. JSON is
    {query: {passage: grade}} or an object in each line, Parquet has named columns, and `irds:ID` is
    a data set of ir_datasets. Blank lines are skipped, and, as in trec_eval 10, those that begin
    with #; such a line with the columns of a judgement is logged. A grade is a whole number, which
    may be written as 1.0; a judgement given twice with one grade counts once.

    Raises:
        InputError: invalid lines, one pair with two grades, a grade beyond `schema.MAX_GRADE`, a
            file with two readings, a run in place of judgements, or no judgements.
    """
    problems = Problems()
    seen: dict[tuple[str, str], tuple[str, int]] = {}
    for place, (query_id, passage_id, grade) in _judgements(path, problems):
        first, known = seen.setdefault((query_id, passage_id), (place, grade))
        if known != grade:
            problems.add(
                f"{path}: {place}: query {query_id!r}, passage {passage_id!r} has grade"
                f" {grade}, but {known} in {first}; keep one of them"
            )
    problems.raise_if_any()
    if not seen:
        raise InputError(f"{path}: no judgements in the file")
    columns = [
        strings([query_id for query_id, _ in seen]),
        strings([passage_id for _, passage_id in seen]),
        numbers(np.array([grade for _, grade in seen.values()], np.int32)),
    ]
    return pa.table(columns, schema=QRELS)


def _judgements(path: Path, problems: Problems) -> Placed:
    if (name := dataset_id(path)) is not None:
        yield from _checked(path, irds.judgements(name), problems)
        return
    if is_parquet(path):
        table = read_columns(path, foreign.QRELS, numbers=["relevance"])
        check_columns(str(path), pq.read_schema(path))
        columns = (table[name].to_pylist() for name in QRELS.names)
        yield from _checked(path, zip(*columns, strict=True), problems)
        return
    with open_binary(path, wary=True) as stream:
        first = next(chunks(stream), b"").removeprefix(BOM).lstrip().partition(b"\n")[0]
    check_no_array(path, first)
    if not first.startswith(b"{"):
        yield from _of_lines(path, problems)
    elif fields := _row_of(first):
        _check_grades(str(path), [*fields])
        for number, row in parsed_lines(path, _of_object, problems):
            if row is not None:
                yield f"line {number:,}", row
    else:
        yield from _checked(path, _of_json(path), problems)


def _row_of(first: bytes) -> dict[str, Any] | None:
    """The fields of a JSON file's first line if it is one judgement, as mteb and ir_datasets write
    it."""
    try:
        fields = json_object(first)
    except ValueError:  # an object of several lines
        return None
    return None if any(isinstance(value, dict | list) for value in fields.values()) else fields


def check_columns(name: str, table: pa.Schema) -> None:
    """Returns nothing if the columns of a table are judgements.

    Raises:
        InputError: they are those of a run.
    """
    grade = foreign.columns_of(table.names, foreign.QRELS)["relevance"]
    _check_grades(name, table.names, whole=pa.types.is_integer(table.field(grade).type))


def _check_grades(name: str, names: Sequence[str], *, whole: bool = False) -> None:
    try:
        foreign.check_grades(names, whole=whole)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _of_object(record: bytes) -> Judgement | None:
    if not record.strip():
        return None
    fields = json_object(record)
    foreign.check_grades([*fields])
    query_id, passage_id, (grade, *_) = (
        names_of(fields, foreign.QRELS, own) for own in QRELS.names
    )
    ids = json_id(fields, *query_id), json_id(fields, *passage_id)
    if grade not in fields:
        raise ValueError(f'expected a field "{grade}", found {", ".join(map(shown, fields))}')
    "".join(ids).encode()  # refuses half a surrogate pair
    return *ids, whole_grade(fields[grade])


def _of_json(path: Path) -> Iterator[tuple[str, str, object]]:
    """The entries of {query: {passage: grade}}; a passage that a query has twice comes twice."""
    try:
        with open_binary(path, wary=True) as stream:
            text = b"".join(chunks(stream)).decode("utf-8-sig")
        body = json.loads(text, object_pairs_hook=tuple)  # objects alone become tuples
        if not isinstance(body, tuple):
            raise ValueError("the file holds no object")
        if _is_table(body):
            raise InputError(
                f"{path}: expected {{query id: {{passage id: grade}}}} or an object in each line; "
                "found a table, as pandas writes it: df.to_json(PATH, orient='records', lines=True)"
            )
        note_unjudged(str(path), [query_id for query_id, entries in body if entries == ()])
        for query_id, entries in body:
            query_id.encode()  # half of a surrogate pair can be written, but is no text
            if not isinstance(entries, tuple):
                raise ValueError(f"query {shown(query_id)} has no object, but {shown(entries)}")
            for passage_id, grade in entries:
                passage_id.encode()
                yield query_id, passage_id, grade
    except InputError:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: expected JSON in UTF-8, {{query id: {{passage id: grade}}}}; {error}; or an "
            "object with query_id, passage_id and relevance in each line"
        ) from error


def _is_table(body: tuple[Any, ...]) -> bool:
    """Whether the objects are the columns, or the first of them a row, of a table of judgements."""
    of_row = next((entries for _, entries in body), None)
    return any(
        foreign.columns_of([str(name) for name, _ in pairs], foreign.QRELS).keys()
        == foreign.QRELS.keys()
        for pairs in (body, of_row)
        if isinstance(pairs, tuple)
    )


def note_unjudged(name: str, queries: Sequence[str]) -> None:
    """Warn of queries that stand in a dictionary of judgements without a passage."""
    if queries:
        logger.warning(
            "%s: queries without a judgement are in no mean, where ir_measures counts 0 for each; "
            "judge a passage of theirs 0 to count them: %s",
            name,
            some(queries),
        )


def _checked(path: Path, rows: Iterator[tuple[str, str, object]], problems: Problems) -> Placed:
    for number, (query_id, passage_id, grade) in enumerate(rows, 1):
        try:
            ids = checked_id(query_id, field="query id"), checked_id(passage_id, field="passage id")
            yield f"row {number:,}", (*ids, whole_grade(grade))
        except ValueError as error:
            problems.add(f"{path}: row {number:,}: {error}")


def _of_lines(path: Path, problems: Problems) -> Placed:
    parser = _Parser()
    first: list[Judgement] = []
    for number, row in parsed_lines(path, parser, problems):
        if row is None:
            continue
        if len(first) < len(_RANKS):
            first.append(row)
            of_one = len({query_id for query_id, _, _ in first}) == 1
            if parser.bare and of_one and [grade for _, _, grade in first] == _RANKS:
                raise InputError(
                    f"{path}: the grades of query {row[0]!r} count 1, 2, 3, ...; this looks like a "
                    "run of MS MARCO (query, passage, rank); expected judgements"
                )
        yield f"line {number:,}", row
    parser.note_comments(path)
    if not problems.num_problems and parser.others is not None and parser.others.second_reading():
        raise InputError(
            f"{path}: the four columns may be `query iteration passage grade`, as trec_eval reads "
            "them, or `query passage grade` and another: the second differs in every line, and the "
            "third holds whole numbers; write 0 in the second column for the first reading, or "
            "leave out the fourth for the other"
        )


class _Others:
    """Whether four columns without a header may have the passage in the second one."""

    def __init__(self) -> None:
        self._pairs: set[tuple[str, str]] = set()
        self._seconds: set[str] = set()
        self._possible = True

    def add(self, query_id: str, second: str, third: str) -> None:
        """Look at a line; a usual iteration, or one that a query has again, settles the matter."""
        if not self._possible:
            return
        try:
            _grade(third)
            self._possible = second not in _ITERATIONS and (query_id, second) not in self._pairs
        except ValueError:
            self._possible = False
        self._pairs.add((query_id, second))
        self._seconds.add(second)

    def second_reading(self) -> bool:
        """Whether every line allows it, and the second column is not one word throughout."""
        return self._possible and len(self._seconds) > 1


class _Parser:
    """Parses lines in order; the first line decides which columns there are."""

    def __init__(self) -> None:
        self._expected = ""
        self._separator = " "
        self._places: tuple[int, int, int] = (0, 0, 0)
        self._named = False
        """Whether a header names the columns: such a file is read by csv, and not by trec_eval."""
        self.bare = False
        """Whether there are three columns and no header."""
        self.others: _Others | None = None
        """Second reading of four columns without a header; None for any other form."""
        self._first: bytes | None = None
        """The first line, if it names no columns that are known."""
        self._comments = Counter[int]()
        self._first_comments: dict[int, bytes] = {}
        """Number of columns -> number and first of the comments that may be judgements."""

    def __call__(self, record: bytes) -> Judgement | None:
        comment = record.startswith(b"#")
        if not record.strip() or (comment and not self._named):
            if num := _num_columns(record):
                self._comments[num] += 1
                self._first_comments.setdefault(num, record.strip())
            return None
        if not self._expected and self._is_header(record):
            return None
        columns = self._split(record)
        fits = len(columns) == len(self._expected.split())
        if comment and not (fits and self._separator.encode() in record):
            return None
        if not fits:
            of_run = len(columns) == len(_OF_RUN.split()) and not self._named
            raise ValueError(
                f"expected the columns {self._expected}, found {len(columns)} in"
                f" {shown(record[:80].decode(errors='replace'))}"
                f"{f'; a run has six, {_OF_RUN}' if of_run else ''}{self._header_names(record)}"
            )
        if comment:
            raise ValueError(
                f"{shown(record[:80].decode(errors='replace'))} may be a comment, or a judgement "
                f"of {shown(columns[0])}, as csv reads it; delete the line, or write an object of "
                "JSON in each line"
            )
        query_id, passage_id, grade = (columns[place] for place in self._places)
        if self.others is not None:
            self.others.add(query_id, columns[1], passage_id)
        ids = checked_id(query_id, field="query id"), checked_id(passage_id, field="passage id")
        try:
            return *ids, _grade(grade)
        except ValueError as error:
            raise ValueError(f"{error}{self._header_names(record)}") from None

    def _header_names(self, record: bytes) -> str:
        """What a header says, for a first line that may be one, as it has no digit."""
        if record != self._first or any(48 <= byte <= 57 for byte in record):
            return ""
        names = foreign.also(foreign.QRELS, *QRELS.names)
        return f"; a header names query_id, passage_id and relevance ({names})"

    def note_comments(self, path: Path) -> None:
        """Warn of comments that have the columns of the file's judgements."""
        num = len(self._expected.split()) if self._expected else max(self._comments, default=0)
        if not self._named and self._comments[num]:
            logger.warning(
                "%s: lines that begin with # are comments, as in trec_eval 10; ir_measures reads "
                "%d of them as judgements (first: %s)",
                path,
                self._comments[num],
                shown(self._first_comments[num].decode(errors="replace")),
            )

    def _is_header(self, record: bytes) -> bool:
        """Whether the first line names the columns; notes which there are."""
        header = foreign.header_of(record, foreign.QRELS, *foreign.QRELS)
        if header is not None:
            self._separator, self._named = header.separator, True
            self._expected = " ".join("_".join(name.split()) or "_" for name in header.names)
            places = header.places
            self._places = places["query_id"], places["passage_id"], places["relevance"]
            foreign.check_grades(header.names)
            return True
        self._first = record
        num = len(record.split())
        if num == 1 and record.count(b",") in (2, 3):
            self._separator, num = ",", record.count(b",") + 1
        self.bare = num == 3
        self.others = None if self.bare else _Others()
        self._expected = "query passage grade" if self.bare else "query 0 passage grade"
        self._places = (0, 1, 2) if self.bare else (0, 2, 3)
        return False

    def _split(self, record: bytes) -> list[str]:
        """The columns; a line of blanks below a header of tabs has no quotes."""
        if self._separator == " " or (self._separator == "\t" and b"\t" not in record):
            return [column.decode() for column in record.split()]
        try:
            return next(csv.reader([record.decode()], delimiter=self._separator, strict=True), [])
        except csv.Error as error:
            raise ValueError(f"not CSV: {error}; {QUOTES}") from None


def _num_columns(comment: bytes) -> int:
    """The number of columns of a comment that may be a judgement of a query like #1; else 0."""
    words = comment.replace(b",", b" ").split()
    if len(words) not in (3, 4) or words[0] == b"#" or not words[-1].lstrip(b"+-").isdigit():
        return 0
    usual = len(words) == 3 or words[1].decode(errors="replace") in _ITERATIONS
    return len(words) if usual else 0


def _grade(column: str) -> int:
    """The grade of a text: a whole number, which may have a point and noughts behind it."""
    column = column.strip()
    if not _WHOLE.fullmatch(column):
        fraction = bool(_FRACTION.fullmatch(column))
        raise ValueError(
            f"expected an integer grade, found {shown(column)}{_ROUNDED if fraction else ''}"
        )
    return _within(int(column.partition(".")[0]))


_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+")
_ROUNDED = "; trec_eval cuts a fraction off: multiply the grades, or round them"


def whole_grade(value: object) -> int:
    """The grade of a number, of which 1.0 is one; neither true nor NaN is.

    Raises:
        ValueError: no whole number, or one beyond `schema.MAX_GRADE`.
    """
    if isinstance(value, Decimal) and value.is_finite():  # such as a sum of a database
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        remedy = ""
        if isinstance(value, str):
            remedy = "; it is a text: write it as a number"
        elif isinstance(value, bool):
            remedy = "; write 1 for true and 0 for false"
        elif isinstance(value, float) and math.isfinite(value):
            remedy = _ROUNDED
        raise ValueError(f"expected an integer grade, found {shown(value)}{remedy}")
    return _within(int(value))


def _within(grade: int) -> int:
    if abs(grade) > MAX_GRADE:
        raise ValueError(
            f"grade {shown(grade)} is beyond {MAX_GRADE:,}; trec_eval takes memory by the highest "
            "grade: divide the grades, or take the logarithm of counts such as clicks"
        )
    return grade
