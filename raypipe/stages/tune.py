"""The stage that chooses BM25's k1 and b from a grid, by one measure on an unreported query set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.engines.lucene.search import LuceneSearcher, search_all
from raypipe.evaluation.measures import evaluate
from raypipe.stages.bm25 import BM25_LINE_SECONDS, SEARCH_SECONDS, open_index
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.run_tables import run_table, with_ids
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    Needs,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
)
from raypipe.storage.records import Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class TuneStage(Stage):
    """Searches with every (k1, b) of the grid and measures it; the best one is `chosen`."""

    collection: Stored
    index: Stored
    queries: Stored
    qrels: Path
    measure: str
    k1: Sequence[float]
    b: Sequence[float]
    depth: int
    excluded: Excluded = NOTHING
    needs: Needs = Needs(jvm=True)

    @property
    def spec(self) -> StageSpec:
        """Index, queries and what they exclude, judgements, the grid and the measure."""
        params: dict[str, Any] = {"measure": self.measure, "k1": list(self.k1), "b": list(self.b)}
        params["depth"] = self.depth
        stores = {"index": self.index, "queries": self.queries} | self.excluded.stores()
        content = {"content:qrels": hash_file(self.qrels)}
        return spec_over("tune", 1, params, stores, produces="parameters", content=content)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.queries.num_rows)]

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: a search for each point of the grid, any of which may be chosen."""
        lines = self.queries.num_rows * min(self.depth, self.collection.num_rows)
        points = len(self.k1) * len(self.b)
        return Expected(
            shards=self.shards(expectations.sizing),
            num_bytes=0.0,
            seconds=SEARCH_SECONDS + points * lines * BM25_LINE_SECONDS,
            payload=self._grid([{"k1": self.k1[0], "b": self.b[0], "value": 0.0}]).encode(),
        )

    def open(self, site: Site) -> Opened:
        """Open it: JSON: the grid with its values, best first; ties by smaller k1, then b."""
        searcher = open_index(self.index, site.scratch / "index")
        return Opened(partial(self._run, searcher, site.scratch), close=searcher.close)

    def _run(
        self, searcher: LuceneSearcher, scratch: Path, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        queries = self.queries.table(schema.QUERIES)
        qrels = read_qrels(self.qrels)
        rows: list[dict[str, Any]] = []
        for k1 in self.k1:
            for b in self.b:
                beat(())
                value = self._value(searcher, queries, qrels, k1, b, warn=not rows)
                rows.append({"k1": k1, "b": b, "value": value})
        rows.sort(key=lambda row: (-row["value"], row["k1"], row["b"]))
        path = scratch / "tune.json"
        path.write_text(self._grid(rows))
        return Payload(path, {"rows": shard.num_rows})

    def _grid(self, points: Sequence[Mapping[str, Any]]) -> str:
        return json.dumps({"measure": self.measure, "grid": points}, sort_keys=True)

    def _value(
        self,
        searcher: LuceneSearcher,
        queries: pa.Table,
        qrels: pa.Table,
        k1: float,
        b: float,
        *,
        warn: bool,
    ) -> float:
        texts = queries["text"].to_pylist()
        depth = self.excluded.depth(self.depth, 0, len(texts), self.index.num_rows)
        lines = search_all(searcher, texts, k1=k1, b=b, depth=depth)
        table = self.excluded.cut(run_table(*lines, scored_by="tune"), self.depth)
        run = with_ids(table, queries, self.collection)
        return evaluate(run, qrels, [self.measure], warn=warn).mean[self.measure]


def chosen(tuned: Stored) -> tuple[float, float]:
    """(k1, b) with the best value."""
    best = json.loads(tuned.path(tuned.manifest.records[0]).read_text())["grid"][0]
    return best["k1"], best["b"]
