"""The stage that scores candidates with a reranker: schema.SCORES, by ranges of candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import tokenizers
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.scoring.candidates import Candidates, keys_of
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    ModelInputs,
    Needs,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
    ranges,
)
from raypipe.stages.tables import LINE_SECONDS, SCORE_BYTES, Sides
from raypipe.stages.tokenize import QueryTokens, num_pieces
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec, settings_digest
from raypipe.storage.store import Stored, spec_over
from raypipe.text.inputs import TextSlice, taken

if TYPE_CHECKING:
    from raypipe.models.scorer import Scorer
    from raypipe.ranking.candidates import Keys
    from raypipe.stages.scoring.older_scores import OlderScores

SAMPLED_INPUTS = 4_000
"""Inputs of which a forecast knows the lengths."""


def score_base(model: ModelFolder, collection: Stored, queries: Stored) -> StageSpec:
    """All that a score depends on, whatever the request: model, collection and queries."""
    params = {
        "weights_sha256": model.weights_sha256,
        "config": model.forward_config(),
        "tokenizer_sha256": model.tokenizer_sha256,
        "tokenizers": tokenizers.__version__,
        "max_pieces": model.max_pieces,
        "conventions": model.reranker.to_json(),
        "dtype": "fp32",
    }
    stores = {"collection": collection, "queries": queries}
    reuse_key = settings_digest("scores", 2, params)
    return spec_over("scores", 2, params, stores, produces="scores", reuse_key=reuse_key)


def score_spec(
    base: Json, origins: Mapping[str, str], reuse_key: str, candidates: Candidates
) -> StageSpec:
    """The spec of the scores of candidates.

    Args:
        base: what a score depends on; `score_base`, without_derived.
        origins: those of the base: they name the stores of a score's texts.
        reuse_key: that of the base.
        candidates: to score.
    """
    params, stores = {"base": base, **candidates.to_json()}, candidates.stores()
    spec = spec_over("score", 1, params, stores, produces="scores", reuse_key=reuse_key)
    return replace(spec, origins={**spec.origins, **origins})


@dataclass(frozen=True)
class ScoreStage(Stage):
    """One score for each candidate; a score that an older store has is copied."""

    base: StageSpec
    candidates: Candidates
    model: ModelFolder
    passage_tokens: Stored
    whole: bool
    """Whether passage_tokens has every passage of the collection, or only the candidates."""
    sides: Sides
    hashes: Stored
    """Of the collection's texts."""
    budget_tokens: int | None = None
    needs: Needs = Needs()
    older: tuple[OlderScores, ...] = ()
    """Older stores from which scores are copied."""
    skips_rows: ClassVar[bool] = True

    @property
    def spec(self) -> StageSpec:
        """All that a score depends on, and the candidates."""
        base = self.base
        return score_spec(base.without_derived(), base.origins, base.reuse_key, self.candidates)

    @cached_property
    def query_tokens(self) -> QueryTokens:
        """Word pieces of the queries."""
        return QueryTokens(self.sides.queries, self.model)

    def reusing(self, older: Sequence[Stored]) -> ScoreStage:
        """This stage, copying rows from older stores."""
        from raypipe.stages.scoring.older_scores import older_scores

        parts = [older_scores(stored) for stored in older]
        return replace(self, older=tuple(part for part in parts if part is not None))

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of candidates with about `shard_tokens` of work each, by mean lengths."""
        return ranges(self.candidates.num_rows, self.rows_of_shard(sizing))

    def rows_of_shard(self, sizing: Sizing) -> int:
        """The most candidates of a shard."""
        conventions = self.model.reranker
        queries, passages = (
            num_pieces(tokens) / max(1, tokens.num_rows)
            for tokens in (self.query_tokens, self.passage_tokens)
        )
        tokens = min(
            conventions.total_limit, 2 + queries + conventions.num_passages * (passages + 1)
        )
        return max(1, int(sizing.shard_tokens / tokens))

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        return SCORE_BYTES * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the most inferences that there can be.

        Candidates of a run that is not there are not known: of those of another request over the
        same run each is scored once, and the texts are drawn from both sides.
        """
        number, keys = self.candidates.expected_rows(expectations), self._new_keys(expectations)
        new = self._num_new(expectations) if keys is None else len(keys[0])
        sides = (self.sides.queries, *[self.sides.collection] * self.model.reranker.num_passages)
        random, texts = np.random.default_rng(0), []
        for place, side in enumerate(sides):
            prefix = self.model.prefix("passage" if place else "query")
            if keys is not None and new:
                rows = keys[place][random.integers(0, new, SAMPLED_INPUTS)]
                texts.append(expectations.pieces_of_rows(side, rows, self.model, prefix))
            else:
                pieces, _ = expectations.pieces(side, self.model, prefix)
                rows = random.integers(0, len(pieces.counts), SAMPLED_INPUTS)
                texts.append(taken(pieces, rows))
        return Expected(
            shards=ranges(number, self.rows_of_shard(expectations.sizing)),
            num_bytes=float(self.estimated_bytes(number, number)),
            seconds=number * LINE_SECONDS,
            inputs=ModelInputs(self.model, "pair", tuple(texts), new),
            facts={"rows": number},
        )

    def _earlier(self, expectations: Expectations) -> list[Candidates]:
        """The requests of stages before this one, of whose scores each would be the same here."""
        base = self.base.without_derived()
        stages = expectations.earlier(self.spec.reuse_key)
        scores = (stage for stage in stages if isinstance(stage, ScoreStage))
        return [stage.candidates for stage in scores if stage.base.without_derived() == base]

    def _num_new(self, expectations: Expectations) -> int:
        """The candidates that no earlier request over the same run has, which is not there."""
        run, earlier = self.candidates.stores(), self._earlier(expectations)
        same = (each for each in earlier if each.stores() == run)
        scored = max((each.expected_rows(expectations) for each in same), default=0)
        return max(0, self.candidates.expected_rows(expectations) - scored)

    def _new_keys(self, expectations: Expectations) -> Keys | None:
        """The candidates that no older store and no earlier request has; None if they are not
        known."""
        from raypipe.ranking.candidates import missing

        stores = {**self.candidates.stores(), **self.sides.stores()}
        if not all(expectations.has(stored) for stored in stores.values()):
            return None
        keys, base = self.candidates.keys(0, self.candidates.num_rows), self.base.without_derived()
        older = (part.scores for part in self.older if part.scores.spec.params["base"] == base)
        scored = [keys_of(scores.whole_table(schema.SCORES)) for scores in older]
        for each in self._earlier(expectations):
            if all(expectations.has(stored) for stored in each.stores().values()):
                scored.append(each.keys(0, each.num_rows))
        new = np.ones(len(keys[0]), bool)
        for each_keys in scored:
            new &= missing(keys, each_keys)
        return keys[0][new], keys[1][new], keys[2][new]

    def open(self, site: Site) -> Opened:
        """Open it: schema.SCORES of a shard's candidates in order, without those of `skip`.

        Its `run` raises RowsFailed for scores that are not finite.
        """
        from raypipe.models.load import load_scorer
        from raypipe.stages.open_model import open_model

        scorer, facts = open_model(load_scorer, self.model, site, self.budget_tokens)
        return Opened(_OpenedScores(self, site.scratch, scorer).run, facts)


class _OpenedScores:
    """The model and the word pieces, mapped."""

    def __init__(self, stage: ScoreStage, scratch: Path, scorer: Scorer) -> None:
        from raypipe.stages.scoring.older_scores import ScoresByText

        self._stage, self._scratch, self._scorer = stage, scratch, scorer
        self._queries = stage.query_tokens
        self._passages = TokenRows(stage.passage_tokens)
        self._rows = None if stage.whole else stage.candidates.passages()
        self._older = ScoresByText(stage.older, stage.hashes, stage.sides.queries, scorer.numerics)

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The payload of a shard; see ScoreStage.open."""
        from raypipe.stages.open_model import Stopwatch
        from raypipe.stages.reuse.division import divide

        stage, watch = self._stage, Stopwatch(self._scorer)
        left = np.setdiff1d(np.arange(shard.start, shard.stop), np.asarray(list(skip), np.int64))
        query_rows, first, second = (
            column[left - shard.start] for column in stage.candidates.keys(shard.start, shard.stop)
        )
        keys = (query_rows, first, second)
        copied = self._older.find(keys)
        older = np.where(np.isnan(copied), -1, np.arange(len(copied)))
        division = divide(left, self._older.text_keys(keys), older)
        computed = division.computed  # each text once
        rows = division.rows[computed]
        query = self._queries.part(query_rows[computed])
        sides = (first, second)[: stage.model.reranker.num_passages]
        passages = [self._passage_texts(side[computed]) for side in sides]
        made = self._scorer.score(
            query,
            passages,
            budget_tokens=stage.budget_tokens,
            beat=lambda places: beat(rows[list(places)].tolist()),
        )
        bad = np.flatnonzero(~np.isfinite(made))
        if len(bad):
            raise RowsFailed(division.all_rows_of(bad.tolist()), "the score is not finite")
        of_copied = np.float32(np.nan)  # in the place of a score that nobody reads
        values = np.append(made, of_copied)[division.value_of]
        scores = np.where(division.older >= 0, copied, values)
        columns = [query_rows.astype(np.int32), first, second, scores]
        path = self._scratch / f"{shard.index}.parquet"
        table = pa.table(columns, schema=schema.SCORES)
        facts = {
            "rows": write_table(path, schema.SCORES, [table]),
            "first_query": int(query_rows[0]) if len(query_rows) else -1,
            "last_query": int(query_rows[-1]) if len(query_rows) else -1,
            "numerics": self._scorer.numerics,
        }
        num_tokens = self._scorer.num_tokens(query, passages)
        took = (division.num_copied, num_tokens, watch.seconds())
        return Payload(path, facts, *took)

    def _passage_texts(self, rows: NDArray[np.int64]) -> TextSlice:
        """The pieces of passages, whose store may hold those of the candidates alone."""
        places = rows if self._rows is None else np.searchsorted(self._rows, rows)
        return self._passages.part(places)
