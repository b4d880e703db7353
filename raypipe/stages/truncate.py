"""The stage that cuts embeddings to their first dimensions, without a model."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import RowsFailed
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.encode import encode_settings
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, Stage
from raypipe.storage.payloads import write_vectors
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec, settings_digest
from raypipe.storage.store import Stored, spec_over


@dataclass(frozen=True)
class TruncateStage(Stage):
    """The first `dims` dimensions of each stored embedding; see `truncated`.

    Rows in quarantine stay there. A row's numerics class is that of its embedding.
    """

    embeddings: Stored
    dims: int
    model: ModelFolder
    """The model of the embeddings."""
    side: str
    """passage or query."""
    skips_rows: ClassVar[bool] = True

    @property
    def spec(self) -> StageSpec:
        """The embeddings, the number of dimensions, and whether the length is 1 again."""
        params: dict[str, Any] = {
            "dims": self.dims,
            "normalise": self.model.encoder.normalise,
            "side": self.side,
        }
        stores = {"embeddings": self.embeddings}
        whole = encode_settings(self.model, self.side)[1]
        key = settings_digest("truncate", 1, {"embeddings": whole, **params})
        return spec_over("truncate", 1, params, stores, produces="vectors", reuse_key=key)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """The shards of the embeddings."""
        return [record.shard for record in self.embeddings.manifest.records]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return 2 * self.dims * num_rows

    def open(self, site: Site) -> Opened:
        """Open it: fp16 [rows, dims], with zeros for the rows of `skip`.

        Its `run` raises RowsFailed for rows whose embedding is in quarantine.
        """
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        beat(())
        skipped = [
            r for r in self.embeddings.manifest.skipped_rows if shard.start <= r < shard.stop
        ]
        if failed := [row for row in skipped if row not in skip]:
            raise RowsFailed(failed, "its embedding is in quarantine")
        record = self.embeddings.manifest.records[shard.index]
        vectors = self.embeddings.vectors(record)
        cut = truncated(vectors, self.dims, normalise=self.model.encoder.normalise)
        path = scratch / f"{shard.index}.npy"
        write_vectors(path, cut)
        return Payload(path, {"rows": shard.num_rows, "numerics": record.facts["numerics"]})


def truncated(vectors: NDArray[np.float16], dims: int, *, normalise: bool) -> NDArray[np.float16]:
    """The first `dims` of each stored vector, fp16 [N, dims]; divided by their length if asked for.

    The bytes are the same on every machine: in float64 the squares of stored values up to 1 and
    their sum up to 32 are exact, in any order, and the root and the quotients are rounded once.
    """
    cut: NDArray[np.float16] = vectors[:, :dims]
    if not normalise:
        return np.array(cut)
    wide = cut.astype(np.float64)
    lengths = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    return (wide / np.where(lengths > 0, lengths, 1)).astype(np.float16)
