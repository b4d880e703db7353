"""Triples by id, `query relevant irrelevant` a line, as MS MARCO's qidpidtriples."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.data.compression import open_binary
from raypipe.errors import InputError
from raypipe.training.examples import Examples

LINES_AT_ONCE = 500_000
Int32 = NDArray[np.int32]


def triple_examples(
    path: Path,
    query_rows: Mapping[str, int],
    rows_of: Callable[[list[str]], NDArray[np.int64]],
    refused: set[int],
    left_out: NDArray[np.int64],
) -> Examples:
    """The file's triples in its order, 12 bytes each, without those that are refused.

    Args:
        path: plain, .gz, .bz2 or .zst.
        query_rows: query id -> row.
        rows_of: passage ids -> rows, -1 where unknown.
        refused: query rows that must not be trained on.
        left_out: passages that must not be irrelevant ones, sorted.

    Raises:
        InputError: lines of other than three columns, or unknown ids, with the line's number.
    """
    parts = []
    number = 0
    for lines in _chunks(path):
        triples = [line.split() for line in lines]
        for place, triple in enumerate(triples):
            if len(triple) != 3:
                raise InputError(
                    f"{path}: line {number + place + 1:,}: expected query id, relevant and "
                    f"irrelevant passage id, found {len(triple)} columns"
                )
        queries = np.array([query_rows.get(t[0], -1) for t in triples], np.int64)
        passages = rows_of([p for t in triples for p in t[1:]]).reshape(-1, 2)
        unknown = (queries < 0) | (passages < 0).any(axis=1)
        if unknown.any():
            place = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"{path}: line {number + place + 1:,}: {' '.join(triples[place])}: an id is not "
                "in the queries or the collection"
            )
        kept = ~np.isin(queries, sorted(refused)) & ~np.isin(passages[:, 1], left_out)
        told = np.column_stack([queries, passages])[kept]
        parts.append(told.astype(np.int32))
        number += len(triples)
    if not parts:
        raise InputError(f"{path}: expected triples, found no line")
    every = np.concatenate(parts)
    return Examples(np.ascontiguousarray(every[:, 0]), np.ascontiguousarray(every[:, 1:]))


def _chunks(path: Path) -> Iterator[list[str]]:
    with open_binary(path) as stream:
        lines = (line.decode() for line in stream)
        while chunk := list(islice(lines, LINES_AT_ONCE)):
            yield chunk
