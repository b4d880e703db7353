"""Judgements: TREC, MS MARCO, BEIR, ranx, PyTerrier, ir_datasets; told apart by their content."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from raypipe import foreign
from raypipe.data.files import parsed_lines
from raypipe.data.formats import irds
from raypipe.data.formats.fields import checked_id
from raypipe.data.formats.tables import is_parquet, read_columns
from raypipe.data.records import Problems, chunks
from raypipe.errors import InputError, shown
from raypipe.schema import QRELS
from raypipe.storage.compression import open_binary
from raypipe.uris import dataset_id

_MAX_GRADE = 2**31 - 1
_RANKS = [1, 2, 3, 4, 5]
Judgement = tuple[str, str, int]
Placed = Iterator[tuple[str, Judgement]]
"""Where each judgement is in its file, for messages, and the judgement."""


def read_qrels(path: Path) -> pa.Table:
    """Judgements as `schema.QRELS`, in file order, each pair once.

    Text has columns between blanks, tabs or commas: `query iteration passage grade` (TREC and
    MS MARCO; the iteration may be anything), `query passage grade`, or those that a header names
    with any name of `raypipe.foreign`. JSON is {query: {passage: grade}}, Parquet has named
    columns, and `irds:ID` is a data set of ir_datasets. Blank lines are skipped, as in trec_eval; a
    judgement given twice with one grade counts once.

    Raises:
        InputError: invalid lines, one pair with two grades, a run in place of judgements, or no
            judgements.
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
    return pa.table(
        {
            "query_id": [query_id for query_id, _ in seen],
            "passage_id": [passage_id for _, passage_id in seen],
            "relevance": [grade for _, grade in seen.values()],
        },
        schema=QRELS,
    )


def _judgements(path: Path, problems: Problems) -> Placed:
    if (name := dataset_id(path)) is not None:
        yield from _checked(path, irds.judgements(name), problems)
    elif is_parquet(path):
        table = read_columns(path, foreign.QRELS, numbers=["relevance"])
        columns = (table[name].to_pylist() for name in QRELS.names)
        yield from _checked(path, zip(*columns, strict=True), problems)
    elif _begins(path) == b"{":
        yield from _checked(path, _of_json(path), problems)
    else:
        yield from _of_lines(path, problems)


def _begins(path: Path) -> bytes:
    with open_binary(path) as stream:
        return next(chunks(stream), b"").removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def _of_json(path: Path) -> Iterator[tuple[str, str, object]]:
    """The entries of {query: {passage: grade}}; a passage that a query has twice comes twice."""
    try:
        with open_binary(path) as stream:
            text = b"".join(chunks(stream)).decode("utf-8-sig")
        for query_id, entries in json.loads(text, object_pairs_hook=tuple):
            query_id.encode()  # half of a surrogate pair can be written, but is no text
            for passage_id, grade in entries:
                passage_id.encode()
                yield query_id, passage_id, grade
    except InputError:  # of the compressed bytes
        raise
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: expected JSON in UTF-8, {{query id: {{passage id: grade}}}}; {error}"
        ) from error


def _checked(path: Path, rows: Iterator[tuple[str, str, object]], problems: Problems) -> Placed:
    for number, (query_id, passage_id, grade) in enumerate(rows, 1):
        try:
            if isinstance(grade, bool) or not isinstance(grade, int | float) or grade % 1:
                raise ValueError(f"expected an integer grade, found {shown(grade)}")
            ids = checked_id(query_id, field="query id"), checked_id(passage_id, field="passage id")
            yield f"row {number:,}", (*ids, _of_32_bits(int(grade)))
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


class _Parser:
    """Parses lines in order; the first line decides which columns there are."""

    def __init__(self) -> None:
        self._expected = ""
        self._separator = " "
        self._places: tuple[int, int, int] = (0, 0, 0)
        self.bare = False
        """Whether there are three columns and no header."""

    def __call__(self, record: bytes) -> Judgement | None:
        if not record.strip():
            return None
        if not self._expected and self._is_header(record):
            return None
        columns = self._split(record)
        if len(columns) != len(self._expected.split()):
            raise ValueError(
                f"expected the columns {self._expected}, found {len(columns)} in"
                f" {shown(record[:80].decode(errors='replace'))}"
            )
        query_id, passage_id, grade = (columns[place] for place in self._places)
        return (
            checked_id(query_id, field="query id"),
            checked_id(passage_id, field="passage id"),
            _grade(grade),
        )

    def _is_header(self, record: bytes) -> bool:
        """Whether the first line names the columns; notes which there are."""
        header = foreign.header_of(record, foreign.QRELS, *foreign.QRELS)
        if header is not None:
            if "rank" in map(str.lower, header.names):
                raise ValueError("a column rank: this looks like a run; expected judgements")
            self._separator = header.separator.replace("\t", " ")
            self._expected = " ".join(name.strip() or "_" for name in header.names)
            places = header.places
            self._places = places["query_id"], places["passage_id"], places["relevance"]
            return True
        num = len(record.split())
        if num == 1 and record.count(b",") in (2, 3):
            self._separator, num = ",", record.count(b",") + 1
        self.bare = num == 3
        self._expected = "query passage grade" if self.bare else "query 0 passage grade"
        self._places = (0, 1, 2) if self.bare else (0, 2, 3)
        return False

    def _split(self, record: bytes) -> list[str]:
        text = record.decode()
        if self._separator == " ":
            return [column.decode() for column in record.split()]
        return next(csv.reader([text], delimiter=self._separator), [])


def _grade(column: str) -> int:
    try:
        if "_" in column:  # Python reads 1_0 as 10
            raise ValueError
        grade = int(column)
    except ValueError:
        raise ValueError(f"expected an integer grade, found {shown(column)}") from None
    return _of_32_bits(grade)


def _of_32_bits(grade: int) -> int:
    if abs(grade) > _MAX_GRADE:
        raise ValueError(f"grade {shown(grade)} is beyond 32 bits")
    return grade
