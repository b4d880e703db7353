"""Exported runs as the tables of ranx and PyTerrier."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from raypipe.evaluation.lowered import lowered
from raypipe.evaluation.run_files.columns import encode

OTHERS = ("ranx", "pyterrier")


def write_for(tool: str, run: pa.Table, path: Path) -> None:
    """Write a run (schema.RUN_FILE) as Parquet with the column names of `tool`, one of `OTHERS`.

    ranx: q_id, doc_id, score. PyTerrier: qid, docno, rank from 0, score. Both tools sort by score
    again, so tied scores are lowered as in a TREC file: each keeps the run's order.
    """
    scores = lowered(run["score"].to_numpy(), encode(run["query_id"]).codes)
    score = pa.array(scores.astype(np.float64))
    columns = {"query_id": run["query_id"], "passage_id": run["passage_id"]}
    if tool == "ranx":
        names = ["q_id", "doc_id", "score"]
        table = pa.table([*columns.values(), score], names=names)
    else:
        rank = pa.array(run["rank"].to_numpy().astype(np.int64) - 1)
        names = ["qid", "docno", "rank", "score"]
        table = pa.table([*columns.values(), rank, score], names=names)
    pq.write_table(table, path)
