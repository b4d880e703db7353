"""Finished stores as Parquet files, under our names and those of ranx and PyTerrier."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from raypipe import schema
from raypipe.driver.upkeep.exported_runs import write_for
from raypipe.driver.upkeep.upstream import row_ids, sides_of
from raypipe.stages.run_tables import with_ids
from raypipe.stages.texts.ids import ids_of_rows
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

ROWS_AT_ONCE = 10_000
"""Embeddings in one part of a Parquet file; in float32 of 768 values they take 30 MB."""


def write_embeddings(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns passage_id (or query_id) and embedding: lists of float32, which every reader has.

    The values are the stored fp16 ones. Rows in quarantine have none and are left out.
    """
    dim = stored.vectors(stored.manifest.records[0]).shape[1]
    name = "query_id" if spec.params["side"] == "query" else "passage_id"
    columns = pa.schema([(name, pa.string()), ("embedding", pa.list_(pa.float32(), dim))])
    ids, skipped = row_ids(stores, spec), list(stored.manifest.skipped_rows)
    with pq.ParquetWriter(out / "embeddings.parquet", columns) as writer:
        for record in stored.manifest.records:
            vectors = stored.vectors(record)
            for start in range(0, len(vectors), ROWS_AT_ONCE):
                part = vectors[start : start + ROWS_AT_ONCE].astype(np.float32)
                first = record.shard.start + start
                kept = np.setdiff1d(np.arange(first, first + len(part)), skipped)
                values = pa.array(part[kept - first].ravel())
                lists = pa.FixedSizeListArray.from_arrays(values, dim)
                rows = pa.table([[ids[row] for row in kept], lists], schema=columns)
                writer.write_table(rows)
    return stored.num_rows - len(skipped)


def write_passages(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns passage_id and text."""
    with pq.ParquetWriter(out / "passages.parquet", schema.PASSAGES) as writer:
        for record in stored.manifest.records:
            writer.write_table(stored.table(schema.PASSAGES, record.shard.start, record.shard.stop))
    return stored.num_rows


def write_run(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns query_id, passage_id, rank and the true score."""
    table = _run_of(stores, spec, stored)
    pq.write_table(table, out / "run.parquet")
    return int(table.num_rows)


def _run_of(stores: Storage, spec: StageSpec, stored: Stored) -> pa.Table:
    queries, collection = sides_of(stores, spec)
    run: pa.Table = stored.whole_table(schema.RUN)
    return with_ids(run, queries.table(schema.QUERIES), collection)


def write_foreign_run(
    tool: str, stores: Storage, spec: StageSpec, stored: Stored, out: Path
) -> int:
    """The columns of one of `exported_runs.OTHERS`."""
    table = _run_of(stores, spec, stored)
    write_for(tool, table.select(schema.RUN_FILE.names), out / "run.parquet")
    return int(table.num_rows)


def write_pairs(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns query_id, passage_id, other_id, probability (that the passage is more relevant)."""
    queries, collection = sides_of(stores, spec)
    pairs: pa.Table = stored.whole_table(schema.SCORES)
    sides = [
        pa.array(ids_of_rows(collection, pairs[name].to_numpy()), pa.string())
        for name in ("passage_row", "other_row")
    ]
    query_ids = queries.table(schema.QUERIES)["query_id"].take(pairs["query_row"])
    names = ["query_id", "passage_id", "other_id", "probability"]
    pq.write_table(
        pa.table([query_ids, *sides, pairs["score"]], names=names), out / "pairs.parquet"
    )
    return int(pairs.num_rows)
