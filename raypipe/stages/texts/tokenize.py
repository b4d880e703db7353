"""The stage that splits texts into word pieces, once for each tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tokenizers
from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder, layout_of, open_tokenizer
from raypipe.models.folder.settings import PairConventions
from raypipe.stages.expected import Expected
from raypipe.stages.stage import Beat, Expectations, Opened, Payload, Rows, Site, Sizing, Stage
from raypipe.storage.payloads import (
    Flat,
    Offsets,
    concatenate,
    map_tokens,
    taken,
    write_tokens,
)
from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec, settings_digest
from raypipe.storage.store import Stored, spec_over

if TYPE_CHECKING:
    from raypipe.stages.reuse.division import Division, Int64
    from raypipe.stages.reuse.source import OlderStore, OpenedSource
    from raypipe.stages.texts.text_blocks import Strings, TextReader
    from raypipe.text.utf8 import Utf8
    from raypipe.text.word_pieces import WordPieces


BATCH_ROWS = 2048
SHARD_ROWS = 16_384
"""About three seconds of work."""
SAMPLED_TEXTS = 1000


@dataclass(frozen=True)
class TokenizeStage(Stage):
    """Word pieces of every row's text, without special tokens."""

    texts: Stored
    schema: pa.Schema
    model: ModelFolder
    prefix: str = ""
    hashes: Stored | None = None
    """Of the texts of a collection; None for queries, whose rows are never copied."""
    source: OlderStore | None = None

    @property
    def spec(self) -> StageSpec:
        """The texts, the tokenizer and its library, the limit."""
        params = piece_settings(self.model, self.prefix)
        stores, reuse_key = {"texts": self.texts}, settings_digest("tokenize", 2, params)
        return spec_over("tokenize", 2, params, stores, produces="tokens", reuse_key=reuse_key)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Ranges of rows that begin where the content says; see shards_by_content."""
        from raypipe.stages.reuse.boundaries import shards_by_content

        work = min(sizing.shard_rows, SHARD_ROWS)
        return shards_by_content(self.texts.num_rows, work, self.hashes)

    def weights_of(self, shards: Sequence[Shard]) -> list[float]:
        """The work of each shard: its bytes of text."""
        from raypipe.stages.reuse.boundaries import spread

        return spread(self.texts, lambda record: record.num_bytes, shards)

    def reusing(self, older: Sequence[Stored]) -> TokenizeStage:
        """This stage, copying rows from older stores."""
        from raypipe.stages.reuse.source import source_over

        return replace(self, source=source_over(older, self.hashes, "texts"))

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """The estimated bytes of the payload of these rows."""
        whole = self.texts.num_bytes + 8 * self.texts.num_rows
        return whole * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """An estimate: the pieces of a sample of the texts."""
        from raypipe.stages.reuse.boundaries import expected_shards

        work = min(expectations.sizing.shard_rows, SHARD_ROWS)
        shards = expected_shards(self.texts.num_rows, work, self.hashes, expectations)
        return expected_pieces(expectations, self.texts, self.model, self.prefix, shards)

    def open(self, site: Site) -> Opened:
        """Open it: pieces of a shard's rows, uint16 or uint32 flat with offsets."""
        from raypipe.stages.reuse.source import OpenedSource
        from raypipe.stages.texts.text_blocks import TextReader
        from raypipe.text.word_pieces import word_pieces_of

        tokenizer = open_tokenizer(self.model)
        self._check_slicing(tokenizer)
        source = None if self.source is None else OpenedSource(self.source)
        word_pieces, reader = word_pieces_of(tokenizer), TextReader(self.texts, self.schema)
        run = partial(self._run, word_pieces, reader, source, site.scratch)
        return Opened(run, {"tokenizers": tokenizers.__version__})

    def _check_slicing(self, tokenizer: Tokenizer) -> None:
        """Compare inputs made from pieces with the tokenizer's own, on 1,000 texts.

        Raises:
            InputError: they differ: this tokenizer's inputs cannot be sliced from pieces.
        """
        step = -(-self.texts.num_rows // SAMPLED_TEXTS)
        for start in range(0, self.texts.num_rows, max(1, step * 100)):
            stop = min(start + step * 100, self.texts.num_rows)
            texts = self.texts.table(self.schema, start, stop)["text"].to_pylist()[::step]
            refuse_other_inputs(tokenizer, texts, self.model)

    def _run(
        self,
        word_pieces: WordPieces | Utf8,
        reader: TextReader,
        source: OpenedSource | None,
        scratch: Path,
        shard: Shard,
        skip: Rows,
        beat: Beat,
    ) -> Payload:
        from raypipe.stages.reuse.division import divide, same_payload

        same = None if source is None else source.whole(shard)
        if source is not None and same is not None:
            return same_payload(same, source.path(same), scratch, shard)
        rows = np.arange(shard.start, shard.stop)
        division = divide(rows, None, None if source is None else source.rows(rows))
        texts = _texts(reader, rows[division.computed], beat)
        parts = [*pieces_of(word_pieces, texts, self.model, self.prefix)]
        if source is not None:
            parts = [*copied_pieces(source, division), *parts]
        flat, offsets = taken(*concatenate(parts), division.places)
        path = scratch / f"{shard.index}.safetensors"
        write_tokens(path, flat, offsets)
        facts = {"rows": shard.num_rows, "pieces": len(flat)}
        return Payload(path, facts, division.num_copied)


def expected_pieces(
    expectations: Expectations,
    texts: Stored,
    model: ModelFolder,
    prefix: str,
    shards: Sequence[Shard],
) -> Expected:
    """Pieces of texts like the sampled ones: a piece takes 2 or 4 bytes, a row an offset of 8."""
    pieces, seconds = expectations.pieces(texts, model, prefix)
    num_rows = sum(shard.num_rows for shard in shards)
    num_pieces = round(num_rows * float(pieces.counts.mean())) if len(pieces.counts) else 0
    return Expected(
        shards=shards,
        num_bytes=pieces.flat.itemsize * num_pieces + 8.0 * num_rows,
        seconds=seconds * num_rows,
        facts={"pieces": num_pieces},
        pieces=pieces,
    )


def _texts(reader: TextReader, rows: Int64, beat: Beat) -> Iterator[Strings]:
    """Batches of the texts of these rows, ascending."""
    for batch in reader.batches(rows, BATCH_ROWS):
        beat(batch.tolist())
        yield reader.texts(batch)


def piece_settings(model: ModelFolder, prefix: str) -> dict[str, Json]:
    """All settings on which the word pieces of a text depend."""
    settings = model.conventions
    return {
        "first_tokenizer": isinstance(settings, PairConventions) and settings.first_tokenizer,
        "tokenizer_sha256": model.tokenizer_sha256,
        "tokenizers": tokenizers.__version__,
        "max_pieces": model.max_pieces,
        "prefix": prefix,
    }


def pieces_of(
    word_pieces: WordPieces | Utf8, batches: Iterable[Strings], model: ModelFolder, prefix: str
) -> Iterator[tuple[Flat, Offsets]]:
    """The word pieces of each batch of texts; first those of no text, which have the dtype.

    A text is cut after as many as the model's inputs hold, to save time.
    """
    yield word_pieces.of(pa.array([], pa.string()), max_pieces=model.max_pieces)
    for texts in batches:
        prefixed = pc.binary_join_element_wise(prefix, texts, "") if prefix else texts
        yield word_pieces.of(prefixed, max_pieces=model.max_pieces)


def copied_pieces(source: OpenedSource, division: Division) -> Iterator[tuple[Flat, Offsets]]:
    """The older word pieces of the copied rows, in the order of `division.copied`."""
    for record, rows in source.by_record(division.copied):
        yield taken(*map_tokens(source.path(record)), rows)


def refuse_other_inputs(tokenizer: Tokenizer, texts: list[str], model: ModelFolder) -> None:
    """Returns nothing if inputs sliced from pieces equal the tokenizer's own.

    Raises:
        InputError: they differ; the message names the text.
    """
    from raypipe.text.prompts import first_difference

    if model.by_library:
        return
    single = layout_of(model, tokenizer, (0,))
    has_pairs = model.conventions.kind in ("mono", "pretrained")
    pair = layout_of(model, tokenizer, (0, 1)) if has_pairs else None
    text = first_difference(tokenizer, texts, single, pair)
    if text is not None:
        (after,) = single.behind
        first, last = (
            [str(tokenizer.id_to_token(n)) for n in ids] for ids in (single.before, after)
        )
        shown = " ".join([*first, "pieces", *last])
        of_pair = "" if pair is None else f" (of a pair, with segments {pair.segments})"
        raise InputError(
            f"{model.folder}: the tokenizer's own input for {text[:60]!r} is not {shown}"
            f"{of_pair}, which is what this model would be given"
        )
