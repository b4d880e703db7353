"""The stage that measures an approximate run against exact search, on some of its queries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from raypipe.stages.embeddings import all_vectors, query_vectors
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.search import exact_lists
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

CUTOFF = 10
"""Recall is also measured over the first ranks, which readers see."""


@dataclass(frozen=True)
class RecallStage:
    """Recall of a run's first 10 and of its whole depth, over queries evenly spaced in their set.

    A query's recall at k is the share of the exact first k that is among the run's first k.
    """

    run: Stored
    embeddings: Stored
    vectors: Stored
    """Of the queries."""
    depth: int
    num_queries: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The run, the embeddings of both sides, the depth and the number of queries."""
        stores = {"run": self.run, "embeddings": self.embeddings, "vectors": self.vectors}
        params = {"depth": self.depth, "queries": self.num_queries}
        return spec_over("ann-recall", 1, params, stores, produces="recall")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.vectors.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return 0

    def open(self, site: Site) -> Opened:
        """See Stage; JSON: the recall by cutoff, and the number of queries."""
        return Opened(partial(self._run, site))

    def _run(self, site: Site, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        chosen = self.chosen()
        queries = query_vectors(self.vectors, shard.start, shard.stop)[chosen]
        blocks = all_vectors(self.embeddings)
        rows, _ = exact_lists(queries, blocks, depth=self.depth, site=site, beat=beat)
        table = read_queries_of_run(self.run, shard.start, shard.stop)
        owners, found = table["query_row"].to_numpy(), table["passage_row"].to_numpy()
        recalls: dict[int, list[float]] = {min(CUTOFF, self.depth): [], self.depth: []}
        for query, exact in zip(chosen, rows, strict=True):
            first, last = np.searchsorted(owners, (query, query + 1))
            for cutoff, values in recalls.items():
                wanted = exact[:cutoff][exact[:cutoff] >= 0]
                if len(wanted):
                    values.append(
                        float(np.isin(wanted, found[first : min(last, first + cutoff)]).mean())
                    )
        means = {str(k): float(np.mean(values)) for k, values in recalls.items() if values}
        path = site.scratch / "recall.json"
        path.write_text(json.dumps({"queries": len(chosen), "recall": means}, sort_keys=True))
        return Payload(path, {"rows": shard.num_rows})

    def chosen(self) -> list[int]:
        """The rows of the queries to measure on, evenly spaced among those with an embedding."""
        skipped = set(self.vectors.manifest.skipped_rows)
        rows = [row for row in range(self.vectors.num_rows) if row not in skipped]
        num = min(self.num_queries, len(rows))
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
    """What the stage found."""
    found = json.loads(recall.path(recall.manifest.records[0]).read_text())
    by_cutoff = sorted((int(k), value) for k, value in found["recall"].items())
    return Recall(found["queries"], dict(by_cutoff))
