"""Fusion of run files without a collection: ids stand for rows, in sorted order."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.evaluation.run_files.runs import read_run
from raypipe.ranking.fuse import fuse_tables


def fuse_files(runs: Sequence[Path], *, method: str, depth: int, out: Path) -> dict[str, int]:
    """Counts of queries and lines; writes fused.trec and fused.tsv into the folder.

    Ties go by passage id ascending, as a string, since no collection gives rows.
    """
    tables = [read_run(path) for path in runs]
    queries = _first_seen([table["query_id"] for table in tables])
    passages = pc.unique(pa.chunked_array([c for t in tables for c in t["passage_id"].chunks]))
    passages = passages.take(pc.sort_indices(passages))
    rows = [
        _with_rows(table, queries, passages, path.name)
        for table, path in zip(tables, runs, strict=True)
    ]
    fused = fuse_tables(rows, method=method, scored_by="fused", depth=depth)
    columns = [queries.take(fused["query_row"]), passages.take(fused["passage_row"])]
    run = pa.table([*columns, fused["rank"], fused["score"]], schema=schema.RUN_FILE)
    out.mkdir(parents=True, exist_ok=True)
    write_trec(run, out / "fused.trec", tag="fused")
    write_msmarco(run, out / "fused.tsv")
    return {"queries": len(queries), "lines": run.num_rows}


def _first_seen(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    return pc.unique(pa.chunked_array([chunk for column in columns for chunk in column.chunks]))


def _with_rows(table: pa.Table, queries: pa.Array, passages: pa.Array, name: str) -> pa.Table:
    query_rows = pc.index_in(table["query_id"], value_set=queries).cast(pa.int32())
    passage_rows = pc.index_in(table["passage_id"], value_set=passages).cast(pa.int64())
    order = np.lexsort((table["rank"].to_numpy(), query_rows.to_numpy()))
    names = pa.repeat(pa.scalar(name, pa.string()), table.num_rows)
    columns = [query_rows, passage_rows, table["rank"], table["score"], names]
    return pa.table(columns, schema=schema.RUN).take(pa.array(order))
