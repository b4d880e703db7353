"""Query files: id TAB text, BEIR's queries.jsonl, and the queries inside a `top1000` file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from raypipe.data.candidates import parse_candidate
from raypipe.data.files.compression import open_binary
from raypipe.data.files.inputs import find_files
from raypipe.data.files.problems import Problems
from raypipe.data.files.records import lines
from raypipe.data.files.rows import parsed_lines
from raypipe.data.formats.fields import id_and_text, json_id, json_object, json_text
from raypipe.errors import InputError


def read_queries(path: Path) -> list[tuple[str, str]]:
    """(query_id, text) in file order; ids are strings, texts are unchanged.

    Two ids may share a text. A `top1000` file gives its distinct queries in order of first
    appearance.

    Args:
        path: the file, or a BEIR folder with queries.jsonl. A file whose first byte is `{` is
            JSON lines, one with `top1000` in its name has four columns, and anything else is
            id TAB text (MS MARCO's and Pyserini's topics).

    Raises:
        InputError: invalid lines, repeated ids, or no queries.
    """
    if path.is_dir():
        (path,) = find_files([path], patterns=[r"queries\.jsonl"], expected="queries.jsonl")
    kind = _guess(path)
    problems = Problems()
    rows = parsed_lines(path, _PARSERS[kind], problems)
    queries = _distinct(path, rows, problems, repeats=kind == "top1000")
    problems.raise_if_any()
    if not queries:
        raise InputError(f"{path}: no queries in the file")
    return queries


def _guess(path: Path) -> Literal["tsv", "jsonl", "top1000"]:
    with open_binary(path) as stream:
        if next(lines(stream, name=str(path)), b"").startswith(b"{"):
            return "jsonl"
    return "top1000" if "top1000" in path.name else "tsv"


def _parse_json(record: bytes) -> tuple[str, str]:
    fields = json_object(record)
    query_id, text = json_id(fields, "_id", "id", "query_id", "qid"), json_text(fields, "text")
    text.encode()  # refuses half a surrogate pair
    return query_id, text


def _parse_candidate(record: bytes) -> tuple[str, str]:
    query_id, _, text = parse_candidate(record)
    return query_id, text


_PARSERS: dict[str, Callable[[bytes], tuple[str, str]]] = {
    "tsv": id_and_text,
    "jsonl": _parse_json,
    "top1000": _parse_candidate,
}


def _distinct(
    path: Path, rows: Iterator[tuple[int, tuple[str, str]]], problems: Problems, *, repeats: bool
) -> list[tuple[str, str]]:
    """Queries in order of first appearance; a repeated id needs `repeats` and an equal text."""
    seen: dict[str, tuple[int, str]] = {}
    for number, (query_id, text) in rows:
        first, known = seen.setdefault(query_id, (number, text))
        if first != number and not (repeats and text == known):
            how = "with another text" if text != known else "with the same text"
            problems.add(
                f"{path}: line {number:,}: query id {query_id!r} again {how}, first in line"
                f" {first:,}; ids must be unique"
            )
    return [(query_id, text) for query_id, (_, text) in seen.items()]
