"""Candidates scored by a mono or duo model: schema.SCORES, a range of candidates a shard."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import tokenizers

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.folder.loading import ModelFolder
from raypipe.models.scorer import load_scorer
from raypipe.stages.opening import opened
from raypipe.stages.scoring.candidates import Part
from raypipe.stages.scoring.token_rows import TokenRows, passages_of
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing, ranges
from raypipe.stages.texts.tokenize import MAX_PIECES
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored


def score_base(model: ModelFolder, collection: Stored, queries: Stored) -> StageSpec:
    """What a score depends on, whoever asks for it: model, collection and queries."""
    params = {
        "weights_sha256": model.weights_sha256,
        "config": model.forward_config(),
        "tokenizer_sha256": model.tokenizer_sha256,
        "tokenizers": tokenizers.__version__,
        "max_pieces": MAX_PIECES,
        "conventions": model.reranker.to_json(),
        "dtype": "fp32",
    }
    inputs = {"collection": collection.digest, "queries": queries.digest}
    return StageSpec("scores", 2, params, inputs)


@dataclass
class ScoreStage:
    """One score a candidate of one part."""

    base: StageSpec
    part: Part
    model: ModelFolder
    query_tokens: Stored
    passage_tokens: Stored
    whole: bool
    """Whether passage_tokens has every passage of the collection, or those of the part alone."""
    budget_tokens: int | None = None
    skips_rows: ClassVar[bool] = True
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """What a score depends on, and which candidates."""
        candidates = {"candidates": self.part.candidates.digest}
        return StageSpec("score", 1, {"base": self.base.to_json()}, candidates)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of candidates with about `shard_tokens` of work each, by mean lengths."""
        conventions = self.model.reranker
        queries = _mean_pieces(self.query_tokens)
        passages = _mean_pieces(self.passage_tokens) + 1
        tokens = min(conventions.total_limit, 2 + queries + conventions.num_passages * passages)
        return ranges(self.part.num_rows, max(1, int(sizing.shard_tokens / tokens)))

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        self._scorer, facts = opened(load_scorer, self.model, site, self.budget_tokens)
        self._numerics = self._scorer.numerics
        self._queries, self._passages = TokenRows(self.query_tokens), TokenRows(self.passage_tokens)
        self._rows = None if self.whole else passages_of(self.part)
        return facts

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """schema.SCORES of the shard's candidates in order, without those of `skip`.

        Raises:
            RowsFailed: scores that are not finite.
        """
        kept = np.setdiff1d(np.arange(shard.start, shard.stop), np.asarray(list(skip), np.int64))
        query_rows, first, second = (
            column[kept - shard.start] for column in self.part.keys(shard.start, shard.stop)
        )
        passages = [first, second][: self.model.reranker.num_passages]
        scores = self._scorer.score(
            self._queries.part(query_rows),
            [self._passages.part(self._place(rows)) for rows in passages],
            budget_tokens=self.budget_tokens,
            beat=lambda rows: beat(kept[list(rows)].tolist()),
        )
        bad = np.flatnonzero(~np.isfinite(scores))
        if len(bad):
            raise RowsFailed(kept[bad].tolist(), "the score is not finite")
        columns = [query_rows.astype(np.int32), first, second, scores]
        path = self._scratch / f"{shard.index}.parquet"
        table = pa.table(columns, schema=schema.SCORES)
        facts = {
            "rows": write_table(path, schema.SCORES, [table]),
            "first_query": int(query_rows[0]) if len(query_rows) else -1,
            "last_query": int(query_rows[-1]) if len(query_rows) else -1,
            "numerics": self._numerics,
        }
        return Payload(path, facts)

    def _place(
        self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return rows if self._rows is None else np.searchsorted(self._rows, rows)


def _mean_pieces(tokens: Stored) -> float:
    pieces = sum(int(r.facts["pieces"]) for r in tokens.manifest.records)
    return pieces / max(1, tokens.num_rows)
