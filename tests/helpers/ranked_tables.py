"""Runs and judgements from rows."""

import numpy as np
import pyarrow as pa

from raypipe import schema

RNG = np.random.default_rng(5)


def table(rows):
    return pa.Table.from_pylist(
        [
            {"query_id": q, "passage_id": p, "rank": r, "score": float(-r)}
            for q, passages in rows.items()
            for r, p in enumerate(passages, 1)
        ],
        schema.RUN_FILE,
    )


def qrels_of(rows):
    return pa.Table.from_pylist(
        [{"query_id": q, "passage_id": p, "relevance": g} for q, p, g in rows], schema.QRELS
    )


def write_trec(path, rows):
    path.write_text("".join(f"{q} Q0 {p} {r} {s} x\n" for q, p, r, s in rows))
    return path
