"""Column names and Arrow schemas: the words that tables, files and code share."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

PASSAGES = pa.schema([("passage_id", pa.string()), ("text", pa.string())])
"""A collection; a passage's row is its position over all shards, from 0."""

DOCUMENTS = pa.schema(
    [
        ("document_id", pa.string()),
        ("title", pa.string()),
        ("headings", pa.string()),
        ("body", pa.string()),
    ]
)
"""Documents; a document's row is its position over all shards, from 0. Where the collection's files
hold the passages, title, headings and body are empty."""

HOMES = pa.schema([("document_id", pa.string()), ("spans", pa.string())])
"""For each passage the document that it is part of, and its spans there, as given."""

QUERIES = pa.schema([("query_id", pa.string()), ("text", pa.string())])
"""A query set; a query's row is its position in the queries file, from 0."""

RUN = pa.schema(
    [
        ("query_row", pa.int32()),
        ("passage_row", pa.int64()),
        ("rank", pa.int32()),
        ("score", pa.float32()),
        ("scored_by", pa.string()),
    ]
)
"""A run in a store, ordered by query_row, then rank from 1; ties by ascending passage_row, those of
aggregated pairs by their order in the run below. In a run of documents `passage_row` is the
document's row."""

EXCLUDED = pa.schema([("query_row", pa.int32()), ("passage_row", pa.int64())])
"""Passages that take no place in a query's rankings, ordered by both; of runs of documents, the
documents."""

CANDIDATES = pa.schema(
    [("query_row", pa.int32()), ("passage_row", pa.int64()), ("other_row", pa.int64())]
)
"""What a reranker is to score, ordered by (query_row, passage_row, other_row): passage i and, for a
duoBERT model, passage j. For a monoBERT model `other_row` is -1."""

SCORES = CANDIDATES.append(pa.field("score", pa.float32()))
"""Scored candidates in the same order: a monoBERT model's score, or a duoBERT model's p(i, j), the
probability that passage i is more relevant than passage j."""

RUN_FILE = pa.schema(
    [
        ("query_id", pa.string()),
        ("passage_id", pa.string()),
        ("rank", pa.int32()),
        ("score", pa.float32()),
    ]
)
"""A run for users and run files: original ids, best first within a query. In a run of documents
`passage_id` is the document's id."""

QRELS = pa.schema(
    [("query_id", pa.string()), ("passage_id", pa.string()), ("relevance", pa.int32())]
)
"""Judgements; relevance is the grade in the file."""


def upserts(dim: int) -> pa.Schema:
    """Passages for a store of vectors, under the names that such stores give to columns."""
    vector = pa.list_(pa.float32(), dim)
    return pa.schema([("id", pa.string()), ("text", pa.string()), ("vector", vector)])


DELETES = pa.schema([("id", pa.string())])
"""Passages that leave a store of vectors."""

MAX_GRADE = 1_000_000
"""Of a judgement and of a gain. trec_eval takes 8 bytes times the highest grade of each query, and
time: 8 MB and 3 ms at this one, 77 MB and 66 ms at ten times as much (measured)."""


def strings(values: Sequence[str]) -> pa.StringArray:
    """The texts as a column, [N] in their order, without pandas; see `numbers`.

    Raises:
        ArrowInvalid: they have 2 GiB or more as UTF-8.
    """
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    content = pa.py_buffer(b"".join(encoded))
    large = pa.LargeStringArray.from_buffers(len(encoded), pa.py_buffer(ends), content)
    return large.cast(pa.string())


def numbers(values: NDArray[np.integer]) -> pa.Array:
    """The numbers as a column, [N] in their order and of their dtype.

    `pa.array` would import pandas, to see whether the values are its: a third of the time of a
    rerun that computes nothing.
    """
    kind = pa.from_numpy_dtype(values.dtype)
    own = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(own)])
