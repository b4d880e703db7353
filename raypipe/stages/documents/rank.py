"""The stages between runs of passages and runs of documents."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from raypipe.ranking.documents import document_run, log_odds, passage_run, probabilities
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.query_blocks import (
    RUN_ROW_BYTES,
    Sides,
    num_lines,
    opened_blocks,
    query_blocks,
)
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

Conversion = Literal["none", "log-odds", "probability", "probability-of-log"]
"""What becomes of a score before it is aggregated: nothing; the log-odds of a log-probability; the
probability of log-odds, or of a log-probability."""
_CONVERT = {
    "none": None,
    "log-odds": log_odds,
    "probability": probabilities,
    "probability-of-log": lambda scores: np.exp(scores.astype(np.float64)),
}


@dataclass(frozen=True)
class DocumentsRunStage:
    """A run of documents from a run of their passages; see ranking.documents for the methods."""

    name: str
    run_store: Stored
    map: Stored
    sides: Sides
    """The queries and the documents."""
    method: str
    k: int | None
    conversion: Conversion
    depth: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The run, the map, and how the passages' scores become the document's."""
        params: dict[str, Json] = {"method": self.method, "depth": self.depth}
        params |= {"k": self.k, "conversion": self.conversion}
        stores = {"run": self.run_store, "map": self.map} | self.sides.stores()
        return spec_over("documents-run", 1, params, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return RUN_ROW_BYTES * min(self.depth * num_rows, num_lines(self.run_store))

    def open(self, site: Site) -> Opened:
        """See Stage; each block's run of documents."""
        known = PassageMap(self.map)

        def block(shard: Shard) -> pa.Table:
            run = read_queries_of_run(self.run_store, shard.start, shard.stop)
            rows = run["passage_row"].to_numpy()
            return document_run(
                run,
                known.documents(rows),
                known.windows(rows),
                method=self.method,
                scored_by=self.name,
                k=self.k or 1,
                depth=self.depth,
                convert=_CONVERT[self.conversion],
            )

        return opened_blocks(site, block)


@dataclass(frozen=True)
class PassagesRunStage:
    """A run of all passages of a run's documents, in the order of the documents."""

    name: str
    run_store: Stored
    map: Stored
    sides: Sides
    """The queries and the passages."""
    documents: int
    at_most: int | None
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The run, the map, and how many documents and passages are taken."""
        params: dict[str, Json] = {"documents": self.documents, "at_most": self.at_most}
        stores = {"run": self.run_store, "map": self.map} | self.sides.stores()
        return spec_over("passages-run", 1, params, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage; with the mean number of passages of a document."""
        passages, documents = (
            int(self.map.manifest.records[0].facts[name]) for name in ("rows", "documents")
        )
        lines = min(self.documents * num_rows, num_lines(self.run_store))
        return RUN_ROW_BYTES * lines * -(-passages // max(1, documents))

    def open(self, site: Site) -> Opened:
        """See Stage; each block's run of passages."""
        known = PassageMap(self.map)

        def block(shard: Shard) -> pa.Table:
            run = read_queries_of_run(self.run_store, shard.start, shard.stop)
            run = run.filter(pa.array(run["rank"].to_numpy() <= self.documents))
            places, rows = known.passages(run["passage_row"].to_numpy(), self.at_most)
            return passage_run(run, places, rows, scored_by=self.name)

        return opened_blocks(site, block)
