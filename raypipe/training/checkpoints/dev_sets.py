"""A training's dev sets in memory: candidates and judgements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.stages.texts.ids import ids_of_rows
from raypipe.training.job import DevPassages, DevStores, Job
from raypipe.training.steps.texts import Rows


@dataclass(frozen=True)
class Documents:
    """The passages of a dev set's documents, by the row of each."""

    run: pa.Table
    """All passages of the first k documents, schema.RUN."""
    map: PassageMap
    method: str
    k: int


@dataclass(frozen=True)
class DevData:
    """The candidates of a query set, and the judgements."""

    run: pa.Table
    """schema.RUN, each query's lines together in rank order."""
    query_ids: Mapping[int, str]
    passage_ids: Mapping[int, str]
    """The ids of the run's rows."""
    qrels: pa.Table
    queries: Rows
    passages: Rows
    k: int
    documents: Documents | None = None
    """Where the run ranks documents, and `passage_ids` are theirs."""


def dev_of(job: Job) -> Sequence[DevData]:
    """The dev sets in memory."""
    return [_dev(dev) for dev in job.dev]


def _dev(dev: DevStores) -> DevData:
    ids = dev.queries.table(schema.QUERIES)["query_id"].to_pylist()
    qrels = read_qrels(Path(dev.qrels))
    if dev.queries_at_most is not None:
        ids = ids[: dev.queries_at_most]
    qrels = qrels.filter(pc.is_in(qrels["query_id"], pc.cast(ids, "string")))
    if not any(grade > 0 for grade in qrels["relevance"].to_pylist()):
        raise InputError(
            f"{dev.qrels}: no relevant passage for the queries that are measured on; a checkpoint "
            "cannot be chosen by them"
        )
    run = read_queries_of_run(dev.run, 0, len(ids))
    rows = sorted(set(run["passage_row"].to_pylist()))
    names = ids_of_rows(dev.collection, np.array(rows, np.int64))
    return DevData(
        run=run,
        query_ids=dict(enumerate(ids)),
        passage_ids=dict(zip(rows, names, strict=True)),
        qrels=qrels,
        queries=TokenRows(dev.query_tokens),
        passages=TokenRows(dev.passage_tokens),
        k=dev.k,
        documents=None if dev.documents is None else _documents(dev.documents, len(ids)),
    )


def _documents(dev: DevPassages, num_queries: int) -> Documents:
    run = read_queries_of_run(dev.run, 0, num_queries)
    return Documents(run, PassageMap(dev.map), dev.method, dev.k)
