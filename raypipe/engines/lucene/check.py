"""Checks that the documents of a Lucene index are the passages of their rows."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.errors import CorruptError, IncompleteError

SAMPLED = 1_000
"""Number of documents whose ids are read when an index is opened."""


class Opened(Protocol):
    """The parts of an opened index that are checked; see LuceneSearcher."""

    rows: NDArray[np.int64]
    num_documents: int
    num_segments: int

    def stored_ids(self, documents: Iterable[int]) -> list[str]:
        """The ids of documents as the index itself holds them."""


def compare_ids(ids: Path, rows: NDArray[np.int64], batches: Iterable[pa.Table]) -> None:
    """Returns nothing if document number i has the id of the passage at rows[i], for every i.

    Args:
        ids: JSON lines, lists of the stored ids in the order of the documents.
        rows: int64, ascending.
        batches: all passages in row order.

    Raises:
        IncompleteError: names the first document that differs.
    """
    with ids.open(encoding="utf-8") as lines:
        stored = (name for line in lines for name in json.loads(line))
        for document, expected in enumerate(_expected(rows, batches)):
            found = next(stored, None)
            if found != expected:
                raise IncompleteError(
                    f"Lucene: document {document}: expected passage {expected!r} of row "
                    f"{rows[document]}, found {_shown(found)}; the index is not kept. Run again"
                )
        surplus = next(stored, None)
        if surplus is not None:
            raise IncompleteError(
                f"Lucene: document {len(rows)}: expected {len(rows)} documents in all, found "
                f"also passage {surplus!r}; the index is not kept. Run again"
            )


def check_index(
    index: Opened,
    name: str,
    num_passages: int,
    ids_of_rows: Callable[[NDArray[np.int64]], Sequence[str]],
) -> None:
    """Returns nothing if an existing index is one segment in row order with the passages' ids.

    The ids of the first and last document and of about a thousand between, evenly spaced, are
    compared.

    Raises:
        CorruptError: names the store, the first document that differs and the remedy.
    """
    remedy = "delete this store and run again to rebuild it"
    num_rows = len(index.rows)
    if index.num_documents != num_rows:
        raise CorruptError(
            f"{name}: expected {num_rows} documents, found {index.num_documents}; {remedy}"
        )
    if index.num_segments != min(1, num_rows):
        raise CorruptError(f"{name}: expected one segment, found {index.num_segments}; {remedy}")
    falls = np.flatnonzero(np.diff(index.rows) <= 0)
    if len(falls):
        document = int(falls[0]) + 1
        raise CorruptError(
            f"{name}: document {document}: expected a row above {index.rows[document - 1]}, "
            f"found {index.rows[document]}; {remedy}"
        )
    if num_rows and not 0 <= index.rows[0] <= index.rows[-1] < num_passages:
        raise CorruptError(
            f"{name}: expected rows of {num_passages} passages, found rows {index.rows[0]} to "
            f"{index.rows[-1]}; {remedy}"
        )
    documents = np.unique(np.linspace(0, num_rows - 1, min(SAMPLED, num_rows)).astype(np.int64))
    rows = index.rows[documents]
    found = index.stored_ids(documents.tolist())
    for document, row, here, there in zip(documents, rows, found, ids_of_rows(rows), strict=True):
        if here != there:
            raise CorruptError(
                f"{name}: document {document}: expected passage {there!r} of row {row}, "
                f"found {here!r}; {remedy}"
            )


def _expected(rows: NDArray[np.int64], batches: Iterable[pa.Table]) -> Iterator[str]:
    """The ids of the passages at `rows`; holds one batch in memory."""
    start = first = 0
    for batch in batches:
        stop = start + batch.num_rows
        last = int(np.searchsorted(rows, stop))
        yield from batch["passage_id"].take(rows[first:last] - start).to_pylist()
        start, first = stop, last


def _shown(name: str | None) -> str:
    return "no document" if name is None else f"passage {name!r}"
