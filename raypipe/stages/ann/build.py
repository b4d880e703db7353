"""The stages that build indexes of embeddings: a graph (HNSW), or the lists and codes of IVF-PQ."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from raypipe.engines.ann_settings import faiss_class, faiss_version
from raypipe.stages.embeddings import all_vectors, dim_of, ranked_vectors
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
from raypipe.stages.tables import WholeStage
from raypipe.storage.payloads import writing
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

Made = TypeVar("Made")
BEAT_SECONDS = 10.0
"""Between two heartbeats; a worker counts as dead after 120 s without one."""


def hnsw_stage(embeddings: Stored, links: int, ef_construction: int) -> WholeStage:
    """A graph over all embeddings, built by one thread, in row order.

    Its spec names the embeddings, the settings and faiss's version; the file is as faiss writes it.
    """

    def spec() -> StageSpec:
        params = {"links": links, "ef_construction": ef_construction, "faiss": faiss_version()}
        stores = {"embeddings": embeddings}
        return spec_over("ann-hnsw", 1, params, stores, produces="ann-hnsw")

    def write(site: Site, shard: Shard, beat: Beat) -> Payload:
        from raypipe.engines.ann import build_hnsw, write_index

        index = build_hnsw(
            all_vectors(embeddings),
            dim_of(embeddings),
            links=links,
            ef_construction=ef_construction,
            beat=lambda: beat(()),
        )
        path = site.scratch / "hnsw.faiss"
        beating(beat, lambda: write_index(index, path))
        return Payload(path, {"rows": shard.num_rows, "numerics": faiss_class()})

    def num_bytes(num_rows: int, num_planned: int) -> int:
        """The vectors, their links and their rows."""
        of_links = embeddings.num_rows * (8 * links + 32)
        return (embeddings.num_bytes + of_links) * num_rows // max(1, num_planned)

    return WholeStage(spec, embeddings, write, num_bytes, facts=_faiss, note=UNTIMED)


def train_stage(
    embeddings: Stored, lists: int, code_bytes: int, train_rows: int, seed: int
) -> WholeStage:
    """The centres of the lists and the parts of the codes, trained by one thread on drawn rows.

    Its spec names the embeddings, the settings, the seed and faiss's version. The file is an index
    without rows, as faiss writes it.
    """

    def spec() -> StageSpec:
        params = {
            "lists": lists,
            "code_bytes": code_bytes,
            "train_rows": train_rows,
            "seed": seed,
            "faiss": faiss_version(),
        }
        stores = {"embeddings": embeddings}
        return spec_over("ann-train", 1, params, stores, produces="ann-centres")

    def write(site: Site, shard: Shard, beat: Beat) -> Payload:
        from raypipe.engines.ann import train_ivf_pq, write_index

        drawn = _drawn(embeddings, train_rows, seed, beat)
        train = partial(train_ivf_pq, drawn, lists=lists, code_bytes=code_bytes, seed=seed)
        index = beating(beat, train)
        path = site.scratch / "centres.faiss"
        write_index(index, path)
        return Payload(path, {"rows": shard.num_rows, "numerics": faiss_class()})

    def num_bytes(num_rows: int, num_planned: int) -> int:
        """The centres, in fp32; a vector's own bytes are those of its fp16."""
        return 2 * (lists + 256) * (embeddings.num_bytes // max(1, embeddings.num_rows))

    return WholeStage(spec, embeddings, write, num_bytes, facts=_faiss, note=UNTIMED)


def _drawn(embeddings: Stored, train_rows: int, seed: int, beat: Beat) -> NDArray[np.float32]:
    """`train_rows` vectors, drawn without repetition by the seed from all, in row order."""
    total = embeddings.num_rows - len(embeddings.manifest.skipped_rows)
    chosen = np.sort(np.random.default_rng(seed).permutation(total)[:train_rows])
    drawn, first = [np.zeros((0, dim_of(embeddings)), np.float32)], 0
    for _, vectors in all_vectors(embeddings):
        beat(())
        low, high = np.searchsorted(chosen, (first, first + len(vectors)))
        drawn.append(vectors[chosen[low:high] - first].astype(np.float32))
        first += len(vectors)
    return np.concatenate(drawn)


@dataclass(frozen=True)
class CodesStage(Stage):
    """List and code of every row that is not in quarantine, a shard of embeddings at a time."""

    embeddings: Stored
    centres: Stored

    @property
    def spec(self) -> StageSpec:
        """The embeddings and the centres."""
        stores = {"embeddings": self.embeddings, "centres": self.centres}
        params: dict[str, Any] = {"faiss": faiss_version()}
        return spec_over("ann-codes", 1, params, stores, produces="ann-ivf-pq")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """The shards of the embeddings."""
        return [record.shard for record in self.embeddings.manifest.records]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        vector = self.embeddings.num_bytes // max(1, self.embeddings.num_rows)
        return (vector // 16 + 4) * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """Rows, bytes and seconds of the codes or the graph."""
        return replace(super().expected(expectations), note=UNTIMED)

    def open(self, site: Site) -> Opened:
        """Open it: the payload is uint8 [rows, bytes], as numpy writes it."""
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


def _faiss() -> Mapping[str, Json]:
    return {"faiss": faiss_class()}


def beating(beat: Beat, work: Callable[[], Made]) -> Made:
    """The result of `work`, which runs on another thread while this one sends heartbeats."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(work)
        while not wait_for([begun], timeout=BEAT_SECONDS).done:
            beat(())
        return begun.result()
