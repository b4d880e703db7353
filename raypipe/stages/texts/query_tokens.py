"""Word pieces of a query set, made where they are read: queries are few."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from raypipe import schema
from raypipe.models.folder.model_folder import ModelFolder, open_tokenizer
from raypipe.stages.texts.tokenize import (
    BATCH_ROWS,
    SAMPLED_TEXTS,
    piece_settings,
    pieces_of,
    refuse_other_inputs,
)
from raypipe.storage.payloads import Flat, Offsets, concatenate
from raypipe.storage.records import Json
from raypipe.storage.store import Stored
from raypipe.text.inputs import TextSlice


@dataclass(frozen=True)
class QueryTokens:
    """Word pieces of every query, without special tokens, made when they are first read.

    A stage that is sent to workers takes along what the driver made to plan its shards.
    """

    queries: Stored
    model: ModelFolder

    @property
    def settings(self) -> dict[str, Json]:
        """All settings on which they depend, for a spec that names the queries."""
        return piece_settings(self.model, self.model.prefix("query"))

    @property
    def num_rows(self) -> int:
        """Number of queries."""
        return self.queries.num_rows

    def tokens(self, start: int, stop: int) -> tuple[Flat, Offsets]:
        """The pieces of queries [start, stop): flat and offsets int64 [stop - start + 1]."""
        flat, offsets = self._pieces
        part = offsets[start : stop + 1]
        return flat[part[0] : part[-1]], part - part[0]

    def part(self, rows: NDArray[np.int64]) -> TextSlice:
        """The pieces of these rows, in order, as one text of each input."""
        flat, offsets = self._pieces
        return TextSlice(flat, offsets[rows], offsets[rows + 1] - offsets[rows])

    @cached_property
    def _pieces(self) -> tuple[Flat, Offsets]:
        texts = self.queries.table(schema.QUERIES)["text"].to_pylist()
        return tokenized(open_tokenizer(self.model), self.model, texts, "query")


def num_pieces(tokens: Stored | QueryTokens) -> int:
    """The number of pieces of all rows."""
    if isinstance(tokens, QueryTokens):
        return len(tokens.tokens(0, tokens.num_rows)[0])
    return sum(int(record.facts["pieces"]) for record in tokens.manifest.records)


def tokenized(
    tokenizer: Tokenizer, model: ModelFolder, texts: Sequence[str], side: str
) -> tuple[Flat, Offsets]:
    """The word pieces that a tokenize stage would store, after its check of 1,000 texts.

    Raises:
        InputError: see refuse_other_inputs.
    """
    from raypipe.text.word_pieces import word_pieces_of

    refuse_other_inputs(tokenizer, list(texts[:: -(-len(texts) // SAMPLED_TEXTS) or 1]), model)
    prefix = model.prefix(side)
    starts = range(0, len(texts), BATCH_ROWS)
    batches = (pa.array(texts[start : start + BATCH_ROWS], pa.string()) for start in starts)
    return concatenate([*pieces_of(word_pieces_of(tokenizer), batches, model, prefix)])
