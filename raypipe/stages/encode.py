"""Word pieces as embeddings, fp16 [rows, dim] a shard."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from raypipe.models.device import numerics_class
from raypipe.models.encoder import load_encoder
from raypipe.models.loading import ModelFolder
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored
from raypipe.storage.vectors import write_vectors


@dataclass
class EncodeStage:
    """One embedding a row of tokens; computed in fp32, stored as the nearest fp16."""

    tokens: Stored
    model: ModelFolder
    side: str
    """passage or query."""
    budget_tokens: int | None = None
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The tokens, the weights and every convention of the model."""
        params = {
            "weights_sha256": self.model.weights_sha256,
            "conventions": self.model.encoder.to_json(),
            "side": self.side,
            "dtype": "fp16",
        }
        return StageSpec("encode", 1, params, {"tokens": self.tokens.digest})

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows with about `shard_tokens` of work each."""
        num_rows = self.tokens.num_rows
        pieces = sum(int(r.facts["pieces"]) for r in self.tokens.manifest.records)
        tokens = pieces + 2 * num_rows
        num_shards = max(1, -(-tokens // sizing.shard_tokens))
        return ranges(num_rows, max(1, -(-num_rows // num_shards)))

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch, self._numerics = site.scratch, numerics_class(site.device)
        self._encoder = load_encoder(self.model, device=site.device, threads=site.threads)
        return {"torch": torch.__version__, "numerics": self._numerics, "device": site.device}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """Embeddings of the shard's rows in order.

        Raises:
            ArithmeticError: a vector is not finite, in fp32 or as fp16.
        """
        flat, offsets = self.tokens.tokens(shard.start, shard.stop)
        vectors = self._encoder.encode(
            flat,
            offsets,
            side=self.side,
            budget_tokens=self.budget_tokens,
            beat=lambda rows: beat([shard.start + row for row in rows]),
        )
        halves = vectors.astype(np.float16)
        if not np.isfinite(halves).all():
            raise ArithmeticError(f"{shard}: embeddings beyond the range of fp16")
        path = self._scratch / f"{shard.index}.npy"
        write_vectors(path, halves)
        return Payload(path, {"rows": shard.num_rows, "numerics": self._numerics})
