"""Id columns as integer codes, and the checks that a table is a run."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError

SHOWN = 10
"""Number of offending values that a message names; the others are counted."""


class Codes(NamedTuple):
    """A string column as integers: equal strings have equal codes."""

    codes: NDArray[np.int32]
    """int32 [N], numbered from 0 in order of first appearance."""
    names: pa.Array
    """The distinct strings, in code order."""


def encode(column: pa.ChunkedArray) -> Codes:
    """The column's codes; the strings may be too long in all for one Arrow array."""
    encoded = column.dictionary_encode()
    if not encoded.num_chunks:
        return Codes(np.empty(0, dtype=np.int32), pa.array([], column.type))
    # Arrow gives all chunks the same dictionary; unify_dictionaries would hash it for each again.
    assert len({len(chunk.dictionary) for chunk in encoded.chunks}) == 1
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return Codes(codes, encoded.chunk(0).dictionary)


def decode(codes: Codes, positions: NDArray[np.int64]) -> pa.ChunkedArray:
    """The strings at these positions, in chunks of a million."""
    step = 1_000_000
    parts = [positions[start : start + step] for start in range(0, len(positions), step)]
    chunks = [codes.names.take(pa.array(codes.codes[part])) for part in parts]
    return pa.chunked_array(chunks, codes.names.type)


def repeats(queries: Codes, passages: Codes) -> list[NDArray[np.int64]]:
    """Positions of each (query, passage) that occurs more than once, by first appearance."""
    pairs = queries.codes.astype(np.int64) * len(passages.names)
    pairs += passages.codes
    ordered = np.sort(pairs)
    if not (ordered[1:] == ordered[:-1]).any():
        return []
    del ordered
    by_pair = np.argsort(pairs, kind="stable")
    groups = np.split(by_pair, np.flatnonzero(np.diff(pairs[by_pair])) + 1)
    return sorted((group for group in groups if len(group) > 1), key=lambda group: int(group[0]))


def places(queries: NDArray[np.integer]) -> NDArray[np.int64]:
    """Each line's position within its stretch of equal query codes, from 1, int64 [N]."""
    if not len(queries):
        return np.empty(0, dtype=np.int64)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(queries)) + 1])
    lengths = np.diff(np.append(starts, len(queries)))
    result: NDArray[np.int64] = np.arange(len(queries)) - np.repeat(starts, lengths) + 1
    return result


def check_run(table: pa.Table) -> None:
    """Returns nothing if the table is a run of `schema.RUN_FILE` with its lines in rank order.

    Raises:
        InputError: other columns, a query whose lines are not together, ranks that are not 1..n, or
            a passage twice for one query (its relevance would count twice).
    """
    if not table.schema.equals(schema.RUN_FILE):
        raise InputError(
            f"run: expected columns {_columns(schema.RUN_FILE)}; found {_columns(table.schema)}"
        )
    queries, passages = encode(table["query_id"]), encode(table["passage_id"])
    problems = []
    if np.count_nonzero(np.diff(queries.codes)) + 1 > max(len(queries.names), 1):
        problems.append("run: a query occurs in two places; expected its lines together")
    rank = table["rank"].to_numpy()
    wrong = np.flatnonzero(rank != places(queries.codes))
    if len(wrong):
        query = table["query_id"][int(wrong[0])].as_py()
        problems.append(f"run: query {query}: expected ranks 1, 2, 3, ...; found {rank[wrong[0]]}")
    for group in repeats(queries, passages)[:SHOWN]:
        query, passage = (table[name][int(group[0])].as_py() for name in ("query_id", "passage_id"))
        problems.append(f"run: query {query} ranks passage {passage} {len(group)} times")
    if problems:
        raise InputError(problems)


def unprintable(names: pa.Array) -> list[str]:
    """The strings that no run file can hold: empty, or with white space or control characters.

    Unicode's separators and C1 controls count too: readers that split decoded text split at them.
    """
    bad = pc.match_substring_regex(names, r"^$|[\x00-\x20\x7f-\x{a0}\p{Z}]")
    return list(names.filter(bad).to_pylist())


def _columns(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in columns)
