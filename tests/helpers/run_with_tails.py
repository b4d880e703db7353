"""A run with lines below those that are reordered."""

import pyarrow as pa

from raypipe import schema


def run_of(*lines):
    """Lines (query_row, passage_row, rank, score, scored_by)."""
    return pa.table([list(column) for column in zip(*lines, strict=True)], schema=schema.RUN)


RUN = run_of(
    (0, 8, 1, 9.0, "bm25"),
    (0, 3, 2, 8.0, "bm25"),
    (0, 70, 3, 1.0, "dense"),
    (0, 50, 4, 7.0, "bm25"),
    (0, 60, 5, 5.0, "bm25"),
    (0, 1, 6, 6.0, "dense"),
    (2, 4, 1, 2.0, "bm25"),
)
