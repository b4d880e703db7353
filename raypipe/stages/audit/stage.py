"""The stage that computes whole queries' scores again in fp32: schema.SCORES, by queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import tokenizers
from numpy.typing import NDArray

from raypipe import schema
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.ranking.candidates import Keys
from raypipe.stages.audit.sample import Limits, Scored, chosen
from raypipe.stages.opening import Stopwatch, open_model
from raypipe.stages.query_blocks import Sides
from raypipe.stages.scoring.candidates import SCORE_BYTES
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing, ranges
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import spec_over

if TYPE_CHECKING:
    from raypipe.stages.audit.again import Again

INPUTS_A_SHARD = 4_000
"""Less than a minute of work of a small model on one core."""

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class AuditStage:
    """The scores of a sample of a stage's queries, each of them with all its candidates."""

    scored: Scored
    model: ModelFolder
    """In fp32."""
    sides: Sides
    limits: Limits
    budget_tokens: int | None = None
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The scores, the model with its settings, and how much of them is computed again."""
        params = {
            "weights_sha256": self.model.weights_sha256,
            "config": self.model.forward_config(),
            "tokenizer_sha256": self.model.tokenizer_sha256,
            "tokenizers": tokenizers.__version__,
            "max_pieces": self.model.max_pieces,
            "conventions": self.model.conventions.to_json(),
            "scored_by": self.scored.by,
            "first": self.scored.first,
            "queries": self.limits.queries,
            "inputs": self.limits.inputs,
        }
        stores = {"scored": self.scored.stored, **self.sides.stores()}
        return spec_over("audit", 1, params, stores, produces="audit")

    def queries(self) -> Int64:
        """The rows of the queries, ascending; reads the scores."""
        return chosen(self._inputs(), self.limits)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of the chosen queries, with about as many inputs each."""
        inputs = self._inputs()
        rows = chosen(inputs, self.limits)
        return ranges(len(rows), self._queries_a_shard(len(rows), float(inputs[rows].sum())))

    def _queries_a_shard(self, queries: int, inputs: float) -> int:
        return max(1, int(queries * INPUTS_A_SHARD / max(1.0, inputs)))

    def _inputs(self) -> Int64:
        """The inputs of each query, [Q]: its candidates, for an encoder its own text too."""
        counts = self.scored.counts(self.sides.queries.num_rows)
        return counts + (counts > 0) if self.model.conventions.kind == "encoder" else counts

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return SCORE_BYTES * self.limits.inputs

    def open(self, site: Site) -> Opened:
        """See Stage; schema.SCORES of a shard's queries, without scores that are not finite."""
        from raypipe.models.encoder import Encoder, load_encoder
        from raypipe.models.scorer import Scorer, load_scorer
        from raypipe.stages.audit.again import Again

        forward: Encoder | Scorer
        if self.model.conventions.kind == "encoder":
            forward, facts = open_model(load_encoder, self.model, site, self.budget_tokens)
        else:
            forward, facts = open_model(load_scorer, self.model, site, self.budget_tokens)
        again = Again(self.model, forward, self.sides, self.budget_tokens)
        return Opened(partial(self._run, again, self.queries(), site.scratch), facts)

    def _run(
        self, again: Again, queries: Int64, scratch: Path, shard: Shard, skip: Rows, beat: Beat
    ) -> Payload:
        beat(())
        watch, keys = Stopwatch(again.forward), self._keys(queries[shard.start : shard.stop])
        scores, num_tokens = again.scores(keys, lambda places: beat(()))
        finite = np.isfinite(scores)
        first, second, third = (column[finite] for column in keys)
        columns = [first.astype(np.int32), second, third, scores[finite]]
        path = scratch / f"{shard.index}.parquet"
        table = pa.table(columns, schema=schema.SCORES)
        facts = {
            "rows": write_table(path, schema.SCORES, [table]),
            "numerics": again.forward.numerics,
        }
        return Payload(path, facts, 0, num_tokens, watch.seconds())

    def _keys(self, queries: Int64) -> Keys:
        """The candidates of these queries, sorted."""
        found = self.scored.keys(self.scored.table(queries))
        order = np.lexsort(found[::-1])
        first, second, third = (column[order] for column in found)
        return first, second, third
