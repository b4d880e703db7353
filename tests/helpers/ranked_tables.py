"""Runs and judgements from rows."""

import numpy as np
import pyarrow as pa

from raypipe import schema

RNG = np.random.default_rng(5)


def table(rows):
    """Of query id -> passage ids, best first, schema.RUN_FILE."""
    return pa.Table.from_pylist(
        [
            {"query_id": q, "passage_id": p, "rank": r, "score": float(-r)}
            for q, passages in rows.items()
            for r, p in enumerate(passages, 1)
        ],
        schema.RUN_FILE,
    )


def run(*lines, scored_by="bm25"):
    """Of lines (query row, passage row, rank, score), schema.RUN."""
    columns = list(zip(*lines, strict=True)) if lines else [[], [], [], []]
    return pa.table([*map(list, columns), [scored_by] * len(lines)], schema=schema.RUN)


def qrels_of(rows):
    return pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )


def write_trec(path, rows):
    path.write_text("".join(f"{q} Q0 {p} {r} {s} x\n" for q, p, r, s in rows))
    return path
