"""BM25's k1 and b from a grid, by one measure on one query set that is reported nowhere."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.evaluation.measures import evaluate
from raypipe.search.lucene.search import search_all
from raypipe.stages.bm25 import open_index
from raypipe.stages.run_tables import run_table, with_ids
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing
from raypipe.storage.records import Json, Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored


@dataclass
class TuneStage:
    """Every (k1, b) of the grid searched and measured; the best is `chosen`."""

    collection: Stored
    index: Stored
    queries: Stored
    qrels: Path
    measure: str
    k1: Sequence[float]
    b: Sequence[float]
    depth: int
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """Index, queries, judgements, the grid and the measure."""
        params = {"measure": self.measure, "k1": list(self.k1), "b": list(self.b)}
        inputs = {
            "index": self.index.digest,
            "queries": self.queries.digest,
            "content:qrels": hash_file(self.qrels),
        }
        return StageSpec("tune", 1, {**params, "depth": self.depth}, inputs)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One."""
        return [Shard(0, 0, self.queries.num_rows)]

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        self._searcher = open_index(self.index, self.collection, site.scratch / "index")
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """JSON: the grid with its values, best first; ties by smaller k1, then smaller b."""
        queries = self.queries.table(schema.QUERIES)
        qrels = read_qrels(self.qrels)
        found: list[dict[str, Any]] = []
        for k1 in self.k1:
            for b in self.b:
                beat(())
                value = self._value(queries, qrels, k1, b, warn=not found)
                found.append({"k1": k1, "b": b, "value": value})
        found.sort(key=lambda row: (-row["value"], row["k1"], row["b"]))
        path = self._scratch / "tune.json"
        path.write_text(json.dumps({"measure": self.measure, "grid": found}, sort_keys=True))
        return Payload(path, {"rows": shard.num_rows})

    def _value(
        self, queries: pa.Table, qrels: pa.Table, k1: float, b: float, *, warn: bool
    ) -> float:
        texts = queries["text"].to_pylist()
        lines = search_all(self._searcher, texts, k1=k1, b=b, depth=self.depth)
        run = with_ids(run_table(*lines, scored_by="tune"), queries, self.collection)
        return evaluate(run, qrels, [self.measure], warn=warn).mean[self.measure]


def chosen(tuned: Stored) -> tuple[float, float]:
    """(k1, b) with the best value."""
    best = json.loads(tuned.path(tuned.manifest.records[0]).read_text())["grid"][0]
    return best["k1"], best["b"]
