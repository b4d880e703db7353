"""Scores of candidates from their texts, as the stages of an open model would store them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.encoder import Encoder
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.opening import open_tokenizer
from raypipe.models.scorer import Scorer
from raypipe.ranking.candidates import Keys
from raypipe.stages.encode import as_stored
from raypipe.stages.query_blocks import Sides
from raypipe.stages.texts.ids import column_of_rows
from raypipe.stages.texts.reading import Strings
from raypipe.stages.texts.tokenize import BATCH_ROWS, pieces_of
from raypipe.storage.payloads import Flat, Offsets, concatenate, taken
from raypipe.text.inputs import TextSlice
from raypipe.text.word_pieces import WordPieces

Int64 = NDArray[np.int64]
Beaten = Callable[[Sequence[int]], None]


@dataclass(frozen=True)
class Again:
    """A model that is open, and the texts that it reads."""

    model: ModelFolder
    forward: Encoder | Scorer
    sides: Sides
    budget_tokens: int | None = None

    def scores(self, keys: Keys, beat: Beaten) -> tuple[NDArray[np.float32], int]:
        """(one score for each candidate, not finite where the model's is not, float32 [N]; the
        number of tokens that the model read)."""
        if isinstance(self.forward, Encoder):
            return self._products(self.forward, keys, beat)
        query_rows, *passages = keys[: 1 + self.model.reranker.num_passages]
        (query,) = self._parts("query", [query_rows])
        texts = self._parts("passage", passages)
        scores = self.forward.score(query, texts, budget_tokens=self.budget_tokens, beat=beat)
        return scores, self.forward.num_tokens(query, texts)

    def _products(
        self, encoder: Encoder, keys: Keys, beat: Beaten
    ) -> tuple[NDArray[np.float32], int]:
        """Inner products of vectors in fp16, as exact search computes those of stored ones."""
        from raypipe.engines.exact_scores import exact_scores, upper_norms

        sides = [np.unique(rows, return_inverse=True) for rows in keys[:2]]
        (queries, of_queries), (passages, of_passages) = (
            self._vectors(encoder, side, rows, beat)
            for side, (rows, _) in zip(("query", "passage"), sides, strict=True)
        )
        of_query, of_passage = (places for _, places in sides)
        scores = np.full(len(of_query), np.nan, np.float32)
        computed = np.asarray(np.isfinite(passages).all(axis=1))
        for place in np.flatnonzero(np.isfinite(queries).all(axis=1)):
            lines = np.flatnonzero((of_query == place) & computed[of_passage])
            found = passages[of_passage[lines]]
            norm = float(upper_norms(found.astype(np.float32)).max(initial=0.0))
            scores[lines] = exact_scores(queries[place].astype(np.float64), found, norm)
        return scores, of_queries + of_passages

    def _vectors(
        self, encoder: Encoder, side: str, rows: Int64, beat: Beaten
    ) -> tuple[NDArray[np.float16], int]:
        """The vectors of rows of a side as they are stored, NaN where one is not finite; and the
        number of their tokens."""
        flat, offsets = self._pieces(side, rows)
        out = np.full((len(rows), encoder.dim), np.nan, np.float16)
        left = np.arange(len(rows))
        while len(left):
            texts = taken(flat, offsets, left)
            try:
                found = encoder.encode(
                    *texts, side=side, budget_tokens=self.budget_tokens, beat=beat
                )
                out[left] = as_stored(found)
                break
            except RowsFailed as failed:
                left = np.delete(left, list(failed.rows))
        return out, encoder.num_tokens(offsets, side)

    def _parts(self, side: str, columns: Sequence[Int64]) -> list[TextSlice]:
        """The pieces of each column's rows, as one text of each input."""
        named = np.unique(np.concatenate(columns))
        flat, offsets = self._pieces(side, named)
        places = [np.searchsorted(named, column) for column in columns]
        return [TextSlice(flat, offsets[:-1][at], np.diff(offsets)[at]) for at in places]

    def _pieces(self, side: str, rows: Int64) -> tuple[Flat, Offsets]:
        """The word pieces of rows of the queries or passages."""
        stored, columns = self.sides.collection, schema.PASSAGES
        if side == "query":
            stored, columns = self.sides.queries, schema.QUERIES
        texts = column_of_rows(stored, rows, "text", columns)

        def batches() -> Iterator[Strings]:
            for start in range(0, len(texts), BATCH_ROWS):
                yield pa.array(texts[start : start + BATCH_ROWS], pa.string())

        prefix = self.model.conventions.prefix(side)
        return concatenate([*pieces_of(self._word_pieces, batches(), self.model, prefix)])

    @cached_property
    def _word_pieces(self) -> WordPieces:
        return WordPieces(open_tokenizer(self.model))
