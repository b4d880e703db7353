"""The stage of approximate search: an index proposes passages, their vectors score them."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from raypipe.engines.ann_settings import faiss_class, faiss_version
from raypipe.stages.embeddings import all_vectors, dim_of, query_vectors
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.search import at_most_once_a_second, lists_payload
from raypipe.stages.stage import (
    UNTIMED,
    Beat,
    Expectations,
    Expected,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
)
from raypipe.stages.tables import LINE_BYTES, Sides, expected_lines, query_blocks
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class AnnSearchStage(Stage):
    """The best `depth` of the passages that an index proposes for each query, exactly scored."""

    name: str
    index: Stored
    """A graph, or codes."""
    centres: Stored | None
    """Those of the codes."""
    embeddings: Stored
    vectors: Stored
    """Of the queries."""
    sides: Sides
    depth: int
    refine: int
    """Passages proposed for each place."""
    ef_search: int | None = None
    probes: int | None = None
    excluded: Excluded = NOTHING
    """A query that excludes n passages is proposed n more, so that these take no one's place."""

    @property
    def spec(self) -> StageSpec:
        """The index, the embeddings of both sides, every setting, faiss's version, and what is
        excluded."""
        params = {
            "name": self.name,
            "depth": self.depth,
            "refine": self.refine,
            "ef_search": self.ef_search,
            "probes": self.probes,
            "faiss": faiss_version(),
        }
        stores = {"index": self.index, "embeddings": self.embeddings, "vectors": self.vectors}
        stores |= self.sides.stores() | ({"centres": self.centres} if self.centres else {})
        stores |= self.excluded.stores()
        return spec_over("ann-search", 1, params, stores, produces="run")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.vectors, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return LINE_BYTES * self.places * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """Lines and seconds of the search."""
        facts = {"rows": self.places * self.vectors.num_rows}
        return expected_lines(self.shards(expectations.sizing), facts, note=UNTIMED)

    @property
    def places(self) -> int:
        """The depth, or the number of passages if they are fewer."""
        return min(self.depth, self.embeddings.num_rows)

    def open(self, site: Site) -> Opened:
        """Open it: the index is held in memory. Each payload is the run of a block."""
        from raypipe.engines.exact_scores import checked_shards

        if self.centres is None:
            index = opened_graph(self.index)
        else:
            index = opened_lists(self.index, self.centres, self.embeddings)
        shards = checked_shards(all_vectors(self.embeddings), dim_of(self.embeddings))
        return Opened(partial(self._run, index, shards, site), {"faiss": faiss_class()})

    def _run(
        self, index: Any, shards: Any, site: Site, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        from raypipe.engines.ann import Effort, approximate_topk

        queries = query_vectors(self.vectors, shard.start, shard.stop)
        counts = self.excluded.counts(shard.start, shard.stop)
        most = self.excluded.depth(self.places, shard.start, shard.stop, self.embeddings.num_rows)
        rows = np.full((len(queries), most), -1, np.int64)
        scores = np.zeros((len(queries), most), np.float32)
        for more in np.unique(counts).tolist():  # a query's result depends on its own number alone
            these = np.flatnonzero(counts == more)
            best, of_best = approximate_topk(
                index,
                queries[these],
                shards,
                depth=min(self.places + more, most),
                effort=Effort(self.places * self.refine + more, self.ef_search, self.probes),
                threads=site.threads,
                beat=at_most_once_a_second(beat),
            )
            rows[these, : best.shape[1]], scores[these, : best.shape[1]] = best, of_best
        return lists_payload(
            site,
            shard,
            self.vectors,
            rows,
            scores,
            scored_by=self.name,
            cut=partial(self.excluded.cut, depth=self.depth),
            numerics=faiss_class(),
        )


def opened_graph(graph: Stored) -> Any:
    """A graph (HNSW); its ids are rows of the collection."""
    from raypipe.engines.ann import read_index

    return read_index(graph.path(graph.manifest.records[0]))


def opened_lists(codes: Stored, centres: Stored, embeddings: Stored) -> Any:
    """An IVF-PQ index of all codes; its ids are rows of the collection."""
    from raypipe.engines.ann import read_index

    index = read_index(centres.path(centres.manifest.records[0]))
    ranges = [(row, len(vectors)) for row, vectors in all_vectors(embeddings)]
    rows = np.concatenate([np.empty(0, np.int64), *(np.arange(a, a + n) for a, n in ranges)])
    first = 0
    for record in codes.manifest.records:
        part = np.load(codes.path(record), mmap_mode="r", allow_pickle=False)
        if len(part):
            index.add_sa_codes(np.ascontiguousarray(part), rows[first : first + len(part)])
        first += len(part)
    assert first == len(rows), "codes of other rows than the embeddings have"
    return index
