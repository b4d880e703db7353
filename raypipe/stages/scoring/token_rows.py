"""Word pieces of scattered rows, read from mapped token shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import tokenizers
from numpy.typing import NDArray

from raypipe.models.folder.model_folder import ModelFolder, open_tokenizer
from raypipe.stages.ids import column_of_rows
from raypipe.stages.scoring.candidates import Candidates
from raypipe.stages.stage import (
    Beat,
    Expectations,
    Expected,
    Opened,
    Payload,
    Rows,
    Site,
    Sizing,
    Stage,
    ranges,
)
from raypipe.stages.tokenize import (
    BATCH_ROWS,
    SAMPLED_TEXTS,
    SHARD_ROWS,
    expected_pieces,
    piece_settings,
    pieces_of,
    refuse_other_inputs,
)
from raypipe.storage.payloads import Flat, Offsets, concatenate, map_tokens, taken, write_tokens
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.text.inputs import TextSlice

if TYPE_CHECKING:
    from raypipe.stages.tokenize import Strings
    from raypipe.text.utf8 import Utf8
    from raypipe.text.word_pieces import WordPieces


Int64 = NDArray[np.int64]


class TokenRows:
    """A token store whose shards stay mapped."""

    def __init__(self, stored: Stored) -> None:
        """Opens nothing yet."""
        self._stored = stored
        self._mapped: dict[str, tuple[Flat, Offsets]] = {}

    def part(self, rows: Int64) -> TextSlice:
        """The pieces of these rows, in order, as one text of each input."""
        distinct, inverse = np.unique(rows, return_inverse=True)
        parts: list[tuple[Flat, Offsets]] = []
        for record in self._stored.manifest.records:
            low, high = np.searchsorted(distinct, [record.shard.start, record.shard.stop])
            if low < high:
                if record.sha256 not in self._mapped:
                    self._mapped[record.sha256] = map_tokens(self._stored.path(record))
                parts.append(
                    taken(*self._mapped[record.sha256], distinct[low:high] - record.shard.start)
                )
        flat, offsets = concatenate(parts)
        assert len(offsets) == len(distinct) + 1
        return TextSlice(flat, offsets[:-1][inverse], np.diff(offsets)[inverse])


@dataclass(frozen=True)
class PassageTokensStage(Stage):
    """Word pieces of only those passages that are among the candidates."""

    collection: Stored
    candidates: Candidates
    model: ModelFolder

    @property
    def spec(self) -> StageSpec:
        """The collection, the candidates, the tokenizer and its library."""
        params = piece_settings(self.model, self.model.prefix("passage"))
        params["candidates"] = self.candidates.to_json()
        stores = {"texts": self.collection, **self.candidates.stores()}
        return spec_over("tokenize-passages", 2, params, stores, produces="tokens")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of these passages, in row order."""
        num_rows = len(self.candidates.passages())
        return ranges(num_rows, min(sizing.shard_rows, SHARD_ROWS))

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        collection = self.collection
        return collection.num_bytes * num_rows // max(1, collection.num_rows) + 8 * num_rows

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: without the run, as if no two queries had a passage in common."""
        sizing, prefix = expectations.sizing, self.model.prefix("passage")
        num_rows = min(self.candidates.expected_passages(expectations), self.collection.num_rows)
        shards = ranges(num_rows, min(sizing.shard_rows, SHARD_ROWS))
        return expected_pieces(expectations, self.collection, self.model, prefix, shards)

    def open(self, site: Site) -> Opened:
        """Open it: pieces of a shard's passages, uint16 or uint32 flat with offsets."""
        from raypipe.text.word_pieces import word_pieces_of

        tokenizer, rows = open_tokenizer(self.model), self.candidates.passages()
        sample = rows[:: -(-len(rows) // SAMPLED_TEXTS) or 1]
        texts = column_of_rows(self.collection, sample, "text")
        refuse_other_inputs(tokenizer, texts, self.model)
        run = partial(self._run, word_pieces_of(tokenizer), rows, site.scratch)
        return Opened(run, {"tokenizers": tokenizers.__version__})

    def _run(
        self,
        word_pieces: WordPieces | Utf8,
        rows: Int64,
        scratch: Path,
        shard: Shard,
        skip: Rows,
        beat: Beat,
    ) -> Payload:
        def texts() -> Iterator[Strings]:
            for start in range(shard.start, shard.stop, BATCH_ROWS):
                stop = min(start + BATCH_ROWS, shard.stop)
                beat(range(start, stop))
                column = column_of_rows(self.collection, rows[start:stop], "text")
                yield pa.array(column, pa.string())

        prefix = self.model.prefix("passage")
        flat, offsets = concatenate([*pieces_of(word_pieces, texts(), self.model, prefix)])
        path = scratch / f"{shard.index}.safetensors"
        write_tokens(path, flat, offsets)
        return Payload(path, {"rows": shard.num_rows, "pieces": len(flat)})
