"""Word pieces as embeddings, fp16 [rows, dim] a shard."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from raypipe.errors import RowsFailed
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import ModelFolder
from raypipe.stages.opening import opened
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tokens import taken
from raypipe.storage.payloads.vectors import write_vectors
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored


@dataclass
class EncodeStage:
    """One embedding a row of tokens; computed in fp32, stored as the nearest fp16."""

    tokens: Stored
    model: ModelFolder
    side: str
    """passage or query."""
    budget_tokens: int | None = None
    skips_rows: ClassVar[bool] = True
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The tokens, the weights, their configuration and every convention of the model."""
        params = {
            "weights_sha256": self.model.weights_sha256,
            "config": self.model.forward_config(),
            "conventions": self.model.encoder.to_json(),
            "side": self.side,
            "dtype": "fp16",
        }
        return StageSpec("encode", 2, params, {"tokens": self.tokens.digest})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows with about `shard_tokens` of work each."""
        num_rows = self.tokens.num_rows
        pieces = sum(int(r.facts["pieces"]) for r in self.tokens.manifest.records)
        tokens = pieces + 2 * num_rows
        num_shards = max(1, -(-tokens // sizing.shard_tokens))
        return ranges(num_rows, max(1, -(-num_rows // num_shards)))

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        self._encoder, facts = opened(load_encoder, self.model, site, self.budget_tokens)
        self._numerics = self._encoder.numerics
        return facts

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """Embeddings of the shard's rows in order; zeros in the place of those of `skip`.

        Raises:
            RowsFailed: vectors that are not finite, in fp32 or as fp16.
        """
        kept = np.setdiff1d(np.arange(shard.start, shard.stop), np.asarray(list(skip), np.int64))
        flat, offsets = self.tokens.tokens(shard.start, shard.stop)
        if len(kept) < shard.num_rows:
            flat, offsets = taken(flat, offsets, kept - shard.start)
        try:
            vectors = self._encoder.encode(
                flat,
                offsets,
                side=self.side,
                budget_tokens=self.budget_tokens,
                beat=lambda rows: beat(kept[list(rows)].tolist()),
            )
        except RowsFailed as failed:
            raise RowsFailed(kept[list(failed.rows)].tolist(), failed.reason) from None
        with np.errstate(over="ignore"):
            narrow = vectors.astype(np.float16)
        beyond = np.flatnonzero(~np.isfinite(narrow).all(axis=1))
        if len(beyond):
            raise RowsFailed(kept[beyond].tolist(), "the vector is beyond the range of fp16")
        halves = np.zeros((shard.num_rows, vectors.shape[1]), np.float16)
        halves[kept - shard.start] = narrow
        path = self._scratch / f"{shard.index}.npy"
        write_vectors(path, halves)
        return Payload(path, {"rows": shard.num_rows, "numerics": self._numerics})
