"""The stage that encodes word pieces as embeddings, fp16 [rows, dim] in each shard."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import RowsFailed
from raypipe.models.encoder import Encoder, load_encoder
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.opening import open_model
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tokens import taken
from raypipe.storage.payloads.vectors import write_vectors
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored, spec_over


@dataclass(frozen=True)
class EncodeStage:
    """One embedding per row of tokens; computed in fp32, stored as the nearest fp16."""

    tokens: Stored
    model: ModelFolder
    side: str
    """passage or query."""
    budget_tokens: int | None = None
    skips_rows: ClassVar[bool] = True
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The tokens, the weights, their configuration and every setting of the model."""
        params = {
            "weights_sha256": self.model.weights_sha256,
            "config": self.model.forward_config(),
            "conventions": self.model.encoder.to_json(),
            "side": self.side,
            "dtype": "fp16",
        }
        return spec_over("encode", 2, params, {"tokens": self.tokens}, produces="vectors")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows with about `shard_tokens` of work each."""
        num_rows = self.tokens.num_rows
        pieces = sum(int(r.facts["pieces"]) for r in self.tokens.manifest.records)
        tokens = pieces + 2 * num_rows
        num_shards = max(1, -(-tokens // sizing.shard_tokens))
        return ranges(num_rows, max(1, -(-num_rows // num_shards)))

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return 2 * int(self.model.config()["hidden_size"]) * num_rows

    def open(self, site: Site) -> Opened:
        """See Stage; embeddings of a shard's rows in order, with zeros for the rows of `skip`.

        Its `run` raises RowsFailed for vectors that are not finite, in fp32 or as fp16.
        """
        encoder, facts = open_model(load_encoder, self.model, site, self.budget_tokens)
        return Opened(partial(self._run, encoder, site.scratch), facts)

    def _run(
        self, encoder: Encoder, scratch: Path, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        kept = np.setdiff1d(np.arange(shard.start, shard.stop), np.asarray(list(skip), np.int64))
        flat, offsets = self.tokens.tokens(shard.start, shard.stop)
        if len(kept) < shard.num_rows:
            flat, offsets = taken(flat, offsets, kept - shard.start)
        try:
            vectors = encoder.encode(
                flat,
                offsets,
                side=self.side,
                budget_tokens=self.budget_tokens,
                beat=lambda rows: beat(kept[list(rows)].tolist()),
            )
            narrow = as_stored(vectors)
        except RowsFailed as failed:
            raise RowsFailed(kept[list(failed.rows)].tolist(), failed.reason) from None
        halves = np.zeros((shard.num_rows, vectors.shape[1]), np.float16)
        halves[kept - shard.start] = narrow
        path = scratch / f"{shard.index}.npy"
        write_vectors(path, halves)
        return Payload(path, {"rows": shard.num_rows, "numerics": encoder.numerics})


def as_stored(vectors: NDArray[np.float32]) -> NDArray[np.float16]:
    """Embeddings as they are stored: the nearest fp16 of each value.

    Raises:
        RowsFailed: vectors exceed the range of fp16; rows are positions in `vectors`.
    """
    with np.errstate(over="ignore"):
        narrow = vectors.astype(np.float16)
    beyond = np.flatnonzero(~np.isfinite(narrow).all(axis=1))
    if len(beyond):
        raise RowsFailed(beyond.tolist(), "the vector is beyond the range of fp16")
    return narrow
