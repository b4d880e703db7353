"""The stages of IVF-PQ: trained once on drawn rows, then the codes of each shard."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.ann_settings import faiss_class, faiss_version
from raypipe.stages.ann.beating import beating
from raypipe.stages.embeddings import all_vectors, dim_of, ranked_vectors
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.payloads import writing
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class TrainStage:
    """The centres of the lists and the parts of the codes, in one shard, by one thread."""

    embeddings: Stored
    lists: int
    code_bytes: int
    train_rows: int
    seed: int
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The embeddings, the settings, the seed and faiss's version."""
        params = {
            "lists": self.lists,
            "code_bytes": self.code_bytes,
            "train_rows": self.train_rows,
            "seed": self.seed,
            "faiss": faiss_version(),
        }
        stores = {"embeddings": self.embeddings}
        return spec_over("ann-train", 1, params, stores, produces="ann-centres")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.embeddings.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage: the centres, in fp32; a vector's own bytes are those of its fp16."""
        vector = self.embeddings.num_bytes // max(1, self.embeddings.num_rows)
        return 2 * (self.lists + 256) * vector

    def open(self, site: Site) -> Opened:
        """See Stage; the payload is an index without rows, as faiss writes it."""
        return Opened(partial(self._run, site.scratch), {"faiss": faiss_class()})

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.engines.ann import train_ivf_pq, write_index

        drawn = self._drawn(beat)
        train = partial(
            train_ivf_pq, drawn, lists=self.lists, code_bytes=self.code_bytes, seed=self.seed
        )
        index = beating(beat, train)
        path = scratch / "centres.faiss"
        write_index(index, path)
        return Payload(path, {"rows": shard.num_rows, "numerics": faiss_class()})

    def _drawn(self, beat: Beat) -> NDArray[np.float32]:
        """`train_rows` vectors, drawn without repetition by the seed from all, in row order."""
        total = self.embeddings.num_rows - len(self.embeddings.manifest.skipped_rows)
        generator = np.random.default_rng(self.seed)
        chosen = np.sort(generator.permutation(total)[: self.train_rows])
        drawn, first = [np.zeros((0, dim_of(self.embeddings)), np.float32)], 0
        for _, vectors in all_vectors(self.embeddings):
            beat(())
            low, high = np.searchsorted(chosen, (first, first + len(vectors)))
            drawn.append(vectors[chosen[low:high] - first].astype(np.float32))
            first += len(vectors)
        return np.concatenate(drawn)


@dataclass(frozen=True)
class CodesStage:
    """List and code of every row that is not in quarantine, a shard of embeddings at a time."""

    embeddings: Stored
    centres: Stored
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The embeddings and the centres."""
        stores = {"embeddings": self.embeddings, "centres": self.centres}
        params: dict[str, Any] = {"faiss": faiss_version()}
        return spec_over("ann-codes", 1, params, stores, produces="ann-ivf-pq")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Those of the embeddings."""
        return [record.shard for record in self.embeddings.manifest.records]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        vector = self.embeddings.num_bytes // max(1, self.embeddings.num_rows)
        return (vector // 16 + 4) * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; the payload is uint8 [rows, bytes], as numpy writes it."""
        from raypipe.engines.ann import read_index

        index = read_index(self.centres.path(self.centres.manifest.records[0]))
        return Opened(partial(self._run, index, site.scratch), {"faiss": faiss_class()})

    def _run(self, index: Any, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.engines.ann import codes_of

        codes = [np.empty((0, index.sa_code_size()), np.uint8)]
        for record, first, last in self.embeddings.overlapping(shard.start, shard.stop):
            for _, vectors in ranked_vectors(self.embeddings, record, first, last):
                beat(())
                codes.append(codes_of(index, vectors))
        path = scratch / f"{shard.index}.npy"
        with writing(path), path.open("wb") as stream:
            np.save(stream, np.concatenate(codes), allow_pickle=False)
        return Payload(path, {"rows": shard.num_rows, "numerics": faiss_class()})
