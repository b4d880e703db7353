"""The stage that measures an approximate run against exact search, on some of its queries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from raypipe.stages.embeddings import all_vectors, query_vectors
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.search import exact_lists
from raypipe.stages.stage import UNTIMED, Beat, Payload, Site
from raypipe.stages.tables import WholeStage
from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored, spec_over

CUTOFF = 10
"""Recall is also measured over the first ranks, which readers see."""


def recall_stage(
    run: Stored,
    embeddings: Stored,
    vectors: Stored,
    depth: int,
    num_queries: int,
    excluded: Excluded = NOTHING,
) -> WholeStage:
    """Recall of a run's first 10 and of its whole depth, over queries evenly spaced in their set.

    A query's recall at k is the share of the exact first k that is among the run's first k.
    The file is JSON: the recall by cutoff, and the number of queries. `vectors` are the queries'.
    """

    def write(site: Site, shard: Shard, beat: Beat) -> Payload:
        chosen = _chosen(vectors, num_queries)
        queries = query_vectors(vectors, shard.start, shard.stop)[chosen]
        blocks = all_vectors(embeddings)
        fetched = excluded.depth(depth, shard.start, shard.stop, embeddings.num_rows)
        rows, _ = exact_lists(queries, blocks, depth=fetched, site=site, beat=beat)
        table = read_queries_of_run(run, shard.start, shard.stop)
        owners, passages = table["query_row"].to_numpy(), table["passage_row"].to_numpy()
        recalls: dict[int, list[float]] = {min(CUTOFF, depth): [], depth: []}
        for query, exact in zip(chosen, rows, strict=True):
            first, last = np.searchsorted(owners, (query, query + 1))
            exact = exact[exact >= 0]
            exact = exact[excluded.keeps(np.full(len(exact), query), exact)]
            for cutoff, values in recalls.items():
                best = exact[:cutoff]
                if len(best):
                    values.append(
                        float(np.isin(best, passages[first : min(last, first + cutoff)]).mean())
                    )
        means = {str(k): float(np.mean(values)) for k, values in recalls.items() if values}
        path = site.scratch / "recall.json"
        path.write_text(json.dumps({"queries": len(chosen), "recall": means}, sort_keys=True))
        return Payload(path, {"rows": shard.num_rows})

    stores = {"run": run, "embeddings": embeddings, "vectors": vectors} | excluded.stores()
    params: dict[str, Json] = {"depth": depth, "queries": num_queries}
    spec = partial(spec_over, "ann-recall", 1, params, stores, produces="recall")
    none = json.dumps({"queries": num_queries, "recall": {}}).encode()
    return WholeStage(spec, vectors, write, expected_payload=none, note=UNTIMED)


def _chosen(vectors: Stored, num_queries: int) -> list[int]:
    """The rows of the queries to measure on, evenly spaced among those with an embedding."""
    skipped = set(vectors.manifest.skipped_rows)
    rows = [row for row in range(vectors.num_rows) if row not in skipped]
    num = min(num_queries, len(rows))
    return [rows[place * len(rows) // num] for place in range(num)]


@dataclass(frozen=True, slots=True)
class Recall:
    """How much of exact search's result a run has."""

    queries: int
    """Measured."""
    by_cutoff: Mapping[int, float]

    def to_json(self) -> dict[str, object]:
        """As in summary.json."""
        return {"queries": self.queries, "recall": {str(k): v for k, v in self.by_cutoff.items()}}


def measured(recall: Stored) -> Recall:
    """The recall that the stage measured."""
    body = json.loads(recall.path(recall.manifest.records[0]).read_text())
    by_cutoff = sorted((int(k), value) for k, value in body["recall"].items())
    return Recall(body["queries"], dict(by_cutoff))
