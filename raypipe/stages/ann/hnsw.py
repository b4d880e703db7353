"""The stage that builds a graph (HNSW) over embeddings."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from raypipe.engines.ann_settings import faiss_class, faiss_version
from raypipe.stages.ann.beating import beating
from raypipe.stages.embeddings import all_vectors, dim_of
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class HnswStage:
    """A graph over all embeddings, in one shard, by one thread, in row order."""

    embeddings: Stored
    links: int
    ef_construction: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The embeddings, the settings and faiss's version."""
        params = {
            "links": self.links,
            "ef_construction": self.ef_construction,
            "faiss": faiss_version(),
        }
        stores = {"embeddings": self.embeddings}
        return spec_over("ann-hnsw", 1, params, stores, produces="ann-hnsw")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.embeddings.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage: the vectors, their links and their rows."""
        links = self.embeddings.num_rows * (8 * self.links + 32)
        return (self.embeddings.num_bytes + links) * num_rows // max(1, num_planned)

    def open(self, site: Site) -> Opened:
        """See Stage; the payload is an index as faiss writes it."""
        return Opened(partial(self._run, site.scratch), {"faiss": faiss_class()})

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.engines.ann import build_hnsw, write_index

        index = build_hnsw(
            all_vectors(self.embeddings),
            dim_of(self.embeddings),
            links=self.links,
            ef_construction=self.ef_construction,
            beat=lambda: beat(()),
        )
        path = scratch / "hnsw.faiss"
        beating(beat, lambda: write_index(index, path))
        return Payload(path, {"rows": shard.num_rows, "numerics": faiss_class()})
