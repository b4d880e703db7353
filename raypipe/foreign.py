"""The names that other tools give to the columns of runs, judgements, queries and collections."""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

QUERY_ID = ("query_id", "qid", "q_id", "query-id", "queryid")
PASSAGE_ID = (
    *("passage_id", "docno", "doc_id", "docid", "corpus-id", "corpus_id", "pid", "document_id"),
)
"""PyTerrier's tables have both docno, the id, and docid, a number inside Terrier's index."""
SCORE, RANK = ("score",), ("rank",)
GRADE = ("relevance", "label", "rel", "grade", "score")
"""ranx and BEIR call a grade score; see `check_grades`."""
QUERY_TEXT = ("text", "query", "query_text", "title")
OWN_QUERY_ID = (*QUERY_ID, "_id", "id")
"""In a table of queries alone, where an id needs no more words."""
TEXT, TITLE = ("text", "contents", "passage", "segment", "body"), ("title",)
OWN_PASSAGE_ID = (*PASSAGE_ID, "_id", "id")
"""In a collection, likewise."""

RUN = {"query_id": QUERY_ID, "passage_id": PASSAGE_ID, "rank": RANK, "score": SCORE}
QRELS = {"query_id": QUERY_ID, "passage_id": PASSAGE_ID, "relevance": GRADE}
QUERIES = {"query_id": OWN_QUERY_ID, "text": QUERY_TEXT}
PASSAGES = {
    "passage_id": OWN_PASSAGE_ID,
    "title": TITLE,
    "headings": ("headings",),
    "text": TEXT,
}
"""Our column -> its names, of which the first that a file has counts."""


SEPARATORS = ",\t;"


class Header(NamedTuple):
    """The first line of a file, which names its columns."""

    separator: str
    """One of `SEPARATORS`, or a blank for any white space."""
    names: list[str]
    columns: dict[str, str]
    """Our column -> the file's."""

    @property
    def places(self) -> dict[str, int]:
        """Our column -> its position, from 0."""
        return {own: self.names.index(name) for own, name in self.columns.items()}


def header_of(line: bytes, wanted: Mapping[str, Sequence[str]], *needed: str) -> Header | None:
    """The header in a file's first line; None if it lacks one of the columns needed."""
    text = line.decode(errors="replace").rstrip("\r\n")
    split = {mark: _cells(text, mark) for mark in SEPARATORS}
    for separator, names in {**split, " ": text.split()}.items():
        columns = columns_of(names, wanted)
        if set(needed) <= columns.keys():
            return Header(separator, names, columns)
    return None


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a return in its midst, or an endless cell: not a line that names columns
        return []


def columns_of(found: Iterable[str], wanted: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Our column -> the file's, for each of the wanted columns that the file has.

    Capitals and blanks around a name do not matter, unless another has the very name.
    """
    names_there = list(found)
    named = {name.strip().lower(): name for name in reversed(names_there)}
    named |= {name: name for name in names_there}
    first = {
        own: next((name for name in names if name in named), None) for own, names in wanted.items()
    }
    return {own: named[name] for own, name in first.items() if name is not None}


def has_beir_grades(names: Iterable[str]) -> bool:
    """Whether these are the columns of BEIR's judgements: a score beside corpus-id, and no rank."""
    lowered = {name.strip().lower() for name in names}
    return {"corpus-id", "score"} <= lowered and "rank" not in lowered


def check_grades(names: Collection[str], *, whole: bool = False) -> None:
    """Returns nothing if the columns of judgements are not those of a run.

    A score is a grade in BEIR's files, and in ranx's tables if it is an integer: a score of ranx's
    runs, which have the same names, is a fraction.

    Args:
        names: all columns of the judgements.
        whole: whether the grades are integers by their type.

    Raises:
        ValueError: there is a rank, or a score that is not known to be a grade.
    """
    lowered = {name.strip().lower() for name in names}
    if "rank" in lowered:
        raise ValueError("a column rank: this looks like a run; expected judgements")
    is_score = columns_of(names, QRELS).get("relevance", "").strip().lower() == "score"
    if is_score and not (has_beir_grades(names) or (whole and {"q_id", "doc_id"} <= lowered)):
        raise ValueError(
            "the column score is that of a run; expected judgements: name it relevance if it holds "
            "grades (beside corpus-id, as in BEIR's files, a score is a grade)"
        )


def also(wanted: Mapping[str, Sequence[str]], *columns: str) -> str:
    """The other names of these columns, for a message: `for query_id also qid, q_id, ...`."""
    return "; ".join(
        f"for {own} also {', '.join(wanted[own][1:])}" for own in columns if len(wanted[own]) > 1
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts, in whatever layout."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in kinds)


def as_text(name: str, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Texts, and whole numbers in decimal, as strings; a column of nulls alone has no type.

    Raises:
        ValueError: another type, with what writes the column as texts.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) or is_text(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    remedy = "write each as one text"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        remedy = without_fractions(name)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        remedy = f"in pandas, df[{name!r}] = df[{name!r}].str.decode('utf-8') makes texts of bytes"
    raise ValueError(
        f"column {name}: expected texts or whole numbers; found {column.type}; {remedy}"
    )


def as_numbers(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers, fractions and decimals as float64, to which larger ones are rounded.

    Raises:
        ValueError: another type, with what writes the column as numbers.
    """
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    raise ValueError(
        f"column {name}: expected numbers; found {kind}; in pandas, df.astype({{{name!r}: "
        "'float64'}) makes numbers of texts"
    )


def without_fractions(name: str) -> str:
    """How a column of ids that came out as fractions is written as whole numbers."""
    return (
        "pandas makes fractions of whole numbers where one is missing: leave such rows out, "
        f"then df.astype({{{name!r}: 'int64'}})"
    )


def check_no_nulls(name: str, column: pa.ChunkedArray | pa.Array, *, first: int = 1) -> None:
    """Returns nothing if every row of a column has a value.

    Args:
        name: the column's.
        column: its values.
        first: number of the first row.

    Raises:
        ValueError: there are nulls, with the row of the first of them.
    """
    if column.null_count:
        row = first + pc.index(column.is_null(), True).as_py()
        raise ValueError(
            f"column {name}: {column.null_count:,} rows are null, the first of them row "
            f"{row:,}; leave them out, in pandas with df.dropna(subset=[{name!r}])"
        )


def num_characters(texts: pa.Array) -> int:
    """The bytes of all texts of a dictionary, each as often as it occurs; 0 of other types."""
    if not pa.types.is_dictionary(texts.type):
        return 0
    lengths = pc.binary_length(texts.dictionary)
    return int(pc.sum(lengths.take(texts.indices).cast(pa.int64())).as_py() or 0)
